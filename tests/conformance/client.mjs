// What the suite's client scenarios drive: a client that does what the scenario wants to see, with the relay in between.
//
//   node client.mjs URL      URL is the suite's mock server
//
// MCP_CONFORMANCE_SCENARIO, MCP_CONFORMANCE_PROTOCOL_VERSION, MCP_CONFORMANCE_CONTEXT     set by the suite
// CONFORMANCE_RELAY        the relay to put in between, with the mock server as an HTTP source; without it the client goes
//                          to the mock server directly, which tells a fault of this client from one of the relay
// CONFORMANCE_LOG          the file for what the relay says

import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { createWriteStream, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';

const PATIENCE_MS = 15_000;
const PAUSE_MS = 100;

const { CONFORMANCE_RELAY, CONFORMANCE_LOG } = process.env;
const scenario = process.env.MCP_CONFORMANCE_SCENARIO;
const modern = process.env.MCP_CONFORMANCE_PROTOCOL_VERSION === '2026-07-28';
const context = JSON.parse(process.env.MCP_CONFORMANCE_CONTEXT || '{}');
const mock = process.argv.at(-1);

// A schema that takes every result, for methods that the SDK does not know.
const ANY = { '~standard': { version: 1, vendor: 'toolrelay', validate: (value) => ({ value }) } };

const call = (client, name, args = {}) => client.callTool({ name, arguments: args });

// The tools as the server lists them; the SDK's own `listTools` leaves out those that it must not call.
const listed = async (client) => (await client.request({ method: 'tools/list', params: {} })).tools;

// A source that has just been started may not have told its tools yet.
async function tool(client, name) {
  const end = Date.now() + PATIENCE_MS;
  for (;;) {
    const tools = await listed(client);
    const found = tools.find((tool) => tool.name === name);
    if (found) return found;
    if (Date.now() > end) throw new Error(`no tool ${name} among ${tools.map((tool) => tool.name).join(', ')}`);
    await new Promise((resolve) => setTimeout(resolve, PAUSE_MS));
  }
}

// The SDK mirrors arguments into headers for the tools that it has listed itself.
async function known(client, name) {
  await tool(client, name);
  await client.listTools(undefined, { cacheMode: 'refresh' });
}

async function echoState(client) {
  await tool(client, 'test_mrtr_echo_state');
  let between;
  client.setRequestHandler('elicitation/create', async () => {
    // Between the two rounds of another call, so that it could be mistaken for one of them.
    between ??= call(client, 'test_mrtr_unrelated');
    await between;
    return { action: 'accept', content: { confirmed: true } };
  });
  await call(client, 'test_mrtr_echo_state');
  await call(client, 'test_mrtr_no_state');
  // This SDK refuses what bears no result type, which the mock server leaves out on purpose and the relay adds.
  const untyped = call(client, 'test_mrtr_no_result_type');
  await (CONFORMANCE_RELAY ? untyped : untyped.catch(() => {}));
}

// Everything that the server offers, once.
async function everyKind(client) {
  await known(client, 'test_headers');
  await call(client, 'test_headers');
  await call(client, 'my-hyphenated-tool');
  const { resources, prompts } = client.getServerCapabilities();
  if (resources) for (const { uri } of (await client.listResources()).resources) await client.readResource({ uri });
  if (prompts) for (const { name } of (await client.listPrompts()).prompts) await client.getPrompt({ name });
}

// Between relay and client no header has to be understood; what the relay lists, it must be able to call.
async function whatIsListed(client) {
  await known(client, 'valid_tool');
  const tools = CONFORMANCE_RELAY ? await listed(client) : (await client.listTools()).tools;
  for (const { name, inputSchema } of tools.filter(({ name }) => /^(in)?valid_/.test(name))) {
    const args = Object.fromEntries((inputSchema.required ?? []).map((key) => [key, 'value']));
    await call(client, name, args).catch((error) => console.error(`${name}: ${error.message}`));
  }
}

// A host of skills (SEP-2640): lists them, and when one is loaded reads its files and believes nothing unverified.
const skills = async (client) => (await client.request({ method: 'skills/list', params: {} }, ANY)).skills;

async function loadSkill(client, { uri, frontmatter, resources }) {
  for (const { uri: file, digest, size } of resources.sort((a, b) => (b.uri === uri) - (a.uri === uri))) {
    const [{ text }] = (await client.readResource({ uri: file })).contents;
    const bytes = Buffer.from(text);
    if (bytes.length !== size) throw new Error(`${file} has ${bytes.length} bytes, not ${size}`);
    if (`sha256:${createHash('sha256').update(bytes).digest('hex')}` !== digest) throw new Error(`${file} is another file`);
    if (file !== uri) continue;
    const head = Object.fromEntries(text.split('---\n')[1].trim().split('\n').map((line) => line.split(/: (.*)/)));
    for (const [key, value] of Object.entries(frontmatter)) {
      if (head[key] !== value) throw new Error(`${file} says another ${key} than the list`);
    }
  }
}

async function refusedSkill(client) {
  const [skill] = await skills(client);
  const loaded = await loadSkill(client, skill).then(() => true, (error) => console.error(error.message));
  if (loaded) throw new Error('a skill was loaded that is not what its entry says');
}

const SCENARIOS = {
  initialize: (client) => listed(client),
  'request-metadata': (client) => listed(client),
  tools_call: async (client) => {
    await tool(client, 'add_numbers');
    await call(client, 'add_numbers', { a: 5, b: 3 });
  },
  'elicitation-sep1034-client-defaults': async (client) => {
    client.setRequestHandler('elicitation/create', async () => ({ action: 'accept', content: {} }));
    await tool(client, 'test_client_elicitation_defaults');
    await call(client, 'test_client_elicitation_defaults');
  },
  'sse-retry': async (client) => {
    await tool(client, 'test_reconnection');
    await call(client, 'test_reconnection');
  },
  'sep-2322-client-request-state': echoState,
  'http-standard-headers': everyKind,
  'http-custom-headers': async (client) => {
    await known(client, 'test_custom_headers');
    for (const { name, arguments: args } of context.toolCalls) await call(client, name, args);
  },
  'http-invalid-tool-headers': whatIsListed,
  'sep-2640-client-no-prefetch': async (client) => {
    if ((await skills(client)).length !== 1) throw new Error('there is one skill to be listed');
  },
  'sep-2640-client-verify-digest': refusedSkill,
  'sep-2640-client-verify-size': refusedSkill,
  'sep-2640-client-verify-frontmatter': refusedSkill,
  'json-schema-ref-no-deref': (client) => tool(client, 'lookup_user'),
  'json-schema-2020-12-preservation': async (client) => {
    const { inputSchema } = await tool(client, 'json_schema_2020_12_tool');
    await call(client, 'json_schema_echo', { schema: inputSchema });
  },
};

// Starts the relay in a folder of its own, with the mock server as its source.
async function relay() {
  const folder = mkdtempSync(join(tmpdir(), 'toolrelay-conformance-'));
  const config = join(folder, 'sources.toml');
  const settings = `[relay]\nexposure = "eager"\nstate_dir = ${JSON.stringify(join(folder, 'state'))}\n`;
  writeFileSync(config, `${settings}[source.mock]\nurl = ${JSON.stringify(mock)}\nprefix = ""\n`);
  const child = spawn(CONFORMANCE_RELAY, ['serve', '--http', '127.0.0.1:0', '--config', config, '--log', 'debug'], {
    stdio: ['ignore', 'inherit', 'pipe'],
  });
  const ended = once(child, 'exit');
  const log = CONFORMANCE_LOG ? createWriteStream(CONFORMANCE_LOG, { flags: 'a' }) : process.stderr;
  const lines = createInterface({ input: child.stderr });
  // The suite waits until every connection to its mock server is closed.
  const stop = async () => {
    child.kill('SIGTERM');
    await ended;
    rmSync(folder, { recursive: true });
  };
  const listens = new Promise((resolve) => {
    lines.on('line', (line) => {
      log.write(`${line}\n`);
      const bound = /listening on (http:\/\/\S+)/.exec(line);
      if (bound) resolve(bound[1]);
    });
  });
  const url = await Promise.race([listens, ended.then(() => undefined)]);
  if (!url) {
    await stop();
    throw new Error('the relay ended before it listened');
  }
  return { url, stop };
}

const run = SCENARIOS[scenario];
if (!run) throw new Error(`nothing is known of the scenario ${scenario}`);
const { url, stop } = CONFORMANCE_RELAY ? await relay() : { url: mock, stop: async () => {} };
const client = new Client(
  { name: 'toolrelay-conformance', version: '1.0.0' },
  {
    capabilities: { roots: {}, sampling: {}, elicitation: { form: { applyDefaults: true } } },
    versionNegotiation: { mode: modern ? 'auto' : 'legacy' },
  },
);
client.setRequestHandler('elicitation/create', async () => ({ action: 'decline' }));
try {
  await client.connect(new StreamableHTTPClientTransport(new URL(url)));
  await run(client);
  await client.close();
} finally {
  await stop();
}

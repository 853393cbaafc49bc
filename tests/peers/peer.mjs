// What the client scripts share: what to do, the one line of output, the time limit. It knows no SDK.
//
//   node client_v1.mjs COMMAND [ARGS...]      the MCP server to start
//   node client_v1.mjs URL                    the MCP server to connect to, over streamable HTTP
//
// TOKEN         sent to a URL as `Authorization: Bearer TOKEN`
// CALLS         JSON array of {"name","arguments"}: the tools to call, in order
// WAIT_CHANGED  1: after the calls wait for the first tools/list_changed and list again -> toolsAfter
// SETTLE_MS     stay connected so much longer before counting notifications (default 0)
// ANSWERS       JSON object method -> result: how to answer elicitation/create, sampling/createMessage, roots/list;
//               each one named is declared as a capability
// MODE          auto | legacy: for the clients that know both eras
// CWD           where to start the server
//
// Of its environment the server gets what the SDK passes on by itself, and TOOLRELAY_*.

const LIMIT_MS = 60_000;

const CAPABILITIES = {
  'elicitation/create': { elicitation: { form: {} } },
  'sampling/createMessage': { sampling: {} },
  'roots/list': { roots: { listChanged: true } },
};

const fromEnv = (name, otherwise) => JSON.parse(process.env[name] || otherwise);

export const [command, ...args] = process.argv.slice(2);
export const mode = process.env.MODE || 'auto';
export const answers = fromEnv('ANSWERS', '{}');
export const capabilities = Object.assign({}, ...Object.keys(answers).map((method) => CAPABILITIES[method]));
export const clientInfo = { name: 'toolrelay-peer', version: '1.0.0' };

export function serverParameters(defaultEnvironment) {
  const ours = Object.entries(process.env).filter(([name]) => name.startsWith('TOOLRELAY_'));
  return {
    command,
    args,
    cwd: process.env.CWD,
    env: { ...defaultEnvironment, ...Object.fromEntries(ours) },
    stderr: 'inherit',
  };
}

// The URL to connect to, if that is what was given, and what is sent with each request.
export const url = command?.startsWith('http://') ? new URL(command) : undefined;
export const httpOptions = process.env.TOKEN
  ? { requestInit: { headers: { Authorization: `Bearer ${process.env.TOKEN}` } } }
  : {};

// Counts notifications; whoever waits for the first one is told.
export function changes() {
  let seen;
  const first = new Promise((resolve) => (seen = resolve));
  const counter = { count: 0, first, note: () => ((counter.count += 1), seen()) };
  return counter;
}

const plainError = (error) => ({
  name: error.name,
  message: error.message,
  ...(error.code !== undefined && { code: error.code }),
  ...(error.data !== undefined && { data: error.data }),
});

const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

// `peer` is {connect, protocol, serverInfo, list, call, close, changed}.
export async function run(peer) {
  const report = { protocol: null, serverInfo: null, tools: [], results: [], listChanged: 0 };
  const finish = (code) => {
    report.listChanged = peer.changed.count;
    process.stdout.write(JSON.stringify(report) + '\n', () => process.exit(code));
  };
  const names = async () => (await peer.list()).map((tool) => tool.name);
  setTimeout(() => {
    report.error = { message: `not done after ${LIMIT_MS} ms` };
    finish(1);
  }, LIMIT_MS).unref();
  try {
    if (!command) throw new Error('usage: SCRIPT COMMAND [ARGS...]');
    await peer.connect();
    report.protocol = peer.protocol() ?? null;
    report.serverInfo = peer.serverInfo() ?? null;
    report.tools = await names();
    for (const call of fromEnv('CALLS', '[]')) {
      report.results.push(await peer.call(call).catch((error) => ({ error: plainError(error) })));
    }
    if (process.env.WAIT_CHANGED === '1') {
      await peer.changed.first;
      report.toolsAfter = await names();
    }
    await sleep(Number(process.env.SETTLE_MS || 0));
    await peer.close();
    finish(0);
  } catch (error) {
    report.error = plainError(error);
    await peer.close().catch(() => {});
    finish(1);
  }
}

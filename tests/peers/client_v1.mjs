// The TypeScript SDK v1 as a client. See peer.mjs for what it reads and prints.

import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport, getDefaultEnvironment } from '@modelcontextprotocol/sdk/client/stdio.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import {
  CreateMessageRequestSchema,
  ElicitRequestSchema,
  ListRootsRequestSchema,
  ToolListChangedNotificationSchema,
} from '@modelcontextprotocol/sdk/types.js';
import { answers, capabilities, changes, clientInfo, httpOptions, run, serverParameters, url } from './peer.mjs';

const REQUESTS = {
  'elicitation/create': ElicitRequestSchema,
  'sampling/createMessage': CreateMessageRequestSchema,
  'roots/list': ListRootsRequestSchema,
};

const client = new Client(clientInfo, { capabilities });
const transport = url
  ? new StreamableHTTPClientTransport(url, httpOptions)
  : new StdioClientTransport(serverParameters(getDefaultEnvironment()));
let protocol;
// The SDK keeps the version to itself, but tells a transport that wants to know.
const tell = transport.setProtocolVersion?.bind(transport);
transport.setProtocolVersion = (version) => {
  protocol = version;
  tell?.(version);
};

const changed = changes();
client.setNotificationHandler(ToolListChangedNotificationSchema, changed.note);
for (const [method, answer] of Object.entries(answers)) client.setRequestHandler(REQUESTS[method], async () => answer);

await run({
  changed,
  connect: () => client.connect(transport),
  protocol: () => protocol,
  serverInfo: () => client.getServerVersion(),
  async list() {
    const tools = [];
    let cursor;
    do {
      const page = await client.listTools(cursor === undefined ? {} : { cursor });
      tools.push(...page.tools);
      cursor = page.nextCursor;
    } while (cursor !== undefined);
    return tools;
  },
  call: (call) => client.callTool(call),
  async close() {
    await transport.terminateSession?.();
    await client.close();
  },
});

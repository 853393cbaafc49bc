// The TypeScript SDK v2 as a client, MODE=auto (server/discover first) or legacy. See peer.mjs for the rest.
//
// In auto mode this SDK starts the server twice: once for the probe alone, once to stay.

import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { StdioClientTransport, getDefaultEnvironment } from '@modelcontextprotocol/client/stdio';
import { answers, capabilities, changes, clientInfo, httpOptions, mode, run, serverParameters, url } from './peer.mjs';

const changed = changes();
const client = new Client(clientInfo, {
  capabilities,
  versionNegotiation: { mode },
  listChanged: { tools: { autoRefresh: false, debounceMs: 0, onChanged: changed.note } },
});
for (const [method, answer] of Object.entries(answers)) client.setRequestHandler(method, async () => answer);

const transport = () =>
  url
    ? new StreamableHTTPClientTransport(url, httpOptions)
    : new StdioClientTransport(serverParameters(getDefaultEnvironment()));

await run({
  changed,
  connect: () => client.connect(transport()),
  protocol: () => client.getNegotiatedProtocolVersion(),
  serverInfo: () => client.getServerVersion(),
  list: async () => (await client.listTools()).tools,
  call: (call) => client.callTool(call),
  close: () => client.close(),
});

"""The Python SDK as a client, MODE=auto (server/discover first) or legacy. See peer.mjs for what it reads and prints."""

import asyncio
import json
import os
import sys
from contextlib import AsyncExitStack

import mcp_types as types
from mcp import Client, StdioServerParameters
from mcp.client.stdio import get_default_environment
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import create_mcp_http_client
from mcp.shared.exceptions import MCPError

LIMIT_SECONDS = 60
MODERN = "2026-07-28"


class Changes:
    """Counts notifications; whoever waits for the first one is told."""

    def __init__(self):
        self.count = 0
        self.first = asyncio.Event()

    async def take(self, message):
        if isinstance(message, types.ToolListChangedNotification):
            self.count += 1
            self.first.set()


async def listen(client, ready):
    """Asks for what the modern era sends only if asked; the events come to the message handler as well."""
    async with client.listen(tools_list_changed=True) as events:
        ready.set()
        async for _ in events:
            pass


def plain(value):
    return value.model_dump(mode="json", by_alias=True, exclude_none=True)


def plain_error(error):
    if isinstance(error, BaseExceptionGroup):
        return plain_error(error.exceptions[0])
    shown = {"name": type(error).__name__, "message": str(error)}
    if isinstance(error, MCPError):
        shown["code"] = error.error.code
        if error.error.data is not None:
            shown["data"] = error.error.data
    return shown


def answering(answers):
    """The callbacks for what the server may ask; each one given is declared as a capability."""
    callbacks = {
        "elicitation/create": ("elicitation_callback", types.ElicitResult),
        "sampling/createMessage": ("sampling_callback", types.CreateMessageResult),
        "roots/list": ("list_roots_callback", types.ListRootsResult),
    }

    def always(result):
        async def answer(*_):
            return result

        return answer

    chosen = {}
    for method, answer in answers.items():
        name, kind = callbacks[method]
        chosen[name] = always(kind.model_validate(answer))
    return chosen


async def list_names(client):
    names, cursor = [], None
    while True:
        # The SDK caches lists; the point here is what the server says now.
        page = await client.list_tools(cursor=cursor, cache_mode="refresh")
        names += [tool.name for tool in page.tools]
        cursor = page.next_cursor
        if cursor is None:
            return names


async def talk(report, changes, stack):
    ours = {name: value for name, value in os.environ.items() if name.startswith("TOOLRELAY_")}
    command, *arguments = sys.argv[1:]
    if command.startswith("http://"):
        token = os.environ.get("TOKEN")
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        http = await stack.enter_async_context(create_mcp_http_client(headers=headers))
        server = streamable_http_client(command, http_client=http)
    else:
        server = StdioServerParameters(
            command=command, args=arguments, env={**get_default_environment(), **ours}, cwd=os.environ.get("CWD")
        )
    answers = json.loads(os.environ.get("ANSWERS") or "{}")
    mode = os.environ.get("MODE") or "auto"
    client = await stack.enter_async_context(
        Client(server, mode=mode, message_handler=changes.take, **answering(answers))
    )
    report["protocol"] = client.protocol_version
    report["serverInfo"] = plain(client.server_info) if client.server_info else None
    tools = client.server_capabilities.tools
    if client.protocol_version >= MODERN and tools and tools.list_changed:
        ready = asyncio.Event()
        listening = asyncio.create_task(listen(client, ready))
        stack.callback(listening.cancel)
        await asyncio.wait([asyncio.create_task(ready.wait()), listening], return_when=asyncio.FIRST_COMPLETED)
    report["tools"] = await list_names(client)
    for call in json.loads(os.environ.get("CALLS") or "[]"):
        try:
            result = plain(await client.call_tool(call["name"], call.get("arguments")))
        except Exception as error:  # whatever the SDK makes of it is what is wanted
            result = {"error": plain_error(error)}
        report["results"].append(result)
    if os.environ.get("WAIT_CHANGED") == "1":
        await changes.first.wait()
        report["toolsAfter"] = await list_names(client)
    await asyncio.sleep(float(os.environ.get("SETTLE_MS") or 0) / 1000)


async def main():
    report = {"protocol": None, "serverInfo": None, "tools": [], "results": [], "listChanged": 0}
    changes = Changes()
    code = 0
    try:
        async with asyncio.timeout(LIMIT_SECONDS), AsyncExitStack() as stack:
            await talk(report, changes, stack)
    except BaseException as error:
        report["error"] = plain_error(error)
        code = 1
    report["listChanged"] = changes.count
    print(json.dumps(report, ensure_ascii=False), flush=True)
    return code


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))

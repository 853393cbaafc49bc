"""A scripted model on loopback: the Messages API of Anthropic and the Responses API of OpenAI, as far as agents need them.

It does what a model would do that was asked to write a note and read it back: search, open what it found, call the tool
and another of its toolset; each by its own name if the agent offers it by then, else through call_tool. Every request is
kept: it is what the model was shown.
"""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

NOTE = {"title": "Groceries", "body": "bread and milk"}
QUERY = "add a short note"
READER = "list_notes"
CALLS_MAX = 12
# Claude Code's own tool that loads the schemas of tools it has only named.
LOADER = "ToolSearch"


def objects(value):
    """Every JSON object in a value, also in strings and behind words before it."""
    if isinstance(value, dict):
        yield value
        for inner in value.values():
            yield from objects(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from objects(inner)
    elif isinstance(value, str) and "{" in value:
        try:
            yield from objects(json.JSONDecoder().raw_decode(value[value.index("{"):])[0])
        except ValueError:
            pass


def with_key(value, key):
    return next((found for found in objects(value) if key in found), None)


class Model:
    """The script, and what was seen of the agent. `named` finds the agent's name for a tool of the relay."""

    def __init__(self):
        self.requests = []
        self.calls = []
        # The tools of sources that were called, in whichever way.
        self.reached = []
        self.results = []
        self.lock = threading.Lock()

    def decide(self, offered, mentioned, results):
        """The next call, or None when the work is done. `offered` are names that can be called, `mentioned` others."""
        self.results = results
        found = next((found for result in results if (found := with_key(result, "matches"))), None)
        best = found["matches"][0] if found and found["matches"] else None
        done = [call for call, _ in self.calls]
        opened = any(with_key(result, "toolset") for result in results)
        written = any(call.endswith("add_note") for call in self.reached)
        read = any(call.endswith(READER) for call in self.reached)

        def named(tool):
            return next((name for name in (*offered, *mentioned) if name.endswith(tool)), None)

        if read or len(done) >= CALLS_MAX:
            return None
        tool, given = (READER, {}) if written else (best and best["tool"], NOTE)
        if best is None:
            wanted, arguments = named("find_tools"), {"query": QUERY, "limit": 3}
        elif not opened:
            wanted, arguments = named("enable_toolset"), {"toolset": best["source"]}
        elif direct := named(f"{best['source']}__{tool}"):
            wanted, arguments = direct, given
        else:
            wanted = named("call_tool")
            arguments = {"source": best["source"], "tool": tool, "arguments": given}
        if wanted not in offered and LOADER in offered:
            wanted, arguments = LOADER, {"query": f"select:{wanted}"}
        elif wanted and wanted.endswith(("call_tool", f"__{tool}")):
            self.reached.append(arguments.get("tool", wanted))
        self.calls.append((wanted, arguments))
        return wanted, arguments

    def serve(self):
        """Starts serving; gives the port."""
        model = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_):
                pass

            def send(self, body, kind="application/json"):
                self.send_response(200)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def do_HEAD(self):
                self.send(b"")

            def do_GET(self):
                self.send(b'{"data":[],"models":[]}')

            def do_POST(self):
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                asked = json.loads(body or b"{}")
                with model.lock:
                    if "count_tokens" in self.path:
                        return self.send(json.dumps({"input_tokens": len(body) // 4}).encode())
                    answer = anthropic if "messages" in self.path else openai
                    self.send(answer(model, asked), "text/event-stream" if asked.get("stream") else "application/json")

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        return server.server_address[1]


def events(all_events):
    return "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in all_events).encode()


def anthropic(model, asked):
    """One answer of the Messages API."""
    offered = [tool["name"] for tool in asked.get("tools", [])]
    blocks = [block for message in asked["messages"] if isinstance(message["content"], list) for block in message["content"]]
    results = [block["content"] for block in blocks if block.get("type") == "tool_result"]
    text = json.dumps([asked.get("system"), asked["messages"], asked.get("tools", [])])
    mentioned = sorted({word for word in text.replace("\\n", " ").replace('"', " ").replace(",", " ").split()
                        if word.startswith("mcp__")})
    # Requests without tools are the agent's own business: titles and the like.
    call = model.decide(offered, mentioned, results) if offered else None
    if offered:
        model.requests.append(asked)
    number = len(model.requests)
    if call:
        block = {"type": "tool_use", "id": f"toolu_{number}", "name": call[0], "input": call[1]}
    else:
        block = {"type": "text", "text": "done"}
    message = {"id": f"msg_{number}", "type": "message", "role": "assistant", "model": asked.get("model"),
               "stop_sequence": None, "usage": {"input_tokens": 1, "output_tokens": 1}}
    stop = "tool_use" if call else "end_turn"
    if not asked.get("stream"):
        return json.dumps({**message, "content": [block], "stop_reason": stop}).encode()
    if call:
        empty = {**block, "input": {}}
        delta = {"type": "input_json_delta", "partial_json": json.dumps(call[1])}
    else:
        empty, delta = {**block, "text": ""}, {"type": "text_delta", "text": block["text"]}
    return events([
        {"type": "message_start", "message": {**message, "content": [], "stop_reason": None}},
        {"type": "content_block_start", "index": 0, "content_block": empty},
        {"type": "content_block_delta", "index": 0, "delta": delta},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": stop, "stop_sequence": None}, "usage": {"output_tokens": 2}},
        {"type": "message_stop"},
    ])


def openai(model, asked):
    """One answer of the Responses API."""
    offered, spaces = [], {}
    for tool in asked.get("tools") or []:
        # A namespace holds the tools of one MCP server.
        inner = tool.get("tools") if tool.get("type") == "namespace" else [tool]
        for one in inner or []:
            if one.get("name"):
                offered.append(one["name"])
                spaces[one["name"]] = tool["name"] if tool.get("type") == "namespace" else None
    results = [item.get("output") for item in asked.get("input", []) if item.get("type") == "function_call_output"]
    call = model.decide(offered, [], results) if offered else None
    if offered:
        model.requests.append(asked)
    number = len(model.requests)
    if call:
        item = {"type": "function_call", "id": f"fc_{number}", "call_id": f"call_{number}", "name": call[0],
                "arguments": json.dumps(call[1]), "status": "completed"}
        if spaces.get(call[0]):
            item["namespace"] = spaces[call[0]]
    else:
        item = {"type": "message", "id": f"msg_{number}", "role": "assistant", "status": "completed",
                "content": [{"type": "output_text", "text": "done", "annotations": []}]}
    usage = {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2,
             "input_tokens_details": {"cached_tokens": 0}, "output_tokens_details": {"reasoning_tokens": 0}}
    response = {"id": f"resp_{number}", "object": "response", "created_at": 1, "status": "completed",
                "model": asked.get("model"), "output": [item], "usage": usage}
    if not asked.get("stream"):
        return json.dumps(response).encode()
    return events([
        {"type": "response.created", "response": {**response, "status": "in_progress", "output": []}},
        {"type": "response.output_item.added", "output_index": 0, "item": item},
        {"type": "response.output_item.done", "output_index": 0, "item": item},
        {"type": "response.completed", "response": response},
    ])

"""Whole turns of real agents on the relay, with a scripted model: find a tool, open its toolset, call two tools of it.

    run.py TOOLRELAY EXAMPLES AGENTS [CATALOGS]

TOOLRELAY is the built program, EXAMPLES the folder of the built examples, AGENTS the folder of the installed agents'
programs, CATALOGS a folder of recorded tool lists to serve besides. Prints a report; fails if a turn fails, or if the
model was shown more than the budgets allow.
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile

import model as models

# Bytes, and about so many a token.
MENU_MAX = 6000
SEARCH_MAX = 6000
BYTES_PER_TOKEN = 4
LIMIT_SECONDS = 240
INSTRUCTIONS = "Many tool sources stand behind this one server"
PROMPT = "Write down a note: Groceries, bread and milk. Then list my notes."
MENU = {"list_sources", "list_toolsets", "enable_toolset", "disable_toolset", "find_tools", "call_tool"}


def configuration(folder, examples, catalogs):
    """Two small sources that work, and as many recorded ones as there are."""
    lines = [f'[relay]\nstate_dir = "{folder}/state"\nmax_starting = 32']
    lines.append(f'[source.notes]\nsummary = "Short notes: write, list, search, delete."\ncommand = "{examples}/notes"')
    lines.append(f'[source.clock]\nsummary = "The time, time zones and timers."\ncommand = "{examples}/clock"')
    for file in sorted(pathlib.Path(catalogs).glob("*.tools.json")) if catalogs else []:
        name = file.name.removesuffix(".tools.json")
        lines.append(f'[source.{name}]\ncommand = "{examples}/replay"\nargs = ["--tools-json", "{file.resolve()}"]')
    path = folder / "sources.toml"
    path.write_text("\n".join(lines))
    return path


def environment(folder, **more):
    """A home of its own; nothing of the caller's that an agent could report to or log in with."""
    kept = {name: os.environ[name] for name in ("PATH", "LANG", "TMPDIR") if name in os.environ}
    return {**kept, "HOME": str(folder), "IS_SANDBOX": "1", **more}


def run(command, folder, env):
    done = subprocess.run(command, cwd=folder, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          timeout=LIMIT_SECONDS)
    if done.returncode != 0:
        raise SystemExit(f"{command[0]} failed with {done.returncode}:\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}")
    return done.stdout


def claude(agents, serve, folder, port, more):
    config = folder / "mcp.json"
    config.write_text(json.dumps({"mcpServers": {"relay": {"command": serve[0], "args": serve[1:]}}}))
    env = environment(folder, ANTHROPIC_BASE_URL=f"http://127.0.0.1:{port}", ANTHROPIC_API_KEY="none",
                      CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC="1", DISABLE_AUTOUPDATER="1", **more)
    run([f"{agents}/claude", "-p", PROMPT, "--mcp-config", str(config), "--strict-mcp-config", "--allowedTools",
         "mcp__relay"], folder, env)


def codex(agents, serve, folder, port, _):
    home = folder / ".codex"
    home.mkdir()
    (home / "config.toml").write_text(
        'model = "scripted"\nmodel_provider = "scripted"\n[model_providers.scripted]\nname = "scripted"\n'
        f'base_url = "http://127.0.0.1:{port}/v1"\nwire_api = "responses"\n'
        f"[mcp_servers.relay]\ncommand = {json.dumps(serve[0])}\nargs = {json.dumps(serve[1:])}\n")
    run([f"{agents}/codex", "exec", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox", PROMPT],
        folder, environment(folder, CODEX_HOME=str(home)))


def relay_tools(request):
    """The relay's tools as the request shows them to the model, by their own names."""
    shown = {}
    for tool in request.get("tools") or []:
        space = tool.get("type") == "namespace"
        for one in tool["tools"] if space else [tool]:
            name = one.get("name", "")
            if "relay" in (tool["name"] if space else name):
                shown[name.removeprefix("mcp__relay__")] = one
    return shown


def cost(value):
    size = len(json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode())
    return f"{size} bytes, about {-(-size // BYTES_PER_TOKEN)} tokens", size


def report(name, model, rereads):
    """Tells how a turn went; gives what is wrong with it."""
    first, last = relay_tools(model.requests[0]), relay_tools(model.requests[-1])
    told, size = cost(list(first.values()))
    deferred = not first
    print(f"\n{name}: {len(model.requests)} requests to the model")
    print("  shown at first: " + ("names only, the agent loads schemas itself" if deferred else f"{len(first)} tools, {told}"))
    told, last_size = cost(list(last.values()))
    print(f"  shown at last: {len(last)} tools, {told}")
    words = INSTRUCTIONS in json.dumps(model.requests[0], ensure_ascii=False)
    print(f"  the relay's instructions were {'' if words else 'not '}passed on")
    for call, arguments in model.calls:
        print(f"  -> {call} {json.dumps(arguments)}")
    search = next((found for result in model.results if (found := models.with_key(result, "matches"))), None)
    told, search_size = cost(search)
    print(f"  the search's reply: {told}")
    called = [call for call, _ in model.calls]
    through = any(call.endswith("call_tool") for call in called)
    direct = any("notes__" in call for call in called)
    # The last result is the list of notes, with the one that was written.
    read = bool(model.results) and models.NOTE["title"] in json.dumps(model.results[-1])
    faults = []
    if not read:
        faults.append(f"the note was not written and read: {json.dumps(model.results)[-1500:]}")
    if size > MENU_MAX or search_size > SEARCH_MAX:
        faults.append("more was shown than the budgets allow")
    if not deferred and set(first) != MENU:
        faults.append(f"the menu is {sorted(first)}")
    if rereads and not direct:
        faults.append("no opened tool was called by its own name")
    if not rereads and not (through and set(last) == set(first)):
        faults.append("an agent that never reads its list again called otherwise than through call_tool")
    ways = [way for way, used in (("through call_tool", through), ("by its own name", direct)) if used]
    print("  " + (f"the note was written and read, {' and '.join(ways)}" if read else "FAILED"))
    return faults


def main():
    program, examples, agents = (str(pathlib.Path(path).resolve()) for path in sys.argv[1:4])
    catalogs = sys.argv[4] if len(sys.argv) > 4 and pathlib.Path(sys.argv[4]).is_dir() else None
    faults = []
    for name, agent, more, rereads in [
        ("Claude Code, all schemas sent", claude, {"ENABLE_TOOL_SEARCH": "false"}, True),
        ("Claude Code, as it comes", claude, {}, True),
        ("Codex", codex, {}, False),
    ]:
        with tempfile.TemporaryDirectory(prefix="agents-") as folder:
            folder = pathlib.Path(folder)
            config = configuration(folder, examples, catalogs)
            # Known before the first turn, as for everyone but the first time.
            listed = run([program, "tools", "--json", "--config", str(config)], folder, environment(folder))
            model = models.Model()
            serve = [program, "serve", "--config", str(config), "--log", "off"]
            agent(agents, serve, folder, model.serve(), more)
            if name.endswith("sent"):
                print(f"{len(json.loads(listed)['tools'])} tools behind the relay")
            if not model.requests:
                raise SystemExit(f"{name}: the model was never asked")
            faults += [f"{name}: {fault}" for fault in report(name, model, rereads)]
    for agent in ("claude", "codex"):
        print(f"{agent}: {run([f'{agents}/{agent}', '--version'], '.', environment(pathlib.Path(tempfile.gettempdir()))).strip()}")
    if faults:
        raise SystemExit("\n".join(faults))


if __name__ == "__main__":
    main()

"""Every way to open a session, tried with a session of another folder: where it runs then, or that it is refused.

`WAYS` has one function for each row of the table in docs/sessions.md; a column is a `Place`.
"""

from __future__ import annotations

import asyncio
import json
import os
import shlex
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

import tau
from support.acp_peer import process_peer
from support.cli_process import Done, run
from support.interface import Interface
from support.mcp_serving import McpClient, served, text, tool
from support.rpc_process import Json, calls
from support.served import Client, close_hosts, make_host
from tau.errors import SessionFolderGone, SessionFolderRefused
from tau.store.sessions import folder_for

ID = "0199aaaa-0000-7000-8000-000000000001"
WHERE = "pwd > where"
TIME = "2026-01-01T00:00:00.000Z"
SAFE = {"PYTHONSAFEPATH": "1"}  # else the sandbox refuses to start in a folder from which Python imports
BASH: Json = {"type": "bash", "command": WHERE}


class Place(NamedTuple):
    """A session of `stored`, in a program that was started in `start`. `limit`: a column of the table."""

    folder: Path
    start: Path
    other: Path
    stored: str | None
    limit: str
    file: Path

    @property
    def flags(self) -> list[str]:
        return {"sandbox": ["--sandbox", "workspace"], "permissions": ["--permissions", "ask"]}.get(self.limit, [])

    @property
    def ran(self) -> str:
        """Where the command of the session ran."""
        found = [name for name, folder in (("start", self.start), ("own", self.other)) if (folder / "where").exists()]
        assert len(found) == 1, found
        return found[0]

    def refusal(self, told: str) -> str:
        """The refusal that is meant for this column."""
        gone = f"Stored session working directory does not exist: {self.stored}\nSession file: {self.file}\n"
        gone += f"Current working directory: {self.start}\nTo open a copy of it here, use --fork {self.file}"
        name = {"sandbox": "a sandbox", "permissions": "permission rules"}.get(self.limit)
        limited = f"The session works in {self.other}, but this run was started with {name} for {self.start}. "
        limited += (
            f"Start it there, with the same options: cd {self.other} && tau --session {shlex.quote(str(self.file))}"
        )
        wanted = {"gone": gone, "sandbox": limited, "permissions": limited}[self.limit]
        assert "".join(told.split()) == "".join(wanted.split()), told
        return "refused"

    @property
    def read(self) -> str:
        """The folder in which the model has read a file."""
        text = self.file.read_text()
        found = [name for name in ("start", "own") if f"is-{name}" in text]
        assert len(found) == 1, found
        return found[0]


COLUMNS = {
    "same folder": "same",
    "other folder": "other",
    "folder gone": "gone",
    "no folder in the file": "none",
    "other, `--sandbox`": "sandbox",
    "other, `--permissions`": "permissions",
    "other, not below the roots": "roots",
}


def place(folder: Path, limit: str, store: str = "") -> Place:
    """Write the session of a column. `store`: the folder of session files, if it is one of its own."""
    folder = folder.resolve()
    start, other = folder / "work", folder / "other"
    for made in (start, other, folder / "agent", folder / "home"):
        made.mkdir(parents=True, exist_ok=True)
    (start / "place").write_text("is-start")
    (other / "place").write_text("is-own")
    stored = {"same": str(start), "gone": str(folder / "gone"), "none": None}.get(limit, str(other))
    where = folder / store if store else folder_for(stored or str(start), folder / "agent")
    file = where / f"2026-01-01T00-00-00-000Z_{ID}.jsonl"
    file.parent.mkdir(parents=True, exist_ok=True)
    header = {"type": "session", "version": 3, "id": ID, "timestamp": TIME}
    said = {"role": "user", "content": "remember 42", "timestamp": 1}
    entry = {"type": "message", "id": "aaaaaaaa", "parentId": None, "timestamp": TIME, "message": said}
    lines = [{**header, "cwd": stored} if stored else header, entry]
    file.write_text("".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines))
    return Place(folder, start, other, stored, limit, file)


Way = Callable[[Path, str], str]


# The command line.


def outcome(at: Place, done: Done) -> str:
    if done.code and not (at.other / "where").exists() and not (at.start / "where").exists():
        assert (done.code, done.out) == (1 if at.limit == "gone" else 2, "")
        return at.refusal(done.err.removesuffix("\n").removeprefix("Error: "))
    assert done.code == 0, done.err
    return at.ran


def rpc(at: Place, *flags: str, commands: Sequence[Json] = (BASH,)) -> Done:
    piped = "".join(json.dumps(command) + "\n" for command in commands)
    return run(at.folder, "--mode", "rpc", *at.flags, *flags, piped=piped, env=SAFE)


def flagged(*words: str, store: str = "") -> Way:
    """RPC mode with a flag. FILE and ID stand for the session."""

    def way(folder: Path, limit: str) -> str:
        at = place(folder, limit, store)
        known = {"FILE": str(at.file), "ID": ID, "STORE": str(at.file.parent)}
        return outcome(at, rpc(at, *(known.get(word, word) for word in words)))

    return way


def prompted(*words: str) -> Way:
    def way(folder: Path, limit: str) -> str:
        at = place(folder, limit)
        argv = (*words, *at.flags, "--session", str(at.file), "go")
        return outcome(at, run(folder, *argv, env=SAFE, answers=[calls(WHERE), {"text": "ok"}]))

    return way


def commanded(*commands: Json) -> Way:
    """RPC mode with `switch_session`, and then other commands."""

    def way(folder: Path, limit: str) -> str:
        at = place(folder, limit)
        switch = {"type": "switch_session", "id": "switch", "sessionPath": str(at.file)}
        done = rpc(at, commands=[switch, *commands, BASH])
        (answer,) = [one for one in done.records if one.get("id") == "switch"]
        if answer["success"]:
            return at.ran
        assert at.ran == "start"
        refused = at.refusal(answer["error"])
        return "start" if commands else refused

    return way


def export(folder: Path, limit: str) -> str:
    at = place(folder, limit)
    done = run(folder, *at.flags, "--export", str(at.file), str(folder / "page.html"))
    assert done.code == 0 and "remember 42" in (folder / "page.html").read_text()
    return "read"


def listed(folder: Path, limit: str) -> str:
    at = place(folder, limit)
    done = rpc(at, commands=[{"type": "list_sessions", "all": True}, BASH])
    (rows,) = [one["data"]["sessions"] for one in done.records if one.get("command") == "list_sessions"]
    assert [row["id"] for row in rows] == [ID] and at.ran == "start"
    return "read"


# The terminal.


def shown(tau: Interface, at: Place) -> str:
    """What the terminal shows after the session was chosen: that it is open, a question, or a refusal."""
    plain = tau.wait(lambda screen: any(word in screen for word in ("remember 42", "ontinue here", "Start it")))
    if "Start it" in plain:
        return "refused"
    if "ontinue here" in plain:
        return "asks"
    tau.send(f"!{WHERE}; echo is-done-$((1+1))")
    tau.wait("is-done-2")
    return at.ran


def terminal(folder: Path, limit: str) -> str:
    at = place(folder, limit)
    if limit in ("sandbox", "permissions"):
        with Interface(folder, *at.flags, "--session", str(at.file)) as tau:
            assert tau.wait_end() == 2
            return at.refusal("".join(tau.screen()).removeprefix("Error: "))
    with Interface(folder, "--session", str(at.file)) as tau:
        return shown(tau, at)


def picked(folder: Path, limit: str) -> str:
    at = place(folder, limit)
    with Interface(folder, *at.flags, env=SAFE) as tau:
        tau.start().send("/resume")
        tau.wait("all/this folder")
        tau.press("tab")
        tau.wait("remember 42")
        tau.press("enter")
        tau.wait(lambda screen: "all/this folder" not in screen)
        return shown(tau, at)


# The library.


def library(session: bool = True, **given: str) -> Way:
    """`session`: it is opened at once, else with `switch_session`."""

    def way(folder: Path, limit: str) -> str:
        at = place(folder, limit)
        options: Json = {"agent_dir": folder / "agent", "script": [{"text": "ok"}], "env": {"PATH": os.environ["PATH"]}}
        options |= {name: getattr(at, value) for name, value in given.items()}
        options |= {"sandbox": {"sandbox": "workspace"}, "permissions": {"permissions": "ask"}}.get(limit, {})

        async def story() -> str:
            async with tau.open(**options, **({"session": at.file} if session else {})) as agent:
                if not session:
                    await agent.switch_session(at.file)
                await agent.bash(WHERE)
                return at.ran

        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(at.start)
            try:
                return asyncio.run(story())
            except (SessionFolderGone, SessionFolderRefused) as error:
                return at.refusal(str(error).replace("use fork_of", "use --fork"))

    return way


# Hosts.


def hosted(act: Callable[[Client, Place], Awaitable[Json]]) -> Way:
    def way(folder: Path, limit: str) -> str:
        at = place(folder, limit, store="sessions")
        roots = (str(at.start),) if limit == "roots" else (str(at.start), str(at.folder))
        changes: Json = {"sandbox": {"sandbox": "workspace"}, "permissions": {"permissions": "ask"}}.get(limit, {})

        async def story() -> str:
            host = make_host(folder, roots=roots, **changes)
            client = Client(host)
            answer = await act(client, at)
            if answer["success"]:
                (live,) = host.sessions
                return {str(at.start): "start", str(at.other): "own"}[live.handle.cwd]
            if limit == "roots":
                assert "is not below a folder that this host was started with" in answer["error"]
                return "refused"
            if limit == "gone":
                assert f"does not exist: {at.stored}" in answer["error"], answer
                return "refused"
            return at.refusal(answer["error"])

        async def main() -> str:
            try:
                return await story()
            finally:
                await close_hosts()

        return asyncio.run(main())

    return way


def opening(**given: str) -> Way:
    async def act(client: Client, at: Place) -> Json:
        await client.hello()
        return await client.ask(
            "open_session", **{name: str(at.start) if value == "START" else value for name, value in given.items()}
        )

    return hosted(act)


async def host_switch(client: Client, at: Place) -> Json:
    await client.hello()
    session = (await client.get("open_session"))["session"]
    return await client.ask("switch_session", session=session, sessionPath=str(at.file))


def acp(folder: Path, limit: str) -> str:
    at = place(folder, limit)

    async def story() -> None:
        async with process_peer(
            folder, tool("read", path="place"), {"text": "ok"}, args=at.flags, environment=SAFE
        ) as (peer, _):
            await peer.initialize()
            await peer.call("session/load", sessionId=ID, cwd=str(at.start), mcpServers=[])
            await peer.call("session/prompt", sessionId=ID, prompt=[{"type": "text", "text": "go"}])

    asyncio.run(story())
    return at.read


def mcp(folder: Path, limit: str) -> str:
    at = place(folder, limit)
    results: list[Json] = []

    async def story(client: McpClient) -> None:
        results.append(await client.call("tau_reply", sessionId=ID, prompt="go"))

    if limit == "sandbox":
        (folder / "agent" / "settings.json").write_text(json.dumps({"sandbox": {"level": "workspace"}}))
    wide = [] if limit == "roots" else [at.folder]
    ask = "ask" if limit == "permissions" else None
    served(folder, story, tool("read", path="place"), {"text": "ok"}, roots=wide, permissions=ask)
    (result,) = results
    if not result.get("isError"):
        return at.read
    if limit == "roots":
        assert "is not below a folder" in text(result)
        return "refused"
    return at.refusal(text(result))


FORK = {"type": "fork", "entryId": "aaaaaaaa"}
WAYS: dict[str, Way] = {
    "`--session FILE`, RPC mode": flagged("--session", "FILE"),
    "`--session ID`, RPC mode": flagged("--session", "ID"),
    "`--session-id ID` with `--session-dir`": flagged("--session-id", "ID", "--session-dir", "STORE", store="sessions"),
    "`--session FILE --dialect 2026-03`": flagged("--session", "FILE", "--dialect", "2026-03"),
    "`--continue`": flagged("--continue"),
    "`--continue` with `--session-dir`": flagged("--continue", "--session-dir", "STORE", store="sessions"),
    "`--fork FILE`": flagged("--fork", "FILE"),
    "`switch_session`": commanded(),
    "`switch_session`, then `new_session`": commanded({"type": "new_session"}),
    "`switch_session`, then `fork`": commanded(FORK),
    "`switch_session`, then `clone`": commanded({"type": "clone"}),
    "`-p --session FILE`": prompted("-p"),
    "`--mode json --session FILE`": prompted("--mode", "json"),
    "terminal, `--session FILE`": terminal,
    "terminal, `/resume` and `--resume`": picked,
    "library, `session=`": library(),
    "library, `session=` and `cwd=`": library(cwd="start"),
    "library, `switch_session`": library(session=False),
    "fleet, `--after-loss continue`": library(cwd="start"),
    "host, `open_session` with `session`": opening(session=ID),
    "host, `open_session` with `session` and `cwd`": opening(session=ID, cwd="START"),
    "host, `hello` with `session` (`tau attach`)": hosted(
        lambda client, at: client.ask("hello", version=1, session=ID)
    ),
    "host, `open_session` with `forkOf` and `cwd`": opening(forkOf=ID, cwd="START"),
    "host, `open_session` with `forkOf`": opening(forkOf=ID),
    "host, `switch_session`": hosted(host_switch),
    "ACP, `session/load` and `session/resume`": acp,
    "`tau mcp serve`, `tau_reply`": mcp,
    "`--export FILE`": export,
    "`list_sessions`, search": listed,
}

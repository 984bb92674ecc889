"""The slash commands that give something to others: share a session, report a bug; and where local models are."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from tau.errors import CommandError
from tau.llm.catalog import LOCAL_PROVIDERS
from tau.store.paths import agent_dir
from tau.tui.command import Command
from tau.tui.programs import Output, ProgramFailure, find_program, run_program
from tau.tui.surface import Surface

UPLOAD_TIMEOUT_S = 60.0
ASK_TIMEOUT_S = 15.0


async def _share(surface: Surface, rest: str) -> None:
    """Upload the session as a secret gist, after a question that names what goes out."""
    handle = surface.handle
    gh = find_program("gh", os.environ, handle.cwd)
    if gh is None:
        raise CommandError("/share needs the program gh (https://cli.github.com). /export writes a file instead.")
    if not handle.log.message_count:
        raise CommandError("There is nothing to share yet.")
    if (await _run([gh, "auth", "status"], ASK_TIMEOUT_S)).code:
        raise CommandError("gh is not logged in: run `gh auth login`.")
    stats = handle.stats()
    surface.say(
        f"/share uploads the whole session to GitHub as a secret gist: {stats.total_messages} messages of all "
        f"branches, {stats.tool_calls} tool calls with their output and the files they read, and the system prompt. "
        "Everyone who has the link can read it. Keys and other secrets in it are not removed."
    )
    if await surface.choose("Upload the session?", ["Cancel", "Upload"]) != 1:
        surface.say("Nothing was uploaded.")
        return
    surface.say(f"Shared: {await _upload(surface, gh)}")


async def _upload(surface: Surface, gh: str) -> str:
    """Returns the address."""
    with tempfile.TemporaryDirectory(prefix="tau-share-") as folder:
        page = Path(folder, "session.html")
        await surface.handle.export_html(str(page))
        output = await _run([gh, "gist", "create", "--public=false", str(page)], UPLOAD_TIMEOUT_S)
    words = output.stdout.decode("utf-8", "replace").split()
    address = next((word for word in reversed(words) if word.startswith("https://")), None)
    if output.code or address is None:
        raise CommandError(f"gh could not create the gist (exit code {output.code}).")
    viewer = os.environ.get("PI_SHARE_VIEWER_URL")
    return f"{viewer}#{address.rstrip('/').rpartition('/')[2]} ({address})" if viewer else address


async def _run(command: list[str], timeout: float) -> Output:
    try:
        return await run_program(command, timeout=timeout)
    except ProgramFailure as error:
        raise CommandError(str(error)) from None


async def _bug(surface: Surface, rest: str) -> None:
    """Write a redacted report for the user to look at."""
    options = ["Without the texts of the conversation", "With the texts, known keys masked"]
    chosen = await surface.choose("Bug report", options)
    if chosen is None:
        return
    path = await surface.handle.write_bug_report(rest, with_texts=chosen == 1)
    surface.say(f"Wrote {path}. Nothing was sent: look at it, then attach it to your report.")


async def _llama(surface: Surface, rest: str) -> None:
    servers = ", ".join(sorted(LOCAL_PROVIDERS))
    surface.say(
        f"Servers on this machine need no configuration: start one of {servers} and choose its model with /model, "
        f"for example /model llama.cpp/NAME.\n"
        f"Another address: baseUrl of the provider in {agent_dir() / 'models.json'}, as docs/local-models.md shows."
    )


SHARE_COMMANDS = (
    Command("share", "upload the session as a secret GitHub gist", _share),
    Command("bug", "write a bug report to look at; nothing is sent", _bug, "[text]"),
    Command("llama", "show where local models are configured", _llama),
)

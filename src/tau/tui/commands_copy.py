"""The slash commands that take something out of the session: copy, export."""

from __future__ import annotations

from tau.core.text.code_blocks import FencedCode, fenced_code
from tau.errors import CommandError
from tau.tui.command import Command
from tau.tui.surface import Surface

PREVIEW = 60  # characters of a code block in a list


async def _copy(surface: Surface, rest: str) -> None:
    """Copy the last answer as Markdown, or one of its code blocks."""
    text = surface.handle.last_assistant_text()
    if text is None:
        surface.say("There is no answer to copy.")
        return
    word, _, number = rest.partition(" ")
    if not word:
        surface.say(f"Copied {len(text):,} characters {await surface.copy(text)}.")
    elif word == "code":
        await _copy_code(surface, fenced_code(text), number.strip())
    else:
        raise CommandError("/copy copies the last answer, /copy code [number] one of its code blocks.")


async def _copy_code(surface: Surface, blocks: list[FencedCode], number: str) -> None:
    if not blocks:
        surface.say("The last answer has no code block.")
        return
    at: int | None = 0
    if number:
        at = int(number) - 1 if number.isascii() and number.isdigit() else -1
        if not 0 <= at < len(blocks):
            raise CommandError(f"The last answer has the code blocks 1 to {len(blocks)}.")
    elif len(blocks) > 1:
        at = await surface.choose("Copy code block", [_preview(index, block) for index, block in enumerate(blocks, 1)])
    if at is not None:
        code = blocks[at].text
        surface.say(f"Copied code block {at + 1}, {len(code):,} characters, {await surface.copy(code)}.")


def _preview(number: int, block: FencedCode) -> str:
    first = " ".join(block.text.split())[:PREVIEW]
    return f"{number} {block.language or 'text'}: {first}"


async def _export(surface: Surface, rest: str) -> None:
    handle = surface.handle
    name = unquoted(rest)
    if name.endswith(".jsonl"):
        path = await handle.export_jsonl(name)
    else:
        path = await handle.export_html(name or None)
    surface.say(f"Exported to {path}")


def unquoted(text: str) -> str:
    """A file name as it was typed, perhaps between quotes."""
    text = text.strip()
    return text[1:-1] if len(text) > 1 and text[0] == text[-1] and text[0] in "\"'" else text


COPY_COMMANDS = (
    Command("export", "export the session as HTML, or its branch as .jsonl", _export, "[file]"),
    Command("copy", "copy the last answer, or a code block of it", _copy, "[code [number]]", lambda _: ["code"]),
)

"""Tables of the pages in docs/, made from the definitions that the program itself uses.

A record that is linked to must have its own section: TITLES lists them all, and a record that is missing there is an
error.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from types import NoneType
from typing import Any, get_args, get_type_hints

from docgen.words import Field, WrittenBy, code, defaults, either, fields, in_words, meanings, sentences
from tau.core.agent import queues
from tau.core.models import failures
from tau.core.text import truncate
from tau.llm import http, scripted
from tau.records import commands, deltas, dialogs, entries, events, messages, models, replies, tools
from tau.records.base import Record, UnsetType
from tau.records.settings import IGNORED_SETTINGS, USER_ONLY_SETTINGS, Settings
from tau.rpc.commands import HANDLERS
from tau.runtime.machine import local
from tau.runtime.machine.protected_files import OWN
from tau.runtime.protocol import dispatcher, line_queue, outbox
from tau.runtime.session import user_bash
from tau.screen import bindings, key_table
from tau.store.trust import MCP_FILE, NAMES_NEEDING_TRUST
from tau.tools.registry import DEFAULT_TOOLS, TOOLS
from tau.tui import commands as terminal
from tau.wire import lines
from tau.wire.dialects import DEFAULT as DEFAULT_DIALECT
from tau.wire.dialects.default import Compacted

COMMANDS: tuple[type[commands.Command], ...] = get_args(commands.AnyCommand)
EVENTS: tuple[type[Record], ...] = tuple(DEFAULT_DIALECT.event_types())
DELTAS: tuple[type[Record], ...] = get_args(deltas.AnyDelta)
MESSAGES: tuple[type[Record], ...] = get_args(messages.AnyMessage)
BLOCKS: tuple[type[Record], ...] = (messages.Text, messages.Thinking, messages.Image, messages.ToolCall)
REQUESTS: tuple[type[Record], ...] = get_args(dialogs.AnyUiRequest)
ENTRIES: tuple[type[Record], ...] = get_args(entries.AnyEntry)
IMAGES = (commands.ImageGiven, commands.ImageSource, messages.Attachment)
HOST_TOOLS = (commands.HostTool,)
MODELS = (models.Model, models.Price, models.PriceTier, messages.Usage, messages.UsageCost)
PARTS = (
    replies.TokenSums,
    replies.ContextUsage,
    replies.ForkPoint,
    replies.SessionRow,
    replies.SlashCommand,
    replies.SourceInfo,
    replies.McpServerRow,
    replies.Capabilities,
    replies.ListedTool,
)
OUTCOMES = (events.Outcome, tools.Truncation, Compacted)
SCRIPT = (scripted.Script, scripted.Answer, scripted.ScriptBlock, scripted.ScriptUsage, scripted.ScriptError)


def tag(record: type[Record]) -> str:
    return str(record.__struct_config__.tag)


def _name(record: type[Record]) -> str:
    """Convert a class name to words: "UsageCost" becomes "usage cost"."""
    return re.sub(r"(?<!^)(?=[A-Z])", " ", record.__name__).lower()


TITLES: dict[Any, str] = {
    **{record: tag(record) for record in (*COMMANDS, *EVENTS, *DELTAS)},
    **{record: f"{tag(record)} message" for record in MESSAGES},
    **{record: f"{tag(record)} block" for record in BLOCKS},
    **{record: f"{tag(record)} request" for record in REQUESTS},
    **{record: f"{tag(record)} entry" for record in ENTRIES},
    **{record: _name(record) for record in (*IMAGES, *HOST_TOOLS, *MODELS, *PARTS, *OUTCOMES, *SCRIPT)},
    commands.ImageGiven: "prompt image",
    dialogs.UiResponse: "extension_ui_response",
    entries.Header: "session header",
}
# Unions that have a section: its title, and the name of one member.
UNIONS: dict[Any, tuple[str, str]] = {
    messages.AnyMessage: ("Messages", "message"),
    deltas.AnyDelta: ("Deltas", "delta"),
    entries.AnyEntry: ("Session entries", "entry"),
}
# These are sent as encoded JSON, so their annotations do not say what they hold.
PASSED_ON = {
    (replies.Messages, "messages"): "array of [message](#messages)",
    (replies.Entries, "entries"): "array of [entry](#session-entries)",
    (replies.Tree, "tree"): "array of [node](#nodes-of-the-tree)",
}


def anchor(title: str) -> str:
    """Return the anchor of a heading."""
    return re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-")


def link(kind: Any) -> str | None:
    if kind in UNIONS:
        title, one = UNIONS[kind]
        return f"[{one}](#{anchor(title)})"
    if isinstance(kind, type) and issubclass(kind, Record):
        return f"[{TITLES[kind]}](#{anchor(TITLES[kind])})"
    return None


# Markdown


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


def field_table(record: type[Record], written: WrittenBy) -> str:
    rows = [_known(record, field) for field in fields(record, written, link)]
    return table(("field", "type", "required"), [(f"`{name}`", kind, required_cell(at)) for name, kind, at in rows])


def required_cell(presence: str) -> str:
    """Return a cell of the "required" column: "yes", "no", or "no, default `5`"."""
    return "yes" if presence == "required" else presence.replace("optional", "no", 1)


def _known(record: type[Record], field: Field) -> Field:
    return field._replace(kind=PASSED_ON.get((record, field.name), field.kind))


def _and(names: Sequence[str]) -> str:
    return " and ".join(either([f"`{name}`" for name in names]).split(" or "))


def paragraphs(*parts: str) -> str:
    return "\n\n".join(part for part in parts if part)


def section(record: type[Record], written: WrittenBy) -> str:
    return paragraphs(f"### {TITLES[record]}", sentences(record), field_table(record, written))


def sections(records: Iterable[type[Record]], written: WrittenBy = "by tau") -> Callable[[], str]:
    return lambda: paragraphs(*(section(record, written) for record in records))


# Commands


def reply_of(command: type[commands.Command]) -> Any:
    """Return the type of a command's response data in the default dialect."""
    if command in DEFAULT_DIALECT.replies:
        makes = DEFAULT_DIALECT.replies[command].makes
        return makes[0] if makes else UnsetType
    return HANDLERS.reply_type(command)


def command_sections() -> str:
    return paragraphs(*(paragraphs(section(command, "by the client"), _reply(command)) for command in COMMANDS))


def _reply(command: type[commands.Command]) -> str:
    kind = reply_of(command)
    if kind is NoneType:
        return "In this version, it always fails with an error."
    if kind is UnsetType:
        return "The response has no `data`."
    data = "`data` of the response" + (", or `null`:" if NoneType in get_args(kind) else ":")
    (record,) = [one for one in get_args(kind) or (kind,) if one is not NoneType]
    if record in TITLES:
        return f"{data} {link(record)}."
    return paragraphs(data, sentences(record), field_table(record, "by tau"))


def command_list() -> str:
    rows = [(link(command) or "", _named(command, "by the client"), _summary(command)) for command in COMMANDS]
    return table(("command", "fields", "description"), rows)


def _summary(record: type[Record]) -> str:
    """Return the first paragraph of the docstring, on one line."""
    return " ".join(sentences(record).partition("\n\n")[0].split())


def event_list() -> str:
    rows = [(link(event) or "", _named(event, "by tau"), _summary(event)) for event in EVENTS]
    return table(("event", "fields", "description"), rows)


def _named(record: type[Record], written: WrittenBy) -> str:
    """List the fields on one line, with a question mark after optional ones."""
    listed = fields(record, written, link)[1:]
    return ", ".join(f"`{field.name}`" + ("" if field.presence == "required" else "?") for field in listed)


# Settings, tools, limits


def settings() -> str:
    return table(("setting", "type", "default", "meaning"), settings_rows(Settings))


def settings_rows(record: type[Record], prefix: str = "") -> Iterable[tuple[str, str, str, str]]:
    hints, means = get_type_hints(record), meanings(record)
    for name, wire_name, default in zip(
        record.__struct_fields__, record.__struct_encode_fields__, defaults(record), strict=True
    ):
        if isinstance(default, Record):
            yield from settings_rows(type(default), f"{prefix}{wire_name}.")
        else:
            shown = "" if default is None else code(default)
            yield f"`{prefix}{wire_name}`", in_words(hints[name], link), shown, means.get(name, "")


def settings_of_the_user() -> str:
    return _and(USER_ONLY_SETTINGS)


def settings_without_effect() -> str:
    return _and(IGNORED_SETTINGS)


def needing_trust() -> str:
    return _and([*(f".pi/{name}" for name in NAMES_NEEDING_TRUST), MCP_FILE])


def own_files() -> str:
    return _and(OWN)


def tool_sections() -> str:
    parts = [f"Without `--tools`, the model gets {_and(DEFAULT_TOOLS)}."]
    for tool in TOOLS.values():
        required = tool.parameters.get("required", ())
        rows = [
            (
                f"`{name}`",
                _schema(schema),
                "yes" if name in required else "no",
                schema.get("description", ""),
            )
            for name, schema in tool.parameters["properties"].items()
        ]
        parts += [f"### {tool.name} tool", tool.description, table(("parameter", "type", "required", "meaning"), rows)]
    return paragraphs(*parts)


def _schema(schema: dict[str, Any]) -> str:
    if "enum" in schema:
        return either([code(value) for value in schema["enum"]])
    if schema.get("type") == "array":
        return f"array of {_schema(schema.get('items', {}))}"
    return str(schema.get("type", "any"))


def retry_table() -> str:
    def statuses(rule: failures.Rule) -> str:
        others = len(rule.statuses) > 20  # nearly all of 500 to 599
        named = [str(status) for status in sorted(rule.statuses) if status < 500 or not others]
        return ", ".join([*named, *(["other 5xx"] if others else [])])

    def words(patterns: tuple[str, ...]) -> str:
        return " ".join(f"`{pattern.replace('`', '.')}`" for pattern in patterns)

    return table(
        ("failure", "outcome", "status", "words", "unless"),
        [
            (rule.about, rule.outcome, statuses(rule), words(rule.words), words(rule.unless) or "-")
            for rule in failures.RULES
        ],
    )


def limits() -> str:
    def size(count: int) -> str:
        return f"{count >> 20} MiB" if count >= 1 << 20 else f"{count >> 10} KiB"

    return table(
        ("resource", "limit", "when exceeded"),
        [
            ("an input line", size(lines.MAX_LINE_BYTES), "rejected while it arrives, with one error"),
            ("unprocessed input", size(line_queue.MAX_QUEUED_BYTES), "stdin is not read"),
            ("concurrent commands", str(dispatcher.MAX_CONCURRENT_COMMANDS), "rejected"),
            ("concurrent `bash` commands", str(user_bash.MAX_CONCURRENT), "rejected"),
            ("each message queue", f"{queues.MAX_QUEUED_MESSAGES} messages", "rejected"),
            ("unwritten output", size(outbox.HIGH_WATER_BYTES), "the run waits (backpressure)"),
            ("command output that is shown", f"{truncate.MAX_LINES} lines, {size(truncate.MAX_BYTES)}", "truncated"),
            ("command output that is kept in a file", size(local.SPILL_LIMIT), "truncated"),
            ("a model response", size(http.MAX_RESPONSE_BYTES), "the response ends with an error"),
        ],
    )


def terminal_keys() -> str:
    """The default keys by group; keys of Windows and WSL where they differ."""

    def keys(action: key_table.Action) -> str:
        names = ", ".join(code(bindings.key_label(key)) for key in action.keys) or "none"
        other = action.other_platforms.get("windows")
        return f"{names} (Windows: {', '.join(code(bindings.key_label(key)) for key in other)})" if other else names

    return table(
        ("keys", "what they do", "id"),
        [
            (keys(action), action.description, f"{code(action.id)}{' +' if action.own else ''}")
            for action in key_table.KEYS
        ],
    )


def terminal_commands() -> str:
    return table(
        ("command", "what it does"),
        [(code(f"/{command.name} {command.hint}".strip()), command.about) for command in terminal.COMMANDS],
    )


TABLES: dict[str, Callable[[], str]] = {
    "terminal keys": terminal_keys,
    "terminal commands": terminal_commands,
    "limits": limits,
    "retry": retry_table,
    "images": sections(IMAGES, "by the client"),
    "host tools": sections(HOST_TOOLS, "by the client"),
    "command list": command_list,
    "commands": command_sections,
    "parts of replies": sections(PARTS),
    "event list": event_list,
    "events": sections(EVENTS),
    "deltas": sections(DELTAS),
    "outcomes": sections(OUTCOMES),
    "messages": sections(MESSAGES),
    "blocks": sections(BLOCKS),
    "models": sections(MODELS),
    "requests": sections(REQUESTS),
    "ui response": sections([dialogs.UiResponse], "by the client"),
    "entries": sections([entries.Header, *ENTRIES]),
    "settings": settings,
    "settings of the user": settings_of_the_user,
    "settings without effect": settings_without_effect,
    "needing trust": needing_trust,
    "own files": own_files,
    "script": sections(SCRIPT, "by the client"),
    "tools": tool_sections,
}

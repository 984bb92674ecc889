"""The API reference, docs/api.md: every public name of `tau` and of `tau.sync`, `events`, `extension` and `fleet`.

Signatures and descriptions come from the code. A public name without a docstring is an error, and so is a constant
or type alias that CONSTANTS does not describe.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import MISSING, is_dataclass
from dataclasses import fields as dataclass_fields
from importlib import import_module
from textwrap import indent
from typing import Any, NamedTuple

from docgen.tables import paragraphs, table
from docgen.words import REQUIRED, defaults, meanings
from tau import NAMES, events, extension, fleet, sync
from tau.extension_api.context import SessionView, Ui
from tau.library.opening import open as open_agent
from tau.records.base import Record

# The names that a reader of the reference looks for first; the others follow in alphabetical order.
FIRST = ("open", "Agent", "Run", "Result", "Budget")
# Classes that programs construct by calling them, apart from records.
CONSTRUCTED = ("RpcClient",)
# Values without a docstring of their own.
CONSTANTS = {
    "tau.AgentEvent": "Every event that an agent in this process can send: the union of the classes in `tau.events`.",
    "tau.Answer": "What a dialog handler returns: the chosen option or text, True or False, or None to cancel.",
    "tau.DEFAULT_TOOLS": "The names of the tools that the model gets by default.",
    "tau.Dialog": "What a dialog handler receives: `events.Select`, `Confirm`, `Input` or `Editor`.",
    "tau.RunStopReason": "Why a run ended: `stop` (the regular end), `length`, `budget`, `aborted` or `error`.",
    "tau.events.AnyEvent": "Every event that tau sends.",
    "tau.events.RpcEvent": "Every event that `RpcClient` can receive, including those of other versions of pi.",
    "tau.events.UNSET": "The value of an optional field that is absent; `None` stands for `null`.",
    "tau.events.UnsetType": "The type of `UNSET`, for annotations.",
}


class Member(NamedTuple):
    """A public method or property. `signature` is how it is called."""

    name: str
    signature: str
    doc: str


def undocumented() -> list[str]:
    """Return the public names that have no description."""
    missing = []
    for module, names in public_names().items():
        for name in names:
            value = getattr(import_module(module), name)
            path = f"{module}.{name}"
            if not _doc(value) and path not in CONSTANTS:
                missing.append(path)
            if inspect.isclass(value):
                missing += [f"{path}.{member.name}" for member in members(value) if not member.doc]
    missing += [f"tau.open {name}" for name in _parameters_without_meaning()]
    in_context = [(kind, member) for kind in (Ui, SessionView) for member in members(kind)]
    return missing + [f"{kind.__name__}.{member.name}" for kind, member in in_context if not member.doc]


def _parameters_without_meaning() -> list[str]:
    if not is_dataclass(open_agent):
        return []
    described = meanings(open_agent)
    return [one.name for one in dataclass_fields(open_agent) if one.init and not described.get(one.name)]


def public_names() -> dict[str, list[str]]:
    """Return the public names of each module, without the modules themselves."""
    return {
        "tau": [name for name, place in NAMES.items() if ":" in place],
        "tau.sync": list(sync.__all__),
        "tau.events": list(events.__all__),
        "tau.extension": list(extension.__all__),
        "tau.fleet": list(fleet.NAMES),
    }


def members(kind: type[Any]) -> Iterator[Member]:
    """Yield the public members of a class, those of its own class before inherited ones."""
    seen: set[str] = set()
    for base in kind.__mro__:
        if not base.__module__.startswith("tau"):
            continue
        for name, value in vars(base).items():
            if name.startswith("_") or name in seen or not _is_member(value):
                continue
            seen.add(name)
            yield Member(name, _call(name, value), _doc(value))


def _is_member(value: Any) -> bool:
    is_property = isinstance(value, property) or type(value).__name__ == "peer_property"
    return inspect.isfunction(value) or is_property or isinstance(value, classmethod | staticmethod)


def _doc(value: Any) -> str:
    """Return the docstring of a value itself; inherited ones do not count, nor do those that msgspec or str make."""
    text = value.__dict__.get("__doc__") if inspect.isclass(value) else getattr(value, "__doc__", None)
    if not (inspect.isclass(value) or callable(value) or _is_member(value)):
        return ""
    text = inspect.cleandoc(text or "")
    if inspect.isclass(value) and issubclass(value, Record):  # their docstrings use wire names
        names = dict(zip(value.__struct_encode_fields__, value.__struct_fields__, strict=True))
        text = re.sub(r"`(\w+)`", lambda match: f"`{names.get(match[1], match[1])}`", text)
    return text


def _call(name: str, value: Any) -> str:
    if not inspect.isfunction(value) and not isinstance(value, classmethod | staticmethod):
        return name
    function = value.__func__ if isinstance(value, classmethod | staticmethod) else value
    returned = str(inspect.signature(function).return_annotation)
    question = re.fullmatch(r"Question\[(.*)\]", returned)  # a dialog of an extension
    awaited = inspect.iscoroutinefunction(function) and not hasattr(function, "__wrapped__")
    prefix, returned = "await " if awaited or question else "", question[1] if question else returned
    arrow = "" if returned in ("None", "Any") or "_empty" in returned else f" -> {returned}"
    return f"{prefix}{name}({_parameters(function, skip_first=not isinstance(value, staticmethod))}){arrow}"


def _parameters(function: Callable[..., Any], *, skip_first: bool) -> str:
    listed = list(inspect.signature(function).parameters.values())[skip_first:]
    parts: list[str] = []
    keyword_only = False
    for one in listed:
        if one.kind is one.KEYWORD_ONLY and not keyword_only and not any(part.startswith("*") for part in parts):
            parts.append("*")
            keyword_only = True
        star = "*" if one.kind is one.VAR_POSITIONAL else "**" if one.kind is one.VAR_KEYWORD else ""
        default = "" if one.default is one.empty else f"={_default(one.default)}"
        parts.append(f"{star}{one.name}{default}")
    return ", ".join(parts)


def _default(value: Any) -> str:
    if inspect.isclass(value) or inspect.isfunction(value):
        return value.__name__
    return f"{type(value).__name__}()" if " object at 0x" in repr(value) else repr(value)


# Markdown


def _prose(doc: str) -> str:
    """A docstring as Markdown: indented examples become fenced Python."""
    return re.sub(
        r"(?:^ {4}.*(?:\n|$)|^\n(?= {4}))+",
        lambda match: f"```python fragment\n{inspect.cleandoc(match[0])}\n```\n",
        doc,
        flags=re.MULTILINE,
    ).strip()


def _entry(member: Member) -> str:
    return f"- `{member.signature}`: {indent(_prose(member.doc), '  ').lstrip()}"


def _title(name: str) -> str:
    return f"### {name}"


def class_section(name: str, kind: type[Any]) -> str:
    return paragraphs(_title(name), _prose(_doc(kind)), _fields(kind), "\n".join(map(_entry, members(kind))))


def _fields(kind: type[Any]) -> str:
    if is_dataclass(kind):
        return field_table(kind)
    if kind.__name__ in CONSTRUCTED:
        return f"Parameters: {', '.join(f'`{name}`' for name in _parameters(kind, skip_first=False).split(', '))}."
    if not getattr(kind, "__struct_fields__", ()):
        return ""
    return f"Fields: {_field_names(kind)}."


def field_table(kind: Any) -> str:
    """A table of the fields of a dataclass, with the docstrings below them."""
    described = meanings(kind)
    rows = [
        (f"`{one.name}`", f"`{one.type}`", _field_default(one), described.get(one.name, ""))
        for one in dataclass_fields(kind)
        if one.init
    ]
    return table(("name", "type", "default", "meaning"), rows)


def _field_default(one: Any) -> str:
    if one.default_factory is not MISSING:
        return f"`{one.default_factory()!r}`"
    return "" if one.default is MISSING else f"`{_default(one.default)}`"


def _field_names(kind: type[Record]) -> str:
    shown = [
        f"`{name}`" if default is REQUIRED else f"`{name}={_default(default)}`"
        for name, default in zip(kind.__struct_fields__, defaults(kind), strict=True)
    ]
    return ", ".join(shown)


def _facade_section(name: str, kind: type[Any], peer: type[Any]) -> str:
    """A class with blocking methods: those of its peer are only listed."""
    known = {member.name: member.doc for member in members(peer)}
    own = [member for member in members(kind) if known.get(member.name) != member.doc]
    same = [f"`{member.name}`" for member in members(kind) if member not in own]
    listed = f"The same as in `tau.{peer.__name__}`, but blocking: {', '.join(same)}."
    return paragraphs(_title(name), _prose(_doc(kind)), _fields(kind), "\n".join(map(_entry, own)), listed)


def _constants(module: str, names: Sequence[str]) -> str:
    rows = [(f"`{name}`", CONSTANTS[f"{module}.{name}"]) for name in names if f"{module}.{name}" in CONSTANTS]
    return table(("name", "meaning"), rows)


def _functions(module: str, names: Sequence[str]) -> str:
    found = [(name, getattr(import_module(module), name)) for name in names]
    return "\n".join(
        _entry(Member(name, f"{name}({_parameters(value, skip_first=False)})", _doc(value)))
        for name, value in found
        if inspect.isfunction(value)
    )


def _classes(module: str, names: Sequence[str]) -> list[tuple[str, type[Any]]]:
    found = [(name, getattr(import_module(module), name)) for name in names]
    return [(name, value) for name, value in found if inspect.isclass(value)]


def library() -> str:
    names = public_names()["tau"]
    order = [*FIRST, *(name for name in names if name not in FIRST)]
    classes = [class_section(f"tau.{name}", kind) for name, kind in _classes("tau", order)]
    return paragraphs(
        *classes, _title("Functions and constants of tau"), _functions("tau", names), _constants("tau", names)
    )


def synchronous() -> str:
    names = public_names()["tau.sync"]
    tau = import_module("tau")
    parts = [
        _facade_section(f"tau.sync.{name}", kind, getattr(tau, name))
        if hasattr(tau, name)
        else class_section(f"tau.sync.{name}", kind)
        for name, kind in _classes("tau.sync", names)
    ]
    call = f"- `open(…)`: {_doc(sync.open)}"
    return paragraphs(call, *parts)


def event_classes() -> str:
    names = public_names()["tau.events"]
    rows = [
        (f"`{name}`", _field_names(kind), " ".join(_doc(kind).partition("\n\n")[0].split()))
        for name, kind in _classes("tau.events", names)
        if issubclass(kind, Record)
    ]
    extra = [
        class_section(f"tau.events.{name}", kind)
        for name, kind in _classes("tau.events", names)
        if list(members(kind)) and not hasattr(import_module("tau"), name)
    ]
    return paragraphs(
        _functions("tau.events", names),
        _constants("tau.events", names),
        table(("class", "fields", "description"), rows),
        *extra,
    )


def extensions() -> str:
    inherited = {member.name for member in members(extension.Context)}
    own = [member for member in members(extension.CommandContext) if member.name not in inherited]
    parts = [
        class_section("Pi", extension.Pi),
        class_section("Context", extension.Context),
        paragraphs(
            _title("CommandContext"),
            f"{_doc(extension.CommandContext)} It has all members of `Context`, and these:",
            "\n".join(map(_entry, own)),
        ),
        class_section("ctx.ui", Ui),
        class_section("ctx.session", SessionView),
        class_section("Event", extension.Event),
        _functions("tau.extension", ["escape_markup"]),
    ]
    assert len(parts) == len(public_names()["tau.extension"]) + 2
    return paragraphs(*parts)


def fleets() -> str:
    names = public_names()["tau.fleet"]
    sections = [class_section(f"tau.fleet.{name}", kind) for name, kind in _classes("tau.fleet", names)]
    return paragraphs(_functions("tau.fleet", names), *sections)


TABLES: dict[str, Callable[[], str]] = {
    "library": library,
    "sync": synchronous,
    "events": event_classes,
    "extensions": extensions,
    "fleets": fleets,
}

"""What each setting is, read from its declaration in settings.py: its name, its sentences, and the values it takes.

A menu of settings is made of this. The sentences are in the source only, so they are parsed when a menu is opened.
"""

from __future__ import annotations

import ast
import inspect
import json
from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from types import NoneType, UnionType
from typing import Any, Literal, NamedTuple, Union, get_args, get_origin, get_type_hints

from tau.records import settings
from tau.records.base import Record

Kind = Literal["choice", "number", "text", "list", "json"]
NOT_SET = "not set"


class SettingDeclaration(NamedTuple):
    """`place` is the name in a settings file, such as "retry.maxRetries". `choices` are the values of a choice."""

    place: str
    about: str
    kind: Kind
    choices: tuple[Any, ...] = ()
    nullable: bool = False

    def value_in(self, content: dict[str, Any]) -> Any:
        """The value of this setting in settings as JSON."""
        for name in self.place.split("."):
            content = content[name]
        return content

    def parse(self, text: str) -> Any:
        """The value that a typed text means. Raises ValueError with what is expected."""
        text = text.strip()
        if self.nullable and text in ("", NOT_SET):
            return None
        if self.kind == "choice":
            return self._choice(text)
        if self.kind == "number":
            if not text.isascii() or not text.isdigit():
                raise ValueError(f"{self.place} must be a whole number.")
            return int(text)
        if self.kind == "json":
            return self._json(text)
        if self.kind == "list":
            return [part for part in (part.strip() for part in text.split(",")) if part]
        return text

    def _json(self, text: str) -> Any:
        try:
            value = json.loads(text)
        except ValueError:
            value = None
        if not isinstance(value, dict | list):
            raise ValueError(f"{self.place} is written as JSON, such as {{}} or [].")
        return value

    def text_of(self, value: Any) -> str:
        """A value as it is typed."""
        if value is None:
            return ""
        if self.kind == "json":
            return json.dumps(value, ensure_ascii=False)
        return ", ".join(value) if self.kind == "list" else value_text(value)

    def _choice(self, text: str) -> Any:
        for choice in self.choices:
            if text.lower() == value_text(choice).lower():
                return choice
        words = {"true": True, "yes": True, "false": False, "no": False}
        if text.lower() in words and words[text.lower()] in self.choices:
            return words[text.lower()]
        raise ValueError(f"{self.place} is one of {', '.join(map(value_text, self.choices))}.")

    def next_choice(self, value: Any) -> Any:
        """The choice after `value`; the first one after the last."""
        at = next((at for at, choice in enumerate(self.choices) if choice == value), -1)
        return self.choices[(at + 1) % len(self.choices)]


def value_text(value: Any) -> str:
    """A value of a setting as people read and type it."""
    if value is None:
        return NOT_SET
    if isinstance(value, bool):
        return "on" if value else "off"
    if value == {}:
        return "none"
    if isinstance(value, list):
        return ", ".join(map(value_text, value)) or "none"
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


@cache
def setting_declarations() -> tuple[SettingDeclaration, ...]:
    """Every setting with a value that can be typed or chosen, in the order of the declarations."""
    return tuple(_declared(settings.Settings, ""))


def _declared(record: type[Record], group: str) -> Iterator[SettingDeclaration]:
    hints, sentences = get_type_hints(record), _sentences_by_record().get(record.__name__, {})
    for name, wire_name in zip(record.__struct_fields__, record.__struct_encode_fields__, strict=True):
        hint, place = hints[name], f"{group}{wire_name}"
        if isinstance(hint, type) and issubclass(hint, Record):
            yield from _declared(hint, f"{place}.")
        elif (found := _declaration(place, sentences.get(name, ""), hint)) is not None:
            yield found


def _declaration(place: str, about: str, hint: Any) -> SettingDeclaration | None:
    members = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
    nullable = NoneType in members
    kinds = [member for member in members if member is not NoneType]
    choices = tuple(choice for kind in kinds for choice in _choices(kind))
    if choices:
        return SettingDeclaration(place, about, "choice", ((None,) if nullable else ()) + choices, nullable)
    simple: dict[Any, Kind] = {int: "number", str: "text", list[str]: "list", dict[str, int]: "json", list[Any]: "json"}
    kind = simple.get(kinds[0]) if len(kinds) == 1 else None
    return None if kind is None else SettingDeclaration(place, about, kind, (), nullable)


def _choices(kind: Any) -> tuple[Any, ...]:
    if kind is bool:
        return (True, False)
    return get_args(kind) if get_origin(kind) is Literal else ()


@cache
def _sentences_by_record() -> dict[str, dict[str, str]]:
    """The docstring of each field, by the name of its record; empty if the program has no source."""
    try:
        module = ast.parse(inspect.getsource(settings))
    except (OSError, TypeError):
        return {}
    return {record.name: _sentences(record) for record in module.body if isinstance(record, ast.ClassDef)}


def _sentences(record: ast.ClassDef) -> dict[str, str]:
    return {
        field.target.id: " ".join(inspect.cleandoc(doc.value.value).split())
        for field, doc in pairwise(record.body)
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)
        if isinstance(doc, ast.Expr) and isinstance(doc.value, ast.Constant) and isinstance(doc.value.value, str)
    }

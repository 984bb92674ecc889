"""Record, the base class of wire shapes, and JSON encoding and decoding with msgspec.

Names are snake_case in Python and camelCase on the wire; UNSET means absent, None means null. This is the only module
that imports msgspec, and the place for what the rest of tau must know about it:

- JSON that msgspec rejects but that is valid (lone surrogates, which Node writes) goes through the standard library
  instead.
- A decoded record keeps the bytes it was decoded from (`attach_source`), so that fields of a newer or older peer
  survive a round trip through tau.
- U+2028 and U+2029 are written escaped, because some readers split lines at them.
- Every decoder refuses JSON of more than MAX_NESTING levels (nesting.py), whatever the interpreter could read.
"""

from __future__ import annotations

import json
from _thread import RLock
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import (
    Annotated,
    Any,
    NotRequired,
    Required,
    TypeVar,
    dataclass_transform,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
)

import msgspec
from msgspec import UNSET, Raw, UnsetType, field
from msgspec.structs import astuple, replace
from msgspec.structs import fields as fields_of

from tau.records.display import short_repr
from tau.records.nesting import MAX_NESTING, MAX_RECEIVED_NESTING, too_deep

__all__ = [
    "DECODING_ERRORS",
    "MAX_RECEIVED_NESTING",
    "UNSET",
    "BadRecord",
    "Count",
    "PackedList",
    "Raw",
    "Record",
    "SplicedList",
    "UnsetType",
    "Value",
    "astuple",
    "attach_source",
    "convert",
    "converter",
    "decode",
    "decode_lines",
    "decoder",
    "derive_record",
    "encode",
    "encode_parts",
    "escape_separators",
    "field",
    "left_out",
    "note_left_out",
    "packed_list",
    "parse",
    "parse_text",
    "replace",
    "schema_of",
    "schemas",
    "to_builtins",
    "wire_json",
]

T = TypeVar("T")
MAX_BYTE_SEARCHES = 1000
FIRST_OF_SEPARATOR = 0xE2  # the first byte of U+2028 and U+2029
Count = Annotated[int, msgspec.Meta(ge=0)]


class BadRecord(ValueError):
    """A wire value does not have the declared shape. The message names the offending field."""


TOO_DEEP = "nested too deeply"
DECODING_ERRORS = (msgspec.MsgspecError, UnicodeError, RecursionError)


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
class Record(msgspec.Struct, frozen=True, rename="camel", dict=True):
    """Base class of everything that is read from or written to the wire or a file."""

    def __repr__(self) -> str:
        return short_repr(self)


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
class Value(msgspec.Struct, frozen=True):
    """Base class of values that stay inside the process.

    It offers nothing that a frozen dataclass does not, but declaring a frozen dataclass takes a hundred times as
    long, and every start of the program declares all of them.
    """


_encoder = msgspec.json.Encoder()
_decoders: dict[Any, msgspec.json.Decoder[Any]] = {}
# msgspec describes a class when it is first decoded. A second thread that meets the half-made description crashes the
# interpreter, so one thread at a time does that. A decoder that exists can be used by all.
_describing = RLock()


def encode(value: Any) -> bytes:
    """Encode `value` as one line of JSON, without the newline. Raises BadRecord if it is nested too deeply."""
    try:
        data = _encoder.encode(value)
    except UnicodeEncodeError:  # a lone surrogate, which JSON can only carry escaped
        data = _encode_surrogates(value)
    except RecursionError:
        raise BadRecord(TOO_DEEP) from None
    return escape_separators(data)


def _encode_surrogates(value: Any) -> bytes:
    try:
        return json.dumps(_finite(to_builtins(value)), separators=(",", ":")).encode()
    except RecursionError:
        raise BadRecord(TOO_DEEP) from None


class PackedList:
    """A long list of which all but the last items are encoded already, so that those items can be freed."""

    def __init__(self, parts: list[bytes], rest: list[Any]) -> None:
        self.parts = parts
        self.rest = rest


def packed_list(items: Iterable[Any], length: int = 256) -> list[Any] | PackedList:
    """Return `items` as a list, or as a `PackedList` if there are many. Encodes `length` items at a time."""
    parts: list[bytes] = []
    rest: list[Any] = []
    for item in items:
        rest.append(item)
        if len(rest) == 2 * length:
            parts.append(encode(rest[:length])[1:-1])
            del rest[:length]
    return PackedList(parts, rest) if parts else rest


def encode_parts(value: Mapping[str, Any]) -> Iterator[bytes]:
    """Encode an object that contains packed lists in parts, so that the whole is never copied."""
    separator = b"{"
    for name, item in value.items():
        yield separator + encode(name) + b":"
        separator = b","
        if not isinstance(item, PackedList):
            yield encode(item)
            continue
        yield b"["
        for part in item.parts:
            yield part
            yield b","
        yield encode(item.rest)[1:]
    yield b"{}" if separator == b"{" else b"}"


def escape_separators(data: bytes) -> bytes:
    """Escape U+2028 and U+2029, which can only occur inside JSON strings."""
    if FIRST_OF_SEPARATOR not in data:  # a number: to look for bytes, `in` raises and clears a TypeError each time
        return data
    at = -1
    for _ in range(MAX_BYTE_SEARCHES):  # searching one byte is many times faster than three, if it is rare
        at = data.find(b"\xe2", at + 1)
        if at < 0:
            return data
        if data[at + 1 : at + 3] in (b"\x80\xa8", b"\x80\xa9"):
            break
    return data.replace(b"\xe2\x80\xa8", b"\\u2028").replace(b"\xe2\x80\xa9", b"\\u2029")


def wire_json(record: Record) -> bytes:
    """Return the JSON of a record: the bytes it was decoded from, or else its encoding, which is cached.

    Only for records that are sent several times (messages, entries). Records are frozen, so the bytes stay valid.
    """
    cached: bytes | None = record.__dict__.get("_wire")
    if cached is None:
        cached = record.__dict__["_wire"] = encode(record)
    return cached


def note_left_out(record: T, problems: Sequence[str]) -> T:
    """Note what of its JSON is not in `record`, because it could not be understood, and return it."""
    record.__dict__["_left_out"] = problems
    return record


def left_out(record: object) -> Sequence[str]:
    """What of its JSON is not in `record`: a sentence for each part."""
    return record.__dict__.get("_left_out", ())  # type: ignore[no-any-return]


def attach_source(record: T, data: bytes) -> T:
    """Attach the bytes that `record` was decoded from, and return it."""
    record.__dict__["_wire"] = data
    return record


class SplicedList:
    """A list of encoded JSON items that is written group by group, for lists that are too large to be copied.

    The groups may be read later and from another thread, so they must come from data that does not change, and reading
    them must not fail. `size` is their approximate size in bytes.
    """

    def __init__(self, groups: Iterable[Sequence[bytes]], size: int) -> None:
        self._groups = groups
        self.size = size

    def __iter__(self) -> Iterator[bytes]:
        """Yield pieces of the JSON. Each group is copied once: with its brackets and commas, as one piece."""
        groups = filter(None, self._groups)
        yield b"[" + escape_separators(b",".join(next(groups, ())))
        for group in groups:
            yield escape_separators(b",".join([b"", *group]))
        yield b"]"


def decode(kind: type[T], data: bytes, nesting: int | None = MAX_NESTING) -> T:
    """Decode one JSON value as `kind`. Raises BadRecord, which names the offending field.

    `nesting` limits its levels; None leaves that to the interpreter.
    """
    if nesting is not None and len(data) > nesting and too_deep(data, nesting):
        raise BadRecord(TOO_DEEP)
    try:
        return (_decoders.get(kind) or _decoder(kind)).decode(data)  # type: ignore[no-any-return]
    except msgspec.ValidationError as error:
        raise BadRecord(_sentence(str(error))) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        value = parse(data, nesting)  # raises a readable error, or decodes it with the standard library
    return convert(_with_raw_fields(value, kind), kind)  # type: ignore[no-any-return]


def _with_raw_fields(value: Any, kind: Any) -> Any:
    """A parsed object with JSON for the Raw fields of `kind`: msgspec converts no parsed value to Raw."""
    if not isinstance(value, dict) or not (isinstance(kind, type) and issubclass(kind, msgspec.Struct)):
        return value
    names = [declared.encode_name for declared in fields_of(kind) if declared.type is Raw]
    return {**value, **{name: Raw(encode(value[name])) for name in names if name in value}}


def decoder(kind: type[T]) -> Callable[[bytes], T]:
    """Return the function that decodes values of one kind, without the checks of `decode`, for what is received often.

    It raises one of DECODING_ERRORS. Callers check the nesting, and leave to `decode` or `parse` what it refuses.
    """
    return _decoder(kind).decode


def converter(kind: Any) -> Callable[[Any], Any]:
    """The same for parsed JSON. What the function returns has its parts in common with the value."""
    _decoder(kind)
    return lambda value: msgspec.convert(value, kind)


def decode_lines(kind: type[T], data: bytes | memoryview) -> list[T] | None:
    """Decode newline-separated JSON values, many times faster than one by one. None if any of them is invalid.

    Line boundaries are not checked: a line may hold two values, or part of one. Nesting is not checked either.
    """
    try:
        return _decoder(kind).decode_lines(data)
    except DECODING_ERRORS:
        return None


MAX_INT_DIGITS = 4_000  # Python refuses to parse integers of more than 4300 digits by default


def parse(data: bytes, nesting: int | None = MAX_NESTING) -> Any:
    """Parse any JSON value strictly: no NaN, no invalid UTF-8, at most `nesting` levels. Raises BadRecord."""
    if nesting is not None and len(data) > nesting and too_deep(data, nesting):
        raise BadRecord(TOO_DEEP)
    try:
        return msgspec.json.decode(data)
    except RecursionError:
        raise BadRecord(TOO_DEEP) from None
    except UnicodeDecodeError:
        raise BadRecord("not valid UTF-8") from None
    except msgspec.MsgspecError:
        pass  # msgspec also rejects lone surrogates, which are valid JSON
    try:
        return json.loads(data.decode(), parse_constant=_no_constant, parse_float=_finite_float)
    except RecursionError:
        raise BadRecord(TOO_DEEP) from None
    except UnicodeDecodeError:
        raise BadRecord("not valid UTF-8") from None
    except ValueError as error:
        raise BadRecord(str(error)) from None


def parse_stored(line: bytes, nesting: int | None = MAX_NESTING) -> Any:
    """Parse a line of a session file. Numbers that Python cannot hold become null instead of failing the line.

    Opening a session decodes only part of each line (records/lines.py), so such a number is first met here.
    """
    try:
        return parse(line, nesting)
    except BadRecord as error:
        if str(error) == TOO_DEEP:
            raise
    try:
        return json.loads(
            line.decode(), parse_constant=_no_constant, parse_float=_float_or_none, parse_int=_int_or_none
        )
    except (ValueError, RecursionError) as error:
        raise BadRecord(str(error)) from None


def parse_text(text: str, nesting: int | None = MAX_NESTING) -> Any:
    """Parse JSON text that may contain surrogates; adjacent halves of a pair are joined into one character.

    Raises BadRecord.
    """
    try:
        return parse(text.encode(), nesting)
    except UnicodeEncodeError:
        repaired = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
    if nesting is not None and too_deep(repaired.encode("utf-8", "surrogatepass"), nesting):
        raise BadRecord(TOO_DEEP)
    try:
        return json.loads(repaired, parse_constant=_no_constant, parse_float=_finite_float)
    except (ValueError, RecursionError) as error:
        raise BadRecord(str(error)) from None


def derive_record(
    kind: type[T],
    *,
    without: Iterable[str] = (),
    renamed: Mapping[str, str] | None = None,
    types: Mapping[str, Any] | None = None,
    tag: str | None = None,
    name: str | None = None,
) -> type[T]:
    """Return a record type like `kind` with some fields removed, renamed or retyped, or with another tag or name.

    For versions of the protocol that differ from ours in a field or two.
    """
    config = kind.__struct_config__  # type: ignore[attr-defined]
    removed, names = set(without), renamed or {}
    # As they are written: msgspec evaluates them in the module of `kind` when it needs them. Read as an attribute:
    # in Python 3.14 they are not in the namespace of a class whose module does not import them from `__future__`.
    written = {
        name: text for base in reversed(kind.__mro__) for name, text in getattr(base, "__annotations__", {}).items()
    }
    written.update(types or {})
    fields = [
        (names.get(name, name), written[name], *default)
        for name, *default in _declared_fields(kind)
        if name not in removed
    ]
    carries = tuple(names.get(name, name) for name in getattr(kind, "carries", ()))
    namespace = {"__doc__": kind.__doc__, "carries": carries}
    base: Any = kind.__bases__[0]
    record: Any = msgspec.defstruct(
        name or kind.__name__,
        fields,
        bases=(base,),
        namespace=namespace,
        module=kind.__module__,
        tag=tag or config.tag,
        tag_field=config.tag_field,
    )
    return record  # type: ignore[no-any-return]


def _declared_fields(kind: Any) -> Iterator[tuple[Any, ...]]:
    """Yield the name of each field, and its default if it has one. Unlike `fields_of`, without evaluating types."""
    names, defaults = kind.__struct_fields__, kind.__struct_defaults__
    required = len(names) - len(defaults)
    for at, name in enumerate(names):
        default = msgspec.NODEFAULT if at < required else defaults[at - required]
        if default is msgspec.NODEFAULT:
            yield (name,)
        else:
            made = getattr(default, "factory", None)  # of a default that is made for each record
            yield (name, default if made is None else msgspec.field(default_factory=made))


OPEN_TYPES = {object: {"title": "Any"}, Iterable: {"type": "array"}}  # values of these are not converted


def schemas(kinds: Iterable[Any], ref_template: str = "#/$defs/{name}") -> tuple[list[Any], dict[str, Any]]:
    """Return the JSON Schema of each kind, and the definitions that they share. Raises TypeError if one has none.

    pydantic describes its own models. `Annotated[int, "how many"]` describes a kind or a field.
    """
    types = tuple(kinds)
    plain: list[type] = []
    foreign: list[tuple[str, Any]] = []

    def hook(part: type) -> dict[str, Any]:
        if part in OPEN_TYPES:
            return OPEN_TYPES[part]
        if hasattr(part, "model_json_schema"):  # pydantic, without importing it
            schema = dict(part.model_json_schema())
            foreign.extend(schema.pop("$defs", {}).items())
            return schema
        plain.append(part)
        raise NotImplementedError  # msgspec goes on if the type is annotated with a schema, else it raises TypeError

    try:
        with _describing:
            components, shared = msgspec.json.schema_components(types, schema_hook=hook, ref_template=ref_template)
    except RecursionError:
        raise TypeError("the type is nested too deeply, or an alias of itself; use a TypedDict or Any") from None
    except TypeError:
        if not plain:
            raise
        remedy = "use a dataclass, a TypedDict, a msgspec Struct or a pydantic model"
        raise TypeError(f"{plain[-1].__qualname__} has no JSON Schema; {remedy}") from None
    for name, definition in foreign:
        if shared.setdefault(name, definition) != definition:
            raise TypeError(f"two types are named {name}; rename one")
    for kind, hints in _fields(types).items():
        definition = shared.get(kind.__name__, {})
        properties = definition.get("properties", {})
        if "required" in definition:
            definition["required"] = [
                name for name in definition["required"] if UnsetType not in get_args(hints.get(name))
            ]
        properties.update({name: _described(properties[name], hints[name]) for name in properties.keys() & hints})
    return list(map(_described, components, types)), shared


def _described(schema: dict[str, Any], hint: Any) -> dict[str, Any]:
    if get_origin(hint) in (Required, NotRequired):
        hint = get_args(hint)[0]
    notes = [note for note in getattr(hint, "__metadata__", ()) if isinstance(note, str)]
    return {**schema, "description": notes[0]} if notes else schema


def _fields(kinds: Iterable[Any]) -> dict[Any, dict[str, Any]]:
    """Return the fields of all classes that have some, among `kinds` and, recursively, in their fields."""
    found: dict[Any, dict[str, Any]] = {}
    pending = list(kinds)
    while pending:
        kind = pending.pop()
        if not isinstance(kind, type) or get_args(kind):
            pending += get_args(kind)
        elif kind not in found:
            if issubclass(kind, msgspec.Struct):
                found[kind] = {declared.encode_name: declared.type for declared in fields_of(kind)}
            elif is_typeddict(kind) or hasattr(kind, "__dataclass_fields__"):
                found[kind] = get_type_hints(kind, include_extras=True)
            pending += found.get(kind, {}).values()
    return found


def convert(value: Any, kind: Any) -> Any:
    """Convert a parsed JSON value to `kind`: any type that has a schema. Raises BadRecord."""
    try:
        with _describing:
            msgspec.json.Decoder(kind)
        try:
            return msgspec.convert(value, kind, str_keys=True, dec_hook=_from_json)
        except UnicodeEncodeError:  # a lone surrogate in a string
            return msgspec.convert(_replace_surrogates(value), kind, str_keys=True, dec_hook=_from_json)
    except msgspec.ValidationError as error:
        raise BadRecord(_sentence(str(error))) from None
    except RecursionError:
        raise BadRecord(TOO_DEEP) from None


def _from_json(kind: Any, value: Any) -> Any:
    return kind.model_validate(value) if hasattr(kind, "model_validate") else value


def schema_of(kind: Any) -> dict[str, Any]:
    """Return the JSON Schema of `kind`. Raises TypeError if it has none."""
    (schema,), shared = schemas([kind])
    return {**schema, "$defs": shared} if shared else schema


def to_builtins(value: Any) -> Any:
    """Convert a record to dicts, lists and scalars, with wire names."""
    return msgspec.to_builtins(value, enc_hook=_unpack)


def _decoder(kind: Any) -> msgspec.json.Decoder[Any]:
    found = _decoders.get(kind)
    if found is None:
        with _describing:
            found = _decoders[kind] = msgspec.json.Decoder(kind)
    return found


def _unpack(value: Any) -> Any:
    if isinstance(value, Raw):
        return json.loads(bytes(value))
    raise TypeError(f"{type(value).__name__} cannot be written as JSON")


def _finite(value: Any) -> Any:
    """Replace NaN and infinities, which JSON does not have, by null, as msgspec does."""
    if isinstance(value, float):
        return value if value - value == 0 else None
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return value


def _replace_surrogates(value: Any) -> Any:
    """Replace each lone surrogate by a question mark."""
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, dict):
        return {_replace_surrogates(key): _replace_surrogates(item) for key, item in value.items()}
    return [_replace_surrogates(item) for item in value] if isinstance(value, list) else value


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not a JSON value")


def _float_or_none(digits: str) -> float | None:
    value = float(digits)
    return value if value - value == 0 else None


def _int_or_none(digits: str) -> int | None:
    return int(digits) if len(digits) <= MAX_INT_DIGITS else None


def _finite_float(text: str) -> float:
    number = float(text)
    if number - number != 0:
        raise ValueError(f"number out of range: {text[:40]}")
    return number


def _sentence(text: str) -> str:
    """Rewrite a msgspec error with the field first: "images[0].data: expected str, got int"."""
    problem, _, place = text.partition(" - at `$")
    place = place.removesuffix("`").lstrip(".")
    problem = problem.replace("`", "")
    problem = problem[:1].lower() + problem[1:]
    if problem.startswith("object missing required field "):
        name = problem.rpartition(" ")[2]
        return f"{place}.{name}: missing" if place else f"{name}: missing"
    return f"{place}: {problem}" if place else problem

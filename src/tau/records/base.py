"""Record: one declaration per wire shape.

snake_case inside, camelCase on the wire; UNSET is absent, None is null. msgspec
does the work, and everything the rest of tau must know about it stands here:

- what msgspec refuses (lone surrogates, which Node writes) goes through the
  standard library instead, so that nothing fails for its spelling;
- a record that was read keeps the bytes it was read from (`keep`), so that
  fields of a newer or older peer survive a trip through this program;
- U+2028 and U+2029 are written escaped: some readers take them for line ends;
- every reader refuses JSON of more than MAX_NESTING levels (nesting.py), whatever
  the interpreter could read.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated, Any, TypeVar, dataclass_transform, get_args

import msgspec
from msgspec import UNSET, Raw, UnsetType, field
from msgspec.structs import astuple, replace
from msgspec.structs import fields as fields_of

from tau.records.nesting import MAX_NESTING, MAX_RECEIVED_NESTING, too_deep

__all__ = [
    "MAX_RECEIVED_NESTING",
    "UNSET",
    "BadRecord",
    "Count",
    "Packed",
    "Raw",
    "Record",
    "Spliced",
    "UnsetType",
    "Value",
    "astuple",
    "convert",
    "decode",
    "decode_lines",
    "derived",
    "encode",
    "encode_parts",
    "field",
    "keep",
    "one_line",
    "packed",
    "parse",
    "parse_text",
    "plain",
    "replace",
    "schema_of",
    "schemas",
    "wire",
]

T = TypeVar("T")
FEW = 1000
Count = Annotated[int, msgspec.Meta(ge=0)]


class BadRecord(ValueError):
    """A wire value does not have the declared shape; str() names the place."""


TOO_DEEP = "nested too deeply"


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
class Record(msgspec.Struct, frozen=True, rename="camel", dict=True):
    """Base of everything that is read or written."""


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
class Value(msgspec.Struct, frozen=True):
    """Base of what passes between parts of the program and never leaves it.

    Nothing is done with it that a frozen dataclass could not do, but declaring one
    of those takes a hundred times as long, and each start declares all of them.
    """


_encoder = msgspec.json.Encoder()
_decoders: dict[Any, msgspec.json.Decoder[Any]] = {}


def encode(value: Any) -> bytes:
    """`value` as one line of JSON, without the newline. BadRecord if it is nested deeper than the interpreter goes."""
    try:
        data = _encoder.encode(value)
    except UnicodeEncodeError:  # a lone surrogate: JSON can carry it only escaped
        data = _encode_surrogates(value)
    except RecursionError:
        raise BadRecord(TOO_DEEP) from None
    return one_line(data)


def _encode_surrogates(value: Any) -> bytes:
    try:
        return json.dumps(_finite(plain(value)), separators=(",", ":")).encode()
    except RecursionError:
        raise BadRecord(TOO_DEEP) from None


class Packed:
    """A long list that is JSON already but for its last items: what it was made of need not be kept."""

    def __init__(self, parts: list[bytes], rest: list[Any]) -> None:
        self.parts = parts
        self.rest = rest


def packed(items: Iterable[Any], length: int = 256) -> list[Any] | Packed:
    """A list of `items`; packed if there are many."""
    parts: list[bytes] = []
    rest: list[Any] = []
    for item in items:
        rest.append(item)
        if len(rest) == 2 * length:
            parts.append(encode(rest[:length])[1:-1])
            del rest[:length]
    return Packed(parts, rest) if parts else rest


def encode_parts(value: Mapping[str, Any]) -> Iterator[bytes]:
    """An object with packed lists in it, part by part: so that the whole is never copied."""
    between = b"{"
    for name, item in value.items():
        yield between + encode(name) + b":"
        between = b","
        if not isinstance(item, Packed):
            yield encode(item)
            continue
        yield b"["
        for part in item.parts:
            yield part
            yield b","
        yield encode(item.rest)[1:]
    yield b"{}" if between == b"{" else b"}"


def one_line(data: bytes) -> bytes:
    """JSON without the separators U+2028 and U+2029, which can only stand inside strings."""
    at = -1
    for _ in range(FEW):  # looking for one byte is many times faster than for three, if there are not many of it
        at = data.find(b"\xe2", at + 1)
        if at < 0:
            return data
        if data[at + 1 : at + 3] in (b"\x80\xa8", b"\x80\xa9"):
            break
    return data.replace(b"\xe2\x80\xa8", b"\\u2028").replace(b"\xe2\x80\xa9", b"\\u2029")


def wire(record: Record) -> bytes:
    """The JSON of a record: the bytes it was read from if it was read, else encoded once and kept.

    Only for records that are passed on several times (messages, entries): they
    are frozen, so their bytes cannot become wrong.
    """
    kept: bytes | None = record.__dict__.get("_wire")
    if kept is None:
        kept = record.__dict__["_wire"] = encode(record)
    return kept


def keep(record: T, data: bytes) -> T:
    """Remember what `record` was read from."""
    record.__dict__["_wire"] = data
    return record


class Spliced:
    """A list that is JSON already, handed over piece by piece: for what is too large to be copied.

    The pieces may be asked for later and by another thread, so they come from what
    does not change, and never fail. `size` is about how many bytes they are.
    """

    def __init__(self, items: Iterable[bytes], size: int) -> None:
        self._items = items
        self.size = size

    def __iter__(self) -> Iterator[bytes]:
        between = b"["
        for item in self._items:
            yield between + item
            between = b","
        yield b"]" if between == b"," else b"[]"


def decode(kind: type[T], data: bytes, nesting: int | None = MAX_NESTING) -> T:
    """Read one JSON value as `kind`, or raise BadRecord with the place that is wrong.

    `nesting` is how many levels it may have; None leaves that to the interpreter.
    """
    if nesting is not None and len(data) > nesting and too_deep(data, nesting):
        raise BadRecord(TOO_DEEP)
    try:
        return _decoder(kind).decode(data)  # type: ignore[no-any-return]
    except msgspec.ValidationError as error:
        raise BadRecord(_sentence(str(error))) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        value = parse(data, nesting)  # says what is wrong, or reads it another way
    try:
        try:
            return msgspec.convert(value, kind)
        except UnicodeEncodeError:  # half a character where none can stand
            return msgspec.convert(_mended(value), kind)
    except msgspec.ValidationError as error:
        raise BadRecord(_sentence(str(error))) from None
    except RecursionError:
        raise BadRecord(TOO_DEEP) from None


def decode_lines(kind: type[T], data: bytes | memoryview) -> list[T] | None:
    """Values one after the other, at many times the speed of one by one; None if anything is wrong with them.

    Where one ends and the next begins is not looked at: a line may hold two, or half of one. Nor is the nesting.
    """
    try:
        return _decoder(kind).decode_lines(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None


MOST_DIGITS = 4_000  # Python reads integers of no more than some thousand


def parse(data: bytes, nesting: int | None = MAX_NESTING) -> Any:
    """Any JSON value, strictly: no NaN, no invalid UTF-8, no more levels than `nesting`."""
    if nesting is not None and len(data) > nesting and too_deep(data, nesting):
        raise BadRecord(TOO_DEEP)
    try:
        return msgspec.json.decode(data)
    except RecursionError:
        raise BadRecord(TOO_DEEP) from None
    except UnicodeDecodeError:
        raise BadRecord("not valid UTF-8") from None
    except msgspec.MsgspecError:
        pass  # it also refuses lone surrogates, which are valid JSON text
    try:
        return json.loads(data.decode(), parse_constant=_no_constant, parse_float=_finite_float)
    except RecursionError:
        raise BadRecord(TOO_DEEP) from None
    except UnicodeDecodeError:
        raise BadRecord("not valid UTF-8") from None
    except ValueError as error:
        raise BadRecord(str(error)) from None


def parse_stored(line: bytes, nesting: int | None = MAX_NESTING) -> Any:
    """The same for what stands in a session: a number that no program can hold is null there, and the rest is read.

    Only as much of a stored line is looked at as it must be (records/lines.py), so this is where it would be met.
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
    """The same for text, which may come with surrogates: two halves that met are one character."""
    try:
        return parse(text.encode(), nesting)
    except UnicodeEncodeError:
        whole = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
    if nesting is not None and too_deep(whole.encode("utf-8", "surrogatepass"), nesting):
        raise BadRecord(TOO_DEEP)
    try:
        return json.loads(whole, parse_constant=_no_constant, parse_float=_finite_float)
    except (ValueError, RecursionError) as error:
        raise BadRecord(str(error)) from None


def derived(
    kind: type[T],
    *,
    without: Iterable[str] = (),
    renamed: Mapping[str, str] | None = None,
    types: Mapping[str, Any] | None = None,
    tag: str | None = None,
    name: str | None = None,
) -> type[T]:
    """A record like `kind` with fewer fields, or other names or types for some, or another tag or name.

    For older or newer versions of the protocol, which differ from ours in a field or two.
    """
    config = kind.__struct_config__  # type: ignore[attr-defined]
    left_out, names, other = set(without), renamed or {}, types or {}
    fields: list[Any] = []
    for part in fields_of(kind):  # type: ignore[arg-type]
        if part.name not in left_out:
            declared: list[Any] = [names.get(part.name, part.name), other.get(part.name, part.type)]
            if part.default is not msgspec.NODEFAULT:
                declared.append(part.default)
            elif part.default_factory is not msgspec.NODEFAULT:
                declared.append(msgspec.field(default_factory=part.default_factory))
            fields.append(tuple(declared))
    carries = tuple(names.get(name, name) for name in getattr(kind, "carries", ()))
    space = {"__doc__": kind.__doc__, "carries": carries}
    base: Any = kind.__bases__[0]
    made: Any = msgspec.defstruct(
        name or kind.__name__,
        fields,
        bases=(base,),
        namespace=space,
        module=kind.__module__,
        tag=tag or config.tag,
        tag_field=config.tag_field,
    )
    return made  # type: ignore[no-any-return]


def schemas(kinds: Iterable[Any], place: str = "#/$defs/{name}") -> tuple[list[Any], dict[str, Any]]:
    """The JSON Schema of each kind, and the definitions that they share."""
    wanted = tuple(kinds)
    listed, shared = msgspec.json.schema_components(wanted, ref_template=place)
    for record in _records(wanted):
        absent = {part.encode_name for part in fields_of(record) if UnsetType in get_args(part.type)}
        definition = shared[record.__name__]
        definition["required"] = [name for name in definition["required"] if name not in absent]
    return list(listed), shared


def _records(kinds: Iterable[Any]) -> set[Any]:
    """Every record among these kinds, and in their fields."""
    found: set[Any] = set()
    waiting = list(kinds)
    while waiting:
        kind = waiting.pop()
        if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
            if kind not in found:
                found.add(kind)
                waiting += [part.type for part in fields_of(kind)]
        else:
            waiting += get_args(kind)
    return found


def convert(value: Any, kind: Any) -> Any:
    """A value of JSON as `kind`: a struct, a dataclass, a TypedDict. Raises BadRecord."""
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        raise BadRecord(_sentence(str(error))) from None


def schema_of(kind: Any) -> dict[str, Any]:
    """The JSON schema of such a kind; TypeError if it has none."""
    return msgspec.json.schema(kind)


def plain(value: Any) -> Any:
    """A record as dicts, lists and scalars, in wire names."""
    return msgspec.to_builtins(value, enc_hook=_unpack)


def _decoder(kind: Any) -> msgspec.json.Decoder[Any]:
    found = _decoders.get(kind)
    if found is None:
        found = _decoders[kind] = msgspec.json.Decoder(kind)
    return found


def _unpack(value: Any) -> Any:
    if isinstance(value, Raw):
        return json.loads(bytes(value))
    raise TypeError(f"{type(value).__name__} cannot be written as JSON")


def _finite(value: Any) -> Any:
    """NaN and the infinities are no JSON; msgspec writes null for them and so do we."""
    if isinstance(value, float):
        return value if value - value == 0 else None
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return value


def _mended(value: Any) -> Any:
    """With a question mark for each lone surrogate."""
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, dict):
        return {_mended(key): _mended(item) for key, item in value.items()}
    return [_mended(item) for item in value] if isinstance(value, list) else value


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON value")


def _float_or_none(digits: str) -> float | None:
    value = float(digits)
    return value if value - value == 0 else None


def _int_or_none(digits: str) -> int | None:
    return int(digits) if len(digits) <= MOST_DIGITS else None


def _finite_float(text: str) -> float:
    number = float(text)
    if number - number != 0:
        raise ValueError(f"number out of range: {text[:40]}")
    return number


def _sentence(text: str) -> str:
    """msgspec's words, with the place first: "images[0].data: expected str, got int"."""
    what, _, place = text.partition(" - at `$")
    place = place.removesuffix("`").lstrip(".")
    what = what.replace("`", "")
    what = what[:1].lower() + what[1:]
    if what.startswith("object missing required field "):
        name = what.rpartition(" ")[2]
        return f"{place}.{name}: missing" if place else f"{name}: missing"
    return f"{place}: {what}" if place else what

"""Bytes of a terminal -> keys, pastes, focus changes and replies.

The events do not depend on how the bytes were cut into reads, with one exception: as long as the terminal has not
shown that it brackets pastes, three lines in one read count as a paste.

A sequence that is not finished is held back. `flush` ends the wait for the few beginnings that are also keys (ESC
alone, ESC [ as Alt+[, …); the beginning of a reply stays, so that a late rest is never taken for keys. A control
character ends every unfinished sequence, so the keyboard cannot get stuck behind one.
"""

from __future__ import annotations

import re
from codecs import getincrementaldecoder

from tau.screen.input_events import InputEvent, Key, Paste, Reply
from tau.screen.key_sequences import (
    control_key,
    csi_event,
    is_ss3_final,
    linux_function_key,
    ss3_event,
    string_event,
    text_key,
    with_alt,
)

MAX_SEQUENCE_BYTES = 4096
MAX_PASTE_BYTES = 16 * 1024 * 1024  # the rest of a longer paste is dropped
PASTE_START = b"\x1b[200~"
PASTE_END = b"\x1b[201~"
BURST_LINES = 3

_CSI = re.compile(rb"\x1b\[([0-?]*)([ -/]*)([@-~])?")
_RXVT_SHIFT = re.compile(rb"\x1b\[[0-9]+\$")  # the only key whose final byte is an intermediate byte
_DOUBLE_CSI = re.compile(rb"\x1b\[\[([0-9]*)([@-~])?")
_SS3 = re.compile(rb"\x1bO([0-9;]*)(.)?", re.DOTALL)
_STRING = re.compile(rb"\x1b([]P_])([^\x00-\x1f\x7f]*)(\x07|\x1b\\|\x1b\Z)?")
# What a reply begins with; anything else after ESC ], ESC P and ESC _ is Alt with a key.
_STRING_BEGINS = {b"]": b"0123456789", b"P": b">0123456789!$+", b"_": b"G"}
_TEXT = re.compile(rb"[ -~\x80-\xff]+")
_BURST = re.compile(rb"[\t\n\r -~\x80-\xff]+")
_NOT_PASTED = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")
# Beginnings of sequences that are keys when nothing follows.
_KEYS_IF_ALONE = tuple(
    prefix + rest for prefix in (b"\x1b", b"\x1b\x1b") for rest in (b"", b"[", b"O", b"]", b"P", b"_")
)
_ASCII_KEYS = {code: text_key(chr(code)) for code in range(32, 127)}


class KeyDecoder:
    def __init__(self) -> None:
        self._held = b""  # the beginning of a sequence
        self._utf8 = getincrementaldecoder("utf-8")("replace")
        self._alt_text = False  # the character that the UTF-8 decoder waits for came after an ESC
        self._paste: _PasteCollector | None = None
        self._brackets_pastes = False

    @property
    def pending_escape(self) -> bool:
        """Whether `flush` would give keys."""
        return self._held in _KEYS_IF_ALONE

    @property
    def in_paste(self) -> bool:
        return self._paste is not None

    def feed(self, data: bytes) -> list[InputEvent]:
        if not self._brackets_pastes and not self._held and self._paste is None and _is_burst(data):
            return self._burst(data)
        events: list[InputEvent] = []
        while data:
            data = self._keys(data, events) if self._paste is None else self._pasted(self._paste, data, events)
        return events

    def flush(self) -> list[InputEvent]:
        """The escape timeout has passed: what can be a key by itself is one."""
        if not self.pending_escape:
            return []
        held, self._held = self._held, b""
        if held == b"\x1b\x1b":
            return [control_key(27), control_key(27)]
        events: list[InputEvent] = [control_key(27)] * (held.count(b"\x1b") - 1)
        rest = held.lstrip(b"\x1b")
        return [*events, with_alt(text_key(rest.decode())) if rest else control_key(27)]

    def end_paste(self) -> list[InputEvent]:
        """The end of a paste did not arrive: give what was collected."""
        if self._paste is None:
            return []
        text, self._paste = self._paste.text(), None
        return [Paste(text)]

    def _burst(self, data: bytes) -> list[InputEvent]:
        text = self._utf8.decode(data)
        return [Paste(pasted_text(text))]

    def _pasted(self, paste: _PasteCollector, data: bytes, events: list[InputEvent]) -> bytes:
        rest = paste.feed(data)
        if rest is None:
            return b""
        events.append(Paste(paste.text()))
        self._paste = None
        return rest

    def _keys(self, data: bytes, events: list[InputEvent]) -> bytes:
        """Decode up to the start of a paste. Returns what is left for it."""
        data, self._held = self._held + data, b""
        position = 0
        while position < len(data):
            byte = data[position]
            if byte == 27:
                self._end_text(events)
                length = self._escape(data, position, events)
                if length == 0:
                    self._held = _bounded(data[position:])
                    return b""
                position += length
                if self._paste is not None:
                    return data[position:]
            elif 32 <= byte != 127:
                match = _TEXT.match(data, position)
                assert match
                self._text(match[0], events)
                position = match.end()
            else:
                self._end_text(events)
                events.append(control_key(byte))
                position += 1
        return b""

    def _text(self, data: bytes, events: list[InputEvent]) -> None:
        if data.isascii() and not self._alt_text and not self._utf8.getstate()[0]:
            events.extend([_ASCII_KEYS[byte] for byte in data])
            return
        self._characters(self._utf8.decode(data), events)

    def _end_text(self, events: list[InputEvent]) -> None:
        """A control character or ESC ends an unfinished UTF-8 character."""
        if self._utf8.getstate()[0]:
            self._characters(self._utf8.decode(b"", True), events)
            self._utf8.reset()
        self._alt_text = False

    def _characters(self, text: str, events: list[InputEvent]) -> None:
        for character in text:
            if "\x80" <= character < "\xa0":
                continue
            key: InputEvent = text_key(character)
            if self._alt_text:
                key, self._alt_text = with_alt(key), False
            events.append(key)

    def _escape(self, data: bytes, start: int, events: list[InputEvent]) -> int:
        """The length of the sequence at `start`; 0 if more bytes are needed."""
        following = data[start + 1 : start + 2]
        if following == b"\x1b":
            return self._double_escape(data, start, events)
        if not following:
            return 0
        if following == b"[":
            return self._csi(data, start, events)
        if following == b"O":
            return self._ss3(data, start, events)
        if following in _STRING_BEGINS:
            return self._string(data, start, events)
        byte = following[0]
        if byte >= 0x80:
            self._alt_text = True  # the character follows as text
            return 1
        events.append(with_alt(control_key(byte) if byte < 32 or byte == 127 else _ASCII_KEYS[byte]))
        return 2

    def _double_escape(self, data: bytes, start: int, events: list[InputEvent]) -> int:
        """ESC ESC [ … is Alt with a named key (rxvt, macOS); before anything else the first ESC is a key."""
        third = data[start + 2 : start + 3]
        if not third:
            return 0
        if third in (b"[", b"O"):
            inner: list[InputEvent] = []
            length = self._escape(data, start + 1, inner)
            if length == 0:
                return 0
            if inner and isinstance(inner[0], Key) and self._paste is None:
                events.extend(map(with_alt, inner))
            else:
                events.extend([control_key(27), *inner])
            return length + 1
        events.append(control_key(27))
        return 1

    def _csi(self, data: bytes, start: int, events: list[InputEvent]) -> int:
        if rxvt := _RXVT_SHIFT.match(data, start):
            self._add(csi_event(rxvt[0][2:-1].decode(), "", "$"), events)
            return rxvt.end() - start
        match = _CSI.match(data, start)
        assert match
        end = match.end()
        if match[3] is None:
            if end == len(data):
                return 0
            if end - start == 2:
                events.append(with_alt(text_key("[")))
            return end - start  # broken off by a control character or a byte of UTF-8
        if match[3] in (b"[", b"M") and end - start == 3:
            return self._csi_with_more(data, start, events)
        if end - start > MAX_SEQUENCE_BYTES:
            return end - start
        if match[0] == PASTE_START:
            self._brackets_pastes = True
            self._paste = _PasteCollector()
        else:
            self._add(csi_event(match[1].decode(), match[2].decode(), match[3].decode()), events)
        return end - start

    def _csi_with_more(self, data: bytes, start: int, events: list[InputEvent]) -> int:
        """CSI [ and a letter: F1 to F5 of the Linux console; with a number it is as one CSI (PuTTY).

        CSI M and three bytes: an old report of the mouse.
        """
        if data[start + 2 : start + 3] == b"M":
            return 6 if len(data) >= start + 6 else 0
        match = _DOUBLE_CSI.match(data, start)
        assert match
        if match[1]:
            if match[2] is None:
                return 0 if match.end() == len(data) else match.end() - start
            self._add(csi_event(match[1].decode(), "", match[2].decode()), events)
            return match.end() - start
        if len(data) == start + 3:
            return 0
        self._add(linux_function_key(chr(data[start + 3])), events)
        return 4 if 32 <= data[start + 3] < 127 else 3

    def _ss3(self, data: bytes, start: int, events: list[InputEvent]) -> int:
        match = _SS3.match(data, start)
        assert match
        parameters, final = match[1].decode(), match[2]
        if final is None:
            return 0
        if not is_ss3_final(final.decode("latin-1")):
            if not parameters:
                events.append(with_alt(text_key("O")))
            return match.end() - 1 - start
        self._add(ss3_event(parameters, final.decode()), events)
        return match.end() - start

    def _string(self, data: bytes, start: int, events: list[InputEvent]) -> int:
        match = _STRING.match(data, start)
        assert match
        kind, content, end = match[1], match[2], match[3]
        first = data[start + 2 : start + 3]
        if not first:
            return 0
        if first not in _STRING_BEGINS[kind]:
            events.append(with_alt(text_key(kind.decode())))
            return 2
        if end in (b"\x07", b"\x1b\\"):
            if len(content) <= MAX_SEQUENCE_BYTES:
                self._add(string_event(kind.decode(), content.decode("utf-8", "replace")), events)
            return match.end() - start
        if match.end() == len(data):
            return 0
        return match.end() - start  # broken off by another control character

    def _add(self, event: InputEvent | None, events: list[InputEvent]) -> None:
        if event is None:
            return
        if isinstance(event, Reply) and event.name == "mode" and event.value in ("2004;1", "2004;2", "2004;3"):
            self._brackets_pastes = True
        events.append(event)


class _PasteCollector:
    """The bytes of a paste up to PASTE_END, which may arrive in parts."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._size = 0
        self._tail = b""  # the end of what has arrived: it may be the beginning of PASTE_END

    def feed(self, data: bytes) -> bytes | None:
        """None while the paste goes on; then the bytes after its end."""
        data = self._tail + data
        end = data.find(PASTE_END)
        if end >= 0:
            self._keep(data[:end])
            self._tail = b""
            return data[end + len(PASTE_END) :]
        cut = _partial_end(data)
        self._keep(data[:cut])
        self._tail = data[cut:]
        return None

    def text(self) -> str:
        return pasted_text(b"".join([*self._parts, self._tail]).decode("utf-8", "replace"))

    def _keep(self, data: bytes) -> None:
        data = data[: MAX_PASTE_BYTES - self._size]
        self._size += len(data)
        self._parts.append(data)


def _partial_end(data: bytes) -> int:
    """Where the beginning of PASTE_END starts at the end of `data`; its length if there is none."""
    start = data.rfind(b"\x1b", max(0, len(data) - len(PASTE_END) + 1))
    return start if start >= 0 and PASTE_END.startswith(data[start:]) else len(data)


def pasted_text(text: str) -> str:
    """Line ends are LF; tabs stay; other control characters are removed."""
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    return text if text.isprintable() else _NOT_PASTED.sub("", text)


def _bounded(sequence: bytes) -> bytes:
    """An unfinished sequence that is too long: keep enough to find its end, and to know that it is too long."""
    if len(sequence) <= MAX_SEQUENCE_BYTES + 8:
        return sequence
    return sequence[: MAX_SEQUENCE_BYTES + 8] + (b"\x1b" if sequence.endswith(b"\x1b") else b"")


def _is_burst(data: bytes) -> bool:
    """At least three lines, two of them with text: a held Enter key is not a paste."""
    if data.count(b"\r") + data.count(b"\n") < BURST_LINES - 1 or not _BURST.fullmatch(data):
        return False
    lines = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
    if not lines[-1]:
        lines.pop()
    return len(lines) >= BURST_LINES and sum(bool(line.strip()) for line in lines) > 1

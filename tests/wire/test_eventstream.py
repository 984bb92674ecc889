from __future__ import annotations

import struct
import zlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.loop_kit import byte_by_byte
from support.recorded_streams import aws, frame
from tau.errors import ModelError
from tau.wire.eventstream import EventStreamDecoder

FRAMES = [aws("messageStart", {"role": "assistant"}), aws("delta", {"text": "é😀"}), aws("oops", {"m": 1}, "exception")]
EVENTS = [("messageStart", '{"role":"assistant"}'), ("delta", '{"text":"é😀"}'), ("oops", '{"m":1}')]


def decoded(*portions: bytes, limit: int = 1000) -> list[tuple[str, str]]:
    decoder = EventStreamDecoder(limit)
    return [event for portion in portions for event in decoder.feed(portion)]


def test_frames_are_read_however_they_are_cut() -> None:
    whole = b"".join(FRAMES)
    assert decoded(whole) == EVENTS
    assert decoded(*FRAMES) == EVENTS
    assert decoded(*byte_by_byte(whole)) == EVENTS


@given(st.lists(st.integers(1, 400)))
def test_frames_are_read_however_they_come(cuts: list[int]) -> None:
    whole, portions, at = b"".join(FRAMES), [], 0
    for cut in cuts:
        portions.append(whole[at : at + cut])
        at += cut
    assert decoded(*portions, whole[at:]) == EVENTS


def test_a_frame_that_is_cut_off_is_never_told() -> None:
    whole = FRAMES[0]
    for cut in range(len(whole)):
        assert decoded(whole[:cut]) == []


@pytest.mark.parametrize("at", range(len(FRAMES[1])))
def test_a_byte_that_is_wrong_is_noticed_wherever_it_is(at: int) -> None:
    bad = bytearray(FRAMES[1])
    bad[at] ^= 0x10
    with pytest.raises(ModelError, match="event stream is broken") as caught:
        decoded(bytes(bad) + b"\0" * 300)
    assert caught.value.transient is True


def test_botocore_reads_the_same() -> None:
    eventstream = pytest.importorskip("botocore.eventstream")
    buffer = eventstream.EventStreamBuffer()
    buffer.add_data(b"".join(FRAMES))
    assert [message.payload.decode() for message in buffer] == [payload for _, payload in EVENTS]


def test_headers_of_every_type_are_passed_over() -> None:
    values = {0: b"", 1: b"", 2: b"x", 3: b"xx", 4: b"x" * 4, 5: b"x" * 8, 6: b"\0\2ab", 8: b"x" * 8, 9: b"x" * 16}
    packed = b"".join(b"\1a" + bytes([kind]) + value for kind, value in values.items())
    packed += b"\x0b:event-type\x07\0\4name"
    assert decoded(_framed(packed, b"{}")) == [("name", "{}")]


def _framed(headers: bytes, payload: bytes) -> bytes:
    head = struct.pack(">II", 16 + len(headers) + len(payload), len(headers))
    head += struct.pack(">I", zlib.crc32(head))
    body = head + headers + payload
    return body + struct.pack(">I", zlib.crc32(body))


@pytest.mark.parametrize(
    "headers",
    [b"\1a", b"\5a", b"\1a\x07\0", b"\1a\x07\0\5ab", b"\1a\x0b", b"\1a\x09abc", b"\1\xff\x00"],
    ids=["no type", "no name", "no length", "no value", "strange type", "short value", "no text"],
)
def test_headers_that_cannot_be_read_are_an_error(headers: bytes) -> None:
    with pytest.raises(ModelError, match="event stream is broken"):
        decoded(_framed(headers, b"{}"))


def test_an_error_of_the_transport_is_reported() -> None:
    bad = frame(b"", message_type="error", error_code="InternalFailure", error_message="Oops")
    assert decoded(bad) == [("error", '{"code":"InternalFailure","message":"Oops"}')]


def test_a_frame_without_a_name_has_none() -> None:
    assert decoded(frame(b"{}")) == [("", "{}")]


@pytest.mark.parametrize("payload", [b"\xff", b"\xc3"])
def test_a_payload_that_is_no_text_is_an_error(payload: bytes) -> None:
    with pytest.raises(ModelError, match="cannot be decoded"):
        decoded(frame(payload, event_type="x"))


def test_a_frame_that_is_too_large_is_refused_before_it_comes() -> None:
    with pytest.raises(ModelError, match="more than 1000 bytes"):
        decoded(frame(b"x" * 1000, event_type="x")[:12])


def test_a_length_that_cannot_be_is_an_error() -> None:
    head: Any = struct.pack(">II", 20, 900)
    with pytest.raises(ModelError, match="shorter than its headers"):
        decoded(head + struct.pack(">I", zlib.crc32(head)))

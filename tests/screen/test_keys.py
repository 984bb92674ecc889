"""Bytes of many terminals become the same keys, however they are cut."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tau.screen.input_events import Focus, InputEvent, Key, Paste, Reply
from tau.screen.keys import MAX_PASTE_BYTES, MAX_SEQUENCE_BYTES, KeyDecoder

KEYS: list[tuple[bytes, str]] = [
    # Text and control characters
    (b"a", "a"),
    (b"A", "A"),
    (b" ", "space"),
    ("€".encode(), "€"),
    (b"\x00", "ctrl+space"),
    (b"\x01", "ctrl+a"),
    (b"\x03", "ctrl+c"),
    (b"\x08", "backspace"),
    (b"\t", "tab"),
    (b"\n", "ctrl+j"),
    (b"\r", "enter"),
    (b"\x1a", "ctrl+z"),
    (b"\x1c", "ctrl+\\"),
    (b"\x1d", "ctrl+]"),
    (b"\x1e", "ctrl+^"),
    (b"\x1f", "ctrl+-"),
    (b"\x7f", "backspace"),
    # Alt as a prefix
    (b"\x1ba", "alt+a"),
    (b"\x1bA", "shift+alt+a"),
    (b"\x1b?", "alt+?"),
    (b"\x1b ", "alt+space"),
    (b"\x1b\r", "alt+enter"),
    (b"\x1b\x7f", "alt+backspace"),
    (b"\x1b\x01", "ctrl+alt+a"),
    (b"\x1b\x1d", "ctrl+alt+]"),
    ("\x1bé".encode(), "alt+é"),
    # xterm
    (b"\x1b[A", "up"),
    (b"\x1bOA", "up"),
    (b"\x1b[1;5D", "ctrl+left"),
    (b"\x1b[1;6A", "ctrl+shift+up"),
    (b"\x1b[1;3C", "alt+right"),
    (b"\x1b[H", "home"),
    (b"\x1bOF", "end"),
    (b"\x1b[3~", "delete"),
    (b"\x1b[3;3~", "alt+delete"),
    (b"\x1b[5;5~", "ctrl+pageUp"),
    (b"\x1b[Z", "shift+tab"),
    (b"\x1bOP", "f1"),
    (b"\x1b[1;2R", "shift+f3"),
    (b"\x1b[15~", "f5"),
    (b"\x1b[24;2~", "shift+f12"),
    (b"\x1b[E", "clear"),
    (b"\x1bOM", "enter"),
    (b"\x1bOk", "+"),
    (b"\x1bOt", "4"),
    # rxvt
    (b"\x1b[a", "shift+up"),
    (b"\x1bOd", "ctrl+left"),
    (b"\x1b[7~", "home"),
    (b"\x1b[3$", "shift+delete"),
    (b"\x1b[3^", "ctrl+delete"),
    (b"\x1b[5@", "ctrl+shift+pageUp"),
    (b"\x1b\x1b[A", "alt+up"),
    (b"\x1b\x1b[3~", "alt+delete"),
    # The Linux console and DEC terminals
    (b"\x1b[[A", "f1"),
    (b"\x1b[[E", "f5"),
    (b"\x1b[[5~", "pageUp"),
    (b"\x1b[1~", "home"),
    (b"\x1b[4~", "end"),
    (b"\x1bO5P", "ctrl+f1"),
    (b"\x1b[34~", "f20"),
    # modifyOtherKeys
    (b"\x1b[27;5;105~", "ctrl+i"),
    (b"\x1b[27;6;80~", "ctrl+shift+p"),
    (b"\x1b[27;2;13~", "shift+enter"),
    (b"\x1b[27;5;9~", "ctrl+tab"),
    (b"\x1b[27;6;95~", "ctrl+-"),
    (b"\x1b[27;3;63~", "alt+?"),
    (b"\x1b[27;2;65~", "A"),
    # kitty
    (b"\x1b[27u", "escape"),
    (b"\x1b[13;2u", "shift+enter"),
    (b"\x1b[127;5u", "ctrl+backspace"),
    (b"\x1b[99;5u", "ctrl+c"),
    (b"\x1b[112;6u", "ctrl+shift+p"),
    (b"\x1b[112:80;6u", "ctrl+shift+p"),
    (b"\x1b[116;4u", "shift+alt+t"),
    (b"\x1b[47:63;4u", "alt+?"),
    (b"\x1b[45:95;6u", "ctrl+-"),
    (b"\x1b[45;5u", "ctrl+-"),
    (b"\x1b[107;9u", "super+k"),
    (b"\x1b[107;13u", "ctrl+super+k"),
    (b"\x1b[1089::99;5u", "ctrl+c"),
    (b"\x1b[97;2u", "A"),
    (b"\x1b[97:65;2u", "A"),
    (b"\x1b[97;65u", "A"),
    (b"\x1b[97;;228u", "ä"),
    (b"\x1b[97;1:2u", "a"),
    (b"\x1b[57414u", "enter"),
    (b"\x1b[57404u", "5"),
    (b"\x1b[57417;5u", "ctrl+left"),
    (b"\x1b[57376u", "f13"),
    (b"\x1b[1;5:1A", "ctrl+up"),
    (b"\x1b[3;1:2~", "delete"),
]

NOTHING = [
    b"\x1b[97;1:3u",
    b"\x1b[1;5:3A",
    b"\x1b[57441;2u",
    b"\x1b[<0;10;10M",
    b"\x1b[<0;10;10m",
    b"\x1b[M !!",
    b"\x1b[32;10;10M",
    b"\x1b[99999~",
    b"\x1b[1114112u",
    b"\x1b[55296u",
    b"\x1b[201~",
    b"\x1b]52;c;aGVsbG8=\x07",
    b"\x1bP1+r544e\x1b\\",
    b"\x1b_Gi=31;OK\x1b\\",
    b"\xc2\x9b",
    b"\x1b[?1;2S",
]

EVENTS: list[tuple[bytes, InputEvent]] = [
    (b"\x1b[I", Focus(True)),
    (b"\x1b[O", Focus(False)),
    (b"\x1b[?62;22c", Reply("primaryAttributes", "62;22")),
    (b"\x1b[>41;390;0c", Reply("secondaryAttributes", "41;390;0")),
    (b"\x1b[?5u", Reply("kittyFlags", "5")),
    (b"\x1b]11;rgb:1e1e/1e1e/2e2e\x1b\\", Reply("background", "rgb:1e1e/1e1e/2e2e")),
    (b"\x1b]11;rgb:1e1e/1e1e/2e2e\x07", Reply("background", "rgb:1e1e/1e1e/2e2e")),
    (b"\x1b[?2026;2$y", Reply("mode", "2026;2")),
    (b"\x1b[?997;2n", Reply("colorScheme", "light")),
    (b"\x1bP>|XTerm(390)\x1b\\", Reply("terminalVersion", "XTerm(390)")),
    (b"\x1b[12;40R", Reply("cursorPosition", "12;40")),
    (b"\x1b[?1;2R", Reply("cursorPosition", "1;2")),
    (b"\x1b[200~one\rtwo\x1b[201~", Paste("one\ntwo")),
    (b"\x1b[200~\x1b[201~", Paste("")),
]
SEQUENCES = [data for data, _ in KEYS] + NOTHING + [data for data, _ in EVENTS]


def decoded(*reads: bytes) -> list[InputEvent]:
    decoder = KeyDecoder()
    events = [event for data in reads for event in decoder.feed(data)]
    return events + decoder.flush()


def ids(*reads: bytes) -> list[str]:
    return [event.id for event in decoded(*reads) if isinstance(event, Key)]


@pytest.mark.parametrize(("data", "key"), KEYS)
def test_a_sequence_is_a_key(data: bytes, key: str) -> None:
    assert ids(data + b"x") == [key, "x"]


@pytest.mark.parametrize("data", NOTHING)
def test_a_sequence_without_meaning_is_not_text(data: bytes) -> None:
    assert decoded(data + b"x") == [Key("x", "x")]


@pytest.mark.parametrize(("data", "event"), EVENTS)
def test_a_sequence_is_an_event(data: bytes, event: InputEvent) -> None:
    assert decoded(data + b"x") == [event, Key("x", "x")]


@pytest.mark.parametrize("data", SEQUENCES)
def test_every_cut_of_a_sequence_gives_the_same_events(data: bytes) -> None:
    whole = decoded(data + b"x")
    assert all(decoded(data[:cut], data[cut:] + b"x") == whole for cut in range(1, len(data)))
    assert decoded(*(data[index : index + 1] for index in range(len(data))), b"x") == whole


pieces = st.sampled_from(SEQUENCES) | st.binary(max_size=4) | st.sampled_from([b"\x1b", b"\x1b[", b"\x1b]", b"\x9b"])


@given(st.lists(pieces, max_size=8), st.lists(st.integers(0, 60), max_size=10))
def test_any_cut_of_any_bytes_gives_the_same_events(parts: list[bytes], cuts: list[int]) -> None:
    data = b"\x1b[?2004;2$y" + b"".join(parts)  # pastes are bracketed, so lines in one read mean nothing
    places = sorted({min(cut, len(data)) for cut in cuts})
    reads = [data[start:end] for start, end in zip([0, *places], [*places, len(data)], strict=True)]
    assert decoded(*reads) == decoded(data)


@given(st.binary(max_size=40))
def test_the_keyboard_works_after_any_bytes(noise: bytes) -> None:
    decoder = KeyDecoder()
    decoder.feed(noise)
    decoder.flush()
    decoder.end_paste()
    decoder.feed(b"\r\x03")
    assert decoder.feed(b"ok") == [Key("o", "o"), Key("k", "k")]


@given(st.text(st.characters(exclude_categories=["Cc", "Cs"]), max_size=30))
def test_text_is_typed_as_it_is(text: str) -> None:
    assert "".join(event.text for event in decoded(text.encode()) if isinstance(event, Key)) == text


@pytest.mark.parametrize("data", [b"\xff", b"\xc3", b"\xe2\x82", b"\xf0\x9f\x91", b"\xed\xa0\x80"])
def test_invalid_utf_8_is_replaced_and_what_follows_is_kept(data: bytes) -> None:
    events = decoded(data + b"\r")
    assert events[-1] == Key("enter")
    assert {event.text for event in events[:-1] if isinstance(event, Key)} == {"\ufffd"}


def test_escape_alone_waits_for_the_timeout() -> None:
    decoder = KeyDecoder()
    assert decoder.feed(b"\x1b") == []
    assert decoder.pending_escape
    assert decoder.flush() == [Key("escape")]
    assert not decoder.pending_escape
    assert decoder.flush() == []


@pytest.mark.parametrize(
    ("data", "keys"),
    [
        (b"\x1b\x1b", ["escape", "escape"]),
        (b"\x1b\x1b\x1b", ["escape", "escape", "escape"]),
        (b"\x1b[", ["alt+["]),
        (b"\x1bO", ["shift+alt+o"]),
        (b"\x1b]", ["alt+]"]),
        (b"\x1bP", ["shift+alt+p"]),
        (b"\x1b_", ["alt+_"]),
        (b"\x1b\x1b[", ["escape", "alt+["]),
        (b"\x1b\x1bx", ["escape", "alt+x"]),
        (b"\x1b]x", ["alt+]", "x"]),
        (b"\x1bPx", ["shift+alt+p", "x"]),
        (b"\x1bOx", ["8"]),
        (b"\x1bO!", ["shift+alt+o", "!"]),
    ],
)
def test_the_beginning_of_a_sequence_alone_is_a_key(data: bytes, keys: list[str]) -> None:
    assert ids(data) == keys


@pytest.mark.promise("T06")
def test_a_reply_that_is_late_is_never_text() -> None:
    decoder = KeyDecoder()
    assert decoder.feed(b"\x1b]11;rgb:ff") == []
    assert not decoder.pending_escape
    assert decoder.flush() == []
    assert decoder.feed(b"ff/ffff/ffff\x1b") == []
    assert decoder.feed(b"\\") == [Reply("background", "rgb:ffff/ffff/ffff")]
    assert decoder.feed(b"\x1b[?62") == decoder.flush() == []
    assert decoder.feed(b";1c") == [Reply("primaryAttributes", "62;1")]


def test_a_control_character_ends_a_reply_that_never_ends() -> None:
    assert decoded(b"\x1b]11;rgb:", b"hello", b"\x03", b"x") == [Key("ctrl+c"), Key("x", "x")]
    assert decoded(b"\x1b[?62;", b"\r", b"x") == [Key("enter"), Key("x", "x")]


def test_a_sequence_without_end_needs_little_memory() -> None:
    decoder = KeyDecoder()
    for start in (b"\x1b[", b"\x1b]1;"):
        decoder.feed(start)
        for _ in range(100):
            assert decoder.feed(b"1;" * 500) == []
            assert len(decoder._held) <= MAX_SEQUENCE_BYTES + 16
        assert decoder.feed(b"\x1b" if start.endswith(b";") else b"~") == []
        decoder.feed(b"\\")
    assert decoder.feed(b"x")[-1] == Key("x", "x")


@pytest.mark.promise("T05")
def test_a_paste_is_never_keys() -> None:
    text = "a\x03b\x1b[A\x1b\tc\x00d\x9b201~e\x7f[201~\x1b[20\x1b[201"
    assert decoded(f"\x1b[200~{text}\x1b[201~".encode()) == [Paste("ab[A\tcd201~e[201~[20[201")]


def test_line_ends_of_a_paste_are_line_feeds() -> None:
    assert decoded(b"\x1b[200~a\r\nb\rc\nd\r\x1b[201~") == [Paste("a\nb\nc\nd\n")]


def test_a_megabyte_of_paste_is_one_event() -> None:
    text = "0123456789abcde€" * 60_000
    data = b"\x1b[200~" + text.encode() + b"\x1b[201~x"
    events = decoded(*(data[start : start + 65_536] for start in range(0, len(data), 65_536)))
    assert events == [Paste(text), Key("x", "x")]


@pytest.mark.promise("T05")
def test_a_paste_has_a_limit() -> None:
    decoder = KeyDecoder()
    decoder.feed(b"\x1b[200~")
    for _ in range(MAX_PASTE_BYTES // 65_536 + 10):
        decoder.feed(b"a" * 65_536)
    (paste,) = decoder.feed(b"\x1b[201~")
    assert paste == Paste("a" * MAX_PASTE_BYTES)


@pytest.mark.promise("T05")
def test_a_paste_whose_end_is_lost_can_be_ended() -> None:
    decoder = KeyDecoder()
    decoder.feed(b"\x1b[200~abc\x1b[20")
    assert decoder.in_paste
    assert decoder.end_paste() == [Paste("abc[20")]
    assert decoder.end_paste() == []
    assert decoder.feed(b"x") == [Key("x", "x")]


def test_three_lines_in_one_read_are_a_paste_without_bracketed_paste() -> None:
    assert decoded(b"one\rtwo\rthree") == [Paste("one\ntwo\nthree")]
    assert decoded("é\r\n\r\nü\n".encode()) == [Paste("é\n\nü\n")]


def test_lines_in_one_read_are_keys_where_pastes_are_bracketed() -> None:
    assert ids(b"\x1b[?2004;2$y", b"a\rb\rc")[-2:] == ["enter", "c"]
    assert ids(b"\x1b[200~\x1b[201~", b"a\rb\rc")[-2:] == ["enter", "c"]


def test_a_held_enter_key_is_not_a_paste() -> None:
    assert ids(b"\r\r\r\r") == ["enter"] * 4
    assert ids(b"a\r\r\r") == ["a", "enter", "enter", "enter"]
    assert ids(b"a\rb") == ["a", "enter", "b"]

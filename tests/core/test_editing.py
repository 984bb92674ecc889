from __future__ import annotations

import random
import time
from contextlib import suppress

import pytest

from long.fuzz_edit import check, random_case
from support.rpc_process import quick
from tau.core.text.editing import Edit, Edited, edited, well_formed
from tau.core.text.normalize import plain, traced
from tau.errors import ToolError


def edit(data: bytes, *pairs: tuple[str, str]) -> bytes:
    return edited(data, [Edit(*pair) for pair in pairs], "f").data


def refusal(data: bytes, *pairs: tuple[str, str]) -> str:
    with pytest.raises(ToolError) as refused:
        edit(data, *pairs)
    return str(refused.value)


HEAD = "--- f\n+++ f\n"


def test_an_edit_tells_what_it_changed() -> None:
    assert edited(b"alpha\nbeta\ngamma\n", [Edit("beta", "BETA")], "f") == Edited(
        b"alpha\nBETA\ngamma\n",
        " 1 alpha\n-2 beta\n+2 BETA\n 3 gamma",
        2,
        HEAD + "@@ -1,3 +1,3 @@\n alpha\n-beta\n+BETA\n gamma\n",
    )


@pytest.mark.parametrize(
    ("data", "old", "new", "result"),
    [
        (b"one two three", "two", "2", b"one 2 three"),
        (b"one two three", "two ", "", b"one three"),
        (b"a\nb\nc\n", "b\n", "", b"a\nc\n"),
        (b"a\nb\nc", "b\nc", "b\nc\n", b"a\nb\nc\n"),
        (b"a\n", "a\n", "a\nb", b"a\nb"),
        ("tea for zwölf".encode(), "zwölf", "ten \U0001f600", "tea for ten \U0001f600".encode()),
        (b"x = 1\n", "x = ", "y = ", b"y = 1\n"),
        (b"\0\1\2", "\1", "x", b"\0x\2"),
    ],
)
def test_a_text_is_replaced(data: bytes, old: str, new: str, result: bytes) -> None:
    assert edit(data, (old, new)) == result


# What else there is in a file


@pytest.mark.promise("F12")
@pytest.mark.parametrize(
    ("data", "old", "new", "result"),
    [
        # A newline matches whatever ends the line, and each line keeps its ending.
        (b"one\r\ntwo\r\n", "one\ntwo", "1\n2", b"1\r\n2\r\n"),
        (b"one\r\ntwo\nthree\r\n", "one\ntwo\nthree", "1\n2\n3", b"1\r\n2\n3\r\n"),
        (b"one\r\ntwo\nthree\r\n", "one\r\ntwo\r\nthree\r\n", "1\r\n2\r\n3\r\n", b"1\r\n2\n3\r\n"),
        (b"one\r\ntwo\nthree\r\n", "one\ntwo\nthree", "one\ntwo\nnew\nthree", b"one\r\ntwo\nnew\r\nthree\r\n"),
        # New lines end as the line they come from.
        (b"one\ntwo\r\nthree\n", "two", "2\n2b", b"one\n2\r\n2b\r\nthree\n"),
        (b"one\r\ntwo\nthree\r\n", "two\n", "2\n2b\n", b"one\r\n2\n2b\nthree\r\n"),
        # The last line has none: as the first in the file.
        (b"one\r\ntwo\nthree", "three", "3\n4\n", b"one\r\ntwo\n3\r\n4\r\n"),
        (b"one", "one", "1\r\n2", b"1\n2"),
        # A CR alone ends nothing.
        (b"a\rb\rc\n", "b\rc", "B\rc", b"a\rB\rc\n"),
    ],
)
def test_every_line_keeps_its_own_ending(data: bytes, old: str, new: str, result: bytes) -> None:
    assert edit(data, (old, new)) == result


@pytest.mark.promise("F12")
def test_a_byte_order_mark_stays_whatever_the_model_does_with_it() -> None:
    data = b"\xef\xbb\xbfimport a\r\nimport b\n"
    for old, new in [("import a", "import c"), ("\ufeffimport a", "import c"), ("\ufeffimport a", "\ufeffimport c")]:
        assert edit(data, (old, new)) == b"\xef\xbb\xbfimport c\r\nimport b\n"
    assert edited(data, [Edit("import a", "import c")], "f").diff == "-1 import a\n+1 import c\n 2 import b"


@pytest.mark.promise("F11")
def test_bytes_that_are_no_text_stay() -> None:
    data = b"caf\xe9 1\n\xff\xfe\x80\ncaf\xe9 2\n"
    assert edit(data, ("2", "3")) == b"caf\xe9 1\n\xff\xfe\x80\ncaf\xe9 3\n"


def test_bytes_that_are_no_text_match_what_was_shown_for_them() -> None:
    assert edit(b"caf\xe9 = 1\ncaf\xe9 = 2\n", ("caf\ufffd = 2", "caf\ufffd = 3")) == b"caf\xe9 = 1\ncaf\xe9 = 3\n"
    assert edit(b"a \xe2\x82 b\n", ("a \ufffd b", "a b")) == b"a b\n"


def test_bytes_that_are_no_text_are_not_overwritten_by_what_was_shown_for_them() -> None:
    assert refusal(b"1 caf\xe9 2\n", ("1 caf\ufffd 2", "3 caf\ufffd 4")) == (
        "f has bytes that are not UTF-8 in the text to replace, and U+FFFD would be written in their place."
        " Replace only the text before or after them."
    )


# What looks the same


@pytest.mark.parametrize(
    ("data", "old", "new", "result"),
    [
        ("say “hi”  \nnext\nlast—x\n", 'say "hi"\nnext', "say bye\nnext", "say bye\nnext\nlast—x\n"),
        ("“a” \u2018b\u2019 \u2013 — \u2212 \u2011", "\"a\" 'b' - - - -", "x", "x"),
        ("print(“hello”, x)  \n", 'print("hello", x)', 'print("hello", y)', "print(“hello”, y)  \n"),
        ("one  \ntwo\t\nthree \n", "one\ntwo\nthree", "one\n2\nthree", "one  \n2\nthree \n"),
        ("one  \r\ntwo\r\n", "one\ntwo", "one\nnew\ntwo", "one  \r\nnew\r\ntwo\r\n"),
        ("one\ntwo\n", "one  \ntwo", "one  \n2", "one\n2\n"),
        ("a\n   \nb\n", "a\n\nb", "A\n\nb", "A\n   \nb\n"),
        ("a\n   \nb\n", "a\n\nb", "\nb", "   \nb\n"),
        ("no\u00a0break\u3000here", "no break here", "no break there", "no\u00a0break\u3000there"),
        ("cafe\u0301 au lait", "caf\u00e9 au lait", "caf\u00e9 noir", "cafe\u0301 noir"),
        ("caf\u00e9 au lait", "cafe\u0301 au", "tea au", "tea au lait"),
        ("\ufb01nd ½ ｶﾞ \u1100\u1161", "find 1\u20442 \u30ac \uac00", "x", "x"),
        ("x = 1 \n", "x = 1\t", "y", "y\n"),
        ("“x” = 1\n", '"x" = ', '"y" = ', "“y” = 1\n"),
    ],
)
def test_what_looks_the_same_is_found_and_the_rest_stays(data: str, old: str, new: str, result: str) -> None:
    assert edit(data.encode(), (old, new)).decode() == result


def test_half_of_a_character_is_not_found() -> None:
    assert refusal("½ cup".encode(), ("2 cup", "3 cup")).startswith("Could not find the exact text in f.")


def test_what_looks_like_it_counts_even_if_one_is_exactly_it() -> None:
    assert refusal('say “hi”\nsay "hi"\n'.encode(), ('say "hi"', "x")).startswith("Found 2 occurrences of the text")
    assert refusal(b"a  \nb\na\nb\n", ("a\nb", "x")).startswith("Found 2 occurrences of the text in f.")


def test_white_space_at_the_end_of_the_old_text_is_there_or_ends_a_line() -> None:
    data = b"return 1\nreturned\nreturn\n"
    assert edit(data, ("return 1", "x")) == b"x\nreturned\nreturn\n"
    assert refusal(data, ("return ", "x")).startswith("Found 2 occurrences")
    assert edit(b"return 1\nreturned\n", ("return ", "x ")) == b"x 1\nreturned\n"
    assert edit(b"returned\nreturn\n", ("return ", "x")) == b"returned\nx\n"


def test_the_plain_form_leads_back() -> None:
    line = "e\u0301“½” \udce9\udce8x"
    assert plain(line) == '\u00e9"1\u20442" \ufffd\ufffdx'
    assert traced(line) == [0, 2, 3, None, None, 4, 5, 6, None, 8, 9]


# Several edits


def test_all_edits_are_matched_against_the_file_as_it_was() -> None:
    assert edit(b"a\nb\nc\n", ("c", "a"), ("a", "b"), ("b", "c")) == b"b\nc\na\n"
    assert edit(b"one two", ("two", "2"), ("one ", "1 ")) == b"1 2"


def test_the_diff_of_several_edits_has_them_in_the_order_of_the_file() -> None:
    data = b"".join(b"%d\n" % n for n in range(1, 21))
    result = edited(data, [Edit("\n18\n", "\n18\nnew\n"), Edit("2\n3\n", "2\n")], "f")
    assert result.first_changed_line == 3
    assert result.diff.split("\n") == [
        *("  1 1", "  2 2", "- 3 3", "  4 4", "  5 5", "  6 6", "  7 7"),
        "    ...",
        *(" 15 15", " 16 16", " 17 17", " 18 18", "+18 new", " 19 19", " 20 20"),
    ]


def test_edits_of_the_same_and_of_neighbouring_lines_are_shown_once() -> None:
    result = edited(b"a b\nc\n", [Edit("a", "A"), Edit("b", "B"), Edit("c\n", "C\nd\n")], "f")
    assert result == Edited(b"A B\nC\nd\n", "-1 a b\n-2 c\n+1 A B\n+2 C\n+3 d", 1, result.patch)
    end = edited(b"a\n", [Edit("a", "A"), Edit("\n", "\nb\n")], "f")
    assert end == Edited(b"A\nb\n", "-1 a\n+1 A\n+2 b", 1, HEAD + "@@ -1,1 +1,2 @@\n-a\n+A\n+b\n")


# Refusals


@pytest.mark.parametrize(
    ("pairs", "said"),
    [
        (
            [("nope", "x")],
            "Could not find the exact text in f."
            " The old text must match exactly including all whitespace and newlines.",
        ),
        (
            [("a", "x"), ("nope", "x")],
            "Could not find edits[1] in f. The oldText must match exactly including all whitespace and newlines.",
        ),
        (
            [("b", "x")],
            "Found 2 occurrences of the text in f. The text must be unique."
            " Please provide more context to make it unique.",
        ),
        (
            [("b", "x"), ("a", "x")],
            "Found 2 occurrences of edits[0] in f. Each oldText must be unique."
            " Please provide more context to make it unique.",
        ),
        ([("", "x")], "oldText must not be empty in f."),
        ([("a", "x"), ("", "x")], "edits[1].oldText must not be empty in f."),
        (
            [("cd", "x"), ("bc", "y")],
            "edits[1] and edits[0] overlap in f. Merge them into one edit or target disjoint regions.",
        ),
        (
            [("a", "a")],
            "No changes made to f. The replacement produced identical content. This might indicate an issue with"
            " special characters or the text not existing as expected.",
        ),
        ([("a", "a"), ("cd", "cd")], "No changes made to f. The replacements produced identical content."),
    ],
)
def test_what_cannot_be_done_is_said(pairs: list[tuple[str, str]], said: str) -> None:
    assert refusal(b"abcd\nb\n", *pairs) == said


def test_places_that_overlap_are_two_places() -> None:
    assert refusal(b"aaa", ("aa", "b")).startswith("Found 2 occurrences")
    assert refusal(b"a" * 9, ("aa", "b")).startswith("Found 4 occurrences")


def test_curly_quotes_in_place_of_themselves_are_no_change() -> None:
    assert refusal("“hi”".encode(), ('"hi"', "“hi”")).startswith("No changes made to f.")


def test_half_of_a_surrogate_pair_is_no_character() -> None:
    assert well_formed("a\ud800b\udc00\ud83d\ude00c\ud800") == "a\ufffdb\ufffd\U0001f600c\ufffd"
    assert edit(b"a\n", ("a", "\ud83d\ude00\udc80")) == "\U0001f600\ufffd\n".encode()
    assert refusal("ö\n".encode(), ("\udcc3", "")).startswith("Could not find the exact text")


# Any file


@pytest.mark.promise("F11", "F12")
def test_no_byte_changes_outside_of_an_edit() -> None:
    told = {check(random_case(random.Random(seed))) for seed in range(1000)}
    assert {"exact", "alike", "one letter"} <= told


@pytest.mark.parametrize("ending", [b"\n", b"\r\n"])
def test_an_edit_of_a_long_file_is_quick(ending: bytes) -> None:
    data = b"".join(b"line %d%b" % (n % 50, ending) for n in range(50_000)) + b"here" + ending

    def measure() -> float:
        started = time.process_time()
        assert edit(data, ("here", "there")) == data[: -len(ending) - 4] + b"there" + ending
        return time.process_time() - started

    quick(measure, 0.3)


@pytest.mark.parametrize(
    ("data", "old"),
    [
        (b" " * 1_000_000 + b"x\n", " y"),
        (("é" + " " * 1_000_000 + "x\n").encode(), "y "),
        (("é" * 300_000 + "“x”").encode(), '"x"'),
        (b"ab" * 500_000 + b"\n", "ab" * 1000 + "c"),
        (b"\n" * 1_000_000, "\n" * 1000 + "x"),
    ],
)
def test_files_that_are_meant_to_be_slow_are_not(data: bytes, old: str) -> None:
    def measure() -> float:
        started = time.process_time()
        with suppress(ToolError):
            edit(data, (old, "new"))
        return time.process_time() - started

    quick(measure, 1.5)

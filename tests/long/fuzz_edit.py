"""Random edits of random files: no byte changes that the edit does not speak of.

    python tests/long/fuzz_edit.py 10000 [seed]

Files have any line endings, also mixed ones, a byte order mark or not, white
space everywhere, letters of many kinds, and bytes that are no UTF-8. The old
text of an edit is what `read` would show of the file, or what a model would make
of that: straight quotes, no white space at the end of lines, composed letters.
"""

from __future__ import annotations

import random
import re
import sys
import time
import unicodedata
from collections import Counter
from typing import NamedTuple

from tau.core.text.diff import lines
from tau.core.text.editing import BOM, Edit, Edited, edited
from tau.core.text.normalize import WHITE, plain
from tau.errors import ToolError

WORDS = [
    *(
        "alpha",
        "beta",
        "gamma",
        "x = 1",
        "return",
        "{",
        "}",
        "if (a) {",
        "\t",
        "  ",
        "    ",
        '"quoted"',
        "'s",
        "-",
        "--",
    ),
    *(
        "caf\u00e9",
        "cafe\u0301",
        "\u201chi\u201d",
        "it\u2019s",
        "a\u2014b",
        "\u2212 1",
        "no\u00a0break",
        "\u3000",
        "\u00bd",
    ),
    *(
        "\u6f22\u5b57",
        "\U0001f600",
        "\ufb01",
        "\u1100\u1161\u11a8",
        "\uff76\uff9e",
        "\ufffd",
        "\ufeff",
        "\u2028",
        "\0",
        "\r",
    ),
]
BAD = [b"\xe9", b"\xff\xfe", b"\xe2\x82", b"\xed\xa0\x80", b"\x80", b"\xf0\x9f\x98"]
ENDINGS = [[b"\n"], [b"\r\n"], [b"\n", b"\r\n"], [b"\r\n", b"\n", b"\r"], [b"\n", b"\r\r\n"]]
REFUSALS = re.compile(
    r"Could not find the exact text in f\. .*|Found \d+ occurrences of the text in f\. .*|No changes made to f\. .*"
    r"|oldText must not be empty in f\.|f has bytes that are not UTF-8 in the text to replace, .*"
)


class Case(NamedTuple):
    """Bytes `start` to `end` of the file are the old text. `wanted` is the whole result where only one is right."""

    data: bytes
    start: int
    end: int
    edit: Edit
    wanted: bytes | None


def random_file(dice: random.Random) -> bytes:
    endings = dice.choice(ENDINGS)
    data = bytearray(BOM if dice.random() < 0.2 else b"")
    for number in range(dice.choice([1, 2, 5, 20])):
        line = bytearray()
        for _ in range(dice.randrange(6)):
            line += dice.choice(BAD) if dice.random() < 0.07 else dice.choice(WORDS).encode()
            line += b" " if dice.random() < 0.5 else b""
        if dice.random() < 0.6:
            line += b"%d" % (number * 1000 + dice.randrange(1000))
        line += dice.choice([b"", b"", b"", b" ", b"\t", "\u00a0".encode()])
        data += line + dice.choice(endings)
    return bytes(data.rstrip(b"\r\n") if dice.random() < 0.3 else data)


def seen(text: str) -> str:
    """What `read` shows of it, with the line endings that models see."""
    return re.sub("(?<!\r)\r\n", "\n", text.encode("utf-8", "surrogateescape").decode("utf-8", "replace"))


def retold(text: str) -> str:
    """What a model may make of a text that it has read."""
    text = unicodedata.normalize("NFC", seen(text))
    text = re.sub("[\u2018\u2019]", "'", re.sub("[\u201c\u201d]", '"', text))
    return re.sub("[ \t\u00a0]+\n", "\n", text.replace("\u2014", "-").replace("\u3000", " "))


def random_case(dice: random.Random) -> Case:
    data = random_file(dice)
    body = data.removeprefix(BOM)
    text = body.decode("utf-8", "surrogateescape")
    cuts = [at for at in range(len(text) + 1) if _may_cut(text, at)]
    start = dice.choice(cuts)
    end = dice.choice([at for at in cuts if start < at <= start + dice.choice([3, 30, 300])] or [start])
    # White space before the end of a line, retold, would be nothing, and the edit begin only after it.
    told = dice.choice([seen, retold]) if text[start:end].split("\n")[0].strip(WHITE) else seen

    def position(at: int) -> int:
        return len(data) - len(body) + len(text[:at].encode("utf-8", "surrogateescape"))

    letters = [
        at for at in range(start, end) if text[at].isascii() and text[at].isalpha() and _has_more(text[at + 1 : end])
    ]
    wanted = None
    if letters and dice.random() < 0.5:
        # One letter becomes another: everything else has to stay, in whatever way the model wrote it.
        at = dice.choice(letters)
        old = told(text[start:at]) + text[at] + told(text[at + 1 : end])
        new = told(text[start:at]) + "Q" + told(text[at + 1 : end])
        wanted = data[: position(at)] + b"Q" + data[position(at) + 1 :]
    else:
        old = told(text[start:end])
        new = _rewritten(old, dice)
    if dice.random() < 0.1:
        old, new = (re.sub("(?<!\r)\n", "\r\n", text) for text in (old, new))
    return Case(data, position(start), position(end), Edit(old, new), wanted)


def _may_cut(text: str, at: int) -> bool:
    before, after = text[at - 1 : at], text[at : at + 1]
    stray = "\udc80" <= before <= "\udcff" and "\udc80" <= after <= "\udcff"
    joins = after in ("\u0301", "\u1161", "\u11a8", "\uff9e", "\ufeff")  # the last one may be taken for a mark
    return not stray and not joins and (before, after) != ("\r", "\n")


def _has_more(rest: str) -> bool:
    """More text on the line, which begins with no mark that belongs to the letter before it."""
    return (
        bool(rest)
        and not unicodedata.combining(rest[0])
        and rest.split("\n")[0].strip("\r \t\u00a0\u3000\u2028\ufeff") != ""
    )


def _rewritten(old: str, dice: random.Random) -> str:
    pieces = re.split("(\n)", old)
    for _ in range(dice.choice([1, 1, 2, 4])):
        at = dice.randrange(len(pieces))
        pieces[at] = dice.choice(
            ["", "new", "new line\n", "\n", "one\ntwo\nthree\n", pieces[at] + " more", pieces[at] * 2]
        )
    return "".join(pieces)


def check(case: Case) -> str:
    """Raise AssertionError if the edit did what it should not; else what became of it."""
    try:
        result = edited(case.data, [case.edit], "f")
    except ToolError as error:
        assert REFUSALS.fullmatch(str(error)), str(error)
        return re.sub(r"\d+", "N", str(error))[:24]

    outside = len(case.data) - case.end
    assert result.data.startswith(case.data[: case.start]), "changed before the edit"
    assert result.data.endswith(case.data[case.end :]), "changed after the edit"
    if case.wanted is not None:
        assert result.data == case.wanted, "more than one letter changed"
    middle = result.data[case.start : len(result.data) - outside].decode("utf-8", "surrogateescape")
    old, new = (text.replace("\r\n", "\n") for text in case.edit)
    exact = old.encode() == case.data[case.start : case.end].replace(b"\r\n", b"\n")
    # A new line may end as another one did, so all endings count as one here.
    shown, wanted = (re.sub("\r+\n", "\n", text) if exact else plain(seen(text)) for text in (middle, new))
    assert shown == wanted, "not the new text"
    check_diff(case.data, result)
    return "one letter" if case.wanted else "exact" if exact else "alike"


def check_diff(data: bytes, result: Edited) -> None:
    before, after = lines(data.removeprefix(BOM)), lines(result.data.removeprefix(BOM))
    balance = 0
    for sign, number, text in re.findall(r"^([-+ ]) *(\d+) (.*)$", result.diff, re.MULTILINE):
        line = (after if sign == "+" else before)[int(number) - 1]
        assert line.rstrip(b"\r\n").decode("utf-8", "replace").startswith(text.rstrip("\r")), "a wrong line in the diff"
        balance += {"+": 1, "-": -1, " ": 0}[sign]
    assert balance == len(after) - len(before), "lines are missing in the diff"
    assert before[: result.first_changed_line - 1] == after[: result.first_changed_line - 1], "changed before the first"


def main() -> None:
    amount = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else random.SystemRandom().randrange(10**6)
    told: Counter[str] = Counter()
    started = time.monotonic()
    for number in range(amount):
        case = random_case(random.Random(seed + number))
        try:
            told[check(case)] += 1
        except Exception:
            print(f"seed {seed + number}: {case}", file=sys.stderr)
            raise
    print(f"{amount} edits from seed {seed} in {time.monotonic() - started:.1f} s, no byte changed outside of them")
    for name, count in told.most_common():
        print(f"{count:8} {name}")


if __name__ == "__main__":
    main()

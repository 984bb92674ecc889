from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tau.wire.comments import strip_comments


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("\ufeff[1]", [1]),
        ("[1] // end", [1]),
        ("// start\n[1]", [1]),
        ("/* a\n b */ [1 /* in */]", [1]),
        ("[1,]", [1]),
        ("[1, /* why */ // not\n ]", [1]),
        ('{"a": [1, 2,], }', {"a": [1, 2]}),
        ('["// no", "/* no */", ",]", "\\"//"]', ["// no", "/* no */", ",]", '"//']),
        ('{"url": "http://x/"} // y', {"url": "http://x/"}),
    ],
)
def test_what_people_write_by_hand_is_understood(text: str, value: Any) -> None:
    assert json.loads(strip_comments(text)) == value


@pytest.mark.parametrize("text", ["[1,,]", "[1 /* open", "[1] /*", "[1] /*/", '["a', '[1] "\\', "[1]]", "'a'", "[1 2]"])
def test_what_is_wrong_stays_wrong(text: str) -> None:
    with pytest.raises(ValueError):
        json.loads(strip_comments(text))


def test_every_line_stays_where_it_was() -> None:
    text = "{ // one\n/* two\nthree */ 'four'\n}"
    assert [len(line) for line in strip_comments(text).split("\n")] == [len(line) for line in text.split("\n")]


@given(
    st.recursive(
        st.none() | st.integers() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
        max_leaves=8,
    )
)
def test_strict_json_is_not_touched(value: Any) -> None:
    text = json.dumps(value, ensure_ascii=False, indent=1)
    assert strip_comments(text) == text


READ = "import sys; from tau.wire.comments import strip_comments; print(strip_comments(sys.stdin.read()))"


@pytest.mark.process
def test_decoration_costs_no_time() -> None:
    lines = ["/" * 80, "// " * 40, "/**/ " * 40, "/* " * 40 + "*/", " " * 10_000]
    text = "[1" + "".join(f",\n{line}\n2" for line in lines) + "]"
    # In a process of its own: a regular expression that runs wild can only be killed.
    done = subprocess.run([sys.executable, "-c", READ], input=text, stdout=-1, text=True, timeout=60, check=True)
    assert json.loads(done.stdout) == [1, 2, 2, 2, 2, 2]


@pytest.mark.process
@pytest.mark.parametrize("piece", ['\\"', "/* ", '"\\\\', "/*/"])
def test_an_endless_string_or_comment_costs_no_time(piece: str) -> None:
    text = piece * 300_000
    done = subprocess.run([sys.executable, "-c", READ], input=text, stdout=-1, text=True, timeout=60, check=True)
    with pytest.raises(ValueError):
        json.loads(done.stdout)

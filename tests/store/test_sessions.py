from __future__ import annotations

import json
import os
import random
import socket
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tau.core.conversation import prompts
from tau.core.conversation.tree import ROOT
from tau.errors import CommandError
from tau.records.base import encode
from tau.records.entries import Header
from tau.records.lines import UnknownEntry
from tau.runtime.history import copies
from tau.runtime.history.session_log import SessionLog
from tau.store.files import make_folder
from tau.store.sessions import OpenedSession, file_name, folder_for, open_session

Json = dict[str, Any]
TIME = "2026-03-15T10:00:00.000Z"
HEADER = {"type": "session", "version": 3, "id": "s-1", "timestamp": TIME, "cwd": "/w"}


def sent(log: SessionLog) -> list[bytes]:
    """The messages as a client gets them."""
    return [json.dumps(one, separators=(",", ":")).encode() for one in json.loads(b"".join(log.messages_json()))]


def message(id: str, parent: str | None, text: str = "") -> Json:
    said = {"role": "user", "content": [{"type": "text", "text": text or id.upper()}], "timestamp": 1}
    return {"type": "message", "id": id, "parentId": parent, "timestamp": TIME, "message": said}


def chain(ids: str) -> list[Json]:
    return [message(id, parent) for id, parent in zip(ids, [None, *ids], strict=False)]


def session(path: Path, *lines: Json | bytes, header: Json | bytes = HEADER, end: bytes = b"\n") -> Path:
    path.write_bytes(b"\n".join(_line(line) for line in (header, *lines)) + end)
    return path


def _line(line: Json | bytes) -> bytes:
    return line if isinstance(line, bytes) else encode(line)


def opened(path: Path) -> OpenedSession:
    """Read it, and make sure that reading did not touch it."""
    before, stamp = path.read_bytes(), path.stat().st_mtime_ns
    found = open_session(path)
    assert (path.read_bytes(), path.stat().st_mtime_ns) == (before, stamp)
    assert sorted(path.parent.iterdir()) == [path]
    return found


def branch(found: OpenedSession) -> str:
    return "".join(found.tree.id(at) for at in found.tree.branch)


def whole(found: OpenedSession) -> str:
    return "".join(found.tree.id(at) for at in range(len(found.tree)))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "s.jsonl"


# Sound files.


def test_a_session_is_a_header_and_a_tree(path: Path) -> None:
    lines = [*chain("abc"), message("d", "b"), message("e", "d")]
    found = opened(session(path, *lines))
    assert found.header == Header(id="s-1", timestamp=TIME, cwd="/w")
    assert (branch(found), whole(found), found.problems) == ("abde", "abcde", [])
    assert (found.size, found.migrated_lines) == (path.stat().st_size, None)
    assert list(found.tree.after(None)) == [encode(line) for line in lines]


def test_a_session_of_real_pi_is_read(path: Path) -> None:
    answer = {
        "role": "assistant",
        "content": [{"type": "thinking", "thinking": "hm", "thinkingSignature": ""}, {"type": "text", "text": "yes"}],
        "api": "openai-completions",
        "provider": "mock",
        "model": "m1",
        "usage": {"input": 1, "output": 2, "cacheRead": 0, "cacheWrite": 0, "totalTokens": 3, "cost": {"total": 0}},
        "stopReason": "stop",
        "timestamp": 2,
    }
    kept = {"summary": "S", "firstKeptEntryId": "u", "tokensBefore": 9, "details": {"readFiles": []}, "fromHook": False}
    found = opened(
        session(
            path,
            {"type": "model_change", "id": "m", "parentId": None, "timestamp": TIME, "provider": "p", "modelId": "m1"},
            {"type": "thinking_level_change", "id": "t", "parentId": "m", "timestamp": TIME, "thinkingLevel": "high"},
            message("u", "t"),
            {"type": "message", "id": "v", "parentId": "u", "timestamp": TIME, "message": answer},
            {"type": "custom", "customType": "x", "data": {"a": 1}, "id": "c", "parentId": "v", "timestamp": TIME},
            {"type": "session_info", "id": "i", "parentId": "c", "timestamp": TIME, "name": "named"},
            {"type": "label", "id": "l", "parentId": "i", "timestamp": TIME, "targetId": "u", "label": "here"},
            {"type": "compaction", "id": "k", "parentId": "l", "timestamp": TIME, **kept},
        )
    )
    log = SessionLog(found.header, None, lambda error: None, found.tree)
    assert (branch(found), found.problems, found.tree.name) == ("mtuvcilk", [], "named")
    assert (log.last_model(), log.last_level()) == (("mock", "m1"), "high")
    assert [json.loads(said)["role"] for said in sent(log)] == ["compactionSummary", "user", "assistant"]
    assert json.loads(found.tree.json())[0]["children"][0]["children"][0]["label"] == "here"


def test_a_header_that_says_more_or_less_than_usual_is_one(path: Path) -> None:
    found = opened(session(path, header={"type": "session", "version": 3, "id": "x", "mood": 1, "parentSession": None}))
    assert found.header == Header(id="x", timestamp="", cwd="")
    more = {**HEADER, "version": 9, "parentSession": "/old.jsonl"}
    assert opened(session(path, header=more)).header == Header(
        version=9, id="s-1", timestamp=TIME, cwd="/w", parent_session="/old.jsonl"
    )


def test_unknown_entries_and_fields_are_kept_byte_for_byte(path: Path) -> None:
    lines = [
        b'{ "type" : "context_edit","id":"a","parentId":null,"targetId":"q","replacement":[1.50,1e3,{"z":null}] }',
        b'{"parentId":"a","id":"b","type":"message","new":"\\u00fc\xc3\xbc","message":{"role":"system","x":[]}}',
        b'{"type":"message","id":"c","parentId":"b","timestamp":"t","message":{"role":"user","content":"\\ud800",'
        b'"timestamp":1,"mood":"\xe2\x80\xa8"}}',
    ]
    found = opened(session(path, *lines))
    assert (list(found.tree.after(None)), found.problems) == (lines, [])
    log = SessionLog(found.header, None, lambda error: None, found.tree)
    assert [json.loads(said) for said in sent(log)] == [
        {"role": "system", "x": []},
        {"role": "user", "content": "\ud800", "timestamp": 1, "mood": "\u2028"},
    ]


@pytest.mark.parametrize(("start", "newline"), [(b"\xef\xbb\xbf", b"\n"), (b"", b"\r\n"), (b"\n \n", b"\n\n \n\r\n")])
def test_a_bom_and_other_line_ends_and_blank_lines_are_passed_over(path: Path, start: bytes, newline: bytes) -> None:
    lines = [HEADER, *chain("abc")]
    path.write_bytes(start + b"".join(encode(line) + newline for line in lines))
    found = opened(path)
    assert (branch(found), found.problems, found.tree.line(0)) == ("abc", [], encode(lines[1]))


def test_a_session_with_nothing_but_a_header_is_empty(path: Path) -> None:
    found = opened(session(path))
    assert (len(found.tree), found.tree.leaf, found.problems) == (0, ROOT, [])


def test_a_link_to_a_session_is_one(tmp_path: Path) -> None:
    session(tmp_path / "s.jsonl", *chain("ab"))
    link = tmp_path / "link.jsonl"
    link.symlink_to("s.jsonl")
    found = open_session(link)
    assert (branch(found), found.path) == ("ab", link)


# Damage.


def test_a_torn_last_line_loses_that_line_only(path: Path) -> None:
    whole_file = session(path, *chain("abc")).read_bytes()
    start = whole_file.rindex(b"\n", 0, -1) + 1
    for end in range(start + 1, len(whole_file) - 1):
        path.write_bytes(whole_file[:end])
        found = opened(path)
        assert (branch(found), len(found.problems)) == ("ab", 1), end
        assert found.problems[0].startswith("line 4: unreadable, skipped (")


def test_a_missing_newline_at_the_end_loses_nothing(path: Path) -> None:
    found = opened(session(path, *chain("abc"), end=b""))
    assert (branch(found), found.problems) == ("abc", [])


def test_a_tail_of_nuls_loses_nothing_else(path: Path) -> None:
    found = opened(session(path, *chain("abc"), end=b"\n" + b"\0" * 4096))
    assert (branch(found), len(found.problems)) == ("abc", 1)


@pytest.mark.parametrize(
    "junk",
    [
        b"\0" * 100,
        b"garbage",
        b"null",
        b"5",
        b'"text"',
        b"[]",
        b"{}",
        b'{"type":"message","id":"b"',
        b'{"type":"message","parentId":"a","timestamp":"t"}',
        b'{"type":"message","id":5,"parentId":"a"}',
        b'{"type":5,"id":"b","parentId":"a"}',
        b'{"type":"message","id":"b","parentId":"a","message":{"role":"user","content":"\xff\xfe"}}',
        b'{"type":"message","id":"b","parentId":"a","x":NaN}',
        b'{"type":"message","id":"b","parentId":"a","x":' + b"[" * 1_000_000 + b"]" * 1_000_000 + b"}",
        b"[" * 1_000_000,
        b"\xff" * 1000,
    ],
)
def test_a_destroyed_line_loses_that_line_only(path: Path, junk: bytes) -> None:
    found = opened(session(path, message("a", None), junk, message("c", "b"), message("d", "c")))
    assert (branch(found), whole(found)) == ("acd", "acd")
    assert found.problems[0].startswith("line 3: unreadable, skipped (")
    assert found.problems[1:] == ["line 4: its parent b is missing; attached to the entry before it"]


def test_an_entry_whose_parent_is_lost_goes_on_from_the_entry_before_it(path: Path) -> None:
    found = opened(session(path, message("a", "lost"), message("b", "a"), message("c", "lost"), message("d", "b")))
    assert [found.tree.parent(at) for at in range(4)] == [ROOT, 0, 1, 1]
    assert found.problems == [
        "line 2: its parent lost is missing; attached to the entry before it",
        "line 4: its parent lost is missing; attached to the entry before it",
    ]


def test_an_entry_that_names_no_parent_goes_on_from_the_entry_before_it(path: Path) -> None:
    lines = [message("a", None), {**message("b", None)}, message("c", "b")]
    del lines[1]["parentId"]
    found = opened(session(path, *lines))
    assert (branch(found), len(found.problems)) == ("abc", 1)


@pytest.mark.promise("D07")
def test_a_circle_is_impossible(path: Path) -> None:
    found = opened(session(path, message("a", "b"), message("b", "c"), message("c", "a"), message("d", "d")))
    assert [found.tree.parent(at) for at in range(4)] == [ROOT, 0, 0, 2]
    assert (branch(found), len(found.problems)) == ("acd", 3)
    assert found.tree.json().count(b'"children"') == 4


@pytest.mark.promise("D08")
def test_a_second_entry_with_an_id_stays_where_it_is(path: Path) -> None:
    found = opened(session(path, *chain("abc"), message("b", "a", "again"), message("d", "b")))
    assert [found.tree.parent(at) for at in range(5)] == [ROOT, 0, 1, 0, 3]
    assert (whole(found), found.tree.find("b"), found.problems) == (
        "abcbd",
        1,
        ["line 5: second entry with the id b"],
    )


@pytest.mark.promise("D08")
def test_a_whole_line_of_descent_that_stands_twice_is_read(path: Path) -> None:
    found = opened(session(path, *chain("abc"), *chain("abc")))
    assert (whole(found), branch(found), len(found.problems)) == ("abcabc", "abc", 3)


def test_many_problems_are_counted(path: Path) -> None:
    found = opened(session(path, *chain("a"), *[b"junk"] * 1000))
    assert (branch(found), len(found.problems), found.problems[-1]) == ("a", 6, "and 995 more like these")


FIELDS = ("timestamp", "message", "summary", "firstKeptEntryId", "tokensBefore", "targetId", "label", "name")
SHAPES: tuple[Any, ...] = (None, 5, -1.5, True, "", "x", [], [None], {}, {"role": "user"}, {"role": "assistant"})
TYPES = (
    *("message", "compaction", "branch_summary", "custom_message", "label", "session_info", "custom", "model_change"),
    *("thinking_level_change", "context_edit", "usage", "", "session"),
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
MESSAGES = st.fixed_dictionaries(
    {"role": st.sampled_from(["user", "assistant", "toolResult", "bashExecution", "custom", "system", ""])},
    optional={
        name: VALUES for name in ("content", "timestamp", "usage", "stopReason", "provider", "model", "toolCallId")
    },
)
ENTRIES = st.fixed_dictionaries(
    {"type": st.sampled_from(TYPES), "id": st.sampled_from("abcdefgh"), "parentId": st.sampled_from([None, *"abcdz"])},
    optional={
        **{name: st.sampled_from(SHAPES) | VALUES for name in FIELDS},
        "message": VALUES | MESSAGES,
        "content": VALUES,
        "customType": st.just("tau.queued") | VALUES,
        "data": VALUES,
    },
)


@pytest.mark.promise("D09")
@settings(deadline=None, max_examples=200, derandomize=True, database=None)
@given(st.lists(ENTRIES, max_size=8))
def test_whatever_shapes_its_entries_have_a_session_opens_and_answers(lines: list[Json]) -> None:
    with TemporaryDirectory() as folder:
        found = opened(session(Path(folder, "s.jsonl"), *lines))
    assert len(found.tree) == len(lines)
    log = SessionLog(found.header, None, lambda error: None, found.tree)
    told = [json.loads(said) for said in sent(log)]
    assert all(isinstance(said["role"], str) for said in told)
    assert len(log.messages) == len(told)
    json.loads(found.tree.json())
    _ = log.message_count, log.tree.name, log.tree.fork_points(), log.last_model(), log.last_level()
    assert log.pending_queue.undelivered() is not None
    clone = copies.clone(log)
    assert [json.loads(said) for said in sent(clone)] == told
    json.loads(clone.tree.json())


def test_random_damage_never_costs_more_than_the_lines_it_hit(path: Path) -> None:
    ids = [f"e{at}" for at in range(60)]
    lines = [encode(message(id, parent)) for id, parent in zip(ids, [None, *ids], strict=False)]
    dice = random.Random(4)
    for _ in range(300):
        spoilt = list(lines)
        hit = set(dice.sample(range(60), dice.randrange(1, 6)))
        for at in hit:
            start = dice.randrange(len(lines[at]))
            end = min(len(lines[at]), start + dice.randrange(1, 40))
            spoilt[at] = lines[at][:start] + bytes(dice.choices(b"\x00{}\"',x[]\\ ", k=end - start)) + lines[at][end:]
        found = opened(session(path, *spoilt))
        there = {found.tree.id(at) for at in found.tree.branch}
        assert there >= {id for at, id in enumerate(ids) if at not in hit}
        assert len(found.tree.branch) == len(found.tree)


# Large.


def test_a_huge_line_is_read_as_any_other(path: Path) -> None:
    found = opened(session(path, message("a", None), message("b", "a", "x" * 20_000_000), message("c", "b")))
    assert (branch(found), len(found.tree.line(1)), found.problems) == (
        "abc",
        len(encode(message("b", "a", "x"))) + 19_999_999,
        [],
    )


def test_many_entries_are_read_in_linear_time_and_little_memory(path: Path) -> None:
    count = 100_000
    with path.open("wb") as file:
        file.write(encode(HEADER) + b"\n")
        for at in range(count):
            # Every tenth goes back to the one but one before: a tree, and no single line.
            file.write(
                encode(message(f"{at:08x}", f"{at - 2 if at % 10 == 9 else at - 1:08x}" if at else None)) + b"\n"
            )
    found = open_session(path)
    assert (len(found.tree), found.problems) == (count, [])
    assert len(found.tree.branch) == count - count // 10


# What is no session.


NO_SESSIONS = {
    "empty": b"",
    "blank": b"\n\n\n",
    "notes.md": b"# Notes\n\n- buy milk\n",
    "passwd": b"root:x:0:0:root:/root:/bin/sh\n",
    "other.json": b'{"type":"sessions","id":"x"}\n',
    "other.jsonl": encode(message("a", None)) + b"\n",
    "torn header": encode(HEADER)[:40] + b"\n" + encode(message("a", None)) + b"\n",
    "no id": b'{"type":"session","version":3}\n',
    "number as id": b'{"type":"session","version":3,"id":5}\n',
    "null": b"null\n",
    "deep": b"[" * 100_000 + b"\n",
    "binary": bytes(range(256)) * 100,
    "one long line": b"x" * 10_000_000,
}


@pytest.mark.promise("D04", "D06")
@pytest.mark.parametrize("name", NO_SESSIONS)
def test_what_is_no_session_is_refused_and_left_alone(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_bytes(NO_SESSIONS[name])
    stamp = path.stat()
    with pytest.raises(CommandError) as refused:
        open_session(path)
    assert str(refused.value) == f"{path} is not a session file; it was left untouched."
    assert (path.read_bytes(), path.stat().st_mtime_ns, [*tmp_path.iterdir()]) == (
        NO_SESSIONS[name],
        stamp.st_mtime_ns,
        [path],
    )


def test_a_file_of_any_size_that_is_no_session_is_refused_at_once(tmp_path: Path) -> None:
    path = tmp_path / "big.log"
    with path.open("wb") as file:
        file.truncate(1 << 40)  # a terabyte of nothing
    with pytest.raises(CommandError, match="not a session file"):
        open_session(path)


@pytest.mark.promise("H10")
def test_what_is_not_a_regular_file_is_refused_at_once(tmp_path: Path) -> None:
    fifo, folder, link = tmp_path / "fifo.jsonl", tmp_path / "folder.jsonl", tmp_path / "link.jsonl"
    os.mkfifo(fifo)
    folder.mkdir()
    link.symlink_to(fifo)
    for path in (fifo, folder, link, Path("/dev/zero"), Path("/dev/null")):
        with pytest.raises(CommandError) as refused:
            open_session(path)
        assert str(refused.value) == f"{path} is not a regular file, so it cannot be a session."


def test_what_cannot_be_opened_is_refused_with_the_reason(tmp_path: Path) -> None:
    dangling = tmp_path / "dangling.jsonl"
    dangling.symlink_to(tmp_path / "nowhere")
    with socket.socket(socket.AF_UNIX) as ear:
        ear.bind(str(tmp_path / "ear"))
        for path, why in (
            (tmp_path / "missing.jsonl", "No such file or directory"),
            (tmp_path / "no" / "folder.jsonl", "No such file or directory"),
            (dangling, "No such file or directory"),
            (tmp_path / "ear", "No such device or address"),
        ):
            with pytest.raises(CommandError) as refused:
                open_session(path)
            assert str(refused.value) == f"Cannot open session {path}: {why}"


def test_refusing_leaves_nothing_open(tmp_path: Path) -> None:
    session(tmp_path / "s.jsonl", *chain("a"))
    before = len(os.listdir("/proc/self/fd"))
    for name in ("s.jsonl", ".", "missing"):
        try:
            open_session(tmp_path / name)
        except CommandError:
            continue
    assert len(os.listdir("/proc/self/fd")) <= before  # what other tests have left may be closed meanwhile


# Where they are.


@pytest.mark.parametrize(
    ("cwd", "name"),
    [
        ("/home/ana/work dir", "--home-ana-work dir--"),
        ("/", "----"),
        ("/a-b", "--a-b--"),
        ("/a/b", "--a-b--"),
        ("/a/b/", "--a-b---"),
        ("/ünï/写", "--ünï-写--"),
        ("C:\\Users\\x", "--C--Users-x--"),
        ("//a", "---a--"),
        ("/a.b:c", "--a.b-c--"),
    ],
)
def test_a_project_has_a_folder_named_as_pi_names_it(cwd: str, name: str) -> None:
    assert folder_for(cwd, Path("/agent")) == Path("/agent/sessions") / name


@pytest.mark.parametrize("part", ["a" * 62, "日" * 20, "é" * 31 + "\udcff"], ids=["ascii", "kanji", "bytes"])
def test_the_name_of_the_folder_fits_into_a_file_system(part: str, tmp_path: Path) -> None:
    within, beyond, other = ("/" + "/".join([part] * 6 + [end]) for end in ("", "a", "b"))
    named = [folder_for(cwd, tmp_path).name for cwd in (beyond, other, within)]
    assert len({*named}) == 3 and all(name.startswith("--" + part[:20]) and name.endswith("--") for name in named)
    assert {len(os.fsencode(name)) for name in named} <= {*range(250, 256)}
    for name in named:
        (tmp_path / name).mkdir()


def test_a_name_that_just_fits_is_not_cut() -> None:
    assert folder_for("/" + "a" * 251, Path("/agent")).name == f"--{'a' * 251}--"
    assert folder_for("/" + "a" * 252, Path("/agent")).name != f"--{'a' * 252}--"


def test_a_session_has_a_file_named_as_pi_names_it() -> None:
    header = Header(id="bd0f11a0-9f6f", timestamp="2026-11-15T01:18:20.883Z", cwd="/w")
    assert file_name(header) == "2026-11-15T01-18-20-883Z_bd0f11a0-9f6f.jsonl"


def test_folders_that_have_to_be_made_are_private_and_others_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir(mode=0o755)
    (tmp_path / "a").chmod(0o755)
    make_folder(tmp_path / "a" / "b" / "c")
    make_folder(tmp_path / "a" / "b" / "c")
    modes = [(tmp_path / name).stat().st_mode & 0o777 for name in ("a", "a/b", "a/b/c")]
    assert modes == [0o755, 0o700, 0o700]


def test_what_others_cut_off_while_it_is_open_is_left_out(path: Path) -> None:
    long = "x" * 200_000  # more than is read at once
    found = opened(
        session(path, *(message(id, parent, long) for id, parent in zip("abcd", (None, *"abc"), strict=True)))
    )
    log = SessionLog(found.header, None, lambda error: None, found.tree)
    os.truncate(path, path.stat().st_size // 2)
    assert len(sent(log)) == 1


def test_a_file_that_was_cut_off_is_an_error_of_the_commands_that_need_its_lines(path: Path) -> None:
    long = "x" * 200_000  # more than is kept of what was read last
    lines = (message(id, parent, long) for id, parent in zip("abcd", (None, *"abc"), strict=True))
    found = opened(session(path, *lines))
    os.truncate(path, 0)
    sentence = f"The session file {path} was cut off by another program."
    for wanted in (lambda: [*found.tree.after(None)], found.tree.json, lambda: found.tree.id(2)):
        with pytest.raises(CommandError) as error:
            wanted()
        assert str(error.value) == sentence
    assert found.tree.entry(2) == UnknownEntry("unreadable", "")


# Fork points.


def said_by_model(id: str, parent: str | None, text: str = "") -> Json:
    line = message(id, parent, text)
    line["message"] |= {"role": "assistant", "content": [{"type": "text", "text": 'not "role":"user"'}]}
    return line


def reversed_fields(line: Json) -> bytes:
    """The same entry with a space after each colon, and with its fields the other way round."""
    return json.dumps({**dict(reversed(line.items())), "message": dict(reversed(line["message"].items()))}).encode()


@pytest.mark.parametrize(
    "entries",
    [
        [message("a", None), said_by_model("b", "a"), message("c", "b"), said_by_model("d", "c")],
        [
            message("a", None),
            said_by_model("x", "a"),
            said_by_model("b", "a"),
            message("c", "b"),
        ],  # x is on another branch
        [message("a", None), b"torn", said_by_model("b", "a"), message("c", "b")],
        [reversed_fields(message("a", None)), reversed_fields(said_by_model("b", "a")), message("c", "b")],
        [message("a", None), {**said_by_model("b", "a"), "message": "no object"}, message("c", "b")],
    ],
    ids=["one line", "two branches", "a torn line", "other order of fields", "a message of another shape"],
)
def test_fork_points_of_a_file_are_known_when_it_is_open(tmp_path: Path, entries: list[Json | bytes]) -> None:
    path = session(tmp_path / "s.jsonl", *entries)
    tree = open_session(path).tree
    os.truncate(path, 0)  # so that nothing can be read again
    assert [(point.entry_id, point.text) for point in tree.fork_points()] == [("a", "A"), ("c", "C")]


def test_fork_points_that_are_too_large_to_be_kept_are_read_again(tmp_path: Path) -> None:
    large = "x" * (prompts.KEPT_POINT_BYTES + 1)
    path = session(tmp_path / "s.jsonl", message("a", None), message("b", "a", large), message("c", "b"))
    tree = open_session(path).tree
    assert [point.text for point in tree.fork_points()] == ["A", large, "C"]


def test_only_some_megabytes_of_prompts_are_kept(tmp_path: Path) -> None:
    text = "x" * 10_000
    ids = [f"e{number}" for number in range(500)]
    entries = [message(id, parent, text) for id, parent in zip(ids, [None, *ids], strict=False)]
    path = session(tmp_path / "s.jsonl", *entries)
    tree = open_session(path).tree
    assert [point.entry_id for point in tree.fork_points()] == ids
    os.truncate(path, 0)
    with pytest.raises(CommandError, match="was cut off by another program"):  # the others are read again
        tree.fork_points()

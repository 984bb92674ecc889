from __future__ import annotations

import json
from typing import Any

import pytest

from support.loop_kit import assistant, user
from support.whole_branch import context
from tau.core.conversation.entry_messages import compacted_messages, message_of, summary_of
from tau.core.conversation.file_lines import BytesSource, FileLines
from tau.core.conversation.prompts import prompt_text
from tau.core.conversation.system_state import SystemState
from tau.core.conversation.tree import CODES, ROOT, Tree
from tau.records.base import attach_source, encode, wire_json
from tau.records.entries import (
    AnyEntry,
    BranchSummaryEntry,
    CompactionEntry,
    CustomEntry,
    CustomMessageEntry,
    Label,
    MessageEntry,
    ModelChange,
    SessionInfo,
    milliseconds,
)
from tau.records.lines import UnknownEntry
from tau.records.messages import (
    AnyMessage,
    BranchSummary,
    CompactionSummary,
    Custom,
    Image,
    System,
    Text,
    User,
)
from tau.records.replies import ForkPoint

TIME = "2026-01-01T00:00:00.000Z"
AT = 1767225600000


def message_entry(id: str, parent: str | None, text: str) -> MessageEntry:
    return MessageEntry(id, parent, TIME, user(text))


def chain(count: int) -> list[AnyEntry]:
    return [message_entry(str(at), str(at - 1) if at else None, "hi") for at in range(count)]


def grown(*entries: AnyEntry) -> Tree:
    """A tree to which these were added, each under the parent it names."""
    tree = Tree()
    for entry in entries:
        parent = ROOT if entry.parent_id is None else tree.find(entry.parent_id)
        assert parent is not None
        tree.leaf = parent
        tree.add(wire_json(entry), entry.id, str(entry.__struct_config__.tag))
    return tree


def ids(tree: Tree, places: list[int]) -> str:
    return "".join(tree.id(at) for at in places)


def conversation(tree: Tree) -> list[AnyMessage]:
    """What the model sees, read as sparingly as a session reads it."""
    summary, places = tree.seen()
    messages = [message_of(tree.entry(at)) for at in places]
    seen = [*([summary_of(summary)] if summary else []), *(message for message in messages if message is not None)]
    assert seen == context([tree.entry(at) for at in tree.branch])
    return seen


#   a ── b ── c
#         └── d ── e
FORKED = [
    message_entry("a", None, "A"),
    message_entry("b", "a", "B"),
    message_entry("c", "b", "C"),
    message_entry("d", "b", "D"),
    message_entry("e", "d", "E"),
]


def shape(nodes: list[dict[str, Any]]) -> str:
    return "".join(f"{node['entry']['id']}({shape(node['children'])})" for node in nodes)


def test_the_leaf_is_what_was_added_last() -> None:
    empty, tree = Tree(), grown(*FORKED)
    assert (empty.leaf, empty.leaf_id, len(empty), [*empty.branch]) == (ROOT, None, 0, [])
    assert (tree.leaf, tree.leaf_id, len(tree)) == (4, "e", 5)


def test_a_branch_is_the_way_from_the_root_to_the_leaf() -> None:
    tree = grown(*FORKED)
    assert (ids(tree, tree.branch), ids(tree, tree.path(2)), [*tree.path(ROOT)]) == ("abde", "abc", [])


def test_what_is_added_hangs_on_the_leaf_wherever_it_was_moved() -> None:
    tree = grown(*FORKED)
    tree.leaf = 2
    assert tree.leaf_id == "c"
    tree.add(wire_json(message_entry("f", "c", "F")), "f", "message")
    assert (tree.leaf_id, ids(tree, tree.branch), tree.find("f")) == ("f", "abcf", 5)
    tree.leaf = ROOT
    tree.add(wire_json(message_entry("g", None, "G")), "g", "message")
    assert ids(tree, tree.branch) == "g"


def test_entries_are_found_by_id_and_by_what_came_after() -> None:
    tree = grown(*FORKED)
    assert (tree.find("b"), tree.find("zork"), "b" in tree, "zork" in tree) == (1, None, True, False)
    assert (tree.entry(1), tree.kind(1), tree.parent(1)) == (FORKED[1], "message", 0)
    lines = [wire_json(entry) for entry in FORKED]
    assert [list(tree.after(since)) for since in (None, "c", "e")] == [lines, lines[3:], []]


def test_the_first_of_two_entries_with_one_id_is_found() -> None:
    content = [
        wire_json(entry)
        for entry in (message_entry("a", None, "A"), message_entry("b", "a", "B"), message_entry("a", "b", "again"))
    ]
    tree = Tree(lines(*content), (ROOT, 0, 1), (1, 1, 1))
    assert (tree.find("a"), list(tree.after("a")), [*tree.branch]) == (0, content[1:], [0, 1, 2])


def lines(*content: bytes) -> FileLines:
    """As a file is read: one piece of bytes, and where the lines are in it."""
    data = b"\n".join(content)
    starts = [sum(len(line) + 1 for line in content[:at]) for at in range(len(content))]
    return FileLines(
        BytesSource(data), starts, [start + len(line) for start, line in zip(starts, content, strict=True)]
    )


def test_lines_that_were_read_and_lines_that_were_added_are_one_row() -> None:
    row = lines(b"one", b"", b"three")
    row.append(b"four")
    assert [row[at] for at in range(len(row))] == [b"one", b"", b"three", b"four"]


def test_the_whole_tree_is_shown_with_children_in_order() -> None:
    assert shape(json.loads(grown(*FORKED).json())) == "a(b(c()d(e())))"
    assert Tree().json() == b"[]"


def test_a_second_root_is_shown_beside_the_first() -> None:
    assert shape(json.loads(grown(*FORKED, message_entry("z", None, "Z")).json())) == "a(b(c()d(e())))z()"


def test_the_last_label_of_an_entry_is_shown() -> None:
    labels = [
        Label("l1", "a", "T1", "a", "first"),
        Label("l2", "l1", "T2", "a", "last"),
        Label("l3", "l2", "T3", "l1", "gone"),
        Label("l4", "l3", "T4", "l1", None),
        Label("l5", "l4", "T5", "nobody", "lost"),
    ]
    a = json.loads(grown(message_entry("a", None, "A"), *labels).json())[0]
    assert (a["label"], a["labelTimestamp"]) == ("last", "T2")
    assert "label" not in a["children"][0]


def test_a_very_long_branch_is_no_trouble() -> None:
    tree = grown(*chain(20_000))
    assert len(tree.branch) == len(tree.fork_points()) == len(conversation(tree)) == 20_000
    assert tree.json().count(b'"children"') == 20_000


def test_the_name_is_the_last_that_was_given() -> None:
    names = [
        SessionInfo("1", None, TIME, "old"),
        SessionInfo("2", "1", TIME, "new"),
        SessionInfo("3", "2", TIME, ""),
    ]
    assert (Tree().name, grown(*names).name) == (None, "new")


# What the model sees.


def test_the_conversation_is_the_messages_of_the_branch() -> None:
    tree = grown(
        ModelChange("m", None, TIME, "lab", "m-1"),
        message_entry("a", "m", "A"),
        CustomEntry("x", "a", TIME, "state", {}),
        CustomMessageEntry("n", "x", TIME, "note", "hey", True, {"d": 1}),
        BranchSummaryEntry("s", "n", TIME, "c", "elsewhere"),
        BranchSummaryEntry("t", "s", TIME, "c", ""),
        MessageEntry("b", "t", TIME, assistant("B")),
    )
    assert conversation(tree) == [
        user("A"),
        Custom("note", "hey", True, {"d": 1}, AT),
        BranchSummary("elsewhere", "c", AT),
        assistant("B"),
    ]


def test_other_branches_are_not_seen() -> None:
    tree = grown(*FORKED)
    assert conversation(tree) == [user(text) for text in "ABDE"]
    tree.leaf = 2
    assert conversation(tree) == [user(text) for text in "ABC"]
    tree.leaf = ROOT
    assert conversation(tree) == []


def test_a_summary_stands_for_what_came_before_what_was_kept() -> None:
    tree = grown(*chain(4), CompactionEntry("s", "3", TIME, "long ago", "2", 99), message_entry("5", "s", "after"))
    assert conversation(tree) == [CompactionSummary("long ago", 99, AT), user("hi"), user("hi"), user("after")]


def test_only_the_last_summary_counts() -> None:
    first, second = CompactionEntry("s", "1", TIME, "old", "1", 1), CompactionEntry("t", "s", TIME, "new", "1", 2)
    assert conversation(grown(*chain(2), first, second)) == [CompactionSummary("new", 2, AT), user("hi")]


def test_a_summary_of_another_branch_does_not_count() -> None:
    tree = grown(*chain(2), CompactionEntry("s", "1", TIME, "there", "1", 1))
    tree.leaf = 1
    assert conversation(tree) == [user("hi"), user("hi")]


@pytest.mark.parametrize("kept", ["lost", "s", "\ud800"])
def test_a_summary_whose_first_kept_entry_is_not_before_it_keeps_nothing(kept: str) -> None:
    tree = grown(*chain(2), CompactionEntry("s", "1", TIME, "long ago", kept, 9))
    assert conversation(tree) == [CompactionSummary("long ago", 9, AT)]


def system_entry(id: str, parent: str, **declared: Any) -> MessageEntry:
    message = {"role": "system", "content": "", "timestamp": 1, **declared}
    line = encode({"type": "message", "id": id, "parentId": parent, "timestamp": TIME, "message": message})
    return attach_source(message_entry(id, parent, ""), line)


def test_the_system_message_of_a_compaction_replaces_those_that_were_kept() -> None:
    whole = {"role": "system", "content": "", "sections": {"a": "A", "b": "B"}, "timestamp": 2}
    compaction = CompactionEntry("s", "3", TIME, "long ago", "1", 99, system_message=whole)
    kept = system_entry("2", "1", sections={"b": "B"})
    later = system_entry("5", "s", sections={"b": None, "c": "C"}, toolsAdded=[{"name": "ls"}])
    tree = grown(*chain(2), kept, message_entry("3", "2", "hi"), compaction, later)
    summary, places = tree.seen()
    assert summary is not None and ids(tree, places) == "135"
    assert json.loads(wire_json(compacted_messages(summary)[0])) == whole
    assert tree.seen_count() == 5
    assert SystemState(tree.system_messages()).message(7) == System("", 7, {"a": "A", "c": "C"}, [{"name": "ls"}])


@pytest.mark.parametrize("wrong", [None, 5, {}, {"role": "user", "content": "hi", "timestamp": 1}])
def test_a_compaction_with_a_wrong_system_message_has_only_its_summary(wrong: Any) -> None:
    tree = grown(*chain(2), CompactionEntry("s", "1", TIME, "long ago", "1", 99, system_message=wrong))
    assert conversation(tree) == [CompactionSummary("long ago", 99, AT), user("hi")]
    assert tree.seen_count() == 2


# Entries of a wrong shape.


def test_an_entry_of_a_wrong_shape_keeps_its_place_and_says_nothing() -> None:
    tree = grown(message_entry("a", None, "A"))
    for kind in ("message", "label", "session_info", "compaction", "custom_message", "branch_summary", "zork"):
        broken = encode({"type": kind, "id": f"bad {kind}", "parentId": tree.leaf_id, "timestamp": 5})
        tree.add(broken, f"bad {kind}", kind)
    tree.add(wire_json(message_entry("b", tree.leaf_id, "B")), "b", "message")
    assert tree.entry(1) == UnknownEntry("unreadable", "bad message")
    assert conversation(tree) == [user("A"), user("B")]
    assert (tree.name, [point.entry_id for point in tree.fork_points()]) == (None, ["a", "b"])
    assert len(list(tree.after(None))) == tree.json().count(b'"children"') == 9


def test_a_broken_summary_leaves_the_one_before_it_in_force() -> None:
    tree = grown(*chain(2), CompactionEntry("s", "1", TIME, "old", "1", 1))
    tree.add(encode({"type": "compaction", "id": "t", "parentId": "s", "timestamp": TIME}), "t", "compaction")
    summary, places = tree.seen()
    assert (summary and summary.summary, places) == ("old", [1])


# Where one can fork.


def test_one_can_fork_before_each_message_of_the_user_on_every_branch() -> None:
    tree = grown(*FORKED, MessageEntry("f", "e", TIME, assistant('"user"')))
    assert tree.fork_points() == [ForkPoint(id, id.upper()) for id in "abcde"]


def test_one_can_fork_before_messages_however_their_lines_are_written() -> None:
    rows = [
        wire_json(message_entry("a", None, 'they wrote {"role":"user"}')),
        wire_json(MessageEntry("b", "a", TIME, assistant("hi"))),
    ]
    rows += [json.dumps(json.loads(wire_json(message_entry(id, None, id))), indent=None).encode() for id in "cd"]
    upside_down = json.loads(rows[-1])
    upside_down["message"] = dict(reversed(upside_down["message"].items()))
    rows += [
        json.dumps(upside_down).encode().replace(b'"d"', b'"e"'),
        b'{"type":"message","id":"f","message":{"role":"user"}}',
    ]
    tree = Tree(lines(*rows), range(-1, len(rows) - 1), [CODES["message"]] * len(rows))
    tree.add(wire_json(message_entry("g", "f", "g")), "g", "message")
    assert [point.entry_id for point in tree.fork_points()] == list("acdeg")


ODD_LINES = {
    "another entry": b'{"type":"label","id":"x","targetId":"a","label":"\\"role\\":\\"user\\""}',
    "an escaped text": wire_json(message_entry("x", None, 'say "hi"\n\t\\ \u2713 ","text":"')),
    "a text that is a number": wire_json(message_entry("x", None, "?")).replace(b'"?"', b"5"),
    "a text that is an object": wire_json(message_entry("x", None, "?")).replace(b'"?"', b'{"a":"","text":""}'),
    "an image": wire_json(MessageEntry("x", None, TIME, User([Text("look "), Image("QUJD", "image/png")], 0))),
    "plain content": wire_json(MessageEntry("x", None, TIME, User("plain", 0))),
    "half a line": wire_json(message_entry("x", None, "?"))[:-9],
}


@pytest.mark.parametrize("odd", ODD_LINES.values(), ids=ODD_LINES.keys())
def test_fork_points_as_json_are_the_fork_points(odd: bytes) -> None:
    rows = [wire_json(message_entry("a", None, "before")), odd, wire_json(message_entry("b", "a", "after"))]
    tree = Tree(lines(*rows), range(-1, len(rows) - 1), [CODES["message"]] * len(rows))
    points = tree.fork_points()
    assert tree.fork_points_json() == encode(points)
    assert [point.text for point in points if point.entry_id != "x"] == ["before", "after"]
    assert Tree().fork_points_json() == b"[]"


def test_all_entries_are_parsed_as_each_is_by_itself() -> None:
    deep = wire_json(message_entry("c", "b", "deep")).replace(
        b'"timestamp":', b'"details":%b,"timestamp":' % _deep(400), 1
    )
    tree = grown(*FORKED, MessageEntry("f", "e", TIME, assistant("hi")))
    tree.add(deep, "g", "message")
    tree.add(b'{"type":"message","id":"h","message":{"role":"unknown"}}', "h", "message")
    tree.add(b'{"type":"future","id":"i"}', "i", "future")
    assert list(tree.entries()) == [tree.entry(at) for at in range(len(tree))]
    assert list(Tree().entries()) == []


def _deep(levels: int) -> bytes:
    return b"[" * levels + b"]" * levels


def test_the_text_of_a_prompt_is_its_text_blocks() -> None:
    content: list[Text | Image] = [Text("look "), Image("QUJD", "image/png"), Text("here")]
    assert prompt_text(MessageEntry("a", None, TIME, User(content, 0))) == "look here"
    assert prompt_text(MessageEntry("a", None, TIME, User("plain", 0))) == "plain"
    assert prompt_text(MessageEntry("a", None, TIME, assistant("no"))) is None
    assert prompt_text(None) is None


# Times.


@pytest.mark.parametrize(
    ("iso", "expected"),
    [
        (TIME, AT),
        ("1970-01-01T00:00:00.000Z", 0),
        ("2024-02-29T23:59:59.999Z", 1709251199999),
        ("2000-03-01T00:00:00Z", 951868800000),
        ("2026-01-01T00:00:00.5Z", AT + 500),
        ("2026-01-01T00:00:00.123456Z", AT + 123),
        ("yesterday", 0),
        ("", 0),
    ],
)
def test_a_timestamp_is_read_as_unix_milliseconds(iso: str, expected: int) -> None:
    assert milliseconds(iso) == expected

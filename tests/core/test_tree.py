from __future__ import annotations

import json
from typing import Any

from kit import assistant, user
from tau.core.tree import Tree, context, prompt_text
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
)
from tau.records.messages import BranchSummary, CompactionSummary, Custom, Image, Text, User
from tau.records.replies import ForkPoint

TIME = "2026-01-01T00:00:00.000Z"


def said(id: str, parent: str | None, text: str) -> MessageEntry:
    return MessageEntry(id, parent, TIME, user(text))


def chain(count: int) -> list[AnyEntry]:
    return [said(str(at), str(at - 1) if at else None, "hi") for at in range(count)]


def ids(entries: list[AnyEntry]) -> str:
    return "".join(entry.id for entry in entries)


#   a ── b ── c
#         └── d ── e
FORKED = [said("a", None, "A"), said("b", "a", "B"), said("c", "b", "C"), said("d", "b", "D"), said("e", "d", "E")]


def shape(nodes: list[dict[str, Any]]) -> str:
    return "".join(f"{node['entry']['id']}({shape(node['children'])})" for node in nodes)


def test_the_leaf_is_what_was_added_last() -> None:
    assert (Tree().leaf, Tree(FORKED).leaf) == (None, "e")


def test_a_branch_is_the_way_from_the_root_to_the_leaf() -> None:
    tree = Tree(FORKED)
    assert (ids(tree.branch), ids(tree.path("c")), ids(tree.path(None)), ids(tree.path("zork"))) == (
        "abde",
        "abc",
        "",
        "",
    )


def test_entries_are_found_by_id_and_by_what_came_after() -> None:
    tree = Tree(FORKED)
    assert (tree.get("b"), tree.get("zork"), "b" in tree, "zork" in tree) == (FORKED[1], None, True, False)
    assert (ids(list(tree)), ids(tree.after(None)), ids(tree.after("c")), ids(tree.after("e"))) == (
        *("abcde", "abcde", "de", ""),
    )


def test_a_circle_ends() -> None:
    tree = Tree([said("a", "b", "A"), said("b", "a", "B"), said("c", "c", "C")])
    assert [ids(tree.path(leaf)) for leaf in "abc"] == ["ba", "ab", "c"]
    assert shape(json.loads(tree.json())) == "c()"


def test_an_entry_whose_parent_is_lost_is_a_root() -> None:
    tree = Tree([said("a", "lost", "A"), said("b", "a", "B")])
    assert (ids(tree.branch), shape(json.loads(tree.json()))) == ("ab", "a(b())")


def test_the_whole_tree_is_shown_with_children_in_order() -> None:
    assert shape(json.loads(Tree(FORKED).json())) == "a(b(c()d(e())))"


def test_the_last_label_of_an_entry_is_shown() -> None:
    labels = [
        Label("l1", "a", "T1", "a", "first"),
        Label("l2", "l1", "T2", "a", "last"),
        Label("l3", "l2", "T3", "b", None),
    ]
    a = json.loads(Tree([said("a", None, "A"), *labels]).json())[0]
    assert (a["label"], a["labelTimestamp"]) == ("last", "T2")
    assert "label" not in a["children"][0]


def test_a_very_long_branch_is_no_trouble() -> None:
    tree = Tree(chain(20_000))
    assert len(tree.branch) == len(tree.fork_points()) == len(context(tree.branch)) == 20_000
    assert tree.json().count(b'"children"') == 20_000


def test_a_long_branch_can_be_sent_to_the_client() -> None:
    assert Tree(chain(3000)).json().count(b'"children"') == 3000


def test_the_name_is_the_last_that_was_given() -> None:
    names = [SessionInfo("1", None, TIME, "old"), SessionInfo("2", "1", TIME, "new")]
    assert (Tree().name, Tree(names).name) == (None, "new")


# What the model sees.


def test_the_conversation_is_the_messages_of_the_branch() -> None:
    tree = Tree(
        [
            ModelChange("m", None, TIME, "lab", "m-1"),
            said("a", "m", "A"),
            CustomEntry("x", "a", TIME, "state", {}),
            CustomMessageEntry("n", "x", TIME, "note", "hey", True, {"d": 1}),
            BranchSummaryEntry("s", "n", TIME, "c", "elsewhere"),
            BranchSummaryEntry("t", "s", TIME, "c", ""),
            MessageEntry("b", "t", TIME, assistant("B")),
        ]
    )
    assert context(tree.branch) == [
        user("A"),
        Custom("note", "hey", True, {"d": 1}),
        BranchSummary("elsewhere", "c"),
        assistant("B"),
    ]


def test_a_summary_stands_for_what_came_before_what_was_kept() -> None:
    entries = [*chain(4), CompactionEntry("s", "3", TIME, "long ago", "2", 99), said("5", "s", "after")]
    assert context(Tree(entries).branch) == [CompactionSummary("long ago", 99), user("hi"), user("hi"), user("after")]


def test_only_the_last_summary_counts() -> None:
    first, second = CompactionEntry("s", "1", TIME, "old", "1", 1), CompactionEntry("t", "s", TIME, "new", "1", 2)
    assert context(Tree([*chain(2), first, second]).branch) == [CompactionSummary("new", 2), user("hi")]


def test_a_summary_whose_first_kept_entry_is_lost_keeps_nothing() -> None:
    entries = [*chain(2), CompactionEntry("s", "1", TIME, "long ago", "lost", 9)]
    assert context(Tree(entries).branch) == [CompactionSummary("long ago", 9)]


# Where one can fork.


def test_one_can_fork_before_each_message_of_the_user_on_the_branch() -> None:
    entries = [*FORKED, MessageEntry("f", "e", TIME, assistant("F"))]
    assert Tree(entries).fork_points() == [ForkPoint(id, id.upper()) for id in "abde"]


def test_the_text_of_a_prompt_is_its_text_blocks() -> None:
    content = [Text("look "), Image("QUJD", "image/png"), Text("here")]
    assert prompt_text(MessageEntry("a", None, TIME, User(content, 0))) == "look here"
    assert prompt_text(MessageEntry("a", None, TIME, User("plain", 0))) == "plain"
    assert prompt_text(MessageEntry("a", None, TIME, assistant("no"))) is None
    assert prompt_text(None) is None

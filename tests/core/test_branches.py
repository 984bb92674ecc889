from __future__ import annotations

from support.entry_builder import MODEL, Talk, call, ids, words
from tau.core.conversation.branches import Branch, BranchPlan, left_behind, prepare_branch
from tau.core.conversation.summaries import BRANCH, Files
from tau.core.conversation.tree import Tree
from tau.records.lines import OtherEntry
from tau.records.messages import BranchSummary, CompactionSummary, User

AT = 1767323045678  # when everything in a Talk is said


def test_a_branch_is_the_way_from_the_root_to_the_leaf() -> None:
    talk = Talk()
    talk.user("a")
    talk.says("b")
    talk.other()
    branch = Branch(talk.tree)
    assert [*branch] == talk.branch
    assert (len(branch), branch[-1], branch[1:], [*reversed(branch)]) == (
        3,
        talk.branch[-1],
        talk.branch[1:],
        talk.branch[::-1],
    )


def test_only_what_is_looked_at_is_read() -> None:
    tree = Tree()
    tree.add(b"not even JSON", "e1", "message")
    tree.add(b'{"type":"message","id":"e2","parentId":"e1","timestamp":7}', "e2", "message")
    branch = Branch(tree)
    assert branch[-1] == OtherEntry("unreadable", "e2")
    assert branch[-1] is branch[1]


def test_what_lies_between_the_leaf_and_the_fork_is_left_behind() -> None:
    talk = Talk()
    for text in ("a", "b", "c", "d"):
        talk.user(text)
    tree = talk.tree
    assert ids(left_behind(tree, 3, 1)) == ["e3", "e4"]
    assert ids(left_behind(tree, 3, -1)) == ["e1", "e2", "e3", "e4"]
    assert left_behind(tree, 1, 3) == []
    assert left_behind(tree, 3, 3) == []
    tree.leaf = 1
    tree.add(b'{"type":"label","id":"x","parentId":"e2","timestamp":"","targetId":"e1"}', "x", "label")
    assert ids(left_behind(tree, 4, 3)) == ["x"]
    assert ids(left_behind(tree, 3, 4)) == ["e3", "e4"]


def test_a_summary_is_made_of_what_was_said_and_not_of_what_tools_said() -> None:
    talk = Talk()
    user = talk.user("go")
    said = talk.says(call("1", "read", path="a"))
    talk.result("1", words(9000))
    talk.level()
    talk.says("half", stop="aborted")
    talk.bash("secret", exclude=True)
    nested = talk.branch_summary("N", details={"readFiles": ["n"], "modifiedFiles": ["m"]})
    earlier = talk.compaction("C", "e1", 9, details={"readFiles": ["c"]})
    foreign = talk.branch_summary("F", details={"readFiles": ["f"]}, from_hook=True)
    assert prepare_branch(talk.branch, 128_000, 16384) == BranchPlan(
        [
            user.message,
            said.message,
            BranchSummary("N", nested.from_id, AT),
            CompactionSummary("C", earlier.tokens_before, AT),
            BranchSummary("F", foreign.from_id, AT),
        ],
        Files(frozenset({"a", "c", "n"}), frozenset({"m"})),
    )


def test_the_newest_messages_that_fit_are_taken_and_the_files_of_all() -> None:
    talk = Talk()
    talk.says(words(30), call("1", "edit", path="old"))
    talk.user(words(50))
    talk.user(words(50))
    plan = prepare_branch(talk.branch, 1100, 1000)
    assert (plan.messages, plan.files) == (talk.messages[1:], Files(modified=frozenset({"old"})))


def test_a_summary_that_is_too_large_is_taken_while_there_is_room_for_something() -> None:
    talk = Talk()
    summary = talk.branch_summary(words(90))
    talk.user(words(50))
    assert prepare_branch(talk.branch, 1100, 1000).messages == [
        BranchSummary(summary.summary, "e1", AT),
        *talk.messages,
    ]
    talk.user(words(45))
    assert prepare_branch(talk.branch, 1100, 1000).messages == talk.messages


def test_a_branch_with_nothing_to_say_has_no_messages() -> None:
    talk = Talk()
    talk.level()
    talk.says("half", stop="aborted")
    assert prepare_branch(talk.branch, 128_000, 16384) == BranchPlan([], Files())


def test_a_reserve_larger_than_the_window_leaves_half_of_it() -> None:
    talk = Talk()
    talk.user(words(50))
    talk.user(words(1900))
    assert prepare_branch(talk.branch, 4000, 16384).messages == talk.messages
    assert prepare_branch(talk.branch, 3800, 16384).messages == talk.messages[1:]


PLAN = BranchPlan([User("go", 0)], Files(frozenset({"a"})))


def test_instructions_are_added_or_stand_in_place_of_ours() -> None:
    added = PLAN.request(MODEL, "high", 16384, "tests")
    assert added.prompt == (f"<conversation>\n[User]: go\n</conversation>\n\n{BRANCH}\n\nAdditional focus: tests")
    assert (added.title, added.max_tokens, added.thinking) == ("Branch summarization", 8192, "high")
    replaced = PLAN.request(MODEL, "high", 16384, "Only the tests.", replace=True)
    assert replaced.prompt == "<conversation>\n[User]: go\n</conversation>\n\nOnly the tests."
    assert PLAN.request(MODEL, "high", 16384, " ", replace=True) == PLAN.request(MODEL, "high", 16384)


def test_the_summary_begins_with_where_it_comes_from_and_ends_with_the_files() -> None:
    assert PLAN.summary("## Goal").split("\n") == [
        "The user left this point of the conversation for another branch and came back to it.",
        "This is what happened on that branch:",
        "",
        "## Goal",
        "",
        "<read-files>",
        "a",
        "</read-files>",
    ]

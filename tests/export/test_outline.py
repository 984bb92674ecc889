from __future__ import annotations

import json
from typing import Any

import pytest

from tau.export.outline import NO_ENTRY, Outline
from tau.export.titles import HIDDEN_KINDS, is_hidden, title
from tau.records.entries import AnyEntry
from tau.records.lines import read_entry


def tree(*links: str) -> list[dict[str, Any]]:
    """Entries from "id" for a root and "id<parent" for a child."""
    pairs = [link.partition("<") for link in links]
    return [{"type": "custom", "id": id, "parentId": parent or None} for id, _, parent in pairs]


@pytest.mark.parametrize(
    ("links", "leaf", "expected"),
    [
        ([], None, []),
        (["a", "b<a", "c<b"], "c", ["a", "b", "c"]),
        (["a", "b<a", "c<b"], "b", ["a", "b", "c"]),
        # The branch that is shown goes straight on, the other ones step aside before it does.
        (["a", "b<a", "c<a"], "b", ["a", " c", "b"]),
        (["a", "b<a", "c<a"], "c", ["a", " b", "c"]),
        (["a", "b<a", "c<b", "d<b", "e<a", "f<e"], "f", ["a", " b", "  c", " d", "e", "f"]),
        # Nothing is shown: the newest goes on.
        (["a", "b<a", "c<a"], None, ["a", " b", "c"]),
        # What has no parent in the file, or one further down, is a root. So is what is its own.
        (["a<lost", "b<a", "c<d", "d<c", "e<e"], "b", ["a", "b", "c", "d", "e"]),
    ],
)
def test_the_list_at_the_side(links: list[str], leaf: str | None, expected: list[str]) -> None:
    outline = Outline(tree(*links), leaf)
    assert [" " * depth + outline.ids[at] for at, depth in outline.order()] == expected


def test_the_branch_is_the_way_from_the_root_to_the_leaf() -> None:
    assert Outline(tree("a", "b<a", "c<a", "d<c"), "d").path == [0, 2, 3]


def test_an_unknown_leaf_shows_nothing() -> None:
    outline = Outline(tree("a"), "nowhere")
    assert (outline.leaf, outline.path) == (NO_ENTRY, [])


def test_every_entry_knows_the_newest_end_of_its_branches() -> None:
    assert Outline(tree("a", "b<a", "c<b", "d<a", "e<c"), "e").tips == [4, 4, 4, 3, 4]


def test_an_id_that_is_there_twice_means_the_first_and_both_are_kept() -> None:
    outline = Outline(tree("a", "b<a", "b<a", "c<b"), "c")
    assert (outline.ids, outline.path) == (["a", "b", "b~2", "c"], [0, 1, 3])


def test_an_entry_without_an_id_is_kept() -> None:
    assert Outline([{"type": "odd"}, {"id": 5}], None).ids == ["~0", "~1"]


def test_an_entry_of_an_unknown_type_is_the_object_of_its_line() -> None:
    line = b'{"type":"later","id":"a","parentId":null,"timestamp":"t","more":[1]}'
    outline = Outline([read_entry(line)], "a")
    assert outline.entries == [{"type": "later", "id": "a", "parentId": None, "timestamp": "t", "more": [1]}]


def test_a_branch_of_fifty_thousand_entries_is_no_trouble() -> None:
    links = ["0", *(f"{n}<{n - 1}" for n in range(1, 50_000))]
    outline = Outline(tree(*links), "49999")
    assert (len(outline.path), outline.order()[-1], outline.tips[0]) == (50_000, (49_999, 0), 49_999)


EVERY_KIND = [
    '"type":"message","message":{"role":"user","content":"hi","timestamp":0}',
    '"type":"message","message":{"role":"assistant","content":[],"timestamp":0}',
    '"type":"message","message":{"role":"toolResult","toolCallId":"1","toolName":"ls","content":[],"isError":true}',
    '"type":"message","message":{"role":"bashExecution","command":"ls","output":""}',
    '"type":"message","message":{"role":"custom","customType":"x","content":"","display":true}',
    '"type":"message","message":{"role":"custom","customType":"x","content":"","display":false}',
    '"type":"message","message":{"role":"branchSummary","summary":"s","fromId":"a"}',
    '"type":"message","message":{"role":"compactionSummary","summary":"s","tokensBefore":1}',
    '"type":"message","message":{"role":"system","content":"","timestamp":0}',
    '"type":"custom_message","customType":"x","content":"","display":true',
    '"type":"custom_message","customType":"x","content":"","display":false',
    '"type":"compaction","summary":"s","firstKeptEntryId":"a","tokensBefore":1',
    '"type":"branch_summary","fromId":null,"summary":"s"',
    '"type":"model_change","provider":"p","modelId":"m"',
    '"type":"thinking_level_change","thinkingLevel":"off"',
    '"type":"session_info","name":"n"',
    '"type":"label","targetId":"a","label":"l"',
    '"type":"context_edit","targetId":"a","replacement":null',
    '"type":"custom","customType":"x"',
    '"type":"of the future"',
]


@pytest.mark.parametrize("fields", EVERY_KIND)
def test_whether_an_entry_is_hidden_is_known_without_its_title(fields: str) -> None:
    (entry,) = Outline([read_entry(f'{{{fields},"id":"a","parentId":null,"timestamp":"t"}}'.encode())], None).entries
    assert is_hidden(entry) == (title(entry, None, "/")[0] in HIDDEN_KINDS)


def test_every_type_of_entry_is_tried_above() -> None:
    tried = {json.loads(f"{{{fields}}}")["type"] for fields in EVERY_KIND}
    assert {kind.__struct_config__.tag for kind in AnyEntry.__args__} <= tried

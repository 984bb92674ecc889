from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.loop_kit import MODEL, assistant, new_draft
from tau.core.agent.draft import REDACTED, Draft, MessageBegun, MessageDone, MessageFailed, Update
from tau.core.models.pricing import with_cost
from tau.records.base import decode, encode, parse, replace
from tau.records.deltas import (
    TextDelta,
    TextEnd,
    TextStart,
    ThinkingDelta,
    ThinkingEnd,
    ThinkingStart,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
)
from tau.records.events import MessageUpdate
from tau.records.messages import Assistant, Text, Thinking, ToolCall, Usage, UsageCost
from tau.records.models import Price

ANY_TEXT = st.text(st.characters(exclude_categories=()), max_size=6)
ARGUMENTS = st.dictionaries(
    st.text(max_size=4),
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=8),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
        max_leaves=6,
    ),
    max_size=4,
)


def call_of(*pieces: str) -> Draft:
    """A draft with one tool call whose arguments came in these pieces."""
    draft = new_draft()
    draft.open_call("c1", "bash")
    for piece in pieces:
        draft.add(0, piece)
    return draft


def so_far(draft: Draft) -> Any:
    """The message as it stands, as a client reads it."""
    return parse(encode(draft.message("stop")))


def shown(update: Update) -> Any:
    """The snapshot in an update; it stands in two places."""
    sent = parse(update.wire_json())
    assert sent["assistantMessageEvent"]["partial"] == sent["message"]
    return sent["message"]


# What is told.


def test_a_text_streams_in_deltas() -> None:
    draft = new_draft()
    told = [draft.begin(), draft.open("text"), draft.add(0, "Hel"), draft.add(0, "lo"), draft.close(0)]
    assert told[0] == MessageBegun(assistant())
    assert [update.delta for update in told[1:] if isinstance(update, Update)] == [
        TextStart(0),
        TextDelta(0, "Hel"),
        TextDelta(0, "lo"),
        TextEnd(0, "Hello"),
    ]
    assert draft.finish("stop") == [MessageDone(assistant("Hello"))]


def test_thinking_keeps_its_signature() -> None:
    draft = new_draft()
    told = [draft.open("thinking"), draft.add(0, "Hm")]
    draft.add_signature(0, "ab")
    draft.add_signature(0, "c")
    told.append(draft.close(0))
    assert [update.delta for update in told] == [ThinkingStart(0), ThinkingDelta(0, "Hm"), ThinkingEnd(0, "Hm")]
    assert draft.message("stop").content == [Thinking("Hm", "abc")]


def test_redacted_thinking_arrives_complete_and_is_sent_back() -> None:
    draft = new_draft()
    assert [update.delta for update in draft.add_redacted("payload")] == [
        ThinkingStart(0),
        ThinkingDelta(0, REDACTED),
        ThinkingEnd(0, REDACTED),
    ]
    assert draft.message("stop").content == [Thinking(REDACTED, "payload", True)]


def test_a_call_is_reported_with_its_raw_deltas_and_ends_with_its_arguments() -> None:
    draft = new_draft()
    told = [draft.open_call("c1", "bash"), draft.add(0, '{"command":'), draft.add(0, '"ls"}'), draft.close(0)]
    assert [update.delta for update in told] == [
        ToolCallStart(0, "c1", "bash"),
        ToolCallDelta(0, '{"command":'),
        ToolCallDelta(0, '"ls"}'),
        ToolCallEnd(0, ToolCall("c1", "bash", {"command": "ls"})),
    ]


def test_blocks_the_provider_forgot_to_close_are_closed_at_the_end() -> None:
    draft = new_draft()
    draft.open("text")
    draft.open_call("c1", "ls")
    *closing, done = draft.finish("toolUse")
    assert [update.delta for update in closing if isinstance(update, Update)] == [
        TextEnd(0, ""),
        ToolCallEnd(1, ToolCall("c1", "ls", {})),
    ]
    assert done == MessageDone(assistant("", ToolCall("c1", "ls", {})))


def test_a_failed_answer_keeps_what_had_come() -> None:
    draft = new_draft()
    draft.open("text")
    draft.add(0, "half")
    draft.open_call("c1", "bash")
    draft.add(1, '{"command":"ec')
    failed = draft.fail("error", "529 overloaded", transient=True, retry_after_ms=5)
    content = [Text("half"), ToolCall("c1", "bash", {"command": "ec"})]
    assert failed == MessageFailed(assistant(*content, stop="error", why="529 overloaded"), True, 5)


def test_usage_is_priced_and_on_every_update_from_then_on() -> None:
    draft = new_draft(replace(MODEL, cost=Price(3, 15)))
    before = draft.open("text")
    draft.set_usage(usage=Usage(1000, 10), response_id="r1")
    after = draft.add(0, "a")
    usage = with_cost(Usage(1000, 10), Price(3, 15))
    assert [decode(MessageUpdate, update.wire_json()).usage for update in (before, after)] == [Usage(), usage]
    assert decode(MessageUpdate, after.wire_json()).message.usage == usage  # type: ignore[union-attr]
    assert (draft.message("stop").usage, draft.message("stop").response_id) == (usage, "r1")


# Snapshots.


def test_an_update_shows_the_message_in_both_places_where_clients_look() -> None:
    draft = new_draft()
    draft.open("text")
    message = assistant("Hi")
    assert draft.add(0, "Hi").to_record() == MessageUpdate(TextDelta(0, "Hi", message), message, Usage())


def test_an_update_without_snapshots_has_the_piece_and_the_usage() -> None:
    draft = new_draft()
    draft.open("text")
    usage = encode(Usage()).decode()
    assert draft.add(0, "Hi").wire_json(snapshots=False).decode() == (
        f'{{"type":"message_update","usage":{usage},'
        '"assistantMessageEvent":{"type":"text_delta","contentIndex":0,"delta":"Hi"}}'
    )


Step = tuple[Any, ...]


@st.composite
def answers(draw: st.DrawFn) -> list[Step]:
    """The steps that write an answer: blocks of all kinds, in pieces, some of the arguments cut."""
    steps: list[Step] = []
    for index in range(draw(st.integers(1, 4))):
        kind = draw(st.sampled_from(["text", "thinking", "toolCall"]))
        if kind == "toolCall":
            text = encode(draw(ARGUMENTS)).decode()
            ends = sorted(draw(st.lists(st.integers(0, len(text)), max_size=6)))
            pieces = [text[a:b] for a, b in zip([0, *ends], [*ends, len(text)], strict=True)]
            pieces = pieces[: draw(st.integers(0, len(pieces)))]
        else:
            pieces = draw(st.lists(ANY_TEXT, max_size=4))
        steps += [("open", kind), *(("add", index, piece) for piece in pieces), ("close", index)]
    return steps


def take(step: Step, draft: Draft) -> Update:
    match step:
        case ("open", "toolCall"):
            return draft.open_call("c1", "bash")
        case ("open", kind):
            return draft.open(kind)
        case ("add", index, piece):
            return draft.add(index, piece)
        case (_, index):
            return draft.close(index)
    raise AssertionError(step)


@given(answers())
def test_every_snapshot_is_the_message_of_the_pieces_so_far_whenever_it_is_made(steps: list[Step]) -> None:
    draft = new_draft()
    updates, messages = [], []
    for step in steps:
        updates.append(take(step, draft))
        messages.append(so_far(draft))
        assert shown(updates[-1]) == messages[-1]
    draft.finish("stop")
    assert [shown(update) for update in updates] == messages


@given(answers())
def test_merged_deltas_add_up_and_show_the_latest(steps: list[Step]) -> None:
    draft = new_draft()
    waiting: list[Update] = []
    for step in steps:
        update = take(step, draft)
        if not waiting or not waiting[-1].absorb(update):
            waiting.append(update)
    assert shown(waiting[-1]) == so_far(draft)
    sent = [parse(update.wire_json(snapshots=False))["assistantMessageEvent"] for update in waiting]
    for index in range(draft.block_count):
        said = [step[2] for step in steps if step[:2] == ("add", index)]
        told = [event["delta"] for event in sent if event["contentIndex"] == index and "delta" in event]
        assert len(told) <= 1
        assert encode("".join(told)) == encode("".join(said))


def test_open_blocks_may_grow_side_by_side() -> None:
    draft = new_draft()
    draft.open("text")
    draft.open("text")
    early = draft.add(1, "b")
    draft.add(0, "a")
    draft.close(1)
    late = draft.add(0, "A")
    assert [block["text"] for block in shown(early)["content"]] == ["", "b"]
    assert [block["text"] for block in shown(late)["content"]] == ["aA", "b"]


# Merging.


def test_pieces_of_one_block_merge() -> None:
    draft = new_draft()
    draft.open("text")
    first = draft.add(0, "a")
    assert [first.absorb(draft.add(0, "b")), first.absorb(draft.add(0, "c"))] == [True, True]
    assert first.weight == 3
    assert first.to_record().assistant_message_event == TextDelta(0, "abc", assistant("abc"))


def test_merging_can_go_on_after_it_was_written() -> None:
    draft = new_draft()
    draft.open("text")
    first = draft.add(0, "a")
    first.absorb(draft.add(0, "b"))
    first.wire_json()
    first.absorb(draft.add(0, "c"))
    assert first.to_record().assistant_message_event == TextDelta(0, "abc", assistant("abc"))


def test_only_pieces_of_the_same_block_merge() -> None:
    draft, other = new_draft(), new_draft()
    start = draft.open("text")
    piece = draft.add(0, "a")
    other.open("text")
    draft.open("text")
    apart = [start, draft.add(1, "b"), draft.close(0), other.add(0, "a")]
    assert [piece.absorb(update) for update in apart] == [False] * 4
    assert start.absorb(draft.add(1, "c")) is False


# Characters.


def test_halves_of_a_character_in_two_pieces_are_one_character_in_the_end() -> None:
    draft = new_draft()
    draft.open("text")
    half, whole, end = draft.add(0, "\ud83d"), draft.add(0, "\ude00"), draft.close(0)
    assert [shown(update)["content"][0]["text"] for update in (half, whole, end)] == ["\ud83d", "😀", "😀"]


def test_halves_of_a_character_in_two_pieces_of_arguments_are_one_character_in_the_end() -> None:
    draft = call_of('{"command":"echo \ud83d', '\ude00"}')
    (*_, done) = draft.finish("toolUse")
    assert isinstance(done, MessageDone) and done.unreadable == {}
    assert parse(encode(done.message.tool_calls[0].arguments)) == {"command": "echo 😀"}


@pytest.mark.parametrize("cut", range(1, 20))
def test_unicode_in_arguments_is_shown_right_wherever_it_is_cut(cut: int) -> None:
    text = '{"é":"ü\u2029😀","日本":"\\ud83d\\ude00"}'
    draft = call_of(text[:cut], text[cut:])
    assert shown(draft.close(0))["content"][0]["arguments"] == {"é": "ü\u2029😀", "日本": "😀"}
    first = call_of()
    assert shown(first.add(0, text[:cut])) == so_far(first)


def test_line_separators_are_never_written_raw() -> None:
    draft = new_draft()
    draft.open("text")
    draft.open_call("\u2028", "\u2029")
    updates = [draft.add(0, "a\u2028"), draft.add(1, '{"a":"\u2028\u2029'), draft.close(0), draft.add(1, '"}')]
    for update in [*updates, draft.close(1)]:
        assert "\u2028" not in update.wire_json().decode() and "\u2029" not in update.wire_json().decode()


# Arguments that must not be run.


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ('{"command":"rm -rf /tmp/x', {"command": "rm -rf /tmp/x"}),
        ('{"command":"ls"', {"command": "ls"}),
        ('{"command":"ls",}', {"command": "ls"}),
        ('{"command":"ls"}}', {"command": "ls"}),
        ("{command: 1}", {}),
        ("[1,2]", {}),
        ('"ls"', {}),
        ("null", {}),
        ("12", {}),
        ('{"a":' * 5000 + "1" + "}" * 5000, json.loads('{"a":' * 255 + "{}" + "}" * 255)),
    ],
)
def test_arguments_that_are_no_complete_object_are_reported_as_unreadable(text: str, kept: dict[str, Any]) -> None:
    draft = call_of(text)
    (*_, done) = draft.finish("toolUse")
    assert done == MessageDone(assistant(ToolCall("c1", "bash", kept)), {0: text})


@pytest.mark.parametrize("text", ["[1,2]", '"ls"', "null", "12", "true"])
def test_arguments_are_shown_as_an_object_whatever_comes(text: str) -> None:
    draft = call_of()
    update = draft.add(0, text)
    assert shown(update)["content"][0]["arguments"] == {}
    assert isinstance(update.to_record().message, Assistant)


@pytest.mark.parametrize("text", ["", " ", "{}", " { } "])
def test_a_call_may_come_without_arguments(text: str) -> None:
    draft = call_of(text) if text else call_of()
    (*_, done) = draft.finish("toolUse")
    assert done == MessageDone(assistant(ToolCall("c1", "bash", {})))


def test_unreadable_calls_are_known_by_their_place_among_the_calls() -> None:
    draft = new_draft()
    draft.open("text")
    for at, text in enumerate(['{"a":1}', '{"a":', "{}"], start=1):
        draft.open_call("same", "ls")
        draft.add(at, text)
    (*_, done) = draft.finish("toolUse")
    assert isinstance(done, MessageDone) and done.unreadable == {1: '{"a":'}


@given(ARGUMENTS, st.data())
def test_arguments_cut_anywhere_are_never_taken_for_whole(arguments: dict[str, Any], data: st.DataObject) -> None:
    text = encode(arguments).decode()
    cut = data.draw(st.integers(1, len(text) - 1))
    (*_, done) = call_of(text[:cut]).finish("toolUse")
    assert isinstance(done, MessageDone) and done.unreadable == {0: text[:cut]}


# What some providers tell in their own way.


def test_a_call_keeps_its_id_if_it_is_its_own() -> None:
    draft = new_draft()
    ids = []
    for one in ("a", "a", "", "", "b"):
        ids.append(draft.call_id(one, "ls"))
        draft.open_call(ids[-1], "ls")
    assert ids == ["a", "ls_0_1", "ls_0_2", "ls_0_3", "b"]


def test_an_id_that_was_made_is_never_one_that_was_given() -> None:
    draft = new_draft()
    draft.open_call("ls_0_1", "ls")
    assert draft.call_id("", "ls") == "ls_0_2"


def test_thinking_may_be_signed_from_its_first_word_on() -> None:
    draft = new_draft()
    opened, piece = draft.open("thinking", "reasoning"), draft.add(0, 'h"m')
    assert shown(opened)["content"] == [{"type": "thinking", "thinking": "", "thinkingSignature": "reasoning"}]
    assert shown(piece)["content"] == [{"type": "thinking", "thinking": 'h"m', "thinkingSignature": "reasoning"}]
    (*_, done) = draft.finish("stop")
    assert done == MessageDone(assistant(Thinking('h"m', "reasoning")))


@pytest.mark.parametrize(
    ("pieces", "whole", "missing"),
    [([], "yes", "yes"), (["ye"], "yes", "s"), (["y", "es"], "yes", ""), (["no"], "yes", ""), (["yes!"], "yes", "")],
)
def test_what_a_provider_tells_at_the_end_of_a_block_only_adds_to_its_pieces(
    pieces: list[str], whole: str, missing: str
) -> None:
    draft = new_draft()
    draft.open("text")
    for piece in pieces:
        draft.add(0, piece)
    assert draft.missing_tail(0, whole) == missing


def test_a_call_and_a_text_can_be_signed() -> None:
    draft = new_draft()
    draft.open_call("a", "ls")
    draft.add_signature(0, "sig")
    draft.open("text")
    draft.add(1, "yes")
    draft.add_signature(1, "id")
    (*_, done) = draft.finish("toolUse")
    assert done == MessageDone(assistant(ToolCall("a", "ls", {}, "sig"), Text("yes", "id")))


def test_an_answer_may_cost_more_or_less_than_usual() -> None:
    draft = new_draft(replace(MODEL, cost=Price(3, 15)))
    draft.set_usage(usage=Usage(1_000_000, 1_000_000), times=0.5)
    assert draft.usage == Usage(1_000_000, 1_000_000, 0, 0, 2_000_000, UsageCost(1.5, 7.5, 0, 0, 9))

"""What a client knows that has heard a stream from its beginning."""

from __future__ import annotations

from tau.core.agent.draft import Draft
from tau.records.base import UNSET, encode, parse
from tau.records.dialogs import SetWidget
from tau.records.events import MessageEnd, MessageStart
from tau.records.messages import Custom
from tau.runtime.runs.model_client import UNKNOWN_MODEL
from tau.serve.session_view import SessionView
from tau.wire.unfinished import PartialJson


def a_draft(view: SessionView) -> Draft:
    draft = Draft(UNKNOWN_MODEL, 0, PartialJson)
    view.apply(MessageStart(draft.begin().message), 1)
    return draft


def test_a_widget_without_a_placement_can_be_told() -> None:
    view = SessionView()
    view.apply(SetWidget("1", "key", ["line"]), 1)
    assert parse(encode(view.ui()))["widgets"] == {"key": {"lines": ["line"]}}


def test_a_message_of_an_extension_does_not_hide_the_answer_that_is_streamed() -> None:
    view = SessionView()
    draft = a_draft(view)
    view.apply(draft.open("text"), 2)
    view.apply(draft.add(0, "so far"), 3)
    view.apply(MessageEnd(Custom("note", "hello", True)), 4)
    assert parse(encode(view.partial_json()))["content"] == [{"type": "text", "text": "so far"}]


def test_the_text_of_arguments_is_known_until_they_are_complete() -> None:
    view = SessionView()
    draft = a_draft(view)
    assert view.partial_arguments() is UNSET
    view.apply(draft.open("text"), 2)
    view.apply(draft.open_call("call", "bash"), 3)
    assert view.partial_arguments() == {"1": ""}
    view.apply(draft.add(1, '{"comm'), 4)
    view.apply(draft.add(1, 'and": "l'), 5)
    assert view.partial_arguments() == {"1": '{"command": "l'}
    view.apply(draft.add(1, 's"}'), 6)
    view.apply(draft.close(1), 7)
    assert view.partial_arguments() is UNSET
    view.apply(draft.open_call("other", "bash"), 8)
    view.apply(MessageEnd(draft.message("aborted")), 9)
    assert view.partial_arguments() is UNSET

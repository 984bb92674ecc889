"""How several answers become one: every fold, without anybody being asked."""

from __future__ import annotations

from typing import Any

import pytest

from tau.extension_api.hooks import HOOKS

Json = dict[str, Any]


def folded(hook: str, payload: Json, *answers: Any) -> tuple[list[Json], Json]:
    """What each handler was shown, and the result, if handlers answer this one after the other."""
    shown: list[Json] = []
    result: Json = {}
    for answer in answers:
        shown.append(dict(payload))
        payload, result, done = HOOKS[hook].fold(payload, result, answer)  # type: ignore[assignment]
        if done:
            break
    return shown, result


def test_only_what_guards_something_fails_closed() -> None:
    assert [name for name, hook in HOOKS.items() if hook.gate] == ["tool_call", "user_bash"]


def test_only_what_comes_in_streams_is_not_waited_for() -> None:
    assert [name for name, hook in HOOKS.items() if hook.streaming] == ["message_update", "tool_execution_update"]


@pytest.mark.parametrize("hook", HOOKS)
@pytest.mark.parametrize("answer", [None, 7, "text", [], True])
def test_an_answer_of_the_wrong_kind_changes_nothing(hook: str, answer: Any) -> None:
    if hook == "before_provider_request" and answer is not None:
        return  # any value is an answer there; whoever sends it looks at it
    payload: Json = {"input": {}, "messages": []}
    assert HOOKS[hook].fold(payload, {}, answer) == (payload, {}, False)


def test_the_first_refusal_of_a_tool_call_ends_the_round() -> None:
    no = {"block": True, "reason": "no"}
    shown, result = folded("tool_call", {"input": {"a": 1}}, None, {"input": {"a": 2}}, no, {"block": True})
    assert shown == [{"input": {"a": 1}}, {"input": {"a": 1}}, {"input": {"a": 2}}]
    assert result == no


def test_changed_arguments_go_on_to_the_next_and_are_the_result() -> None:
    shown, result = folded("tool_call", {"input": {"a": 1}}, {"input": {"a": 2}}, {"block": False})
    assert (shown[1], result) == ({"input": {"a": 2}}, {"input": {"a": 2}})


def test_the_last_word_counts_before_a_move_but_the_first_cancel_ends_it() -> None:
    for hook in ("session_before_switch", "session_before_fork", "session_before_compact", "session_before_tree"):
        assert folded(hook, {}, {"label": "a"}, None, {}, {"label": "b"})[1] == {"label": "b"}
        assert folded(hook, {}, {"cancel": True}, {"label": "b"})[1] == {"cancel": True}


def test_results_of_tools_are_patched_one_after_the_other() -> None:
    shown, result = folded("tool_result", {"content": [1], "isError": False}, {"content": [2]}, {"isError": True})
    assert shown[1] == {"content": [2], "isError": False}
    assert result == {"content": [2], "isError": True}


def test_messages_and_headers_and_payloads_are_replaced_one_after_the_other() -> None:
    assert folded("context", {"messages": [1]}, {"messages": [1, 2]}, None)[1] == {"messages": [1, 2]}
    assert folded("before_provider_headers", {"headers": {}}, {"headers": {"a": "b"}})[1] == {"headers": {"a": "b"}}
    shown, result = folded("before_provider_request", {"payload": 1}, {"max": 2}, {"max": 3})
    assert (shown[1], result) == ({"payload": {"max": 2}}, {"payload": {"max": 3}})


def test_input_is_transformed_until_a_handler_takes_it() -> None:
    change, handled = {"action": "transform", "text": "b"}, {"action": "handled"}
    shown, result = folded("input", {"text": "a"}, {"action": "continue"}, change, {"action": "transform"})
    assert (shown[2], result) == ({"text": "b"}, {"action": "transform", "text": "b"})
    assert folded("input", {"text": "a"}, change, handled, change)[1] == handled


def test_messages_before_a_run_are_collected_and_the_system_prompt_goes_from_hand_to_hand() -> None:
    one, two = {"content": "1"}, {"content": "2"}
    answers = ({"message": one, "systemPrompt": "a"}, {"message": two}, {"systemPrompt": "b"})
    shown, result = folded("before_agent_start", {"systemPrompt": ""}, *answers)
    assert [each["systemPrompt"] for each in shown] == ["", "a", "a"]
    assert result == {"messages": [one, two], "systemPrompt": "b"}


def test_paths_of_resources_are_gathered() -> None:
    answers = ({"skillPaths": ["a"]}, {"skillPaths": ["b"], "promptPaths": ["c"]}, {"promptPaths": "no list"})
    assert folded("resources_discover", {}, *answers)[1] == {"skillPaths": ["a", "b"], "promptPaths": ["c"]}


def test_the_first_who_decides_has_decided() -> None:
    undecided = {"trusted": "undecided"}
    assert folded("project_trust", {}, {}, undecided, {"trusted": "no"}, {"trusted": "yes"})[1] == {"trusted": "no"}
    assert folded("project_trust", {}, {}, undecided)[1] == {}
    assert folded("user_bash", {}, None, {"result": {"output": "x"}}, {"result": {}})[1] == {"result": {"output": "x"}}

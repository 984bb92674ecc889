"""The model-based test of the protocol on fixed seeds, and proof that its reference model notices what is wrong.

`make fuzz` plays more sequences, and others each time if it is told a first seed.

A reference model that has become too tolerant passes everything. So transcripts of the program are falsified here, one
way for each rule and more: every falsified transcript must break the rule that is named beside it.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, get_args

import pytest

from long.protocol_answers import HANG
from long.protocol_cases import WEIGHTS, case
from long.protocol_lives import RealProcess
from long.protocol_model import play, report, without_parts
from long.protocol_reference import Reference
from long.protocol_rules import Json, Rule, Violation
from tau.records.commands import AnyCommand

# Each of these has found a mistake in the program when it was there.
SEEDS = (
    *(0, 2, 4, 5),  # statistics that shrink, a refused compact that aborts, bash in another session, a retried answer
    *(6, 24, 64, 70),  # a queue that runs by itself after compact, a level that is not restored
    *(13, 40, 99, 168),  # commands that do not wait for a session switch, a queue_update that is missing
    *(189, 511, 657, 710),  # the level of cycle_model, the end of a retry told twice, two messages at a time
)
AT_ONCE = 4  # in one test, so that they are shared by several workers
BY_DRIVER = {Rule.ANSWERED}  # what the player of a sequence notices, not the reference model


@pytest.mark.parametrize("at", range(0, len(SEEDS), AT_ONCE))
def test_random_sequences_keep_the_rules_of_the_protocol(at: int) -> None:
    for seed in SEEDS[at : at + AT_ONCE]:
        outcome = play(case(seed))
        assert not outcome.wrong, report(seed, outcome)
        assert outcome.commands


def test_a_random_sequence_keeps_the_rules_in_real_processes() -> None:
    outcome = play(case("real"), RealProcess)
    assert not outcome.wrong, report("real", outcome)


def test_a_case_depends_on_its_seed_alone_and_is_plain_json() -> None:
    assert case(1) == case(1) == json.loads(json.dumps(case(1))) != case(2)


def test_a_case_is_made_small_by_leaving_out_parts() -> None:
    small = without_parts({"steps": list(range(20))}, "steps", lambda case: {3, 17} <= set(case["steps"]))
    assert small == {"steps": [3, 17]}


def test_every_command_is_among_those_that_are_sent() -> None:
    known = {str(record.__struct_config__.tag) for record in get_args(AnyCommand)}
    host_tools = {"set_tools", "tool_progress", "tool_result", "get_tools", "set_active_tools"}  # test_host_tools.py
    assert set(WEIGHTS) - {"invalid"} == known - host_tools - {"restart_mcp_server"}  # there is no server


# The transcripts that are falsified.


def burst(*commands: Json, wait: str = "idle") -> Json:
    return {"burst": list(commands), "wait": wait}


def prompt(text: str, **fields: Any) -> Json:
    return {"type": "prompt", "message": text, **fields}


def tool(command: str, id: str) -> Json:
    return {"tool": "bash", "arguments": {"command": command}, "id": id}


TALK: Json = {
    "settings": {"retry": {"baseDelayMs": 1, "maxRetries": 2}, "compaction": {"keepRecentTokens": 1}},
    "scripts": [
        [
            {"blocks": [{"text": ["[a0.0]", " one"]}], "usage": {"input": 100, "output": 9}},
            {"error": {"message": "529 overloaded [a0.1]"}},
            {"blocks": [{"thinking": "Hm."}, {"text": "[a0.2] two"}]},
            {"blocks": [tool("sleep 0.05", "call_1"), tool("echo b", "call_2")]},
            {"text": "[a0.4] steered"},
            {"text": "[a0.5] followed"},
            {"text": "[a0.6] summary", "usage": {"input": 50, "output": 5}},
            {"text": "[a0.7] later"},
        ],
        [{"text": "[a1.0] again"}],
    ],
    "steps": [
        burst(prompt("one"), {"type": "set_session_name", "name": "a name"}),
        burst(prompt("two")),
        burst(prompt("three"), wait="tool_execution_start"),
        burst({"type": "steer", "message": "left"}, {"type": "follow_up", "message": "then"}, prompt("no")),
        burst({"type": "bash", "command": "echo hello"}, {"type": "bash", "command": "echo again"}),
        burst({"type": "compact"}),
        burst({"type": "set_thinking_level", "level": "high"}, {"type": "list_sessions"}),
        burst({"type": "steer", "message": "waits"}, {"type": "set_model", "provider": "lab", "modelId": "rocket"}),
        {"restart": {"session": 0, "model": "large"}},
        burst({"type": "clear_queue"}, {"type": "navigate", "entryId": {"user": 0}, "label": "here"}),
        burst(prompt("four"), {"type": "fork", "entryId": {"user": 0}}),
    ],
}
STOPS: Json = {
    "settings": {"compaction": {"keepRecentTokens": 1}},
    "scripts": [
        [
            {"blocks": [{"text": ["[a0.0]", HANG]}], "hangAfter": 2},
            {"blocks": [{"text": ["[a0.1]", " a", " b"]}], "delayMs": 5},
            {"text": "[a0.2] end"},
            {"blocks": [tool("echo a", "call_1")]},
            {"blocks": [tool("echo b", "call_2")]},
            {"text": "[a0.5]", "usage": {"input": 99_000, "output": 5}},
            {"text": "[a0.6] summary"},
            {"text": "[a0.7] end"},
        ]
    ],
    "steps": [
        burst(prompt("one"), wait="message_update"),
        burst({"type": "steer", "message": "left"}, {"type": "compact"}, wait="responses"),
        burst({"type": "abort"}),
        burst({"type": "new_session"}, {"type": "clear_queue"}),
        burst(prompt("two"), wait="message_update"),
        burst(prompt("three", streamingBehavior="followUp")),
        burst({"type": "set_budget", "maxTurns": 1}, prompt("four")),
        burst({"type": "set_budget"}, {"type": "set_steering_mode", "mode": "all"}),
        burst(prompt("five")),
    ],
}


@cache
def transcript(name: str) -> str:
    outcome = play({"talk": TALK, "stops": STOPS}[name])
    assert not outcome.wrong, report(name, outcome)
    return json.dumps(outcome.transcript)


def check(name: str, items: list[Json]) -> Rule | None:
    """The rule that a transcript breaks."""
    reference = Reference(copy.deepcopy({"talk": TALK, "stops": STOPS}[name]["settings"]))
    try:
        for item in items:
            reference.feed(item)
    except Violation as violation:
        return violation.rule
    return None


@pytest.mark.parametrize("name", ["talk", "stops"])
def test_the_transcripts_break_no_rule_before_they_are_falsified(name: str) -> None:
    assert check(name, json.loads(transcript(name))) is None


# Ways to falsify them.

Items = list[Json]
Falsify = Callable[[Items], None]
WAYS: list[tuple[str, Rule, str, Falsify]] = []


def falsifies(rule: Rule, name: str = "talk") -> Callable[[Falsify], Falsify]:
    def noted(way: Falsify) -> Falsify:
        WAYS.append((way.__name__, rule, name, way))
        return way

    return noted


def places(items: Items, type: str, **fields: Any) -> Iterator[int]:
    """Where records of a type are that have these values; a response is found by its command."""
    for at, item in enumerate(items):
        record = item.get("got", {})
        found = record.get("command") if record.get("type") == "response" else record.get("type")
        if found == type and all(record.get(name) == value for name, value in fields.items()):
            yield at


def first(items: Items, type: str, **fields: Any) -> int:
    return next(places(items, type, **fields))


def last(items: Items, type: str, **fields: Any) -> int:
    return list(places(items, type, **fields))[-1]


def got(items: Items, at: int) -> Json:
    record: Json = items[at]["got"]
    return record


def said(items: Items, role: str, text: str = "") -> int:
    """The message_end of a message."""
    for at in places(items, "message_end"):
        message = got(items, at)["message"]
        if message["role"] == role and text in json.dumps(message):
            return at
    raise AssertionError(f"no {role} message with {text!r}")


def end_of(items: Items, number: int) -> Json:
    end: Json = [item["end"] for item in items if "end" in item][number]
    return end


@falsifies(Rule.RESPONSE)
def a_response_is_missing(items: Items) -> None:
    del items[last(items, "list_sessions")]


@falsifies(Rule.RESPONSE)
def a_response_comes_twice(items: Items) -> None:
    at = first(items, "prompt")
    items.insert(at, copy.deepcopy(items[at]))


@falsifies(Rule.RESPONSE)
def a_response_has_another_id(items: Items) -> None:
    got(items, first(items, "prompt"))["id"] = "other"


@falsifies(Rule.RESPONSE)
def a_response_names_another_command(items: Items) -> None:
    got(items, first(items, "steer"))["command"] = "follow_up"


@falsifies(Rule.ACCEPTED)
def a_valid_command_is_refused(items: Items) -> None:
    items[first(items, "bash")]["got"] |= {"success": False, "error": "no"}


@falsifies(Rule.REFUSED)
def an_unknown_model_is_accepted(items: Items) -> None:
    got(items, first(items, "set_model"))["success"] = True


@falsifies(Rule.BUSY)
def a_prompt_is_accepted_while_the_agent_streams(items: Items) -> None:
    got(items, first(items, "prompt", success=False))["success"] = True


@falsifies(Rule.BUSY)
def a_prompt_is_refused_while_the_agent_is_idle(items: Items) -> None:
    items[first(items, "prompt")]["got"] |= {"success": False, "error": "no"}


@falsifies(Rule.RETURNED)
def bash_returns_another_output(items: Items) -> None:
    got(items, first(items, "bash"))["data"]["output"] = "other\n"


@falsifies(Rule.SWITCHED, "stops")
def clear_queue_does_not_wait_for_the_session(items: Items) -> None:
    response = items.pop(first(items, "clear_queue"))
    items.insert(first(items, "new_session"), response)


@falsifies(Rule.NESTING)
def turn_end_is_missing(items: Items) -> None:
    del items[first(items, "turn_end")]


@falsifies(Rule.NESTING)
def agent_end_lacks_a_message(items: Items) -> None:
    got(items, first(items, "agent_end"))["messages"].pop()


@falsifies(Rule.SETTLED)
def a_prompt_settles_twice(items: Items) -> None:
    at = first(items, "agent_settled")
    items.insert(at, copy.deepcopy(items[at]))


@falsifies(Rule.SETTLED)
def the_last_prompt_never_settles(items: Items) -> None:
    at = last(items, "agent_settled")
    rest = [item for item in items[at + 1 :] if "end" in item][:1]
    items[at:] = rest


@falsifies(Rule.BY_ITSELF)
def queued_messages_run_after_a_compaction(items: Items) -> None:
    items.insert(first(items, "compact") + 1, {"got": {"type": "agent_start"}})


@falsifies(Rule.DELTAS)
def a_delta_is_lost(items: Items) -> None:
    del items[next(at for at in places(items, "message_update") if "delta" in got(items, at)["assistantMessageEvent"])]


@falsifies(Rule.SCRIPT)
def an_answer_stops_for_another_reason(items: Items) -> None:
    at = said(items, "assistant", "[a0.0]")
    for item in items[at:]:
        message = item.get("got", {}).get("message")
        if message and "[a0.0]" in json.dumps(message):
            message["stopReason"] = "length"


@falsifies(Rule.TOOLS)
def a_tool_has_no_result(items: Items) -> None:
    at = said(items, "toolResult", "call_1")
    del items[at - 1 : at + 1]


@falsifies(Rule.STEERED)
def steering_does_not_skip_the_next_tool(items: Items) -> None:
    at = next(at for at in places(items, "tool_execution_end") if "Skipped" in json.dumps(items[at]))
    got(items, at)["result"]["content"][0]["text"] = "b\n"


@falsifies(Rule.RETRY)
def a_transient_error_is_not_retried(items: Items) -> None:
    got(items, first(items, "agent_end", willRetry=True))["willRetry"] = False


@falsifies(Rule.RETRY)
def the_end_of_a_retry_is_not_told(items: Items) -> None:
    del items[first(items, "auto_retry_end")]


@falsifies(Rule.ABORTED)
def a_run_is_aborted_by_nothing(items: Items) -> None:
    got(items, first(items, "agent_settled"))["aborted"] = True


@falsifies(Rule.ABORTED, "stops")
def abort_is_answered_before_the_run_has_settled(items: Items) -> None:
    response = items.pop(first(items, "abort"))
    items.insert(first(items, "agent_settled"), response)


@falsifies(Rule.UNCHANGED, "stops")
def a_refused_compaction_has_aborted_the_run(items: Items) -> None:
    settled = first(items, "agent_settled")
    events = [item for item in items[: settled + 1] if "got" in item][-4:]
    assert [item["got"]["type"] for item in events][-1] == "agent_settled"
    at = first(items, "compact")
    until = max(at for at in range(settled) if "sent" in items[at] and items[at]["sent"]["type"] == "abort")
    moved = [item for item in items[until : settled + 1] if item.get("got", {}).get("type") != "response"]
    items[until : settled + 1] = [item for item in items[until : settled + 1] if item not in moved or "sent" in item]
    items[at:at] = [item for item in moved if "got" in item]


@falsifies(Rule.COMPACTION_EVENTS, "stops")
def the_end_of_a_compaction_is_not_told(items: Items) -> None:
    del items[first(items, "auto_compaction_end")]


@falsifies(Rule.COMPACTION_EVENTS)
def the_end_of_a_requested_compaction_is_not_told(items: Items) -> None:
    del items[first(items, "compaction_end")]


@falsifies(Rule.BUDGET, "stops")
def a_budget_is_exceeded_twice(items: Items) -> None:
    at = first(items, "budget_exceeded")
    items.insert(at, copy.deepcopy(items[at]))


@falsifies(Rule.BUDGET, "stops")
def a_prompt_takes_more_turns_than_it_may(items: Items) -> None:
    at = last(items, "set_budget")
    got(items, at)["data"]["maxTurns"] = 1
    for item in items:
        if item.get("sent", {}).get("id") == got(items, at)["id"]:
            item["sent"]["maxTurns"] = 1


@falsifies(Rule.STREAMING)
def an_idle_agent_says_that_it_streams(items: Items) -> None:
    got(items, first(items, "get_state"))["data"]["isStreaming"] = True


@falsifies(Rule.QUEUE_UPDATE)
def queue_update_is_missing(items: Items) -> None:
    del items[first(items, "queue_update")]


@falsifies(Rule.QUEUE_UPDATE, "stops")
def the_queue_of_a_session_that_was_left_is_still_shown(items: Items) -> None:
    at = next(places(items, "queue_update", steering=[], followUp=[]))
    assert at < first(items, "new_session")
    del items[at]


@falsifies(Rule.QUEUE_UPDATE)
def clear_queue_is_not_told(items: Items) -> None:
    at = first(items, "clear_queue")
    del items[max(at for at in range(at) if items[at].get("got", {}).get("type") == "queue_update")]


@falsifies(Rule.DELIVERED)
def a_queued_message_is_never_said(items: Items) -> None:
    at = said(items, "user", "left")
    del items[at - 1 : at + 1]


@falsifies(Rule.DELIVERED)
def a_prompt_is_said_twice(items: Items) -> None:
    at = said(items, "user", "one")
    items[at + 1 : at + 1] = copy.deepcopy(items[at - 1 : at + 1])


@falsifies(Rule.QUEUE_ORDER)
def a_follow_up_is_taken_before_steering(items: Items) -> None:
    at = next(places(items, "queue_update", steering=[], followUp=["then"]))
    got(items, at).update(steering=["left"], followUp=[])


@falsifies(Rule.STRANDED, "stops")
def a_follow_up_is_left_behind(items: Items) -> None:
    at = next(places(items, "queue_update", followUp=["three"])) + 1
    turn = next(where for where in places(items, "turn_end") if where > at)
    settled = next(where for where in places(items, "agent_settled") if where > turn)
    end = next(where for where in places(items, "agent_end") if where > turn)
    messages = got(items, end)["messages"]
    keep = next(number for number, message in enumerate(messages) if "three" in json.dumps(message))
    got(items, end)["messages"] = messages[:keep]
    responses = [
        item for item in items[turn + 1 : end] if item.get("got", {}).get("type") == "response" or "sent" in item
    ]
    items[turn + 1 : settled + 1] = [*responses, items[end], items[settled]]


@falsifies(Rule.PENDING)
def get_state_counts_other_messages(items: Items) -> None:
    got(items, first(items, "get_state"))["data"]["pendingMessageCount"] = 1


@falsifies(Rule.APPEND_ONLY)
def an_entry_changes_its_id(items: Items) -> None:
    got(items, last(items, "get_entries"))["data"]["entries"][0]["id"] = "other"


@falsifies(Rule.RECORDED)
def an_answer_is_not_in_the_session(items: Items) -> None:
    at = list(places(items, "get_entries"))[1]
    entries = got(items, at)["data"]["entries"]
    gone = next(entry for entry in entries if "[a0.0]" in json.dumps(entry))
    entries.remove(gone)
    for entry in entries:
        if entry["parentId"] == gone["id"]:
            entry["parentId"] = gone["parentId"]
    got(items, at)["data"]["leafId"] = entries[-1]["id"]


@falsifies(Rule.CONVERSATION)
def a_retried_answer_comes_back(items: Items) -> None:
    failed = got(items, said(items, "assistant", "529"))["message"]
    got(items, last(items[: first(items, "compact")], "get_messages"))["data"]["messages"][3] = failed


@falsifies(Rule.CONVERSATION)
def a_retried_answer_is_not_marked_in_the_session(items: Items) -> None:
    for at in places(items, "get_entries"):
        entries = got(items, at)["data"]["entries"]
        for gone in [entry for entry in entries if entry["type"] == "context_edit"]:
            entries.remove(gone)
            for entry in entries:
                if entry["parentId"] == gone["id"]:
                    entry["parentId"] = gone["parentId"]


@falsifies(Rule.COUNTS)
def message_count_has_one_more(items: Items) -> None:
    got(items, last(items, "get_state"))["data"]["messageCount"] += 1


@falsifies(Rule.STATISTICS)
def statistics_shrink_with_a_compaction(items: Items) -> None:
    at = next(at for at in places(items, "get_session_stats") if at > first(items, "compact"))
    got(items, at)["data"]["tokens"]["input"] -= 100


@falsifies(Rule.STATISTICS)
def the_usage_of_a_compaction_does_not_count(items: Items) -> None:
    at = next(at for at in places(items, "get_session_stats") if at > first(items, "compact"))
    tokens = got(items, at)["data"]["tokens"]
    tokens.update(input=tokens["input"] - 50, output=tokens["output"] - 5, total=tokens["total"] - 55)


@falsifies(Rule.SETTINGS)
def the_thinking_level_is_not_restored(items: Items) -> None:
    begins = max(at for at, item in enumerate(items) if item.get("life", {}).get("model"))
    at = next(at for at in places(items, "get_state") if at > begins)
    assert got(items, at)["data"]["thinkingLevel"] == "high"
    got(items, at)["data"]["thinkingLevel"] = "medium"


@falsifies(Rule.SETTINGS)
def the_name_of_the_session_is_lost(items: Items) -> None:
    del got(items, list(places(items, "get_state"))[2])["data"]["sessionName"]


@falsifies(Rule.TREE)
def a_fork_point_is_missing(items: Items) -> None:
    got(items, last(items[: first(items, "clear_queue")], "get_fork_messages"))["data"]["messages"].pop()


@falsifies(Rule.TREE)
def a_label_is_not_in_the_tree(items: Items) -> None:
    def without_labels(nodes: list[Json]) -> None:
        for node in nodes:
            node.pop("label", None)
            without_labels(node["children"])

    for at in places(items, "get_tree"):
        without_labels(got(items, at)["data"]["tree"])


@falsifies(Rule.FILE)
def a_session_file_is_missing(items: Items) -> None:
    end_of(items, 0)["files"].popitem()


@falsifies(Rule.FILE)
def there_is_a_session_file_too_many(items: Items) -> None:
    files = end_of(items, 0)["files"]
    files["other.jsonl"] = next(iter(files.values()))


@falsifies(Rule.APPEND_ONLY)
def the_file_lacks_the_last_answer(items: Items) -> None:
    for name, entries in end_of(items, 1)["files"].items():
        if "four" in json.dumps(entries):
            end_of(items, 1)["files"][name] = entries[:-1]


@falsifies(Rule.BASH)
def a_bash_result_is_in_another_session(items: Items) -> None:
    for at in places(items, "get_entries"):
        entries = got(items, at)["data"]["entries"]
        gone = [entry for entry in entries if entry.get("message", {}).get("role") == "bashExecution"]
        for entry in gone:
            entries.remove(entry)


@falsifies(Rule.SESSIONS)
def a_session_is_not_listed(items: Items) -> None:
    got(items, first(items, "list_sessions"))["data"]["sessions"] = []


@falsifies(Rule.EXIT)
def the_process_ends_with_an_error(items: Items) -> None:
    end_of(items, 0)["code"] = 1


@falsifies(Rule.EXIT)
def there_is_something_on_stderr(items: Items) -> None:
    end_of(items, 0)["stderr"] = "Traceback (most recent call last)"


@falsifies(Rule.EXIT)
def a_process_is_left_running(items: Items) -> None:
    end_of(items, 0)["processes"] = ["sleep 60"]


@pytest.mark.parametrize("name, rule, source, way", WAYS, ids=[way[0] for way in WAYS])
def test_a_falsified_transcript_breaks_its_rule(name: str, rule: Rule, source: str, way: Falsify) -> None:
    items = json.loads(transcript(source))
    way(items)
    assert items != json.loads(transcript(source))
    assert check(source, items) == rule


def test_every_rule_is_broken_by_some_falsified_transcript() -> None:
    assert set(Rule) - {rule for _, rule, _, _ in WAYS} == BY_DRIVER

"""What comes out: only records, in bounded memory, whatever the reader does."""

from __future__ import annotations

import json
import os
import re
import time
from pathlib import Path

import pytest

from support.rpc_process import (
    Agent,
    Json,
    as_record,
    calls,
    endless,
    joined_deltas,
    of,
    quick,
    said,
    text,
    texts,
)

MIB = 1 << 20
PROMPT = b'{"type":"prompt","message":"go"}\n'
FLOOD = 100_000


def seconds_until_gone(agent: Agent) -> float:
    before = time.monotonic()
    assert agent.exit_code() == 0
    return time.monotonic() - before


def read_until(agent: Agent, words: bytes) -> bytes:
    """Read its stdout by hand, for an agent that is not listened to otherwise."""
    assert agent.process.stdout is not None
    heard = b""
    while words not in heard:
        portion = os.read(agent.process.stdout.fileno(), 65536)
        assert portion, agent.transcript()
        heard += portion
    return heard


def quiet_for(seconds: float) -> None:
    """A reader that has stopped: time is what is being tested here, there is nothing to wait for."""
    time.sleep(seconds)


# A reader that is gone.


@pytest.mark.promise("C01")
@pytest.mark.parametrize(
    "answer, begun",
    [
        pytest.param({"text": "word ", "repeat": 10**8, "delayMs": 1}, b"text_delta", id="streaming"),
        pytest.param({"text": "word ", "repeat": 10**8}, b"text_delta", id="streaming into a full pipe"),
        pytest.param(endless("so far"), b"text_delta", id="waiting for the model"),
        pytest.param(calls("echo; sleep 1000"), b"tool_execution_update", id="in a tool"),
        pytest.param({"error": {"message": "overloaded"}}, b"auto_retry_start", id="waiting for a retry"),
    ],
)
def test_a_closed_stdout_ends_a_run_and_the_program(tmp_path: Path, answer: Json, begun: bytes) -> None:
    def measure() -> float:
        with Agent(tmp_path, answer, listening=False) as agent:
            agent.write(PROMPT)
            read_until(agent, begun)
            agent.deafen()
            return seconds_until_gone(agent)

    quick(measure, 2)


@pytest.mark.promise("C01")
def test_a_closed_stdout_is_noticed_when_there_is_nothing_to_say(tmp_path: Path) -> None:
    def measure() -> float:
        with Agent(tmp_path, listening=False) as agent:
            agent.write(b'{"type":"get_state"}\n')
            read_until(agent, b"\n")
            agent.deafen()
            return seconds_until_gone(agent)

    quick(measure, 1)


# A reader that has stopped.


def stalled(folder: Path, *answers: Json, settings: Json | None = None) -> Agent:
    """An agent that has run a prompt, so that what a first run costs is not counted, and is not listened to."""
    agent = Agent(folder, {"text": "warm"}, *answers, settings=settings, listening=False)
    agent.write(PROMPT)
    read_until(agent, b"agent_settled")
    return agent


def check_the_answer(agent: Agent, length: int) -> None:
    answer = said(agent.events, "assistant")[0]
    assert len(text(answer)) == length
    assert joined_deltas(agent.events) == text(answer)
    assert agent.response("last")["success"]


@pytest.mark.promise("C02")
def test_an_answer_waits_in_bounded_memory_and_nothing_of_it_is_lost(tmp_path: Path) -> None:
    """300 pieces of 1 kB, each with all before it twice: 90 MB of events are due."""
    pieces = [f"{at:08d}" * 125 for at in range(300)]
    with stalled(tmp_path, {"blocks": [{"text": pieces}], "delayMs": 8}) as agent:
        before = agent.memory
        agent.write(PROMPT + b'{"id":"last","type":"get_state"}\n')
        quiet_for(3)
        extra = agent.memory - before
        agent.listen()
        agent.settled()
        check_the_answer(agent, 300_000)
        assert text(said(agent.events, "assistant")[0]) == "".join(pieces)
        assert extra <= 8 * MIB, extra / MIB
        assert agent.memory - before <= 32 * MIB


@pytest.mark.promise("I01")
def test_responses_wait_in_bounded_memory_and_all_come(tmp_path: Path) -> None:
    with stalled(tmp_path, {"text": "x" * 1_000_000}) as agent:
        agent.write(PROMPT)
        read_until(agent, b"agent_settled")
        before = agent.memory
        agent.write(b'{"type":"get_messages"}\n' * 40)
        quiet_for(1)
        extra = agent.memory - before
        agent.listen()
        agent.next_response(after=39)
        assert extra <= 32 * MIB, extra / MIB
        assert agent.memory - before <= 32 * MIB


def test_what_many_tools_show_waits_in_bounded_memory(tmp_path: Path) -> None:
    """Forty tools, each showing 50 kB ten times a second: 20 MB each second."""
    loud = "for i in {1..30}; do printf '%01000d\\n' {1..60}; sleep 0.1; done"
    settings = {"toolExecution": "parallel"}
    with stalled(tmp_path, calls(*[loud] * 40), {"text": "ok"}, settings=settings) as agent:
        before = agent.memory
        agent.write(PROMPT)
        quiet_for(3)
        extra = agent.memory - before
        agent.listen()
        agent.settled()
        assert len(said(agent.events, "toolResult")) == 40
        assert extra <= 32 * MIB, extra / MIB


def test_a_model_faster_than_its_reader_is_reported_in_few_bytes(tmp_path: Path) -> None:  # C03
    """One by one, 3,000 pieces with all before them would be 3,000 times the answer."""
    with Agent(tmp_path, {"text": "x" * 100, "repeat": 3_000}) as agent:
        assert texts(agent.prompt("go"), "assistant") == ["x" * 300_000]
        assert agent.bytes_read <= 40 * 300_000


@pytest.mark.promise("C03")
def test_where_only_deltas_are_reported_an_answer_takes_ten_times_its_size_at_most(tmp_path: Path) -> None:
    """Slow enough that every piece is told by itself."""
    answer = {"text": "x" * 100, "repeat": 3_000, "delayMs": 1}
    with Agent(tmp_path, answer, args=["--dialect", "1.5"]) as agent:
        agent.ask("prompt", message="go")
        events = agent.until("agent_end")
        assert texts(events, "assistant") == ["x" * 300_000]
        assert len(of("message_update", events)) > 1_000
        assert agent.bytes_read <= 10 * 300_000


# Too much to say.


@pytest.mark.promise("A18")
@pytest.mark.parametrize("start", [b"", b'{"type":"prompt","message":"'], ids=["garbage", "a prompt"])
def test_a_line_of_100_mb_is_refused_while_it_comes(tmp_path: Path, start: bytes) -> None:
    with Agent(tmp_path) as agent:
        agent.prompt("warm")
        memory, cpu = agent.memory, agent.cpu
        for portion in (start, *[b"a" * 10_000_000] * 10):
            agent.write(portion)
        response = agent.next_response(after=1)
        assert (response["command"], response["success"]) == ("parse", False)
        assert "33554432" in response["error"]
        agent.write(b'"}\n')
        agent.get("get_state")
        assert len(agent.responses) == 3
        assert agent.cpu - cpu <= 2
        assert agent.memory - memory <= 64 * MIB, (agent.memory - memory) / MIB


@pytest.mark.promise("A18")
@pytest.mark.parametrize("size, success", [(32 * MIB, True), (32 * MIB + 1, False)])
def test_the_limit_of_a_line_is_32_mib(tmp_path: Path, size: int, success: bool) -> None:
    with Agent(tmp_path) as agent:
        start, end = b'{"type":"get_state","more":"', b'"}'
        response = agent.answer_to(start + b"a" * (size - len(start) - len(end)) + end)
        assert response["success"] is success


@pytest.mark.promise("A19")
@pytest.mark.timeout(400)
@pytest.mark.parametrize("listening", [True, False], ids=["reading along", "reading only afterwards"])
def test_100_000_commands_at_once_are_answered_in_order(tmp_path: Path, listening: bool) -> None:
    with Agent(tmp_path, listening=listening) as agent:
        agent.write(b"".join(b'{"id":"%d","type":"get_state"}\n' % at for at in range(FLOOD)), within=150)
        if not listening:
            agent.listen()
        agent.close()
        assert agent.exit_code(within=150) == 0
        assert [response["id"] for response in agent.responses] == [str(at) for at in range(FLOOD)]


# Only records.


def test_nothing_else_can_print_on_stdout(tmp_path: Path) -> None:  # P5
    junk = "echo junk >>/proc/$(cat agent.pid)/fd/1; echo said"
    with Agent(tmp_path, calls(junk), {"text": "ok"}) as agent:
        (agent.cwd / "agent.pid").write_text(str(agent.pid))
        assert texts(agent.prompt("go"), "toolResult") == ["said\n"]
        assert agent.get("bash", command=junk)["output"] == "said\n"
        assert agent.stderr.count("junk") == 2


@pytest.mark.promise("F25")
def test_commands_inherit_nothing_but_their_three_streams(tmp_path: Path) -> None:
    with Agent(tmp_path, calls("echo /proc/$$/fd/*"), {"text": "ok"}) as agent:
        seen = texts(agent.prompt("go"), "toolResult")[0].split()
        # The third belongs to the shell, which has the folder open while it lists it.
        assert [name.rpartition("/")[2] for name in seen] == ["0", "1", "2", "3"]


@pytest.mark.promise("F04")
def test_commands_find_stdin_empty(tmp_path: Path) -> None:
    with Agent(tmp_path, calls("cat; echo end"), {"text": "ok"}) as agent:
        assert texts(agent.prompt("go"), "toolResult") == ["end\n"]
        assert agent.get("bash", command="cat; cat /proc/$PPID/fd/0; echo end")["output"] == "end\n"


ODD = "a\u2028b\u2029c\u0085d\r\n\te\x00f\x1bg\ud800h\udc00i\U0001f600\ufeff"


@pytest.mark.promise("E26")
def test_line_separators_are_escaped_wherever_they_stand(tmp_path: Path) -> None:
    """That every line is a record, with U+2028 and U+2029 escaped, is looked after by the client itself."""
    with Agent(tmp_path, {"blocks": [{"thinking": list(ODD)}, {"text": list(ODD)}]}) as agent:
        events = agent.prompt(ODD)
        assert texts(events, "user") == texts(events, "assistant") == [ODD]
        assert joined_deltas(events) == joined_deltas(events, "thinking_delta") == ODD
        agent.get("set_session_name", name=f"x{ODD}x")
        one_line = re.sub(r"[\r\n]+", " ", ODD)  # a name is one line, as in pi
        assert agent.get("get_state")["sessionName"] == f"x{one_line}x"
        agent.get("steer", message=ODD)
        assert agent.until("queue_update")[-1]["steering"] == [ODD]
        assert agent.answer_to(json.dumps({"type": ODD}).encode())["error"] == f"Unknown command: {ODD}"
        assert agent.get("bash", command="echo 'a\u2028b'")["output"] == "a\u2028b\n"
        for command in ("get_messages", "get_entries", "get_tree", "get_fork_messages", "get_last_assistant_text"):
            agent.get(command)


@pytest.mark.parametrize(
    "pieces",
    [
        pytest.param(['{"command": "echo a\u2028b\u2029c"}'], id="whole"),
        pytest.param(list('{"command": "echo a\u2028b\u2029c"}'), id="in pieces"),
        pytest.param(list('{"command": "echo a\\u2028b\\u2029c"}'), id="escaped, in pieces"),
    ],
)
def test_line_separators_are_escaped_in_the_arguments_of_a_tool(tmp_path: Path, pieces: list[str]) -> None:
    with Agent(tmp_path, {"blocks": [{"tool": "bash", "arguments": pieces}]}, {"text": "ok"}) as agent:
        events = agent.prompt("go")
        assert texts(events, "toolResult") == ["a\u2028b\u2029c\n"]
        assert json.loads(joined_deltas(events, "toolcall_delta")) == {"command": "echo a\u2028b\u2029c"}


def test_tool_output_of_any_bytes_is_reported_as_text(tmp_path: Path) -> None:
    printing = r"printf 'a\xe2\x80\xa8b\xff\xfe\x00\x1b[31mred\x07'; head -c 3000 /dev/urandom"
    with Agent(tmp_path, calls(printing), {"text": "ok"}) as agent:
        assert "a\u2028b" in texts(agent.prompt("go"), "toolResult")[0]
        assert "a\u2028b" in agent.get("bash", command=printing)["output"]


@pytest.mark.parametrize(
    "pieces", [['{"n": ', "NaN", "}"], ['{"n": -Infin', "ity}"], ['{"n": 1e', "999}"], ['{"n": 1', "e", "5}"]]
)
def test_numbers_that_are_none_never_come_out(tmp_path: Path, pieces: list[str]) -> None:
    with Agent(tmp_path, {"blocks": [{"tool": "bash", "arguments": pieces}]}, {"text": "ok"}) as agent:
        events = agent.prompt("go")
        assert [result["isError"] for result in said(events, "toolResult")] == [True]
        assert len(of("agent_settled", events)) == 1


def test_this_client_reads_strictly() -> None:
    assert as_record(b'{"type":"x","a":NaN}') is None
    assert as_record('{"type":"\u2028"}'.encode()) is None
    assert as_record(b'{"type":"\\u2028"}') == {"type": "\u2028"}

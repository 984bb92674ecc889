"""--record and --replay, with the whole program: what was recorded with a key and a server needs neither."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from support.anthropic_server import ModelServer
from support.rpc_agent import Agent
from support.rpc_process import Json, command_line, kinds, said, surroundings, text, texts

CANARY = "sk-canary-0123456789abcdef"
NO_RETRY = {"retry": {"enabled": False}}


def with_key(models: Json, key: str | None) -> Json:
    provider = {name: value for name, value in models["providers"]["mock"].items() if name != "apiKey"}
    return {"providers": {"mock": provider | ({"apiKey": key} if key else {"apiKey": "$NO_SUCH_KEY"})}}


def recorded(
    tmp_path: Path, *answers: str, prompts: tuple[str, ...] = ("go",), key: str = CANARY
) -> tuple[Path, Json, list[Json]]:
    """The folder, models.json without a key, and what happened."""
    folder = tmp_path / "recordings"
    events: list[Json] = []
    with ModelServer(*answers) as server:
        models = with_key(server.models, key)
        args = ["--model", "mock/m1", "--record", str(folder)]
        with Agent(tmp_path / "one", models=models, offline=False, args=args) as agent:
            for prompt in prompts:
                events += agent.prompt(prompt)
        assert len(list(folder.iterdir())) == len(server.asked)
    return folder, with_key(models, None), events


def replay(tmp_path: Path, folder: Path, models: Json, settings: Json | None = None, name: str = "two") -> Agent:
    args = ["--model", "mock/m1", "--replay", str(folder)]
    return Agent(tmp_path / name, models=models, settings=settings, offline=False, args=args)


def test_a_run_with_tools_is_replayed_elsewhere_without_key_and_server(tmp_path: Path) -> None:
    folder, models, before = recorded(tmp_path, "$ echo $((6 * 7)); pwd", "It is 42.")
    with replay(tmp_path, folder, models) as agent:
        events = agent.prompt("go")
        assert kinds(events) == kinds(before)
        assert texts(events, "toolResult")[0].startswith("42\n")
        assert texts(events, "assistant") == texts(before, "assistant") == ["", "It is 42."]


def test_no_secret_is_in_a_recording(tmp_path: Path) -> None:
    folder, _, _ = recorded(tmp_path, "Hello.")
    (file,) = folder.iterdir()
    assert CANARY not in file.read_text() and str(tmp_path) not in file.read_text()
    exchange = json.loads(file.read_text())
    assert exchange["request"]["headers"]["x-api-key"] == "***"
    assert (exchange["request"]["path"], exchange["response"]["status"]) == ("/v1/messages", 200)


@pytest.mark.parametrize("key", ["k", "text", "test"])
def test_a_run_with_the_short_key_of_a_local_server_is_replayed(key: str, tmp_path: Path) -> None:
    folder, models, before = recorded(
        tmp_path, "$ echo a test", "The text is kept.", prompts=("run the test",), key=key
    )
    with replay(tmp_path, folder, models) as agent:
        assert (
            texts(agent.prompt("run the test"), "assistant") == texts(before, "assistant") == ["", "The text is kept."]
        )


def test_a_recording_that_cannot_be_read_is_an_error_and_not_an_empty_answer(tmp_path: Path) -> None:
    folder, models, _ = recorded(tmp_path, "It is 42.")
    (file,) = folder.iterdir()
    file.write_text(file.read_text().replace("content_block", "content_bloc***"))
    with replay(tmp_path, folder, models) as agent:
        (answer,) = said(agent.prompt("go"), "assistant")
        assert (answer["stopReason"], answer["content"]) == ("error", [])
        assert answer["errorMessage"].startswith(f"Replay: {file.name} in {folder} cannot be read: names of fields")


def test_a_request_that_was_not_recorded_fails_loudly_and_is_not_retried(tmp_path: Path) -> None:
    folder, models, _ = recorded(tmp_path, "Hello.")
    with replay(tmp_path, folder, models) as agent:
        events = agent.prompt("something else")
        (answer,) = said(events, "assistant")
        assert answer["stopReason"] == "error"
        assert answer["errorMessage"].startswith(
            f"Replay: there is no recorded answer to POST /v1/messages, model m1 in {folder}."
        )
        assert 'recorded "go", asked "something else"' in answer["errorMessage"]
        assert "auto_retry_start" not in kinds(events)


def test_equal_questions_are_answered_in_order_and_no_more_often_than_recorded(tmp_path: Path) -> None:
    folder, models, _ = recorded(tmp_path, "One.", "Two.")
    once = sorted(folder.iterdir())[0]
    with replay(tmp_path, folder, models) as agent:
        assert texts(agent.prompt("go"), "assistant") == ["One."]
        agent.ask("new_session")
        (answer,) = said(agent.prompt("go"), "assistant")
        assert once.name in answer["errorMessage"] and "was asked 2 times" in answer["errorMessage"]


def test_a_failure_and_the_try_after_it_are_replayed(tmp_path: Path) -> None:
    folder, models, _ = recorded(tmp_path, "Hello.")
    (file,) = folder.iterdir()
    good = json.loads(file.read_text())
    refusal = {"message": "529 overloaded", "status": 529, "transient": True, "retryAfterMs": None}
    bad = {**good, "response": {"portions": [], "ended": "failed", "status": 529, "failure": refusal}}
    (folder / "0000-bad.json").write_text(json.dumps(bad))
    with replay(tmp_path, folder, models, settings={"retry": {"baseDelayMs": 1}}) as agent:
        events = agent.prompt("go")
        assert [kind for kind in kinds(events) if "retry" in kind] == ["auto_retry_start", "auto_retry_end"]
        assert text(said(events, "assistant")[-1]) == "Hello."


def test_a_compaction_is_replayed(tmp_path: Path) -> None:
    settings = {"compaction": {"keepRecentTokens": 1}}
    folder = tmp_path / "recordings"
    summaries, asked = [], []
    with ModelServer("One.", "Two.", "The summary.", "Three.") as server:
        models = with_key(server.models, CANARY)
        for name, flag in (("one", "--record"), ("two", "--replay")):
            args = ["--model", "mock/m1", flag, str(folder)]
            models = models if flag == "--record" else with_key(models, None)
            with Agent(tmp_path / name, models=models, settings=settings, offline=False, args=args) as agent:
                agent.prompt("first")
                agent.prompt("second")
                summaries.append(agent.get("compact")["summary"])
                agent.prompt("third")
                assert agent.get("get_last_assistant_text")["text"] == "Three."
            asked.append(len(server.asked))
    assert summaries[0] == summaries[1]
    assert asked[0] == asked[1]


def test_an_offline_model_leaves_nothing_to_record(tmp_path: Path) -> None:
    with Agent(tmp_path, args=["--record", str(tmp_path / "r")]) as agent:
        assert texts(agent.prompt("go"), "assistant") == ["ok"]
        assert "answers without a network, so there is nothing to record" in agent.stderr
    assert list((tmp_path / "r").iterdir()) == []


@pytest.mark.parametrize(
    ("args", "error"),
    [
        (["--replay", "nowhere"], "--replay {work}/nowhere: there is no such folder."),
        (["--replay", "empty"], "--replay {work}/empty: there are no recordings in it."),
        (["--replay", "broken"], "--replay {work}/broken: a file in it is not a recording: version: missing"),
        (["--record", "a", "--replay", "b"], "--record and --replay cannot go together"),
        (["--record", "file"], "--record {work}/file: File exists"),
    ],
)
def test_a_folder_that_will_not_do_is_reported_at_once(tmp_path: Path, args: list[str], error: str) -> None:
    env, work = surroundings(tmp_path), tmp_path / "work"
    (work / "empty").mkdir()
    (work / "broken").mkdir()
    (work / "broken" / "0001.json").write_text("{}")
    (work / "file").touch()
    ended = subprocess.run(
        [*command_line(), "--model", "anthropic/claude-sonnet-4-5", *args],
        input=b"",
        capture_output=True,
        cwd=work,
        env=env,
        timeout=30,
    )
    assert ended.returncode == 2
    assert error.format(work=work) in ended.stderr.decode()

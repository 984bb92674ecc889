"""The exit code of every way to end, in every mode: a table over real runs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from support.cli_process import QUICK_RETRIES, run
from support.rpc_process import Agent, Json, calls
from tau.cli.flags import help_text
from tau.core.checks.exit_codes import EXIT_CODES

CUT: Json = {"text": "half", "stop": "length"}
BAD_KEY: Json = {"error": {"message": "401 bad key"}}
OVERLOADED: Json = {"error": {"message": "529 overloaded"}}
OK: Json = {"text": "ok"}

ENDS: dict[str, tuple[int, list[str], list[Json]]] = {
    "answered": (0, ["hi"], [OK]),
    "answered after a tool": (0, ["hi"], [calls("true"), OK]),
    "answered after a tool that failed": (0, ["hi"], [calls("false"), OK]),
    "answered at the second try": (0, ["hi"], [OVERLOADED, OK]),
    "nothing said": (0, ["hi"], [{"text": ""}]),
    "failed": (1, ["hi"], [BAD_KEY]),
    "failed in the middle": (1, ["hi"], [{"text": "so far", "error": {"message": "401 bad key", "after": 1}}]),
    "failed after a tool": (1, ["hi"], [calls("true"), BAD_KEY]),
    "failed at every try": (1, ["hi"], [OVERLOADED]),
    "the first of two failed": (1, ["hi", "again"], [BAD_KEY, OK]),
    "one was cut off, one failed": (1, ["hi", "again"], [CUT, BAD_KEY]),
    "cut off": (3, ["hi"], [CUT]),
    "the first of two was cut off": (3, ["hi", "again"], [CUT, OK]),
    "unknown flag": (2, ["--zork", "hi"], [OK]),
    "unknown model": (2, ["--provider", "zork", "hi"], [OK]),
    "missing file": (2, ["@zork", "hi"], [OK]),
    "unknown session": (2, ["--session", "abcdef", "hi"], [OK]),
}


@pytest.mark.parametrize("mode", ["text", "json", "json --result"])
@pytest.mark.parametrize("end", ENDS)
def test_the_exit_code_tells_how_it_ended(end: str, mode: str, tmp_path: Path) -> None:
    code, argv, answers = ENDS[end]
    done = run(tmp_path, "--mode", *mode.split(), *argv, answers=answers, settings=QUICK_RETRIES)
    assert done.code == (0 if mode == "json" and code != 2 else code), done
    assert bool(done.err) == (code != 0 and not (mode != "text" and code == 3))


SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
REQUESTS: dict[str, tuple[int, list[str]]] = {
    "a result": (1, ["--result"]),
    "a limit of turns": (1, ["--max-turns", "5"]),
    "a limit of tokens": (1, ["--max-tokens", "9999"]),
    "a limit of cost": (1, ["--max-cost", "5", "--allow-unknown-cost"]),
    "a limit of time": (1, ["--time-limit", "60"]),
    "an output schema": (1, ["--output-schema", "{schema}"]),
    "permissions": (1, ["--permissions", "ask"]),
    "a name": (0, ["--name", "x"]),
    "a dialect": (0, ["--dialect", "1.5"]),
}


@pytest.mark.parametrize("asked", REQUESTS)
def test_json_mode_has_our_codes_if_the_command_line_asks_for_something_of_ours(asked: str, tmp_path: Path) -> None:
    code, argv = REQUESTS[asked]
    schema = tmp_path / "schema.json"
    schema.write_text(json.dumps(SCHEMA))
    words = [word.format(schema=schema) for word in argv]
    done = run(tmp_path, "--mode", "json", *words, "hi", answers=[BAD_KEY])
    assert done.code == code, done
    assert "401 bad key" in done.err


def test_json_mode_exits_with_0_when_a_model_is_stuck(tmp_path: Path) -> None:
    answers = [calls("false") for _ in range(9)]
    stuck = {"stuckAfter": 3}
    assert run(tmp_path / "a", "--mode", "json", "hi", answers=answers, settings=stuck).code == 0
    assert run(tmp_path / "b", "--mode", "json", "--result", "hi", answers=answers, settings=stuck).code == 5
    assert run(tmp_path / "c", "--mode", "text", "hi", answers=answers, settings=stuck).code == 5


def test_json_mode_fails_if_a_prompt_is_refused(tmp_path: Path) -> None:
    words = ["--mode", "json", "--provider", "anthropic", "--model", "claude-sonnet-4-5", "hi"]
    assert run(tmp_path, *words).code == 1


@pytest.mark.parametrize(
    ("argv", "code"),
    [([], 0), (["a message"], 0), (["--zork"], 2), (["@file"], 2), (["--session", "abcdef"], 2)],
)
def test_rpc_mode_starts_or_says_why_not(argv: list[str], code: int, tmp_path: Path) -> None:
    done = run(tmp_path, "--mode", "rpc", *argv)
    assert (done.code, done.out, bool(done.err)) == (code, "", code != 0)


def test_the_help_has_the_table() -> None:
    told = help_text("pi")
    assert [meaning in told for meaning in EXIT_CODES.values()] == [True] * len(EXIT_CODES)


def test_a_session_that_another_process_has_is_a_usage_error(tmp_path: Path) -> None:
    with Agent(tmp_path, OK) as agent:
        agent.prompt("hi")
        file = agent.get("get_state")["sessionFile"]
        done = run(tmp_path, "-p", "--session", file, "hi")
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("Error: ")

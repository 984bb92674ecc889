"""Limits and results in a shape, as a person or a script meets them."""

from __future__ import annotations

import json
from pathlib import Path

from support.cli_process import run
from support.rpc_process import Json

SCHEMA = {"type": "object", "properties": {"files": {"type": "integer"}}, "required": ["files"]}
LOOK: Json = {"blocks": [{"tool": "bash", "arguments": {"command": "echo hi"}, "id": "a"}]}


def handed_in(**value: object) -> Json:
    return {"blocks": [{"tool": "return_result", "arguments": value, "id": "r"}]}


def schema(folder: Path) -> str:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "schema.json"
    path.write_text(json.dumps(SCHEMA))
    return str(path)


def test_the_result_is_printed_in_the_shape_that_was_asked_for(tmp_path: Path) -> None:
    done = run(tmp_path, "-p", "--output-schema", schema(tmp_path), "count", answers=[LOOK, handed_in(files=3)])
    assert (done.code, done.out) == (0, '{"files":3}\n')


def test_without_a_result_in_that_shape_nothing_is_printed_and_the_code_says_so(tmp_path: Path) -> None:
    done = run(tmp_path, "-p", "--output-schema", schema(tmp_path), "count", answers=[{"text": "no"}] * 9)
    assert (done.code, done.out) == (1, "")
    assert done.err.startswith("Error: ")


def test_a_schema_that_is_none_is_refused_before_anything_is_asked(tmp_path: Path) -> None:
    (tmp_path / "bad.json").write_text('{"type": "sometimes"}')
    done = run(tmp_path, "-p", "--output-schema", str(tmp_path / "bad.json"), "count")
    assert (done.code, done.out) == (2, "")
    assert "bad.json" in done.err


def test_a_limit_ends_the_work_with_what_there_is_and_a_code_of_its_own(tmp_path: Path) -> None:
    begun: Json = {"blocks": [{"text": "Let me look."}, *LOOK["blocks"]]}
    done = run(tmp_path, "-p", "--max-turns", "1", "go", answers=[begun, {"text": "never"}])
    assert (done.code, done.out) == (3, "Let me look.\n")
    assert "turn" in done.err


def test_the_last_record_tells_of_the_limit_and_the_result(tmp_path: Path) -> None:
    asked = ("--mode", "json", "--result", "--output-schema", schema(tmp_path), "count")
    told = run(tmp_path / "a", *asked, answers=[handed_in(files=3)]).records[-1]
    assert (told["type"], told["output"], told["exitCode"]) == ("result", {"files": 3}, 0)
    cut = run(tmp_path / "b", "--mode", "json", "--result", "--max-turns", "1", "go", answers=[LOOK]).records[-1]
    assert (cut["limit"], cut["exitCode"]) == ("turns", 3)


WRONG: Json = {"blocks": [{"text": "Hm."}, {"tool": "no_such_tool", "arguments": {}, "id": "a"}]}
STUCK = "Stopped: the tool calls of 8 answers in a row all failed in the same way."


def test_a_model_that_repeats_a_mistake_is_stopped_with_a_code_of_its_own(tmp_path: Path) -> None:
    done = run(tmp_path / "a", "-p", "go", answers=[WRONG])
    assert (done.code, done.err) == (5, f"Error: {STUCK}\n")
    told = run(tmp_path / "b", "--mode", "json", "--result", "go", answers=[WRONG]).records[-1]
    assert (told["limit"], told["exitCode"], told["errorMessage"]) == ("stuck", 5, STUCK)

"""--permissions where nobody can be asked, and what is wrong with a file of rules."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from support.cli_process import Done, run
from support.rpc_process import Json, calls, said, text

OK: Json = {"text": "ok"}


def ruled(folder: Path, rules: Json | str, *argv: str, answers: list[Json]) -> Done:
    file = folder / "rules.json"
    file.write_text(rules if isinstance(rules, str) else json.dumps(rules))
    return run(folder, "--permissions", "rules", str(file), *argv, answers=answers)


def test_print_mode_denies_what_it_would_have_to_ask_and_says_so_by_its_exit_code(tmp_path: Path) -> None:
    done = run(tmp_path, "-p", "--permissions", "ask", "go", answers=[calls("touch a"), OK])
    assert (done.code, done.out) == (4, "ok\n")
    assert done.err == (
        "Denied: The call of bash was denied: it needs confirmation, and no client can answer."
        " Here only calls that a rule allows can run.\n"
    )
    assert not (tmp_path / "work" / "a").exists()


def test_json_mode_has_the_denial_in_the_result_and_in_the_sum(tmp_path: Path) -> None:
    deny = {"deny": [{"tool": "bash", "command": "touch"}], "otherwise": "allow"}
    done = ruled(tmp_path, deny, "--mode", "json", "--result", "go", answers=[calls("touch a"), OK])
    reason = f"The call of bash was denied: the rule deny[0] in {tmp_path}/rules.json:1 denies it."
    (message,) = said(done.records, "toolResult")
    assert message["isError"] and text(message).startswith(reason)
    assert message["details"] == {"denied": {"by": "rule", "reason": reason, "rule": "deny[0]"}}
    assert (done.records[-1]["exitCode"], done.records[-1]["denials"], done.code) == (4, [reason], 4)


@pytest.mark.parametrize("mode", ["text", "json"])
def test_what_is_allowed_ends_as_always(mode: str, tmp_path: Path) -> None:
    allow = {"allow": [{"tool": "bash", "command": "touch"}]}
    done = ruled(tmp_path, allow, "--mode", mode, "go", answers=[calls("touch a"), OK])
    assert (done.code, done.err) == (0, "")
    assert (tmp_path / "work" / "a").exists()


def test_a_failure_is_worse_than_a_denial(tmp_path: Path) -> None:
    answers = [calls("touch a"), {"error": {"message": "401 bad key"}}]
    assert ruled(tmp_path, {"otherwise": "deny"}, "-p", "go", answers=answers).code == 1


@pytest.mark.parametrize(
    ("rules", "told"),
    [
        ("{", "rules.json: "),
        ("[]", "rules.json: expected object, got array"),
        ('{"alow": []}', "rules.json: object contains unknown field alow"),
        ('{"allow": [\n{"tools": "bash"}]}', "rules.json:2: allow[0]: object contains unknown field tools"),
        ('{"deny": [\n\n{"tool": 1}]}', "rules.json:3: deny[0].tool: expected str | array, got int"),
        ('{"otherwise": "maybe"}', "rules.json:1: otherwise: invalid enum value 'maybe'"),
        ('{"deadline": "60"}', "rules.json:1: deadline: expected float, got str"),
        ('{"deadline": 0}', "rules.json:1: deadline: must be more than 0 seconds, and at most 86400"),
        ('{"deny": [\n{"command": "rm | x"}]}', "rules.json:2: deny[0].command: rm | x: must be the first words of"),
        ('{"allow": [{}]}', "rules.json:1: allow[0]: a rule names a tool, a path or a command"),
    ],
)
def test_a_file_of_rules_that_is_wrong_starts_nothing_and_says_where(rules: str, told: str, tmp_path: Path) -> None:
    done = ruled(tmp_path, rules, "-p", "go", answers=[OK])
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith(f"Error: --permissions: {tmp_path}/{told}"), done.err


@pytest.mark.parametrize(
    ("argv", "told"),
    [
        (["--permissions", "rules", "zork.json", "go"], "zork.json: No such file or directory"),
        (["--permissions", "maybe", "go"], "'maybe' is neither ask nor rules FILE"),
        (["go", "--permissions", "rules"], "--permissions needs a value: ask|rules FILE"),
        (["go", "--permissions"], "--permissions needs a value: ask|rules FILE"),
    ],
)
def test_a_flag_that_says_nothing_starts_nothing(argv: list[str], told: str, tmp_path: Path) -> None:
    done = run(tmp_path, "-p", *argv, answers=[OK])
    assert (done.code, told in done.err) == (2, True), done.err


def test_comments_are_allowed_in_a_file_of_rules(tmp_path: Path) -> None:
    rules = '{ // ours\n "allow": [{"tool": "bash", /* all */ "command": ["touch", "ls"],},], }'
    assert ruled(tmp_path, rules, "-p", "go", answers=[calls("touch a"), OK]).code == 0


def test_a_project_cannot_loosen_what_was_asked_for(tmp_path: Path) -> None:
    """Not with settings, trusted or not, and not with a file that looks like ours."""
    folder = tmp_path / "work" / ".pi"
    folder.mkdir(parents=True)
    for name in ("settings.json", "permissions.json", "rules.json"):
        (folder / name).write_text('{"permissions": "allow", "otherwise": "allow"}')
    done = run(tmp_path, "-p", "--approve", "--permissions", "ask", "go", answers=[calls("touch a"), OK])
    assert done.code == 4

"""First words that are commands of pi or of other agents: a command here as well, or an error, but never a prompt."""

from __future__ import annotations

import pytest

from tau.cli.flags import parse
from tau.cli.main import COMMANDS, FIRST_WORDS, main, run
from tau.errors import UsageError

AGENTS = {
    "pi": "auth config install list mcp remove uninstall update",
    "amp": "doctor login logout mcp permissions review skill threads tools update usage",
    "claude": (
        "agents auth auto-mode config doctor install mcp plugin plugins project setup-token ultrareview update upgrade"
    ),
    "codex": (
        "app-server apply cloud completion debug e exec execpolicy features fork login logout mcp mcp-server resume "
        "review sandbox update"
    ),
    "copilot": "completion help init login mcp plugin update version",
    "crush": "login logs models projects run session stats update-providers",
    "cursor": (
        "about agent create-chat generate-rule help login logout ls mcp models resume rule sandbox status update "
        "upgrade whoami"
    ),
    "gemini": "extensions hooks mcp skills",
    "goose": (
        "acp bench completion configure doctor info mcp project projects recipe run schedule serve session term "
        "update web"
    ),
    "kimi": "acp export info login logout mcp plugin term web",
    "kiro": "agent chat diagnostic doctor issue login logout mcp settings theme update whoami",
    "llm": "chat install keys logs models plugins prompt tools uninstall",
    "opencode": (
        "acp agent attach auth db debug export github import mcp models plugin pr providers run serve session stats "
        "uninstall upgrade web"
    ),
}
WORDS = sorted({word for words in AGENTS.values() for word in words.split()})


@pytest.mark.parametrize("program", ["tau", "pi"])
@pytest.mark.parametrize("agent", AGENTS)
def test_it_is_a_command_or_refused(agent: str, program: str) -> None:
    commands = COMMANDS if program == "tau" else FIRST_WORDS
    for word in AGENTS[agent].split():
        alone = f"To send the word to the model: {program} -p {word}"
        more = f'To send the text to the model: {program} "{word} ..."'
        for argv, remedy in (
            ([word], alone),
            ([word, "x", "y"], more),
            (["--model", "demo", word], alone),
            (["-c", "--no-session", word, "x"], more),
            ([word, "-p"], alone),
            ([word, "--mode", "json"], alone),
        ):
            stands_first = argv[0] == word or word not in FIRST_WORDS
            if word in commands and stands_first and {"-p", "--mode"}.isdisjoint(argv):
                continue  # it is the command
            with pytest.raises(UsageError, match=r"(is a command of tau\. Run: tau |Did you mean )") as refused:
                run(parse(argv, program))
            assert str(refused.value).endswith(remedy)


@pytest.mark.parametrize("argv", [["-p"], ["--mode", "json"], ["--"], ["--model", "demo", "--"], ["--mode=rpc", "-c"]])
def test_after_p_mode_or_two_dashes_it_is_a_prompt(argv: list[str]) -> None:
    for word in [*WORDS, "trust"]:
        arguments = parse([*argv, word])
        assert (arguments.command, arguments.words) == ("", [word])


@pytest.mark.parametrize("argv", [["--list-models", "agent"], ["--export", "run"]])
def test_the_argument_of_a_task_is_no_command(argv: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    main("tau", argv)
    assert "There is no command" not in capsys.readouterr().err

"""Golden screens: what each state of the interface looks like at four sizes and four depths of colour.

`make golden` writes the files in tests/golden/tui again.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from support.golden_screens import ANSWER, DEPTHS, FOLDER, SCENES, Stage, all_states, golden_colours, golden_files, play
from support.interface import Interface
from tau.records import events as ev
from tau.records.base import replace
from tau.records.messages import Text
from tau.screen.colors import Depth
from tau.screen.footer import FooterState, Totals
from tau.screen.styles import Palette
from tau.tui.view import Size

SGR = re.compile(r"\x1b\[([0-9;]*)m")


@pytest.fixture
def colours() -> dict[str, str]:
    return golden_colours()


def test_the_screens_are_as_in_the_golden_files() -> None:
    drawn = golden_files()
    assert {path.name for path in FOLDER.iterdir()} == set(drawn), "run `make golden`"
    for name, shown in drawn.items():
        assert shown == (FOLDER / name).read_text(encoding="utf-8"), f"{name}: run `make golden` and read the diff"


# Colours


@pytest.mark.parametrize("depth", DEPTHS)
def test_a_depth_of_colour_uses_only_its_own_sequences(depth: Depth, colours: dict[str, str]) -> None:
    parameters = [part.split(";") for part in SGR.findall(colours[f"colours-{depth}.ansi"])]
    words = {word for part in parameters for word in part}
    deep = any(";".join(part).find("8;2;") >= 0 for part in parameters)
    indexed = any(";".join(part).find("8;5;") >= 0 for part in parameters)
    assert (deep, indexed) == {"truecolor": (True, False), "256": (False, True)}.get(depth, (False, False))
    if depth == "none":
        assert words <= {"", "0", "1", "2", "3", "4", "7", "9"}


def test_every_depth_of_colour_shows_the_same_text(colours: dict[str, str]) -> None:
    assert len({SGR.sub("", colours[f"colours-{depth}.ansi"]) for depth in DEPTHS}) == 1


def test_without_colour_every_state_is_told_by_a_word_or_a_sign() -> None:
    states = {
        **{"running": "• $ sleep 9", "done": "✓ $ make test", "failed": "✗ $ false"},
        **{"removed": "-2 the red fox", "added": "+2 the red dog", "warning": "Warning: a warning"},
        **{"steering": "Steering: left", "follow-up": "Follow-up: later", "working": "Working", "level": "• medium"},
        **{"prompt": "> Do it", "permissions": "ask"},
    }
    shown = "\n".join(play(all_states, Size(60, 80), Palette(depth="none")).screen())
    assert {state: text for state, text in states.items() if text not in shown} == {}
    others = {
        "aborted": "■ $ make test",
        "errors": "Error: The key was refused.",
        "shell-commands": "!! false",
        "question": "→ 1 red",
        "permission-while-typing": "Tab answers",
        "completion": "→ model",
        "retry": "Try 2 of 3 in 8s",
        "compacting": "Summarising…",
    }
    for name, text in others.items():
        shown = "\n".join(play(SCENES[name], Size(40, 80), Palette(depth="none")).screen())
        assert text in shown, (name, shown)


def test_no_color_in_the_environment_turns_colours_off_and_leaves_the_words(tmp_path: Path) -> None:
    script = [{"blocks": [{"tool": "bash", "arguments": {"command": "false"}}]}, {"text": "**done**"}]
    with Interface(tmp_path, script=script, env={"NO_COLOR": "1"}) as tau:
        tau.start().send("go")
        tau.wait("done")
        tau.settle()
        assert "✗ $ false" in "\n".join(tau.screen())
        used = {word for part in SGR.findall(tau.raw().decode()) for word in part.split(";")}
        assert used <= {"", "0", "1", "2", "3", "4", "7", "9"}


# The scenes and the program


def test_the_program_shows_what_a_scene_shows(tmp_path: Path) -> None:
    """One scene by the real program in a pseudo terminal, with the same events."""
    script = [
        {"blocks": [{"text": "I *look*."}, {"tool": "bash", "arguments": {"command": "seq 1 9"}}]},
        {"text": "# Done\n\n- nine **lines**"},
    ]
    with Interface(tmp_path, script=script, settings={"quietStartup": True}) as tau:
        tau.start().send("count to nine")
        tau.wait("nine lines")
        tau.settle()
        tau.type("more")
        tau.wait("more")
        program = tau.wait_quiet().rstrip("\n").split("\n")
        context = re.search(r"[\d.]+%", program[-1])
        assert context is not None
    footer = FooterState(
        cwd=str(tmp_path / "work"),
        totals=Totals(20, 10),
        context_percent=float(context[0][:-1]),
        context_window=200_000,
        auto_compact=True,
        model="scripted",
        level="medium",
    )
    stage = Stage(footer=footer, greeting="")
    stage.prompted("count to nine")
    stage.says("I *look*.")
    id = stage.runs("bash", {"command": "seq 1 9"})
    numbers = "".join(f"{number}\n" for number in range(1, 10))
    stage.apply(ev.ToolEnd(id, "bash", ev.Outcome([Text(numbers)]), False, 20))
    stage.apply(ev.MessageEnd(replace(ANSWER, stop_reason="toolUse")), ev.MessageStart(ANSWER))
    stage.says("# Done\n\n- nine **lines**")
    stage.settled()
    stage.view.editor.insert("more")
    took = re.compile(r"  Took [\d.]+s")
    assert [row for row in program if not took.fullmatch(row)] == stage.screen()


def test_a_question_on_a_small_screen_keeps_its_title() -> None:
    for name in ("question", "permission", "permission-while-typing"):
        rows = play(SCENES[name], Size(10, 20)).screen()
        assert any(row.startswith(("── Which one?", "── Allow edit?")) for row in rows), (name, rows)

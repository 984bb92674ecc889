"""The model picker, thinking levels and scoped models, in the whole program."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from support.interface import Interface
from support.rpc_process import Json, endless

MODELS = ["alpha-large", "alpha-small", "beta"]


def write_models(folder: Path, *ids: str, **more: Any) -> None:
    models = [
        {"id": id, "reasoning": True, "contextWindow": 64000, "cost": {"input": 3, "output": 15}, **more} for id in ids
    ]
    lab = {"baseUrl": "http://127.0.0.1:9/v1", "apiKey": "k", "api": "openai-completions", "models": models}
    (folder / "agent").mkdir(exist_ok=True)
    (folder / "agent" / "models.json").write_text(json.dumps({"providers": {"lab": lab}}))


def saved(folder: Path) -> Json:
    path = folder / "agent" / "settings.json"
    content: Json = json.loads(path.read_text()) if path.exists() else {}
    return content


def send_as_typed(tau: Interface, text: str, completion: str) -> None:
    """Send a text as it was typed, not as the completion list would complete it."""
    tau.type(text)
    tau.wait(completion)
    tau.press("escape")
    tau.wait(lambda shown: completion not in shown)
    tau.press("enter")


@pytest.mark.parametrize(("rows", "cols"), [(24, 80), (15, 40)])
def test_the_model_picker_shows_price_and_window_and_filters(rows: int, cols: int, tmp_path: Path) -> None:
    write_models(tmp_path, *MODELS)
    with Interface(tmp_path, rows=rows, cols=cols) as tau:
        tau.start().press("ctrl+l")
        shown = tau.wait("lab/beta")
        if cols == 80:
            assert "$3 in, $15 out · 64k" in shown
        tau.type("beta")
        tau.wait(lambda shown: "lab/alpha" not in shown)
        tau.press("enter")
        tau.wait("lab/beta, thinking")
        tau.settle()
    assert "defaultModel" not in saved(tmp_path)


def test_ctrl_s_in_the_model_picker_makes_the_model_the_default(tmp_path: Path) -> None:
    write_models(tmp_path, *MODELS)
    with Interface(tmp_path) as tau:
        tau.start().send("/model")
        tau.wait("Ctrl+S makes it the default")
        tau.type("alpha-small")
        tau.wait(lambda shown: "lab/beta" not in shown)
        tau.press("ctrl+s")
        tau.wait("Default model: lab/alpha-small")
        tau.settle()
    assert (saved(tmp_path)["defaultProvider"], saved(tmp_path)["defaultModel"]) == ("lab", "alpha-small")


def test_model_picks_at_once_when_only_one_fits(tmp_path: Path) -> None:
    write_models(tmp_path, *MODELS)
    with Interface(tmp_path) as tau:
        tau.start()
        send_as_typed(tau, "/model bet", "→ lab/beta")
        tau.wait("lab/beta, thinking")


def test_model_opens_the_picker_when_several_fit(tmp_path: Path) -> None:
    write_models(tmp_path, *MODELS)
    with Interface(tmp_path, script=[endless("so far ")]) as tau:
        tau.start().send("go")
        tau.wait("so far")  # while an answer streams
        send_as_typed(tau, "/model alpha", "→ lab/alpha-large")
        tau.wait(lambda shown: "── Model" in shown and "> alpha" in shown and "lab/alpha-small" in shown)
        assert not any("lab/beta" in row for row in tau.screen())
        tau.press("enter")
        tau.wait("lab/alpha-large, thinking")


def test_scoped_models_are_first_in_the_model_picker(tmp_path: Path) -> None:
    write_models(tmp_path, *MODELS)
    with Interface(tmp_path, settings={"enabledModels": ["lab/beta", "lab/alpha-small"]}) as tau:
        tau.start().press("ctrl+l")
        tau.wait("lab/alpha-large")
        names = [row.split()[0] for row in (row.strip("→ ") for row in tau.screen()) if row.startswith("lab/")]
        assert names == ["lab/beta", "lab/alpha-small", "lab/alpha-large"]


def test_models_json_is_read_again_when_the_model_picker_opens(tmp_path: Path) -> None:
    write_models(tmp_path, *MODELS)
    with Interface(tmp_path) as tau:
        tau.start()
        write_models(tmp_path, *MODELS, "gamma")
        tau.press("ctrl+l")
        tau.wait("lab/gamma")
        tau.press("escape")
        tau.wait(lambda shown: "── Model" not in shown)
        (tmp_path / "agent" / "models.json").write_text("{")
        tau.press("ctrl+l")
        tau.wait(lambda shown: "The file is ignored" in " ".join(shown.split()))
        tau.wait("lab/gamma")  # the list stays as it was


def test_the_thinking_list_sets_the_level_and_ctrl_s_saves_it(tmp_path: Path) -> None:
    with Interface(tmp_path) as tau:
        tau.start().send("/thinking")
        tau.wait("── Thinking level")
        tau.type("high")
        tau.press("enter")
        tau.wait("Thinking: high")
        tau.settle()
        assert "defaultThinkingLevel" not in saved(tmp_path)
        tau.send("/thinking")
        tau.wait("✓ high")
        tau.press("ctrl+s")
        tau.wait("Default thinking level: high")
        tau.settle()
    assert saved(tmp_path)["defaultThinkingLevel"] == "high"


@pytest.mark.parametrize(("rows", "cols"), [(24, 80), (15, 40)])
def test_scoped_models_are_cycled_through_and_ctrl_s_saves_them(rows: int, cols: int, tmp_path: Path) -> None:
    write_models(tmp_path, *MODELS)
    with Interface(tmp_path, rows=rows, cols=cols, settings={"enabledModels": ["lab/*", "gone/x"]}) as tau:
        tau.start().send("/scoped-models")
        tau.wait("✓ lab/beta")
        tau.press("enter")  # alpha-large is the first
        tau.wait("not saved")
        tau.press("alt+down")
        tau.wait(lambda shown: "✓ lab/alpha-small" in shown)
        assert saved(tmp_path)["enabledModels"] == ["lab/*", "gone/x"]
        tau.press("ctrl+s")
        tau.wait(lambda shown: "not saved" not in shown)
        tau.press("escape")
        tau.wait(lambda shown: "Scope:" not in shown)
        tau.press("ctrl+p")
        tau.wait("lab/alpha-small, thinking")
        tau.settle()
    # A model that cannot be used now is not forgotten.
    assert saved(tmp_path)["enabledModels"] == ["lab/beta", "lab/alpha-small", "gone/x"]


def test_keys_cycle_through_models_and_levels_for_this_session_only(tmp_path: Path) -> None:
    write_models(tmp_path, *MODELS)
    settings = {"enabledModels": ["lab/beta", "lab/alpha-small", "lab/alpha-large"]}
    with Interface(tmp_path, settings=settings) as tau:
        tau.start().press("ctrl+p")
        tau.wait("lab/alpha-small, thinking medium")
        tau.type("\x1b[112;6u")  # Ctrl+Shift+P
        tau.wait("lab/beta, thinking medium")
        tau.press("shift+tab")
        tau.wait("beta • high")
        tau.settle()
    assert saved(tmp_path).keys() <= {"enabledModels"}


def test_plain_mode_lists_models_by_number(tmp_path: Path) -> None:
    write_models(tmp_path, *MODELS)
    with Interface(tmp_path, "--plain") as tau:
        tau.wait("/help lists")
        tau.type("/model alpha\r")
        tau.wait(lambda shown: "2 lab/alpha-small" in shown and "anything else cancels" in shown)
        tau.type("2\r")
        tau.wait("lab/alpha-small, thinking")

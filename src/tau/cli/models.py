"""`pi --list-models [SEARCH]`: list the models that can be used."""

from __future__ import annotations

from collections.abc import Sequence

from tau.cli.flags import ParsedArguments
from tau.core.text.terminal_text import escape_for_display
from tau.records.models import Model
from tau.runtime.app.model_choice import known_models, problem_text
from tau.runtime.models.discovery import discover
from tau.runtime.models.selection import HOW_TO_SET_A_KEY
from tau.runtime.terminal import complain, say
from tau.store.keys import Keys
from tau.store.paths import agent_dir

HEAD = ("provider", "model", "context", "output", "thinking", "images", "$ in", "$ out")


def main(arguments: ParsedArguments) -> int:
    folder = agent_dir()
    keys = Keys(folder / "auth.json")
    models, problems = known_models(folder, keys)
    nearby = [model for server in discover(models.catalog, keys).values() for model in server.models]
    everything = {(model.provider, model.id): model for model in [*nearby, *models.available]}
    wanted = " ".join([arguments.flags["list-models"], *arguments.words]).lower().split()
    listed = [model for model in everything.values() if all(word in _text(model) for word in wanted)]
    for problem in [
        *problems,
        *(problem_text(problem_record, folder / "models.json") for problem_record in models.catalog.problems),
    ]:
        complain(f"Warning: {problem}")
    if not everything:
        complain("No models are available.\n")
        complain(HOW_TO_SET_A_KEY)
    elif not listed:
        complain(f'No models match "{" ".join(wanted)}"')
    else:
        for line in table(sorted(listed, key=lambda model: (model.provider, model.id))):
            say(line)
    return 0


def table(models: Sequence[Model]) -> list[str]:
    rows = [HEAD, *map(_row, models)]
    widths = [max(len(row[at]) for row in rows) for at in range(len(HEAD))]
    return ["  ".join(_cells(row, widths)).rstrip() for row in rows]


def _cells(row: Sequence[str], widths: Sequence[int]) -> list[str]:
    """Names are left-aligned, numbers right-aligned."""
    return [
        cell.rjust(width) if HEAD[at] in ("context", "output", "$ in", "$ out") else cell.ljust(width)
        for at, (cell, width) in enumerate(zip(row, widths, strict=True))
    ]


def _row(model: Model) -> tuple[str, ...]:
    priced = model.cost.input or model.cost.output
    return (
        escape_for_display(model.provider, ""),
        escape_for_display(model.id, ""),
        _short(model.context_window),
        _short(model.max_tokens),
        "yes" if model.reasoning else "no",
        "yes" if "image" in model.input else "no",
        f"{model.cost.input:.4g}" if priced else "",
        f"{model.cost.output:.4g}" if priced else "",
    )


def _short(count: int) -> str:
    """Abbreviate a number: 128K, 1M."""
    if count < 1000:
        return str(count)
    return f"{count / 1_000_000:.3g}M" if count >= 1_000_000 else f"{count / 1000:.0f}K"


def _text(model: Model) -> str:
    return f"{model.provider}/{model.id} {model.name}".lower()

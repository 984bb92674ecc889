"""`pi --list-models [SEARCH]`: list the models that can be used, or what could be used and what it needs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from tau.cli.flags import ParsedArguments
from tau.core.text.terminal_text import escape_for_display
from tau.llm.catalog import LOCAL_PROVIDERS, OFFLINE_MODELS
from tau.records.models import Model
from tau.runtime.app.model_choice import known_models, problem_text
from tau.runtime.models.discovery import discover
from tau.runtime.models.remedies import key_variable
from tau.runtime.models.selection import ModelSelection
from tau.runtime.terminal import complain, say
from tau.store.keys import Keys
from tau.store.paths import agent_dir

OFFLINE_NEEDS = {"demo": "", "scripted": " and --script FILE", "local": " and two packages"}
HEAD: tuple[str, ...] = ("provider", "model", "context", "max-out", "thinking", "images", "$ in", "$ out")
COLUMNS_OF_PI = 6


def main(arguments: ParsedArguments) -> int:
    folder = agent_dir()
    keys = Keys(folder / "auth.json")
    models, problems = known_models(folder, keys)
    nearby = [model for server in discover(models.catalog, keys).values() for model in server.models]
    usable = {(model.provider, model.id): model for model in [*nearby, *models.available]}
    wanted = " ".join([arguments.flags["list-models"], *arguments.words]).lower().split()
    listed = _matching(usable.values(), wanted)
    for problem in [*problems, *(problem_text(found, folder / "models.json") for found in models.catalog.problems)]:
        complain(f"Warning: {problem}")
    as_pi = arguments.program == "pi"
    hint = complain if as_pi else say  # programs take what pi prints to stdout for models that can be used
    if listed:
        _print(table(_sorted(listed), prices=not as_pi), say)
    elif wanted:
        _print_unusable(models, wanted, hint)
    else:
        complain("No models are available yet. These providers can be used, each with its key:")
        _print(needs_table(models), hint)
        complain("`pi --list-models WORD` lists the models whose names contain the word, also without a key.")
    return 0


def _print_unusable(models: ModelSelection, wanted: Sequence[str], hint: Callable[[str], None]) -> None:
    """List the matching models that cannot be used yet, and what each needs."""
    everything = [model for provider in models.catalog.providers for model in models.catalog.models_of(provider)]
    listed = _matching([*everything, *OFFLINE_MODELS], wanted)
    if not listed:
        say(f'No models matching "{" ".join(wanted)}"')
        return
    if any(model not in OFFLINE_MODELS for model in listed):
        complain("No model that can be used now matches. These need a key:")
    _print(table(_sorted(listed), lambda model: _need(models, model.provider, model)), hint)


def needs_table(models: ModelSelection) -> list[str]:
    """Every provider, how many models it has, and what it needs."""
    rows = [("provider", "models", "needs")]
    for provider in models.catalog.providers:
        count = len(models.catalog.models_of(provider))
        rows.append((escape_for_display(provider, ""), str(count) if count else "", _need(models, provider)))
    rows += [(model.provider, "1", f"--model {model.id}{OFFLINE_NEEDS[model.id]}") for model in OFFLINE_MODELS]
    widths = [max(len(row[at]) for row in rows) for at in range(2)]
    return [f"{row[0].ljust(widths[0])}  {row[1].rjust(widths[1])}  {row[2]}".rstrip() for row in rows]


def _need(models: ModelSelection, provider: str, model: Model | None = None) -> str:
    if model in OFFLINE_MODELS and model is not None:
        return f"--model {model.id}{OFFLINE_NEEDS[model.id]}"
    if provider in LOCAL_PROVIDERS:
        return "a server on this machine"
    missing = " and ".join(models.keys.missing(provider))
    return missing or key_variable(provider) or f"tau login {provider}, or an apiKey in models.json"


def _matching(models: Iterable[Model], wanted: Sequence[str]) -> list[Model]:
    return [model for model in models if all(word in _text(model) for word in wanted)]


def _sorted(models: Sequence[Model]) -> list[Model]:
    return sorted(models, key=lambda model: (model.provider, model.id))


def _print(lines: Sequence[str], write: Callable[[str], None]) -> None:
    for line in lines:
        write(line)


def table(models: Sequence[Model], need: Callable[[Model], str] | None = None, *, prices: bool = True) -> list[str]:
    """One line per model, as pi prints it, and its prices; with `need`, a last column says what each needs."""
    rows = [HEAD, *map(_row, models)]
    if need:
        rows = [(*row, last) for row, last in zip(rows, ["needs", *map(need, models)], strict=True)]
    elif not prices:
        rows = [row[:COLUMNS_OF_PI] for row in rows]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in rows]


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
    """Abbreviate a number as pi does: 128K, 16.4K, 1M."""
    for unit, sign in ((1_000_000, "M"), (1000, "K")):
        if count >= unit:
            return f"{count / unit:.{1 if count % unit else 0}f}{sign}"
    return str(count)


def _text(model: Model) -> str:
    return f"{model.provider}/{model.id} {model.name}".lower()

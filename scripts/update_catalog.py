"""Regenerate src/tau/llm/data and docs/catalog.md from published figures.

    python scripts/update_catalog.py                  fetches both packages (needs npm and pip)
    python scripts/update_catalog.py --pi-ai pi-ai-1.5.0.tgz --litellm litellm-1.108.4.whl

The figures are those of npm's @earendil-works/pi-ai. They are compared with the price
list in PyPI's litellm, and docs/catalog.md lists the differences; nothing is taken from
it. Neither package is installed or imported.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any, NamedTuple

from tau.llm.apis import APIS
from tau.llm.catalog import DEFAULT_MODELS
from tau.records.base import decode, encode, to_builtins
from tau.records.models import Model

ROOT = Path(__file__).parent.parent
DATA = ROOT / "src" / "tau" / "llm" / "data"
PAGE = ROOT / "docs" / "catalog.md"
PI_AI = "@earendil-works/pi-ai@1.5.0"
LITELLM = "litellm==1.108.4"

FIELDS = ("id", "name", "api", "provider", "baseUrl", "reasoning", "input", "cost", "contextWindow", "maxTokens")
# What of a model's peculiarities is of no use to us: it is long, or about what tau does not do.
UNUSED_COMPAT = {"allowedFallbackModels"}
LEFT_OUT = {
    "github-copilot": "asks for the identity of another program; its token comes from a login meant for that program",
    "openai-codex": "a subscription, reached with the login of another program",
    "radius": "an API of its own",
    "typesafe": "an API of its own, for classifiers",
}
# How litellm names the models of a provider.
PREFIXES = {
    "amazon-bedrock": "",
    "anthropic": "",
    "azure": "azure/",
    "baseten": "baseten/",
    "cerebras": "cerebras/",
    "cloudflare-workers-ai": "cloudflare/",
    "deepseek": "deepseek/",
    "fireworks": "fireworks_ai/",
    "google": "gemini/",
    "google-vertex": "vertex_ai/",
    "groq": "groq/",
    "meta": "meta/",
    "minimax": "minimax/",
    "mistral": "mistral/",
    "moonshotai": "moonshot/",
    "openai": "",
    "openrouter": "openrouter/",
    "together": "together_ai/",
    "vercel-ai-gateway": "vercel_ai_gateway/",
    "xai": "xai/",
    "zai": "zai/",
}
PRICES = {
    "input": "input_cost_per_token",
    "output": "output_cost_per_token",
    "cacheRead": "cache_read_input_token_cost",
    "cacheWrite": "cache_creation_input_token_cost",
}
SIZES = {"contextWindow": "max_input_tokens", "maxTokens": "max_output_tokens"}


class Difference(NamedTuple):
    provider: str
    id: str
    what: str
    ours: float
    theirs: float


def fetched(folder: Path, pi_ai: Path | None, litellm: Path | None) -> tuple[Path, Path]:
    if pi_ai is None:
        subprocess.run(["npm", "pack", "--silent", PI_AI], cwd=folder, check=True, stdout=subprocess.DEVNULL)
        (pi_ai,) = folder.glob("*.tgz")
    if litellm is None:
        pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", str(folder), LITELLM]
        subprocess.run(pip, check=True)
        (litellm,) = folder.glob("litellm-*.whl")
    return pi_ai, litellm


def figures(package: Path) -> tuple[str, dict[str, list[dict[str, Any]]]]:
    """The day the figures were generated, and the models of every provider."""
    day, providers = "", {}
    with tarfile.open(package) as files:
        for member in files:
            folder, _, name = member.name.rpartition("/")
            if folder != "package/dist/providers/data" or not name.endswith(".json"):
                continue
            content = json.load(files.extractfile(member))  # type: ignore[arg-type]
            if name == ".manifest.json":
                day = content["generatedAt"][:10]
            else:
                models = [model for api in content.values() for model in api.values()]
                providers[name.removesuffix(".json")] = [model for model in models if model["type"] == "chat"]
    return day, providers


def ours(given: dict[str, Any]) -> Model:
    """A model with only the fields that tau knows."""
    kept = {name: given[name] for name in FIELDS}
    kept["cost"] = {name: value for name, value in given["cost"].items() if name == "tiers" or value > 0}
    compat = {name: value for name, value in given.get("compat", {}).items() if name not in UNUSED_COMPAT}
    # tau does not identify itself as another program.
    headers = {name: value for name, value in given.get("headers", {}).items() if name.lower() != "user-agent"}
    optional = {"headers": headers, "compat": compat, "thinkingLevelMap": given.get("thinkingLevelMap")}
    return decode(Model, encode({**kept, **{name: value for name, value in optional.items() if value}}))


def line(model: Model) -> bytes:
    """A model without default values."""
    usual = to_builtins(Model(model.id, model.name, model.api, model.provider, model.base_url))
    written = {name: value for name, value in to_builtins(model).items() if value != usual.get(name)}
    for name in ("id", "name", "api", "provider", "baseUrl", "contextWindow", "maxTokens"):
        written[name] = to_builtins(model)[name]
    if "cost" in written:
        written["cost"] = {name: value for name, value in written["cost"].items() if value}
    return encode(_short({name: written[name] for name in to_builtins(model) if name in written}))


def _short(value: Any) -> Any:
    """5 instead of 5.0."""
    if isinstance(value, dict):
        return {name: _short(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_short(item) for item in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


def compared(models: list[Model], listed: dict[str, Any]) -> Iterator[Difference]:
    for model in models:
        prefix = PREFIXES.get(model.provider)
        other = listed.get(f"{prefix}{model.id}") if prefix is not None else None
        if other is None:
            continue
        wire = to_builtins(model)
        for what, theirs in PRICES.items():
            price = round(other.get(theirs, 0) * 1e6, 6)
            if price and abs(price - wire["cost"][what]) > 1e-6:
                yield Difference(model.provider, model.id, what, wire["cost"][what], price)
        for what, theirs in SIZES.items():
            size = other.get(theirs)
            if isinstance(size, int) and size != wire[what]:
                yield Difference(model.provider, model.id, what, wire[what], size)


def table(differences: list[Difference]) -> str:
    rows = [f"| {one.provider} | {one.id} | {one.what} | {one.ours:,} | {one.theirs:,} |" for one in differences]
    return "\n".join(["| provider | model | field | tau | litellm |", "|---|---|---|---|---|", *rows])


def page(day: str, models: dict[str, list[Model]], left: dict[str, int], differences: list[Difference]) -> str:
    everything = [model for provider in models.values() for model in provider]
    counts = "\n".join(f"| {name} | {len(of)} | {DEFAULT_MODELS[name]} |" for name, of in models.items())
    left_out = "\n".join(f"- `{name}` ({count} models): {LEFT_OUT[name]}." for name, count in left.items())
    prices = [one for one in differences if one.what in PRICES]
    sizes = [one for one in differences if one.what in SIZES]
    silent = sorted({model.provider for model in everything if not model.cost.input and not model.cost.output})
    package, _, release = PI_AI.rpartition("@")
    return f"""\
# Model catalogue

Generated by `scripts/update_catalog.py`; do not edit. {len(everything)} models of {len(models)} providers, in
`src/tau/llm/data`: one file per provider, one line per model, read when the provider is first used.

## Sources

- npm's `{package}` {release}, `dist/providers/data/*.json`, generated on {day}. Its author is Mario Zechner,
  its licence MIT: the text of [LICENSE](../LICENSE) with that name, which applies to `src/tau/llm/data`.
- Compared on {date.today()} with the price list in PyPI's `{LITELLM.replace("==", "` ")}. Nothing is taken from it.

Prices are in dollars per million tokens. They change; only your bill is authoritative. `models.json` in the agent
folder can override every value (`modelOverrides`). A model whose price is not known counts as costing 0, and
`get_session_stats` then has `costUnknown: true`.

## Contents

| provider | models | default |
|---|---|---|
{counts}

Not included: models for images, speech and classification, models behind an API that tau does not support, and

{left_out}

Some providers publish no price for part of their models, or sell them by the month: {", ".join(silent)}.

## Differences from litellm

Prices ({len(prices)}). `cacheRead` and `cacheWrite` are compared where litellm has them.

{table(prices)}

Sizes in tokens ({len(sizes)}). A `contextWindow` here includes input and output, whereas litellm often counts
only the input.

{table(sizes)}
"""


def stored() -> dict[str, dict[str, Any]]:
    """The models of the data files, by provider and id."""
    models = [model for file in sorted(DATA.glob("*.json")) for model in json.loads(file.read_bytes())]
    return {f"{model['provider']}/{model['id']}": model for model in models}


def summary(before: dict[str, dict[str, Any]], after: dict[str, dict[str, Any]]) -> Iterator[str]:
    """What has changed: new and removed models, and the fields of the others."""
    added, removed = sorted(after.keys() - before.keys()), sorted(before.keys() - after.keys())
    changed = [name for name in sorted(after.keys() & before.keys()) if after[name] != before[name]]
    yield f"{len(added)} added, {len(removed)} removed, {len(changed)} changed"
    yield from (f"  + {name}" for name in added)
    yield from (f"  - {name}" for name in removed)
    for name in changed:
        old, new = before[name], after[name]
        fields = [field for field in {**old, **new} if old.get(field) != new.get(field)]
        yield f"  {name}: " + ", ".join(f"{field} {old.get(field)} -> {new.get(field)}" for field in fields)


def main() -> None:
    parser = argparse.ArgumentParser(description="Regenerate the model catalogue.")
    parser.add_argument("--pi-ai", type=Path, metavar="FILE", help=f"the package {PI_AI}, if it was downloaded already")
    parser.add_argument(
        "--litellm", type=Path, metavar="FILE", help=f"the wheel {LITELLM}, if it was downloaded already"
    )
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        pi_ai, litellm = fetched(Path(folder), given.pi_ai, given.litellm)
        day, providers = figures(pi_ai)
        with zipfile.ZipFile(litellm) as files:
            listed = json.loads(files.read("litellm/model_prices_and_context_window_backup.json"))
    unknown = set(providers) - set(DEFAULT_MODELS) - set(LEFT_OUT)
    if unknown:
        names = ", ".join(sorted(unknown))
        sys.exit(f"New providers: {names}. Give them a default in llm/catalog.py, or leave them out.")
    models = {}
    for name in DEFAULT_MODELS:
        models[name] = [ours(model) for model in providers[name] if model["api"] in APIS]
        if not any(model.id == DEFAULT_MODELS[name] for model in models[name]):
            sys.exit(f"{name} has no {DEFAULT_MODELS[name]} any more: choose another default in llm/catalog.py.")
    before = stored()
    DATA.mkdir(exist_ok=True)
    for file in DATA.glob("*.json"):
        file.unlink()
    for name, of in models.items():
        (DATA / f"{name}.json").write_bytes(b"[\n" + b",\n".join(map(line, of)) + b"\n]\n")
    everything = [model for of in models.values() for model in of]
    left = {name: len(of) for name, of in providers.items() if name in LEFT_OUT}
    PAGE.write_text(page(day, models, left, list(compared(everything, listed))), encoding="utf-8")
    size = sum(file.stat().st_size for file in DATA.glob("*.json"))
    print(f"{len(everything)} models of {len(models)} providers, {size // 1024} kB, figures of {day}")
    for text in summary(before, stored()):
        print(text)


if __name__ == "__main__":
    main()

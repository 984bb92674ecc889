"""Run state.js of the page in a browser."""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from export.chromium import Browser
from support.page_streams import Recording, of_snapshot, of_state, same_state
from tau.serve.web.page import FOLDER

Json = dict[str, Any]
PORTION = 40  # streams that are handed to the browser at once

# Folds each stream and returns the states at its checks. Everything is frozen: the fold must not change its input.
FOLD = """
async (url, text) => {
  const {emptySession, fold} = await import(url);
  const frozen = (value) => {
    if (value === null || typeof value !== "object" || Object.isFrozen(value)) return value;
    Object.freeze(value);
    Object.values(value).forEach(frozen);
    return value;
  };
  return JSON.parse(text).map(({records, positions}) => {
    let state = emptySession("session");
    const states = [];
    records.forEach((record, index) => {
      state = frozen(fold(state, frozen(record)));
      while (positions[0] === index + 1) { positions.shift(); states.push(state); }
    });
    return JSON.stringify(states);
  });
}
"""


def module_url(name: str, folder: Path = FOLDER) -> str:
    """A module of the page as an address that can be imported anywhere."""
    return "data:text/javascript;base64," + base64.b64encode((folder / name).read_bytes()).decode()


def disagreements(browser: Browser, recordings: Sequence[Recording]) -> list[str]:
    """Where the fold of the page and the snapshots of the host differ."""
    found: list[str] = []
    for start in range(0, len(recordings), PORTION):
        portion = recordings[start : start + PORTION]
        streams = [{"records": one.records, "positions": [check.position for check in one.checks]} for one in portion]
        url = json.dumps(module_url("state.js"))
        answers = browser.run(f"({FOLD})({url}, {json.dumps(json.dumps(streams))})")
        for number, (recording, text) in enumerate(zip(portion, answers, strict=True), start):
            states: list[Json] = json.loads(text)
            assert len(states) == len(recording.checks)
            for check, state in zip(recording.checks, states, strict=True):
                expected, actual = of_snapshot(check.snapshot), of_state(state)
                if recording.of_run and same_state(expected["state"], actual["state"]):
                    expected["state"] = actual["state"]
                found += _difference(number, expected, actual)
    return found


def _difference(number: int, expected: Json, actual: Json) -> list[str]:
    return [
        f"stream {number}, seq {expected['seq']}, {name}: the host says {_canonical(expected[name])}, "
        f"the page {_canonical(actual[name])}"
        for name in expected
        if _canonical(expected[name]) != _canonical(actual[name])
    ]


def _canonical(value: Any) -> str:
    return json.dumps(_with_plain_numbers(value), sort_keys=True, ensure_ascii=True)


def _with_plain_numbers(value: Any) -> Any:
    """JavaScript has one kind of number: 1.0 is 1."""
    match value:
        case dict():
            return {key: _with_plain_numbers(one) for key, one in value.items()}
        case list():
            return [_with_plain_numbers(one) for one in value]
        case float() if value.is_integer():
            return int(value)
    return value

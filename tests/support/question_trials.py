"""Keys that are meant for the editor while a permission question appears: how many of them answer it?

Each trial is one question of a run: the model calls a tool after a random time, while text is typed, Enter is held
down or text is pasted. None of these may answer. Then Escape denies the call, and the model calls the tool again.
"""

from __future__ import annotations

import json
import random
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

from support.interface import Interface
from support.rpc_process import Json

KEY_INTERVAL_S = 1 / 30
PHASES = 10  # the first key comes at every 10 ms of a hundred
KINDS = ("text", "enter", "paste")
ALPHABET = "abcdefghij 1234 yn"
ESCAPE = b"\x1b[27u"  # as the kitty protocol has it: never the beginning of another key


class Findings(NamedTuple):
    trials: int
    answered: int  # by keys that were not meant for it
    lost: int  # texts that are not whole in the editor


def run_trials(folder: Path, count: int, keys: int, seed: int, processes: int = 3) -> Findings:
    shares = [count // processes + (number < count % processes) for number in range(processes)]
    with ThreadPoolExecutor(processes) as pool:
        jobs = [
            pool.submit(_trials_of_one, folder / f"{number}", share, keys, seed + number)
            for number, share in enumerate(shares)
            if share
        ]
        found = [job.result() for job in jobs]
    return Findings(*(sum(column) for column in zip(*found, strict=True)))


def _trials_of_one(folder: Path, count: int, keys: int, seed: int) -> Findings:
    source = random.Random(seed)
    delays = [source.randint(0, keys * 33) for _ in range(count)]
    script = [_call(number, delay) for number, delay in enumerate(delays)] + [{"text": "That is all."}]
    folder.mkdir(parents=True)
    lost = 0
    with Interface(folder, "--permissions", "ask", script=script, rows=40) as terminal:
        terminal.start().send("go")
        for number in range(count):
            lost += not _trial(terminal, source, keys, number)
        terminal.wait("That is all.", timeout=60)
        answered = [text for text in _results(terminal) if "denied" not in text]
    assert not (folder / "work" / "made").exists() or answered
    return Findings(count, len(answered), lost)


def _call(number: int, delay_ms: int) -> Json:
    command = {"command": f"echo {number} >> made"}
    return {"blocks": [{"tool": "bash", "arguments": command}], "startDelayMs": delay_ms}


def _trial(terminal: Interface, source: random.Random, keys: int, number: int) -> bool:
    """False if the text is not in the editor whole."""
    time.sleep(source.randrange(PHASES) / 100)  # the phase of the keys against the appearance of the question
    text = _press_keys(terminal, source, keys, KINDS[number % len(KINDS)])
    terminal.wait(f"\n  echo {number} >> made", timeout=60)
    whole = not text or _is_in_editor(terminal, text)
    if text:
        terminal.press("ctrl+c")
    terminal.type(ESCAPE)
    return whole


def _press_keys(terminal: Interface, source: random.Random, keys: int, kind: str) -> str:
    """Returns the text that the editor should have."""
    if kind == "enter":
        for _ in range(keys):
            terminal.press("enter")
            time.sleep(KEY_INTERVAL_S)
        return ""
    typed = "x" + "".join(source.choice(ALPHABET) for _ in range(keys - 2)) + "z"
    pieces = [typed[at : at + 10] for at in range(0, keys, 10)] if kind == "paste" else list(typed)
    for piece in pieces:
        if kind == "paste":
            terminal.paste(piece)
        else:
            terminal.type(piece)
        time.sleep(KEY_INTERVAL_S * len(piece))
    return typed


def _is_in_editor(terminal: Interface, text: str) -> bool:
    try:
        terminal.wait(lambda _: any(text == row for row in terminal.box()), timeout=10)
    except AssertionError:
        return False
    return True


def _results(terminal: Interface) -> list[str]:
    messages = [entry["message"] for entry in terminal.session_entries() if entry["type"] == "message"]
    return [json.dumps(message["content"]) for message in messages if message["role"] == "toolResult"]

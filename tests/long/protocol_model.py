"""A model-based test of the RPC protocol: random commands, compared with a reference model of docs/protocol.md.

    python tests/long/protocol_model.py [SEQUENCES] [--first SEED] [--real EVERY]      (make fuzz)
    python tests/long/protocol_model.py --seed SEED                                    one sequence, made small

Each sequence depends on its seed alone (protocol_cases.py). It is played against the server in this process, and
every so often against real processes. The transcript is checked by protocol_reference.py. A sequence that breaks a
rule is made as small as possible before it is shown.
"""

from __future__ import annotations

import argparse
import asyncio
import copy
import json
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from long.protocol_cases import case
from long.protocol_lives import Life, RealProcess, ServedHere
from long.protocol_reference import Reference
from long.protocol_rules import Json, Rule, Violation, short
from long.protocol_setup import MODELS_FILE
from tau.errors import TauError

SEQUENCES = 1000
REAL_EVERY = 25  # one sequence in so many is played against real processes
QUIET = 0.4  # seconds without a record, after which what runs is aborted
PATIENCE = 60.0  # seconds for all commands to be answered
LOOKS = (
    *("get_entries", "get_state", "get_messages", "get_session_stats", "get_tree", "get_fork_messages"),
    "get_last_assistant_text",
)


class Player:
    """Plays a case and feeds the reference model with what happens."""

    def __init__(self, case: Json, folder: Path, kind: type[Life]) -> None:
        self.case = case
        self.folder = folder
        self.transcript: list[Json] = []
        self.wrong: list[tuple[Rule, str]] = []
        self.commands = 0
        self._kind = kind
        self._life: Life | None = None
        self._lives = 0
        self._count = 0
        self._paths: list[str] = []
        for name in ("home", "agent", "work", "sessions"):
            (folder / name).mkdir(parents=True)
        (folder / "agent" / "settings.json").write_text(json.dumps(case["settings"]))
        (folder / "agent" / "models.json").write_text(json.dumps(MODELS_FILE))
        (folder / "work" / "notes.txt").write_text("some notes\n")
        self.reference = Reference(copy.deepcopy(case["settings"]), lambda rule, what: self.wrong.append((rule, what)))

    async def play(self) -> None:
        await self._start({})
        for step in self.case["steps"]:
            if "restart" in step:
                await self._idle()
                await self._end()
                await self._start(step["restart"])
            else:
                await self._burst(step["burst"])
                await self._wait(step["wait"])
        await self._idle()
        await self._end()
        await self._start({"session": 0})  # what was kept is what is found again
        await self._end()

    def _feed(self, item: Json) -> None:
        self.transcript.append(item)
        self.reference.feed(item)

    # Processes.

    async def _start(self, restart: Json) -> None:
        script = self.case["scripts"][min(self._lives, len(self.case["scripts"]) - 1)]
        self._lives += 1
        options: Json = {"script": script}
        if "model" in restart:
            options["model"] = restart["model"]
        if "session" in restart and self._files():
            options["session"] = self._files()[restart["session"] % len(self._files())]
        self._feed({"life": options})
        life = self._kind(self.folder, options)
        try:
            await life.start()
        except TauError as error:
            raise Violation(Rule.EXIT, f"the next process cannot start: {error}") from None
        self._life = life
        await self._look()

    async def _end(self) -> None:
        assert self._life is not None
        life, self._life = self._life, None
        end = await life.end()
        await self._hear(life, 0)
        self._feed({"end": end})

    async def close(self) -> None:
        """After a failure: leave nothing behind."""
        if self._life is not None:
            life, self._life = self._life, None
            await life.write(b'{"type":"abort_bash"}\n{"type":"abort"}\n')
            await life.end()

    def _files(self) -> list[str]:
        return [session.file for session in self.reference.sessions if session.begun and session.file]

    # Commands.

    async def _burst(self, commands: list[Json]) -> None:
        ready = [self._resolved(command) for command in commands]
        self.commands += len(ready)
        await self._send(ready, "c")

    async def _send(self, commands: list[Json], name: str) -> None:
        assert self._life is not None
        self._count += 1
        lines = []
        for at, command in enumerate(commands):
            sent = {"id": f"{name}{self._count}-{at}", **command}
            lines.append(json.dumps(sent).encode() + b"\n")
            self._feed({"sent": sent})
        await self._life.write(b"".join(lines))

    def _resolved(self, command: Json) -> Json:
        """With ids and paths in the place of numbers."""
        session = self.reference.current
        made = dict(command)
        match command.get("entryId"):
            case {"user": number}:
                ids = {entry["id"] for entry in session.branch}
                points = [point for point in session.fork_points if point["entryId"] in ids]
                made["entryId"] = points[number % len(points)]["entryId"] if points else "nowhere"
            case {"entry": number}:
                entries = session.entries
                made["entryId"] = entries[number % len(entries)]["id"] if entries else "nowhere"
        match command.get("sessionPath"):
            case {"session": number}:
                files = self._files()
                made["sessionPath"] = files[number % len(files)] if files else str(self.folder / "sessions" / "1.jsonl")
            case {"free": name}:
                made["sessionPath"] = str(self.folder / "sessions" / f"{name}.jsonl")
        return made

    async def _look(self) -> None:
        await self._send([{"type": name} for name in LOOKS], "look")
        await self._until(lambda: not any(id.startswith("look") for id in self.reference.pending), may_stop=False)

    # Waiting.

    async def _wait(self, wait: str) -> None:
        reference = self.reference
        match wait:
            case "none":
                return
            case "look":
                await self._look()
            case "responses":
                await self._until(lambda: not reference.pending)
            case "idle":
                await self._idle()
            case _:
                seen = len(self.transcript)

                def heard() -> bool:
                    new = self.transcript[seen:]
                    return any(item.get("got", {}).get("type") == wait for item in new)

                await self._until(lambda: heard() or reference.idle)

    async def _idle(self) -> None:
        """Until nothing runs: what does not end by itself is aborted. Then look."""
        deadline = time.monotonic() + PATIENCE
        while not self.reference.idle:
            await self._until(lambda: self.reference.idle)
            if not self.reference.idle:
                await self._send([{"type": "abort_bash"}, {"type": "abort"}], "stop")
                await self._until(
                    lambda: not any(id.startswith("stop") for id in self.reference.pending), may_stop=False
                )
            if time.monotonic() > deadline:
                unanswered = [sent.command for sent in self.reference.pending.values()]
                raise Violation(
                    Rule.ANSWERED, f"after {PATIENCE} s: {short(unanswered)}, busy: {self.reference.runs.busy}"
                )
        await self._look()

    async def _until(self, done: Callable[[], bool], *, may_stop: bool = True) -> None:
        """Until it is so; or nothing more will come, if the wait may stop for that."""
        assert self._life is not None
        deadline = time.monotonic() + PATIENCE
        while not done():
            if may_stop and self.reference.waits_for_us:
                return
            if not await self._hear(self._life, QUIET):
                if may_stop:
                    return
                if self._life.ended or time.monotonic() > deadline:
                    unanswered = [sent.command for sent in self.reference.pending.values()]
                    raise Violation(Rule.ANSWERED, f"no record came; unanswered: {short(unanswered)}")

    async def _hear(self, life: Life, within: float) -> bool:
        records = await life.read(within)
        for record in records:
            self._feed({"got": record})
        return bool(records)


class Outcome:
    """What a sequence came to: every rule it broke; the last one may have ended it."""

    def __init__(self, wrong: list[tuple[Rule, str]], transcript: list[Json], commands: int) -> None:
        self.wrong = wrong
        self.transcript = transcript
        self.commands = commands

    @property
    def rules(self) -> set[Rule]:
        return {rule for rule, _ in self.wrong}


def play(case: Json, kind: type[Life] = ServedHere) -> Outcome:
    """Play a case from its beginning, in folders of its own."""
    folder = Path(tempfile.mkdtemp(prefix="protocol-"))
    try:
        player = Player(case, folder, kind)

        async def playing() -> None:
            try:
                await player.play()
            except Violation as violation:
                player.wrong.append((violation.rule, violation.detail))
            finally:
                await player.close()

        asyncio.run(playing())
        return Outcome(player.wrong, player.transcript, player.commands)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


# Making it small.


def smallest(case: Json, rule: Rule, kind: type[Life] = ServedHere, tries: int = 3) -> Json:
    """Leave out steps, commands and answers as long as the same rule is broken."""

    def fails(candidate: Json) -> bool:
        return any(rule in play(candidate, kind).rules for _ in range(tries))

    case = without_parts(case, "steps", fails)
    changed = True
    while changed:
        changed = False
        for at, step in enumerate(case["steps"]):
            for place in range(len(step.get("burst", ()))):
                candidate = copy.deepcopy(case)
                del candidate["steps"][at]["burst"][place]
                if not candidate["steps"][at]["burst"]:
                    del candidate["steps"][at]
                if fails(candidate):
                    case, changed = candidate, True
                    break
            if changed:
                break
    for life, script in enumerate(case["scripts"]):
        for at in range(len(script)):
            candidate = copy.deepcopy(case)
            candidate["scripts"][life][at] = {"text": f"[a{life}.{at}]"}
            if candidate != case and fails(candidate):
                case = candidate
    for name in list(case["settings"]):
        candidate = copy.deepcopy(case)
        del candidate["settings"][name]
        if fails(candidate):
            case = candidate
    return case


def without_parts(case: Json, name: str, fails: Callable[[Json], bool]) -> Json:
    """Delta debugging: leave out halves, then quarters and so on."""
    parts, size = case[name], max(1, len(case[name]) // 2)
    while size:
        at = 0
        while at < len(parts):
            candidate = {**case, name: parts[:at] + parts[at + size :]}
            if fails(candidate):
                parts = candidate[name]
            else:
                at += size
        size //= 2
    return {**case, name: parts}


def shown(case: Json) -> str:
    used = [
        [answer for answer in script if answer.keys() != {"text"}]
        and script[: 1 + max(at for at, answer in enumerate(script) if answer.keys() != {"text"})]
        for script in case["scripts"]
    ]
    lines = [f"  settings {json.dumps(case['settings'])}"]
    lines += [f"  script {life}: {json.dumps(script)}" for life, script in enumerate(used) if script]
    for step in case["steps"]:
        if "restart" in step:
            lines.append(f"  restart {json.dumps(step['restart'])}")
        else:
            lines.append(f"  send {json.dumps(step['burst'])}, wait: {step['wait']}")
    return "\n".join(lines)


# Many of them.


def report(seed: int | str, outcome: Outcome) -> str:
    found = {rule: detail for rule, detail in reversed(outcome.wrong)}
    return "\n".join(f"seed {seed}: {rule.name}: {rule}\n    {detail}" for rule, detail in found.items())


def many(seeds: range, real_every: int, *, shrink: int = 3, keep: Path | None = None) -> int:
    """Returns how many sequences broke a rule."""
    failures = Counter[Rule]()
    failed = commands = records = 0
    began = time.monotonic()
    for number, seed in enumerate(seeds):
        if number and number % 100 == 0:
            print(f"{number} sequences, {failed} broke a rule", flush=True)
        kind: type[Life] = RealProcess if real_every and seed % real_every == 0 else ServedHere
        outcome = play(case(seed), kind)
        commands += outcome.commands
        records += len(outcome.transcript)
        if outcome.wrong:
            failed += 1
            print(report(seed, outcome), flush=True)
            if keep is not None:
                keep.mkdir(parents=True, exist_ok=True)
                (keep / f"{seed}.jsonl").write_text("".join(f"{json.dumps(item)}\n" for item in outcome.transcript))
            for rule in outcome.rules:
                failures[rule] += 1
                if failures[rule] <= 1 and shrink > 0:
                    shrink -= 1
                    print(f"smallest for {rule.name}:\n{shown(smallest(case(seed), rule, kind))}", flush=True)
    seconds = time.monotonic() - began
    print(f"{len(seeds)} sequences, {commands} commands, {records} lines in {seconds:.0f} s; {failed} broke a rule")
    for rule, count in failures.most_common():
        print(f"  {count} {rule.name}: {rule}")
    return failed


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("sequences", nargs="?", type=int, default=SEQUENCES)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument(
        "--real", type=int, default=REAL_EVERY, help="every so many sequences use real processes; 0: none"
    )
    parser.add_argument("--shrink", type=int, default=3, help="how many findings are made small")
    parser.add_argument("--keep", type=Path, help="a folder for the transcripts of sequences that broke a rule")
    parser.add_argument("--seed", help="one sequence, made small")
    given = parser.parse_args()
    if given.seed is None:
        seeds = range(given.first, given.first + given.sequences)
        return 1 if many(seeds, given.real, shrink=given.shrink, keep=given.keep) else 0
    outcome = play(case(given.seed))
    print(report(given.seed, outcome) or "no rule is broken")
    for rule in outcome.rules if given.shrink else ():
        print(f"smallest for {rule.name}:\n{shown(smallest(case(given.seed), rule))}")
    return 1 if outcome.wrong else 0


if __name__ == "__main__":
    sys.exit(main())

"""A long life in one process, with one fault each second: nothing may be lost, hang, or grow.

    python tests/long/soak.py [SECONDS] [--seed SEED] [--no-faults]

A client does everything that clients do (prompts with tools, steering, aborts,
compactions, forks, sessions, exports) while the monkey of tests/long/monkey.py is
at it. Now and then both rest: then everything that was acknowledged or told has to
be in the session files, every command answered, every process gone, and memory,
descriptors and threads are what they were. In the last third of the time the
agent is killed (SIGKILL) again and again, and goes on with its session.

The seed says what is tried; when it happens is up to the machine.
"""

from __future__ import annotations

import argparse
import base64
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import textwrap
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from gate.figure import Figure
from long.monkey import APART, EVERY, Disk, Monkey
from long.provider import Provider
from long.witness import SOON, Figures, Heart, Ledger, Witness, descriptors, living, session_files, settle_up, slope
from support.rpc_process import Json, is_gone

SECONDS = 3600.0
LIVED = 0.67  # part of the time that the first life has
KILLS = 10  # in the rest of it
BETWEEN_RESTS = 15.0
PATIENCE = 10.0  # seconds until a run under faults is aborted
WARM_UP = 0.25  # part of a life in which what is loaded late is loaded, and the heap finds its size
PER_PROMPT = 1.0  # KiB
KEPT_FILES = 6
GONE = 2.0  # seconds after which nothing is left of what was ended
ENOUGH_RESTS = 8  # to say how something grows
TOO_WRONG = 20  # failures after which it is of no use to go on

SETTINGS: Json = {
    "retry": {"maxRetries": 2, "baseDelayMs": 50, "maxDelayMs": 2000},
    "compaction": {"reserveTokens": 6000, "keepRecentTokens": 300},
    "httpIdleTimeoutMs": 2000,
    "httpFirstByteTimeoutMs": 3000,
    "extensionHost": {"handlerTimeoutMs": 1000, "observerTimeoutMs": 1000, "loadTimeoutMs": 60_000},
    "defaultTools": ["read", "bash", "edit", "write", "grep", "find", "ls"],
}
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="  # one dot

GOOD = """
    def setup(pi):
        seen = {}

        @pi.on("session_start")
        def begin(event, ctx):
            if event.reason in ("startup", "reload"):
                ctx.ui.notify("ready", "info")

        @pi.on("message_end")
        def count(event, ctx):
            seen[event.message["role"]] = seen.get(event.message["role"], 0) + 1

        @pi.on("tool_call")
        def watch(event, ctx):
            return None

        @pi.tool
        def count_words(text: str) -> str:
            "Count the words of a text."
            return str(len(text.split()))

        @pi.command("again", description="Load everything anew")
        async def again(args, ctx):
            await ctx.reload()

        @pi.command("ask", description="Ask the user")
        async def ask(args, ctx):
            await ctx.ui.confirm("Well?", args, timeout=500)
    """

FAULTY = """
    import asyncio, os, pathlib, sys, time

    TRICK = pathlib.Path(os.environ["SOAK_TRICK"])

    async def trick(pi):
        try:
            kind = TRICK.read_text()
            TRICK.unlink()
        except OSError:
            return
        if kind == "raise":
            raise ValueError("on purpose")
        if kind == "print":
            print("printed")
            os.write(1, b"written\\n")
            os.system("echo from a child")
        if kind == "hang":
            await asyncio.sleep(3600)
        if kind == "loop":
            while True:
                pass
        if kind == "exit":
            os._exit(7)
        if kind == "nonsense":
            os.write(int(sys.argv[1]), b"\\xff nonsense\\n")
        if kind == "flood":
            for at in range(300):
                pi.append_entry("flood", {"at": at})

    def setup(pi):
        for name in ("tool_call", "message_end", "before_agent_start", "turn_end"):
            @pi.on(name)
            async def hook(event, ctx):
                await trick(pi)
    """


class Life:
    """One process of the agent, and the series of what it was at rest."""

    def __init__(self, agent: Witness, mark: str) -> None:
        self.agent = agent
        self.mark = mark
        self.rests: list[tuple[int, Figures]] = []
        self.crew: int | None = None  # processes that belong to it at rest

    @property
    def prompts(self) -> int:
        """How many it has accepted."""
        return self.agent.prompts


class Soak:
    """The client: what it does, how it rests, and what it has found. Without faults there are no extensions either."""

    def __init__(
        self,
        folder: Path,
        seed: int,
        *,
        faults: bool = True,
        every: float = EVERY,
        say: Callable[[str], None] = print,
    ) -> None:
        self.folder = folder
        self.faults = faults
        self.say = say
        self.ledger = Ledger()
        self.heart = Heart()
        self.lives: list[Life] = []
        self.kills = 0
        self.looked_for = 0
        self.left: list[str] = []  # processes that should be gone
        self.rests = 0
        self._dice = random.Random(seed)
        self._trick = folder / "trick"
        self._number = 0
        self.provider = Provider(seed + 1)
        self.disk = Disk(folder / "disk")
        self.monkey = Monkey(self.provider, self.disk, self._trick, random.Random(seed + 2), every=every)
        self._deeds = [deed for deed, weight in self._weights().items() for _ in range(weight)]

    def _weights(self) -> dict[Callable[[Witness], None], int]:
        return {
            self._prompt: 12,
            self._prompt_and_wait: 60,
            self._steer: 12,
            self._follow_up: 12,
            self._abort: 8,
            self._look: 20,
            self._shell: 6,
            self._abort_shell: 2,
            self._compact: 3,
            self._fork: 4,
            self._clone: 1,
            self._navigate: 3,
            self._new_session: 4,
            self._switch_session: 4,
            self._export: 1,
            self._set_model: 4,
            self._set_level: 2,
            self._name: 1,
            self._clear: 1,
            **({self._reload: 1, self._dialog: 2} if self.faults else {}),
        }

    # Its life.

    def run(self, seconds: float, kills: int = KILLS) -> None:
        """One long life, and some short ones that are killed."""
        with self._around():
            began = time.monotonic()
            life = self._born()
            for number in range(kills + 1):
                end = began + seconds * (LIVED + (1 - LIVED) * number / kills if kills else 1)
                life = self._to(end, life)
                if number < kills:
                    life = self._killed(life)
            self._ended(life)

    def _to(self, end: float, life: Life) -> Life:
        """Live until then; whoever dies on the way has failed, but there is more to be seen in the next life."""
        while True:
            try:
                self._live(life, end)
                return life
            except AssertionError as error:
                self.failed(error, life)
                if len(self.ledger.wrong) > TOO_WRONG:
                    raise
                if self.faults:
                    self.monkey.rest()
                life.agent.process.kill()
                life.agent.exit_code()
                self.ledger.forget()
                life = self._born()

    def failed(self, error: AssertionError, life: Life) -> None:
        self.ledger.wrong.append(str(error))
        self.ledger.noise += life.agent.noise
        self.say(f"FAILED, after {self.monkey.last}: {error}")

    def run_prompts(self, warm_up: int, prompts: int) -> tuple[Figures, Figures]:
        """So many prompts, in one life: what it was at rest before and after them."""
        with self._around():
            life = self._born()
            for wanted in (warm_up, warm_up + prompts):
                while life.prompts < wanted:
                    self._do_something(life)
                self._rest(life)
            self._ended(life)
        return life.rests[-2][1], life.rests[-1][1]

    @contextmanager
    def _around(self) -> Iterator[None]:
        self.provider.__enter__()
        self.monkey.start()
        try:
            yield
        finally:
            self.monkey.stop()
            for life in self.lives[-1:]:
                life.agent.end()
            self.provider.__exit__(None, None, None)
            self.heart.stop()
            self.disk.leave()

    def _born(self, *args: str) -> Life:
        for name, source in (("good", GOOD), ("faulty", FAULTY)):
            (self.folder / f"{name}.py").write_text(textwrap.dedent(source))
        scratch = self.folder / "tmp"
        scratch.mkdir(exist_ok=True)
        mark = f"SOAK_LIFE={os.getpid()}-{len(self.lives)}"
        files = [part for name in ("good", "faulty") for part in ("-e", str(self.folder / f"{name}.py")) if self.faults]
        agent = Witness(
            self.folder,
            self.ledger,
            self.heart,
            settings=SETTINGS,
            models=self.provider.models,
            args=["--model", "mock/m1", "--session-dir", str(self.disk.folder), *files, *args],
            env={"SOAK_TRICK": str(self._trick), "TMPDIR": str(scratch), **dict([mark.split("=")])},
        )
        (agent.cwd / "dot.png").write_bytes(base64.b64decode(PIXEL))
        life = Life(agent, mark)
        self.lives.append(life)
        if self.faults:
            agent.wait(lambda: agent.ready > 0, "extensions that are ready", 60)
        return life

    def _live(self, life: Life, until: float) -> None:
        """Until then, with a rest at the beginning and the end."""
        self._rest(life)
        while (now := time.monotonic()) < until:
            if self.faults:
                self.monkey.begin(life.agent)
            end = min(until, now + BETWEEN_RESTS)
            while time.monotonic() < end:
                self._do_something(life)
            self._rest(life)

    def _do_something(self, life: Life) -> None:
        self._dice.choice(self._deeds)(life.agent)
        if life.agent.process.poll() is not None or life.agent.noise:
            life.agent.fail("it ended, or said what it must not say")

    def _ended(self, life: Life) -> None:
        """As a client ends it: by saying nothing more."""
        began = time.monotonic()
        life.agent.close()
        code = life.agent.exit_code(within=60)
        self.ledger.took("the end", time.monotonic() - began, self.heart.lost(began))
        if code != 0:
            self.ledger.wrong.append(f"it ended with {code}")
        self._judge_the_dead(life)

    def _killed(self, life: Life) -> Life:
        """In the middle of something; and a new life, with the same session."""
        agent = life.agent
        if self.faults:
            self.monkey.begin(agent)
        for _ in range(self._dice.randrange(5, 25)):
            self._do_something(life)
        if self.faults:
            self.monkey.rest()
        self._healthy(agent)  # what could not be written yet was said to be in danger
        self._prompt(agent)
        self._steer(agent)
        time.sleep(0.2 * self._dice.random())
        agent.signal(signal.SIGKILL)
        agent.exit_code()
        self.kills += 1
        self._judge_the_dead(life)
        last = session_files(self.disk.folder)[0]
        return self._born("--session", str(last))

    def _judge_the_dead(self, life: Life) -> None:
        self.looked_for += settle_up(self.ledger, self.disk.folder)
        began = time.monotonic()
        for pid in living(life.mark):
            while (left := GONE + self.heart.lost(began) - (time.monotonic() - began)) > 0:
                if is_gone(pid, within=left):
                    break
        self.left += [f"after the end: {line[:200]}" for line in living(life.mark).values()]
        self._no_traceback(life.agent)

    def _no_traceback(self, agent: Witness) -> None:
        """But for those of imports that found no descriptor: they come with the response that says so."""
        for told in agent.stderr.split("Traceback")[1:]:
            if "[Errno 24] Too many open files" not in told:
                agent.fail("a traceback")

    # Its rest.

    def _rest(self, life: Life) -> None:
        agent = life.agent
        if self.faults:
            self.monkey.rest()
        for kind in ("abort", "abort_bash", "abort", "clear_queue"):
            agent.tell(kind)
        began = time.monotonic()
        if not agent.waited(lambda: not agent.due(), SOON + 30):
            waits = [f"{sent.kind}, for {time.monotonic() - sent.at:.1f} s" for sent in agent.due()]
            agent.fail(f"no response: {waits}")
        self._healthy(agent)
        self._until_idle(agent, began)
        if agent.down:
            self._load_anew(agent)
        before = agent.settlings
        agent.tell_well("prompt", message=self._next("at rest"))
        self._settled(agent, before, "a prompt at rest")
        if agent.tell("new_session")["data"]["cancelled"]:
            self.ledger.wrong.append("new_session was cancelled")
        self.looked_for += settle_up(self.ledger, self.disk.folder)
        self._prune(agent)
        self._measure(life)

    def _healthy(self, agent: Witness) -> None:
        began = time.monotonic()
        if not agent.waited(lambda: not agent.in_trouble, 30):
            agent.fail("the disk is well again, and the session is not")
        self.ledger.took("recovery of the session", time.monotonic() - began, self.heart.lost(began))

    def _until_idle(self, agent: Witness, began: float) -> None:
        while (state := agent.tell_well("get_state"))["isStreaming"] or state["isCompacting"]:
            if time.monotonic() - began > 30:
                agent.fail("it does not come to rest")
            time.sleep(0.02)
        self.ledger.took("rest after an abort", time.monotonic() - began, self.heart.lost(began))

    def _settled(self, agent: Witness, before: int, what: str) -> None:
        began = time.monotonic()
        if not agent.waited(lambda: agent.settlings > before, 60):
            agent.fail(f"{what} did not settle")
        self.ledger.took(what, time.monotonic() - began, self.heart.lost(began))

    def _load_anew(self, agent: Witness) -> None:
        """An extension that was given up is given another chance."""
        with agent.loading:
            before, tries = agent.ready, 0
            agent.down = False
            agent.tell_well("prompt", message="/again")
            while not agent.waited(lambda: agent.ready > before, SOON):
                tries += 1
                if tries == 5:
                    agent.fail("extensions are not reloaded")
                agent.tell_well("prompt", message="/again")  # the one before came when another was about to end
        self.ledger.counts["reload"] += 1

    def _prune(self, agent: Witness) -> None:
        """What was looked at may go, so that the disk is not full for another reason than ours."""
        for path in session_files(self.disk.folder)[KEPT_FILES:]:
            path.unlink()
        for path in (self.folder / "tmp").iterdir():
            if path.is_file():
                path.unlink()
        for path in agent.cwd.glob("*.html"):
            path.unlink()

    def _measure(self, life: Life) -> None:
        agent = life.agent
        self.provider.calm()
        began = time.monotonic()
        crew = living(life.mark)
        while (foreign := _foreign(crew)) or len(crew) > (life.crew or len(crew)) or self._more_open(life):
            if time.monotonic() - began - self.heart.lost(began) > GONE:
                break
            time.sleep(0.05)
            crew = living(life.mark)
        self.left += [f"at rest: {line[:200]}" for line in foreign]
        life.crew = len(crew) if life.crew is None else max(life.crew, len(crew))
        agent.tell_well("get_state")
        self._no_traceback(agent)
        self.rests += 1
        life.rests.append((life.prompts, agent.figures()))
        prompts, figures = life.rests[-1]
        self.say(
            f"{time.strftime('%H:%M:%S')} life {len(self.lives)}, {prompts} prompts: {figures.memory} KiB, "
            f"{len(figures.descriptors)} descriptors, {figures.threads} threads, {len(crew)} processes; "
            f"{sum(count for kind, count in self.monkey.did.items() if ':' not in kind)} faults; lost "
            f"{len(self.ledger.lost)}, late {len(self.ledger.late)} ({len(self.ledger.excused)} excused), "
            f"wrong {len(self.ledger.wrong)}, left {len(self.left)}"
        )

    def _more_open(self, life: Life) -> bool:
        """Whether more is open than at the last rest: some of it may be about to be closed."""
        return bool(life.rests) and len(descriptors(life.agent.pid)) > len(life.rests[-1][1].descriptors)

    # Its deeds.

    def _next(self, what: str) -> str:
        self._number += 1
        return f"{what} {self._number}"

    def _prompt(self, agent: Witness) -> None:
        images = [{"type": "image", "data": PIXEL, "mimeType": "image/png"}] if self._dice.random() < 0.1 else None
        behavior = self._dice.choice((None, "steer", "followUp"))
        more: Json = {} if behavior is None else {"streamingBehavior": behavior}
        agent.say("prompt", message=self._next("prompt"), images=images, **more)

    def _prompt_and_wait(self, agent: Witness) -> None:
        before = agent.settlings
        accepted = agent.tell("prompt", message=self._next("prompt"))["success"]
        if accepted and not agent.waited(lambda: agent.settlings > before, PATIENCE):
            self._abort(agent)
            if not agent.waited(lambda: agent.settlings > before, PATIENCE):
                state = agent.tell_well("get_state")
                if state["isStreaming"]:
                    agent.fail("a run goes on after its abort")

    def _steer(self, agent: Witness) -> None:
        agent.say("steer", message=self._next("steer"))

    def _follow_up(self, agent: Witness) -> None:
        agent.say("follow_up", message=self._next("follow_up"))

    def _abort(self, agent: Witness) -> None:
        time.sleep(0.1 * self._dice.random() ** 2)
        agent.tell("abort")

    def _look(self, agent: Witness) -> None:
        kinds = ("get_state", "get_messages", "get_entries", "get_tree", "get_session_stats", "get_fork_messages")
        more = ("get_last_assistant_text", "get_commands", "get_available_models", "list_sessions", "get_protocol")
        agent.say(self._dice.choice(kinds + more))

    def _shell(self, agent: Witness) -> None:
        command = self._dice.choice(("echo hello", "seq 20000", "sleep 0.3", "setsid sleep 3600 & echo begun"))
        agent.say("bash", command=command)

    def _abort_shell(self, agent: Witness) -> None:
        agent.say("abort_bash")

    def _compact(self, agent: Witness) -> None:
        # As long as the model takes; nobody asks it twice for a summary that failed, so it is bounded by its silence.
        agent.tell("compact", limit=SOON + SETTINGS["httpFirstByteTimeoutMs"] / 1000)

    def _points(self, agent: Witness) -> list[str]:
        return [point["entryId"] for point in agent.tell_well("get_fork_messages")["messages"]]

    def _fork(self, agent: Witness) -> None:
        if points := self._points(agent):
            agent.tell("fork", entryId=self._dice.choice(points))

    def _clone(self, agent: Witness) -> None:
        agent.tell("clone")

    def _navigate(self, agent: Witness) -> None:
        if points := self._points(agent):
            limit = SOON + SETTINGS["httpFirstByteTimeoutMs"] / 1000
            agent.tell("navigate", entryId=self._dice.choice(points), summarize=self._dice.random() < 0.5, limit=limit)

    def _new_session(self, agent: Witness) -> None:
        agent.tell("new_session")

    def _switch_session(self, agent: Witness) -> None:
        if files := session_files(self.disk.folder):
            agent.tell("switch_session", sessionPath=str(self._dice.choice(files)))

    def _export(self, agent: Witness) -> None:
        agent.say("export_html")

    def _set_model(self, agent: Witness) -> None:
        agent.say("set_model", provider="mock", modelId=self._dice.choice(("m1", "m2")))

    def _set_level(self, agent: Witness) -> None:
        agent.say("set_thinking_level", level=self._dice.choice(("off", "low", "medium")))

    def _name(self, agent: Witness) -> None:
        agent.say("set_session_name", name=self._next("name"))

    def _clear(self, agent: Witness) -> None:
        agent.say("clear_queue")

    def _reload(self, agent: Witness) -> None:
        self._load_anew(agent)

    def _dialog(self, agent: Witness) -> None:
        """Asked, and answered if it was asked before."""
        agent.say("prompt", message="/ask now")
        while agent.dialogs:
            with agent.saying:
                answer = f'{{"type":"extension_ui_response","id":"{agent.dialogs.popleft()}","confirmed":true}}\n'
                agent.write(answer.encode())

    # What came of it.

    def figures(self) -> list[Figure]:
        ledger = self.ledger
        prompts = sum(life.prompts for life in self.lives)
        commands = ledger.counts["response"]
        return [
            Figure("R24", "acknowledged entries lost", self.looked_for, len(ledger.lost), 0),
            Figure("R24", f"hangs over {SOON:g} s", commands, len(ledger.late), 0),
            Figure("R24", "lines that are no JSON", sum(ledger.counts.values()), len(ledger.noise), 0),
            Figure("R24", "other failures", prompts, len(ledger.wrong), 0),
            Figure("R11", "processes left at rest, or after a kill", self.rests + self.kills, len(self.left), 0),
            *self.growth(),
        ]

    def growth(self) -> list[Figure]:
        """Of the first life, the longest; none, if even that was too short to tell."""
        rests = self.lives[0].rests if self.lives else []
        rests = rests[int(len(rests) * WARM_UP) :]
        if len(rests) < ENOUGH_RESTS:
            return []
        memory = slope([(prompts, figures.memory) for prompts, figures in rests])
        descriptors = more_at_rest(rests, lambda figures: len(figures.descriptors))
        threads = more_at_rest(rests, lambda figures: figures.threads)
        return [
            Figure("R23", "memory for each prompt", rests[-1][0] - rests[0][0], round(memory, 3), PER_PROMPT, "KiB"),
            Figure("R23", "more descriptors at rest", len(rests), descriptors, 0),
            Figure("R23", "more threads at rest", len(rests), threads, 0),
        ]


def _foreign(crew: dict[int, str]) -> list[str]:
    """Processes that are none of tau's own."""
    return [line for line in crew.values() if "tau" not in line]


def more_at_rest(rests: list[tuple[int, Figures]], number: Callable[[Figures], int]) -> int:
    """How much more there is in the last quarter than there was in the first, at the least."""
    part = max(1, len(rests) // 4)
    first, last = ([number(figures) for _, figures in some] for some in (rests[:part], rests[-part:]))
    return max(0, min(last) - max(first))


def table(soak: Soak) -> str:
    lines = [f"{'':5} {'':42} {'tried':>10} {'found':>10} {'at most':>8}"]
    for figure in soak.figures():
        verdict = "" if figure.holds else "  TOO MUCH"
        found = f"{figure.found:g} {figure.unit}".strip()
        lines.append(f"{figure.goal:5} {figure.what:42} {figure.tried:>10,} {found:>10} {figure.limit:>8g}{verdict}")
    ledger = soak.ledger
    for what, all_of_them in (("lost", ledger.lost), ("wrong", ledger.wrong), ("left", soak.left)):
        lines += [f"  {what}: {one}" for one in all_of_them[:20]]
    for what, slow in (("late", ledger.late), ("excused", ledger.excused)):
        lines += [f"  {what}: {one.what} {one.seconds:.1f} s, {one.lost:.1f} s of it no time" for one in slow[:20]]
    return "\n".join(lines)


def details(soak: Soak) -> str:
    ledger = soak.ledger
    slowest = sorted(ledger.slowest.items(), key=lambda item: -item[1])[:8]
    faults = {kind: count for kind, count in sorted(soak.monkey.did.items()) if ":" not in kind}
    kinds = ("prompt accepted", "steer accepted", "follow_up accepted", "refused", "agent_settled")
    more = (
        "auto_compaction_end",
        "compact",
        "fork",
        "switch_session",
        "new_session",
        "auto_retry_start",
        "session_write_failed",
        "extension_error",
        "reload",
    )
    return "\n".join(
        [
            f"prompts     {sum(life.prompts for life in soak.lives):,} in {len(soak.lives)} lives, {soak.kills} kills",
            f"faults      {faults}",
            f"of models   {dict(sorted(soak.provider.did.items()))}",
            f"heard       { {kind: ledger.counts[kind] for kind in kinds + more} }",
            f"refused     {dict(ledger.refusals.most_common(6))}",
            f"slowest     {', '.join(f'{kind} {seconds:.2f} s' for kind, seconds in slowest)}",
            f"machine     was away for {soak.heart.largest:.2f} s at most",
            *([] if soak.disk.small else ["NOT TRIED   a full disk, for none can be mounted here"]),
            *(
                []
                if soak.growth()
                else [f"NOT TRIED   growth: a life of less than {ENOUGH_RESTS} rests tells nothing of it"]
            ),
        ]
    )


def soak(
    folder: Path,
    seconds: float,
    seed: int,
    *,
    faults: bool = True,
    every: float = EVERY,
    kills: int = KILLS,
    say: Callable[[str], None] = print,
) -> Soak:
    """The whole of it; what ended it early is among what is wrong."""
    life = Soak(folder, seed, faults=faults, every=every, say=say)
    try:
        life.run(seconds, kills)
    except AssertionError as error:
        life.failed(error, life.lives[-1])
    return life


def in_a_namespace() -> None:
    """In a small world of our own, in which a disk can be mounted that nobody else sees, and that goes with us."""
    wrapped = ["unshare", "--mount"] if os.geteuid() == 0 else ["unshare", "--user", "--map-root-user", "--mount"]
    if APART in os.environ or not shutil.which("unshare"):
        return
    if subprocess.run([*wrapped, "true"], capture_output=True).returncode == 0:
        os.environ[APART] = "1"
        os.execvp("unshare", [*wrapped, sys.executable, *sys.argv])


def main() -> int:
    parser = argparse.ArgumentParser(description="Live long, under faults, and see what is lost, hangs or grows.")
    parser.add_argument("seconds", type=float, nargs="?", default=SECONDS)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6))
    parser.add_argument("--kills", type=int, default=KILLS)
    parser.add_argument("--every", type=float, default=EVERY, help="seconds from one fault to the next, on average")
    parser.add_argument("--no-faults", action="store_true")
    parser.add_argument("--folder", help="to work in, instead of one that is made and removed")
    given = parser.parse_args()
    sys.setrecursionlimit(20_000)  # each entry of get_tree is two levels deeper than the one before it
    in_a_namespace()
    print(f"{given.seconds:g} seconds, --seed {given.seed}", flush=True)
    made = tempfile.TemporaryDirectory(prefix="tau-soak-") if given.folder is None else nullcontext(given.folder)
    with made as scratch:
        try:
            life = soak(
                Path(scratch).resolve(),
                given.seconds,
                given.seed,
                faults=not given.no_faults,
                every=given.every,
                kills=given.kills,
                say=lambda line: print(line, flush=True),
            )
        except BaseException:
            traceback.print_exc()
            return 1
    print(details(life))
    print(table(life))
    return 0 if all(figure.holds for figure in life.figures()) else 1


if __name__ == "__main__":
    sys.exit(main())

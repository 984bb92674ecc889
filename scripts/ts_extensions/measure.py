"""Measures what TypeScript extensions cost: the start and the memory beside tau without them and beside pi, and reads.

    python scripts/ts_extensions/measure.py FOLDER --node PROGRAM [--runs N] [--read-runs N]

FOLDER is that of load.py. Prints medians with their limits, and the best of several runs: other work on the machine
makes medians worse. The time of the CPU is that of all processes from their start to their end, and depends less on
other work. Memory is the proportional set size (PSS) of all processes; `beside another Node` is measured while one more
Node runs, which shares the pages of the program.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any, NamedTuple

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE.parent.parent / "src"), str(HERE.parent.parent / "tests"), str(HERE)]

from load import PI, pi_program  # noqa: E402

from support.anthropic_server import ModelServer  # noqa: E402
from support.rpc_process import Agent, Json, surroundings  # noqa: E402

SETS = {
    "without": (),
    "one": ("hello.ts",),
    "five": ("hello.ts", "todo.ts", "permission-gate.ts", "pirate.ts", "bookmark.ts"),
}
# A command whose argument is a program, as in the tests.
RUN = """
export default function (pi: any) {
  pi.registerCommand("run", { handler: async (args: string, ctx: any) => {
    ctx.ui.notify(JSON.stringify(await new Function("pi", "ctx", `return (async () => { ${args} })()`)(pi, ctx)));
  } });
}
"""
READS = """
for (let i = 0; i < 5000; i++) { pi.appendEntry("many", { i, text: "x".repeat(950) }); }
ctx.isIdle();
const timed = (work) => { const begun = performance.now(); work(); return performance.now() - begun; };
const first = timed(() => ctx.sessionManager.getEntries());
const again = timed(() => { for (let i = 0; i < 1000; i++) ctx.sessionManager.getEntries(); }) / 1000;
const single = [];
for (let i = 0; i < 300; i++) single.push(await new Promise((r) => setImmediate(() => r(timed(() => ctx.isIdle())))));
single.sort((a, b) => a - b);
return { entries: ctx.sessionManager.getEntries().length, first, again, single: single[150], best: single[15] };
"""


# What the limits are for: one extension and five, over tau without them.
START_LIMITS = {"one": (100, 50), "five": (250, 60)}  # ms, MB
MAX_PART_OF_PI = 1.1  # of the memory of pi with the same five
READ_LIMITS = {"single": 0.3, "first": 60, "again": 0.05}  # ms
READ_NAMES = {"single": "a read", "first": "5,000 entries", "again": "the same again"}


class Cost(NamedTuple):
    ms: float
    mb: float
    cpu: float  # of all processes until their end, in ms


def pss(pid: int) -> float:
    """Of a process and those that it started, in MB."""
    total = int(Path(f"/proc/{pid}/smaps_rollup").read_text().split("\nPss:")[1].split()[0]) / 1024
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return total + sum(pss(int(child)) for child in children)


def start(command: list[str], env: dict[str, str], cwd: Path) -> Cost:
    """The time until the answer to the first request, and the memory then."""
    begun = time.perf_counter()
    process = subprocess.Popen(command, env=env, cwd=cwd, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdin is not None and process.stdout is not None
    process.stdin.write(b'{"type":"get_state","id":"1"}\n')
    process.stdin.flush()
    while b'"get_state"' not in (line := process.stdout.readline()):
        assert line, "it ended"
    taken = (time.perf_counter() - begun) * 1000
    memory = pss(process.pid)
    process.stdin.close()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    return Cost(taken, memory, (usage.ru_utime + usage.ru_stime) * 1000)


def measure(programs: dict[str, list[str]], folder: Path, env: dict[str, str], runs: int) -> dict[str, list[Cost]]:
    """Alternating, so that other work on the machine affects all of them."""
    costs: dict[str, list[Cost]] = {name: [] for name in programs}
    for _ in range(runs):
        for name, command in programs.items():
            costs[name].append(start(command, env, folder / "work"))
    return costs


def show(name: str, costs: list[Cost]) -> None:
    ms, mb, cpu = ([cost[at] for cost in costs] for at in range(3))
    medians = f"{statistics.median(ms):6.0f} ms (best {min(ms):4.0f})   {statistics.median(mb):5.1f} MB"
    print(f"{name:<14} {medians}   {statistics.median(cpu):5.0f} ms CPU (best {min(cpu):4.0f})", flush=True)


def show_differences(costs: dict[str, list[Cost]]) -> None:
    """Print what the extensions cost: the difference of medians, with the limit."""
    medians = {name: [statistics.median(cost[at] for cost in of) for at in range(2)] for name, of in costs.items()}
    for label, limits in START_LIMITS.items():
        if "tau without" in medians and (found := medians.get(f"tau {label}")):
            ms, mb = (one - base for one, base in zip(found, medians["tau without"], strict=True))
            verdict = "holds" if ms <= limits[0] and mb <= limits[1] else "DOES NOT HOLD"
            said = f"{ms:+.0f} ms (at most {limits[0]}), {mb:+.1f} MB (at most {limits[1]})"
            print(f"{label} over without: {said}: {verdict}")
    if "tau five" in medians and "pi five" in medians:
        (ms, mb), (pi_ms, pi_mb) = medians["tau five"], medians["pi five"]
        verdict = "holds" if ms < pi_ms and mb < MAX_PART_OF_PI * pi_mb else "DOES NOT HOLD"
        print(
            f"five, tau and pi: {ms:.0f} and {pi_ms:.0f} ms, {mb / pi_mb:.2f} times the memory: {verdict}", flush=True
        )


def starts(folder: Path, node: str, runs: int, only: str) -> None:
    examples = folder / PI / "examples" / "extensions"
    with tempfile.TemporaryDirectory() as name, ModelServer("ok") as server:
        host: Json = {"extensionHost": {"node": node, "loadTimeoutMs": 60_000}}
        env = surroundings(Path(name), host, server.models) | {"PI_OFFLINE": "1"}
        model = ["--mode", "rpc", "--provider", "mock", "--model", "m1"]
        programs = {}
        for label, files in SETS.items():
            given = [word for file in files for word in ("-e", str(examples / file))]
            programs[f"tau {label}"] = [sys.executable, "-m", "tau", *model, *given]
            programs[f"pi {label}"] = [node, *pi_program(folder), *model, *given]
        programs = {name: command for name, command in programs.items() if only in name}
        for title, other in (("alone", False), ("beside another Node", True)):
            print(title)
            with another_node(node) if other else nullcontext():
                measure(programs, Path(name), env, 1)  # fills caches
                found = measure(programs, Path(name), env, runs)
                for label, costs in found.items():
                    show(label, costs)
                show_differences(found)


def another_node(node: str) -> AbstractContextManager[Any]:
    class Process(AbstractContextManager[None]):
        def __enter__(self) -> None:
            self.process = subprocess.Popen([node, "-e", "setTimeout(() => {}, 1e9)"])
            time.sleep(1)

        def __exit__(self, *_: object) -> None:
            self.process.kill()
            self.process.wait()

    return Process()


def reads(node: str, runs: int) -> None:
    found = [read_once(node) for _ in range(runs)]
    for key, limit in READ_LIMITS.items():
        values = sorted(one[key] for one in found)
        median = statistics.median(values)
        verdict = "holds" if median <= limit else "DOES NOT HOLD"
        name = READ_NAMES[key]
        print(f"{name:<14} median {median:.4f} ms (best {values[0]:.4f}; at most {limit}): {verdict}", flush=True)


def read_once(node: str) -> Json:
    """The times of reads in a new session, in ms."""
    with tempfile.TemporaryDirectory() as name:
        file = Path(name) / "run.ts"
        file.write_text(RUN)
        settings: Json = {"extensionHost": {"node": node, "loadTimeoutMs": 60_000}}
        with Agent(Path(name), settings=settings, args=["-e", str(file)]) as agent:
            agent.prompt("hello")
            agent.send("prompt", message=f"/run {' '.join(READS.split())}")
            found: Json = json.loads(agent.until(lambda one: one.get("method") == "notify")[-1]["message"])
        assert found["entries"] > 5000, found
        return found


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--node", required=True)
    parser.add_argument("--runs", type=int, default=9)
    parser.add_argument("--read-runs", type=int, default=5)
    parser.add_argument("--only", default="", help="part of the names of programs, such as tau")
    given = parser.parse_args()
    reads(given.node, given.read_runs)
    starts(given.folder.resolve(), os.path.abspath(given.node), given.runs, given.only)


if __name__ == "__main__":
    main()

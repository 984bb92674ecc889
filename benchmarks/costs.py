"""What costs what: the stages of three everyday things, each counted in instructions with all before it.

    python -m benchmarks.costs            a table
    python -m benchmarks.costs --page     and the same in docs/performance.md

Every stage is a program that does what the one before it does and one thing more,
so the difference is what that thing costs. Needs valgrind; takes a minute.
"""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

from benchmarks.gate import ROOT, RULERS, Bench
from benchmarks.job import Place
from benchmarks.mock import Mock
from benchmarks.page import PAGE, markdown, put
from benchmarks.table import rounded

LOADED = json.loads((ROOT / "tests" / "support" / "loaded_modules.json").read_text())["moments"][
    "RPC mode, to get_state"
]
# Without collecting garbage and without taking down what was loaded: both depend on everything, and on no stage.
IMPORTS = """\
import gc, importlib, os, sys
gc.disable()
if sys.argv[1:]:  # as the program does
    from tau.cli import deferred_modules, quick_imports
    quick_imports.install()
    deferred_modules.defer()
    sys.modules["typing_extensions"] = None
for name in sys.argv[1:]:
    try:
        importlib.import_module(name)
    except ImportError:
        pass
os._exit(0)
"""
DECODER = """\
import sys
from tau.wire.sse import SSEDecoder
from tau.records.base import parse
from tau.records.models import Model
from tau.core.agent.draft import Draft
from tau.llm.anthropic_reader import Reader
from tau.wire.unfinished import PartialJson
reader = Reader(Draft(Model("m", "M", "x", "p", "http://127.0.0.1"), 0, PartialJson))
decoder = SSEDecoder()
data = open(sys.argv[1], "rb").read()
"""
PORTIONS = "for at in range(0, len(data), 65536):\n    found = decoder.feed(data[at:at + 65536])\n"
SESSION = "import sys\nfrom pathlib import Path\nfrom tau.store.sessions import open_session\n"


class Stage(NamedTuple):
    words: str
    total: float  # instructions for one unit, with all stages before it


def starting(bench: Bench, pool: ThreadPoolExecutor) -> list[Stage]:
    asyncio = [name for name in LOADED["python"] if name.partition(".")[0] == "asyncio"]
    programs = {
        "Python itself": [],
        "`asyncio`, and what defers the rest of it": asyncio,
        "the rest of the standard library": [*asyncio, *LOADED["python"]],
        "msgspec": [*asyncio, *LOADED["python"], "msgspec"],
        "tau's own modules": [*asyncio, *LOADED["python"], "msgspec", *LOADED["tau"]],
    }
    found = {words: pool.submit(bench.python, IMPORTS, *names) for words, names in programs.items()}
    whole = pool.submit(bench.start)
    stages = [Stage(words, one.result()) for words, one in found.items()]
    return [*stages, Stage("reading settings, opening a session, `get_state`, the end", whole.result())]


def streaming(bench: Bench, pool: ThreadPoolExecutor) -> list[Stage]:
    """Of a piece among many, and then of one that comes alone."""
    sizes = RULERS["instructions"].sizes
    programs = {
        "nothing": DECODER,
        "finding the event in the bytes": DECODER + PORTIONS,
        "reading its JSON": DECODER + PORTIONS + "    for _, text in found: parse(text.encode())\n",
        "knowing what it means": DECODER + PORTIONS + "    for event, text in found: reader.read(event, text)\n",
    }
    counted = {words: pool.submit(bench.python, code, bench.events) for words, code in programs.items()}
    short, long = pool.submit(bench.prompts, "text-1"), pool.submit(bench.prompts, f"text-{sizes.pieces}")
    alone = pool.submit(bench.alone)
    nothing = counted.pop("nothing").result()
    stages = [Stage(words, (one.result() - nothing) / sizes.of_floor) for words, one in counted.items()]
    return [
        *stages,
        Stage("the socket, HTTP, the loop, the update that is joined", (long.result() - short.result()) / sizes.pieces),
        Stage("coming alone: a wake-up, a record, a write", (alone.result() - short.result()) / sizes.alone),
    ]


def opening(bench: Bench, pool: ThreadPoolExecutor) -> list[Stage]:
    sizes = RULERS["instructions"].sizes
    programs = {
        "nothing": SESSION,
        "reading the file": SESSION + "Path(sys.argv[1]).read_bytes()\n",
        "finding lines, ids and parents": SESSION + "open_session(Path(sys.argv[1]))\n",
    }
    counted = {words: pool.submit(bench.python, code, bench.entries) for words, code in programs.items()}
    start, whole = pool.submit(bench.start), pool.submit(bench.session)
    nothing = counted.pop("nothing").result()
    stages = [Stage(words, (one.result() - nothing) / sizes.entries) for words, one in counted.items()]
    return [
        *stages,
        Stage("the branch, the model and level that were last", (whole.result() - start.result()) / sizes.entries),
    ]


THINGS = {
    "Start to `get_state`, in million instructions": (starting, 1e6),
    "A streamed piece of text, in thousands": (streaming, 1e3),
    "Opening a session, per entry of 1.5 kB, in thousands": (opening, 1e3),
}


def tables(bench: Bench, pool: ThreadPoolExecutor) -> str:
    found = []
    for title, (thing, unit) in THINGS.items():
        lines, before = [[title, "this", "so far"], ["---", "--:", "--:"]], 0.0
        for stage in thing(bench, pool):
            lines.append([stage.words, rounded((stage.total - before) / unit), rounded(stage.total / unit)])
            before = stage.total
        found.append(markdown(lines))
    return "\n\n".join(found)


def main() -> None:
    if shutil.which("valgrind") is None:
        raise SystemExit("There is no valgrind here to count instructions with")
    ruler = RULERS["instructions"]
    with (
        tempfile.TemporaryDirectory(prefix="tau-costs-") as folder,
        Mock() as mock,
        ThreadPoolExecutor(ruler.at_once) as pool,
    ):
        bench = Bench(Place(mock, Path(folder)), ruler)
        bench.compile()
        text = tables(bench, pool)
    print(text)
    if "--page" in sys.argv[1:]:
        PAGE.write_text(put(PAGE.read_text(), "costs", text))


if __name__ == "__main__":
    main()

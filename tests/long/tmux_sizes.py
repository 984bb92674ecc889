"""Random sizes in tmux while an answer streams: how many words are lost or doubled, and how many old boxes are left.

    python tests/long/tmux_sizes.py [runs]

tmux changes its grid at once and tells the program up to 250 ms later. Prints one line per run: 20 sizes in about 7 s,
at 100 and at 1,000 pieces per second, in paragraphs and in one endless paragraph.
"""

from __future__ import annotations

import random
import re
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from support.tmux import Tmux, start_tau, wait_for_width, words_of

SIZES = 20


class Found(NamedTuple):
    words: int
    lost: int
    doubled: int
    boxes: int  # that are left in the history or on the screen, without the current one


def run(folder: Path, seed: int, per_s: int, *, endless: bool) -> Found:
    source, columns = random.Random(seed), 80
    words = 9 * per_s
    tmux = Tmux(folder)
    try:
        start_tau(tmux, folder, words, 1000 // per_s, endless=endless)
        tmux.wait("w0.")
        for _ in range(SIZES):
            columns = source.randint(30, 120)
            tmux.resize(columns, source.randint(10, 40))
            time.sleep(source.uniform(0.05, 0.65))  # the pace of the person at the mouse
        tmux.wait(f"w{words - 1}.")
        shown = wait_for_width(tmux, columns)
    finally:
        tmux.run("kill-server")
    found = words_of(shown)
    rules = len(re.findall("^──", shown, re.MULTILINE))
    return Found(words, len(set(range(words)) - set(found)), len(found) - len(set(found)), rules - 2)


def main(runs: int) -> int:
    failures = 0
    for per_s in (100, 1000):
        for endless in (False, True):
            for seed in range(runs):
                with tempfile.TemporaryDirectory(prefix="tau-tmux-") as folder:
                    found = run(Path(folder), seed, per_s, endless=endless)
                kind = "one paragraph" if endless else "paragraphs"
                print(f"{per_s}/s, {kind}, seed {seed}: {found}", flush=True)
                allowed = 0.0 if per_s == 100 else 0.005
                doubles = 0.1 if per_s == 100 else 0.02
                failures += found.lost > allowed * found.words or found.doubled > doubles * found.words
    return failures


if __name__ == "__main__":
    if shutil.which("tmux") is None:
        sys.exit("tmux is not installed")
    sys.exit(1 if main(int(sys.argv[1]) if len(sys.argv) > 1 else 3) else 0)

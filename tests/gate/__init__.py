"""The figures that a change must keep: `make gate` takes them all, the tests take a tenth of each."""

from __future__ import annotations

import sys
from pathlib import Path

# What the tests share (client.py and others) is found by its name, as in the tests themselves.
if (shared := str(Path(__file__).resolve().parents[1])) not in sys.path:
    sys.path.insert(0, shared)

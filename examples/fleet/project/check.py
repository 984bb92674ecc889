"""Exit code 0 if a function of calc is right: python3 check.py add"""

import importlib
import sys

EXPECTED = {
    "add": 9,
    "sub": 5,
    "mul": 14,
    "div": 3.5,
    "mod": 1,
    "power": 49,
    "larger": 7,
    "smaller": 2,
    "equal": False,
    "mean": 4.5,
    "square": 49,
    "negate": -7,
}

name = sys.argv[1]
found = getattr(importlib.import_module(f"calc.{name}"), name)(7, 2)
print(f"{name}(7, 2) is {found}, and should be {EXPECTED[name]}")
sys.exit(found != EXPECTED[name])

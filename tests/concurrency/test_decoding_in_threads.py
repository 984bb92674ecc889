"""Records may be decoded in several threads, also for the first time."""

from __future__ import annotations

import subprocess
import sys

# Classes that no thread has decoded before, decoded by four threads at once. A crash ends the process.
SCRIPT = '''
import sys, threading, types
from tau.records.base import convert, decode

sys.setswitchinterval(1e-6)
SOURCE = """
from __future__ import annotations
from tau.records.base import Record
class Leaf(Record):
    a: int
    b: list[str] = []
class Middle(Record):
    leaf: Leaf
    other: dict[str, Leaf] = {}
    more: Middle | None = None
class Top(Record):
    middle: Middle
    items: list[Middle]
"""
DATA = b'{"middle":{"leaf":{"a":1}},"items":[{"leaf":{"a":2,"b":["x"]}}]}'
VALUE = {"middle": {"leaf": {"a": 1}}, "items": [{"leaf": {"a": 2, "b": ["x"]}}]}
for number in range(60):
    module = sys.modules[f"classes{number}"] = types.ModuleType(f"classes{number}")
    exec(SOURCE, module.__dict__)
    barrier = threading.Barrier(4)
    done = []

    def work(at):
        barrier.wait()
        value = decode(module.Top, DATA) if at % 2 else convert(VALUE, module.Top)
        done.append(value.items[0].leaf.a)

    threads = [threading.Thread(target=work, args=(at,)) for at in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert done == [2, 2, 2, 2]
print("decoded")
'''


def test_threads_that_decode_a_class_for_the_first_time_do_not_crash() -> None:
    ended = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, timeout=60)
    assert (ended.returncode, ended.stdout.strip()) == (0, "decoded"), ended.stderr[-2000:]

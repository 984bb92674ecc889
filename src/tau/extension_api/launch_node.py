"""Starts Node for extensions: python -I -S launch_node.py NODE HOST MEMORY_MB SYNC MESSAGES PARENT

Does what Node cannot do itself: the process dies with tau, even if it hangs, and its two descriptors are 3 and 4. Node
marks only descriptors without a gap before them as close-on-exec, so that programs started from it do not inherit them.
"""

import os
import sys

PR_SET_PDEATHSIG = 1
SIGKILL = 9  # the module signal takes 5 ms to import
# A small process: one thread for V8 instead of four, and no optimizing compiler until optimizing.mjs turns it on. Later
# versions than Node 22 have a second one, Maglev, which takes 3 MB.
FLAGS = ("--disable-warning=ExperimentalWarning", "--v8-pool-size=1", "--no-opt", "--no-maglev")
FIRST = 3  # descriptor of the answers to synchronous reads; the next one is that of the messages


def main(node: str, host: str, memory_mb: int, sync: int, messages: int, parent: int) -> None:
    if sys.platform == "linux":
        _die_with_parent()
        if os.getppid() != parent:
            os._exit(1)
    moved = [_above(descriptor, FIRST + 2) for descriptor in (sync, messages)]
    for number, descriptor in enumerate(moved, FIRST):
        os.dup2(descriptor, number)
    os.closerange(FIRST + 2, max(moved) + 1)
    limit = [f"--max-old-space-size={memory_mb}"] if memory_mb else []
    os.execv(node, [node, *FLAGS, *limit, host, sys.executable])


def _die_with_parent() -> None:
    """Call prctl, without the module ctypes where that is possible: it takes 5 ms to import."""
    try:
        import _ctypes

        prctl = _ctypes.dlsym(_ctypes.dlopen(None, 0), "prctl")  # type: ignore[arg-type]  # None is the process itself
        _ctypes.call_function(prctl, (PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0))
    except (ImportError, AttributeError, OSError, TypeError):  # these functions are not documented
        import ctypes

        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0)


def _above(descriptor: int, lowest: int) -> int:
    """Return a duplicate of the descriptor with a number of at least `lowest`."""
    while descriptor < lowest:
        descriptor = os.dup(descriptor)
    return descriptor


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], *map(int, sys.argv[3:7]))

"""A worker of a fleet whose lines are cut: python cutting_worker.py CUT COMMAND...

It passes on what the command writes, until there is a file CUT: then half a line, and nothing more.
"""

import os
import subprocess
import sys


def main() -> int:
    cut, *command = sys.argv[1:]
    child = subprocess.Popen(command, stdout=subprocess.PIPE)
    assert child.stdout is not None
    for line in child.stdout:
        try:
            os.unlink(cut)
        except FileNotFoundError:
            os.write(1, line)
            continue
        os.write(1, line[: len(line) // 2])
        child.kill()
        return 1
    return child.wait()


if __name__ == "__main__":
    sys.exit(main())

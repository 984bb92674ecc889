"""A client of a host lends a tool, and its connection is cut after each byte: the function runs once, every time.

    python tests/long/host_tool_cuts.py [STEP]

STEP 1, the default, cuts after every byte. tests/remote/test_host_tools.py does it for some.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
from itertools import chain, repeat
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from remote.test_host_tools import CALL, OK, called_once
from support.socket_host import UNCUT, socket_host


async def cut_everywhere(step: int) -> int:
    """Returns how many cuts went wrong."""
    wrong = cuts = 0
    with tempfile.TemporaryDirectory() as folder:
        async with socket_host(Path(folder), CALL, OK, answer_timeout_s=60) as served:
            await called_once(served)
            for direction, size in {"out": served.bytes_out, "in": served.bytes_in}.items():
                for cut in range(1, size, step):
                    setattr(served, f"cuts_{direction}", chain([UNCUT, cut], repeat(UNCUT)))
                    cuts += 1
                    if await called_once(served) != 1:
                        wrong += 1
                        print(f"cut after {cut} bytes {direction}: not once")
                setattr(served, f"cuts_{direction}", repeat(UNCUT))
    print(f"{cuts} cuts, {wrong} wrong")
    return wrong


def main() -> int:
    return 1 if asyncio.run(cut_everywhere(int(sys.argv[1]) if len(sys.argv) > 1 else 1)) else 0


if __name__ == "__main__":
    sys.exit(main())

"""An extension that shows more and more to a client that does not read: tau's memory stays bounded.

python tests/long/extension_floods.py [ROUNDS]
"""

from __future__ import annotations

import sys
import tempfile
import textwrap
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from support.rpc_process import WITHIN, Agent, Pipe, is_gone

ROUNDS = 3
MIB = 1 << 20
MOST_BYTES = 350 * MIB
SOURCE = """
    import asyncio, os

    def setup(pi):
        @pi.command("flood")
        async def flood(args, ctx):
            with open(os.environ["PIPE"], "w") as pipe:
                print(os.getpid(), file=pipe)
            for _ in range(600):
                ctx.ui.notify("x" * (1 << 20))
                await asyncio.sleep(0.001)
    """


def flood(folder: Path) -> int:
    """The most memory that tau had, in bytes. The extension has been ended, and the agent works."""
    file = folder / "x.py"
    file.write_text(textwrap.dedent(SOURCE))
    with (
        Pipe(folder / "pipe") as pipe,
        Agent(folder, args=["-e", str(file)], listening=False, env={"PIPE": str(pipe.path)}) as agent,
    ):
        agent.write(b'{"type":"prompt","message":"/flood"}\n')
        assert is_gone(int(pipe.line()), within=WITHIN), "the extension was not ended"
        memory = agent.memory
        agent.listen()
        agent.get("get_state")
        agent.until("extension_error")
    return memory


def main(rounds: int) -> int:
    for number in range(rounds):
        with tempfile.TemporaryDirectory() as folder:
            memory = flood(Path(folder))
        print(f"round {number + 1}: {memory / MIB:.0f} MiB", flush=True)
        if memory > MOST_BYTES:
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else ROUNDS))

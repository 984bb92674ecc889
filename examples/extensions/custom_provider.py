"""Models of your own: those of a server that speaks one of the APIs tau knows, and whatever a program says.

TEAM_LLM_URL says where the server is, and the variable TEAM_LLM_KEY holds the key.
With --team-model NAME another model than the default is offered. If LLM_COMMAND is
set, `--model program/default` asks that command: it reads the last prompt and
writes the answer.
"""

import asyncio
import os
from collections.abc import AsyncIterator

from tau.extension import Event, Pi

FREE = {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0}


async def stream(model: Event, context: Event, options: Event) -> AsyncIterator[dict[str, object]]:
    """Stream the output of a program as the answer. The program ends when the stream is closed."""
    said = [block["text"] for block in context.messages[-1]["content"] if block["type"] == "text"]
    pipe = asyncio.subprocess.PIPE
    program = await asyncio.create_subprocess_shell(os.environ["LLM_COMMAND"], stdin=pipe, stdout=pipe)
    assert program.stdin and program.stdout
    try:
        program.stdin.write("\n".join(said).encode())
        program.stdin.close()
        while line := await program.stdout.readline():
            yield {"type": "text", "delta": line.decode(errors="replace")}
        if await program.wait() != 0:
            raise RuntimeError(f"{os.environ['LLM_COMMAND']} ended with code {program.returncode}")
    finally:
        if program.returncode is None:
            program.kill()


def setup(pi: Pi) -> None:
    pi.register_flag("team-model", str, "team-large", "a model of the team's server")
    pi.register_provider(
        "team",
        {
            "baseUrl": os.environ.get("TEAM_LLM_URL", "http://localhost:8000/v1"),
            "apiKey": "TEAM_LLM_KEY",  # the name of the variable, not the key
            "api": "openai-completions",
            "models": [
                {
                    "id": pi.get_flag("team-model"),
                    "name": "The team's model",
                    "reasoning": False,
                    "input": ["text"],
                    "contextWindow": 128_000,
                    "maxTokens": 8_192,
                    "cost": FREE,
                }
            ],
        },
    )
    if os.environ.get("LLM_COMMAND"):
        pi.register_provider("program", {"stream": stream, "models": [{"id": "default", "cost": FREE}]})

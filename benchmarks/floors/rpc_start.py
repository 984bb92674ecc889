"""The least that an RPC mode on asyncio and msgspec does at its start: read a command, and write a response.

One record for the command and one for the response, no settings, no session. It ends when its input ends.
"""

import asyncio
import os
import sys

import msgspec


class Command(msgspec.Struct, tag_field="type", tag="get_state"):
    id: str = ""


class State(msgspec.Struct, rename="camel"):
    thinking_level: str = "off"
    is_streaming: bool = False
    message_count: int = 0


class Response(msgspec.Struct, tag_field="type", tag="response"):
    id: str
    command: str
    success: bool
    data: State


async def main() -> None:
    loop = asyncio.get_running_loop()
    decoder, encoder = msgspec.json.Decoder(Command), msgspec.json.Encoder()
    ended = loop.create_future()

    def read() -> None:
        data = os.read(0, 65536)
        if not data:
            loop.remove_reader(0)
            ended.set_result(None)
        for line in data.splitlines():
            response = Response(decoder.decode(line).id, "get_state", True, State())
            os.write(1, encoder.encode(response) + b"\n")

    loop.add_reader(0, read)
    await ended
    sys.stdout.flush()
    os._exit(0)


asyncio.run(main())

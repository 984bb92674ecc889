"""The spans of runs in this process, collected in memory."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

import tau
from support.library_agent import Json, opened, play
from support.otlp import Seen, of_sdk

RETRY: Json = {"retry": {"baseDelayMs": 1}}


class Collected:
    def __init__(self) -> None:
        self._exporter = InMemorySpanExporter()
        self.provider = TracerProvider()
        self.provider.add_span_processor(SimpleSpanProcessor(self._exporter))

    @property
    def spans(self) -> list[Seen]:
        return of_sdk(self._exporter.get_finished_spans())

    def named(self, name: str) -> Seen:
        return next(span for span in self.spans if span.name == name)


Story = Callable[[tau.Agent], Coroutine[Any, Any, Any]]


def collected(folder: Path, *answers: Json, story: Story | None = None, **wanted: Any) -> Collected:
    """What one run sends."""
    found = Collected()

    async def run() -> None:
        async with opened(folder, *answers, telemetry=found.provider, **wanted) as agent:
            await (story(agent) if story is not None else agent.prompt("Hi"))

    play(run())
    return found

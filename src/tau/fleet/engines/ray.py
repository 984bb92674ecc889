"""Ray as an engine: `ray` (a cluster on this machine), `ray:auto` or `ray:ray://host:10001`.

An actor on each node starts `tau fleet worker` beside it and hands lines over; it is not restarted by Ray. Loss is
told to the coordinator, which gives the attempts to other workers.
"""

from __future__ import annotations

import asyncio
import tempfile
import uuid
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import ray
from ray.exceptions import RayError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from tau.errors import UsageError
from tau.fleet.engines import Heard, Lost
from tau.fleet.engines.choice import Place
from tau.fleet.engines.hosted import HostedWorker, decode_line
from tau.records.base import encode
from tau.records.fleet import ToWorker

PULL_S = 5.0  # a call for lines returns after this long even if there are none


class FleetActor:
    """Runs on a node. Its methods are concurrent: it is an asyncio actor."""

    def __init__(self, name: str, slots: int, memory: int) -> None:
        self._lines: asyncio.Queue[tuple[str, bytes, str]] = asyncio.Queue()
        root = Path(tempfile.mkdtemp(prefix="tau-fleet-"))
        self._hosted = HostedWorker(name, root, slots, memory, lambda *line: self._lines.put_nowait(line))

    async def start(self) -> None:
        await self._hosted.start()

    async def pull(self) -> list[tuple[str, bytes, str]]:
        """All lines since the last call; waits for the first."""
        found = []
        with suppress(TimeoutError):
            async with asyncio.timeout(PULL_S):
                found.append(await self._lines.get())
        while not self._lines.empty():
            found.append(self._lines.get_nowait())
        return found

    async def feed(self, who: str, lines: list[bytes]) -> None:
        await self._hosted.feed(who, lines)

    async def drop(self) -> None:
        await self._hosted.drop()

    async def close(self) -> None:
        await self._hosted.close()


class RayEngine:
    def __init__(self, address: str, place: Place) -> None:
        self._address = address
        self._place = place
        self._heard: asyncio.Queue[Heard | None] = asyncio.Queue()
        self._actors: dict[str, Any] = {}  # by the name of the node
        self._owners: dict[str, str] = {}  # the node of each worker
        self._pulling: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        """Raises UsageError if the cluster cannot be reached."""
        given: dict[str, Any] = {"log_to_driver": False, "include_dashboard": False}
        try:
            if self._address:
                await asyncio.to_thread(ray.init, self._address, log_to_driver=False)
            else:
                await asyncio.to_thread(ray.init, num_cpus=max(2, self._place.count), **given)
        except (RayError, OSError, RuntimeError, ValueError) as error:
            raise UsageError(f"--engine ray:{self._address}: {error}") from None
        for node in [node for node in ray.nodes() if node["Alive"]]:
            for _ in range(1 if self._address else self._place.count):
                self._add(node)
        self._pulling = [asyncio.create_task(self._pull(name, actor)) for name, actor in self._actors.items()]

    def _add(self, node: dict[str, Any]) -> None:
        name = f"{node['NodeManagerHostname']}-{uuid.uuid4().hex[:6]}"
        options = ray.remote(max_restarts=0, max_task_retries=0, max_concurrency=100, num_cpus=0)(FleetActor)
        place = NodeAffinitySchedulingStrategy(node_id=node["NodeID"], soft=False)
        actor = options.options(scheduling_strategy=place).remote(name, self._place.per_worker, self._place.memory)
        self._actors[name] = actor

    async def _pull(self, name: str, actor: Any) -> None:
        """Carry lines until the actor is gone."""
        reason = "Ray has lost the worker"
        try:
            await actor.start.remote()
            while True:
                for who, line, why in await actor.pull.remote():
                    self._owners[who] = name
                    self._heard.put_nowait((who, decode_line(line, why)))
        except (RayError, OSError) as error:
            reason = f"{reason}: {type(error).__name__}"
        for who in [who for who, owner in self._owners.items() if owner == name]:
            self._heard.put_nowait((who, Lost(reason)))
        del self._actors[name]
        if not self._actors:
            self._heard.put_nowait(("", Lost("Ray has no worker left; run the same command again to go on.")))
            self._heard.put_nowait(None)

    async def send(self, worker: str, line: ToWorker) -> None:
        """Calls of one caller to one actor arrive in order."""
        if (actor := self._actors.get(self._owners.get(worker, ""))) is not None:
            with suppress(RayError):
                actor.feed.remote(worker, [encode(line)])

    async def drop(self, worker: str) -> None:
        if (actor := self._actors.get(self._owners.get(worker, ""))) is not None:
            actor.drop.remote()

    async def heard(self) -> AsyncIterator[Heard]:
        while (one := await self._heard.get()) is not None:
            yield one

    async def close(self) -> None:
        for task in self._pulling:
            task.cancel()
        with suppress(RayError, TimeoutError):
            async with asyncio.timeout(10):
                await asyncio.gather(*(actor.close.remote() for actor in self._actors.values()), return_exceptions=True)
        await asyncio.to_thread(ray.shutdown)


ENGINE = RayEngine

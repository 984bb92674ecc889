"""What runs inside dask: a plugin of each worker, which starts `tau fleet worker` beside it, and one of the scheduler.

Lines of workers are events of a topic that the coordinator has subscribed to. The scheduler's plugin reports workers
that are gone; when the coordinator is gone it removes the plugins of the workers, which stops their agents.
"""

from __future__ import annotations

import asyncio
import uuid
from pathlib import Path
from typing import Any

from distributed import Nanny, Scheduler, Worker
from distributed.diagnostics.plugin import SchedulerPlugin, WorkerPlugin

from tau.fleet.engines.hosted import HostedWorker


class WithoutPages:
    """dask has pages for browsers on a port that asks for no credentials, also where there is no dashboard."""

    def start_http_server(self, *arguments: Any, **options: Any) -> None:
        """Open no port."""


class PrivateScheduler(WithoutPages, Scheduler):  # type: ignore[misc]
    pass


class PrivateWorker(WithoutPages, Worker):  # type: ignore[misc]
    pass


def without_pages(cluster: Any) -> Any:
    """A cluster that was not started yet, whose own processes will not have those pages."""
    scheduler = getattr(cluster, "scheduler_spec", None)
    if scheduler and scheduler["cls"] is Scheduler:
        scheduler["cls"] = PrivateScheduler
        for worker in (cluster.new_spec, *cluster.worker_spec.values()):
            if worker["cls"] is Nanny:
                worker["options"]["worker_class"] = PrivateWorker
            elif worker["cls"] is Worker:
                worker["cls"] = PrivateWorker
    return cluster


class FleetWorker(WorkerPlugin):  # type: ignore[misc]
    """One for each worker of the cluster; dask copies it there."""

    idempotent = False

    def __init__(self, topic: str, slots: int, memory: int, *, orphans: bool = False) -> None:
        self.name = topic
        self._orphans = orphans
        self._slots = slots
        self._memory = memory
        self._hosted: HostedWorker | None = None

    async def setup(self, worker: Any) -> None:
        root = Path(worker.local_directory) / f"tau-fleet-{uuid.uuid4().hex[:12]}"
        name = worker.address.partition("://")[2]

        def publish(who: str, line: bytes, reason: str) -> None:
            worker.log_event(self.name, {"address": worker.address, "name": who, "line": line, "reason": reason})

        self._hosted = HostedWorker(name, root, self._slots, self._memory, publish)
        resources = worker.state.total_resources
        await self._hosted.start([f"{label}=true" for label, amount in resources.items() if amount])

    async def teardown(self, worker: Any) -> None:
        if self._hosted is not None:
            await self._hosted.close(kill=not self._orphans)

    async def feed(self, who: str, lines: list[bytes]) -> None:
        if self._hosted is not None:
            await self._hosted.feed(who, lines)

    async def drop(self) -> None:
        if self._hosted is not None:
            await self._hosted.drop()


async def feed(topic: str, who: str, lines: list[bytes], dask_worker: Any = None) -> None:
    """Runs on a worker: lines for the `tau fleet worker` beside it."""
    await dask_worker.plugins[topic].feed(who, lines)


async def drop(topic: str, dask_worker: Any = None) -> None:
    """Runs on a worker: its `tau fleet worker` cannot be used."""
    await dask_worker.plugins[topic].drop()


class FleetWatch(SchedulerPlugin):  # type: ignore[misc]
    """Tells the coordinator of lost workers, and the workers of a lost coordinator."""

    def __init__(self, topic: str, client: str) -> None:
        self.name = f"{topic}-watch"
        self._topic = topic
        self._client = client
        self._removing: asyncio.Future[Any] | None = None

    def remove_worker(self, scheduler: Any, worker: str, **about: Any) -> None:
        message = {"address": worker, "name": "", "line": b"", "reason": "dask has lost the worker"}
        scheduler.log_event(self._topic, message)

    def remove_client(self, scheduler: Any, client: str) -> None:
        if client == self._client:
            self._removing = asyncio.ensure_future(self._remove(scheduler))

    async def _remove(self, scheduler: Any) -> None:
        await scheduler.unregister_worker_plugin(comm=None, name=self._topic)
        await scheduler.unregister_scheduler_plugin(name=self.name)

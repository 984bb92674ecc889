"""dask.distributed as an engine: `dask` (a cluster on this machine), `dask:tls://host:8786`, `dask:cluster.yaml`.

dask starts processes and carries lines; it is given no tasks, so it repeats nothing and remembers nothing. Whoever can
talk to one of its ports can run programs, so all of them need TLS with a certificate on both sides. The file
names the class of a cluster, such as those of dask-jobqueue, dask-kubernetes or `distributed.SSHCluster`:

    cluster: dask_jobqueue.SLURMCluster
    arguments: {cores: 4, memory: 8GB, walltime: "04:00:00"}
    workers: 20
"""

from __future__ import annotations

import asyncio
import inspect
import json
import logging
import os
import uuid
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

import dask.config
from distributed import Client, LocalCluster
from distributed.security import Security

from tau.errors import UsageError
from tau.fleet.engines import Heard, Lost
from tau.fleet.engines.choice import Place
from tau.fleet.engines.dask_plugins import FleetWatch, FleetWorker, drop, feed, without_pages
from tau.fleet.engines.hosted import decode_line
from tau.records.base import encode
from tau.records.fleet import ToWorker
from tau.store.files import make_folder, replace_file

CONNECT_TIMEOUT_S = 10.0
CLOSE_TIMEOUT_S = 10.0
LOOK_S = 0.25
WITHOUT_TLS = "without TLS, everybody who reaches its ports can run programs as you"


class DaskEngine:
    """`address` is that of a scheduler, a YAML file, or empty for a cluster on this machine."""

    def __init__(self, address: str, place: Place) -> None:
        self._address = address
        self._place = place
        self._topic = f"tau-fleet-{uuid.uuid4().hex[:12]}"
        self._heard: asyncio.Queue[Heard | None] = asyncio.Queue()
        self._links: dict[str, Link] = {}
        self._client: Any = None
        self._cluster: Any = None
        self._watching: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Raises UsageError if the cluster cannot be reached or started."""
        for logger in ("distributed", "distributed.client", "distributed.nanny"):
            logging.getLogger(logger).setLevel(logging.CRITICAL)  # what matters is reported by this engine
        try:
            self._cluster = await self._make_cluster()
            target = self._address if self._cluster is None else self._cluster
            self._client = await Client(
                target, asynchronous=True, set_as_default=False, timeout=CONNECT_TIMEOUT_S, name="tau-fleet"
            )
            await self._register()
        except UsageError:
            await self.close()
            raise
        except (OSError, ImportError, AttributeError, TypeError, ValueError, RuntimeError) as error:
            await self.close()
            raise UsageError(f"--engine dask:{self._address}: {error or type(error).__name__}") from None
        self._watching = asyncio.create_task(self._watch())

    async def _make_cluster(self) -> Any:
        if "://" in self._address:
            check_address(self._address)
            return None
        if not self._address:
            cluster = LocalCluster(
                n_workers=self._place.count,
                threads_per_worker=1,
                dashboard_address=None,
                asynchronous=True,
                local_directory=str(self._place.root),
                security=Security.temporary(),
            )
            return await without_pages(cluster)
        return await cluster_of_file(self._address)

    @staticmethod
    def write_credentials(folder: Path) -> None:
        """Write a certificate, its key, and a configuration with which dask uses them for all its ports.

        Raises UsageError if there is one already, which a cluster may use.
        """
        certificate, key = folder / "certificate.pem", folder / "key.pem"
        if os.path.lexists(key):
            raise UsageError(f"{key} exists. Remove it to make another one: clusters that use it stop working.")
        files = {"cert": str(certificate), "key": str(key)}
        tls = {"ca-file": str(certificate), "scheduler": files, "worker": files, "client": files}
        comm = {"default-scheme": "tls", "require-encryption": True, "tls": tls}
        no_pages: Any = {"http": {"routes": []}}
        config = {"distributed": {"comm": comm, "scheduler": no_pages, "worker": no_pages}}
        made = Security.temporary()
        make_folder(folder)
        replace_file(certificate, made.tls_client_cert.encode(), 0o600)
        replace_file(folder / "dask.yaml", json.dumps(config, indent=2).encode(), 0o600)
        replace_file(key, made.tls_client_key.encode(), 0o600)

    async def _register(self) -> None:
        """The watch comes first, so that no loss is missed."""
        self._client.subscribe_topic(self._topic, self._receive)
        await self._client.register_plugin(FleetWatch(self._topic, self._client.id))
        place = self._place
        plugin = FleetWorker(self._topic, place.per_worker, place.memory, orphans=place.orphans)
        await self._client.register_plugin(plugin, name=self._topic)

    def _receive(self, event: tuple[float, Any]) -> None:
        """An event of the topic: a line of a worker, or the loss of all workers at an address."""
        about = event[1]
        if not about["name"]:
            for name in [name for name, link in self._links.items() if link.address == about["address"]]:
                self._lose(name, about["reason"])
            return
        name, line = about["name"], decode_line(about["line"], about["reason"])
        if isinstance(line, Lost):
            self._lose(name, line.reason)
            return
        if name not in self._links:
            self._links[name] = Link(self._client, self._topic, name, about["address"])
        self._heard.put_nowait((name, line))

    def _lose(self, name: str, reason: str) -> None:
        if (link := self._links.pop(name, None)) is not None:
            link.close()
            self._heard.put_nowait((name, Lost(reason)))

    async def _watch(self) -> None:
        """The end of the connection to the scheduler is the end of this engine: the scheduler remembers nothing."""
        while self._client.status == "running":
            await asyncio.sleep(LOOK_S)
        where = self._address or "of this fleet"
        self._heard.put_nowait(("", Lost(f"The dask scheduler {where} is gone; run the same command again to go on.")))
        self._heard.put_nowait(None)

    async def send(self, worker: str, line: ToWorker) -> None:
        if (link := self._links.get(worker)) is not None:
            link.put(encode(line))

    async def drop(self, worker: str) -> None:
        if (link := self._links.get(worker)) is not None:
            with suppress(Exception):
                await self._client.run(drop, self._topic, workers=[link.address], on_error="ignore")

    async def heard(self) -> AsyncIterator[Heard]:
        while (one := await self._heard.get()) is not None:
            yield one

    async def close(self) -> None:
        if self._watching is not None:
            self._watching.cancel()
        for link in self._links.values():
            link.close()
        with suppress(Exception):  # whatever a dead cluster answers
            async with asyncio.timeout(CLOSE_TIMEOUT_S):
                if self._client is not None and self._client.status == "running":
                    await self._client.unregister_worker_plugin(self._topic)
                    await self._client.unregister_scheduler_plugin(f"{self._topic}-watch")
        for one in (self._client, self._cluster):
            with suppress(Exception):
                async with asyncio.timeout(CLOSE_TIMEOUT_S):
                    if one is not None:
                        await one.close()


class Link:
    """Lines to one worker, in order; those that come while a call is under way go together with the next."""

    def __init__(self, client: Any, topic: str, name: str, address: str) -> None:
        self.address = address
        self._client = client
        self._topic = topic
        self._name = name
        self._lines: list[bytes] = []
        self._sending: asyncio.Task[None] | None = None

    def put(self, line: bytes) -> None:
        self._lines.append(line)
        if self._sending is None or self._sending.done():
            self._sending = asyncio.create_task(self._send())

    async def _send(self) -> None:
        """A call that fails is not repeated: its orders were not begun, so the coordinator gives them again."""
        while self._lines:
            lines, self._lines = self._lines, []
            with suppress(Exception):
                await self._client.run(feed, self._topic, self._name, lines, workers=[self.address], on_error="ignore")

    def close(self) -> None:
        if self._sending is not None:
            self._sending.cancel()


async def cluster_of_file(path: str) -> Any:
    """The cluster that a YAML file describes. Raises UsageError."""
    found = list(dask.config.collect_yaml([path]))
    about: Any = found[0] if found else None
    if not isinstance(about, dict) or not isinstance(about.get("cluster"), str):
        raise UsageError(f"--engine dask:{path}: a YAML file with `cluster: module.Class` was expected.")
    arguments = {"security": _credentials(), **(about.get("arguments") or {})}
    cluster = resolve_name(about["cluster"])(asynchronous=True, **arguments)
    if arguments.get("dashboard_address") is None:
        cluster = without_pages(cluster)
    if inspect.isawaitable(cluster):
        cluster = await cluster
    if (workers := about.get("workers")) is not None:
        scaled = cluster.scale(int(workers))
        if inspect.isawaitable(scaled):
            await scaled
    if not str(cluster.scheduler_address).startswith(("tls://", "inproc://")):
        await cluster.close()
        raise UsageError(f"--engine dask:{path}: {about['cluster']} made a scheduler {WITHOUT_TLS}. It has been ended.")
    return cluster


def check_address(address: str) -> None:
    """Raises UsageError for a scheduler that everybody can use, and if there are no credentials for it."""
    made = "`tau fleet credentials DIR` writes what scheduler, workers and this command need"
    if not address.startswith("tls://"):
        raise UsageError(f"--engine dask:{address}: {WITHOUT_TLS}. {made}; then use dask:tls://HOST:PORT.")
    if not Security().tls_client_cert:
        raise UsageError(f"--engine dask:{address} needs a certificate. {made}; set DASK_CONFIG to that folder.")


def _credentials() -> Security:
    """Those of the configuration, or a certificate for this cluster alone, in memory."""
    found = Security(require_encryption=True)
    return found if found.tls_scheduler_cert else Security.temporary()


ENGINE = DaskEngine

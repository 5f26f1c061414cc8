"""Workers of Kafka Connect in this process, with their REST servers, and raw requests to them."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import ssl
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from kcli.connect.assembly import DistributedWorker, Peering, StandaloneWorker
from kcli.connect.config.worker import WorkerConfig, distributed_config, standalone_config
from kcli.connect.herders.connector_log import ConnectorLog
from kcli.connect.rest.server import RestServer
from kcli.connect.rest.settings import rest_settings
from kcli.runtime.network import SystemNetwork

JSON_CONVERTER = "org.apache.kafka.connect.json.JsonConverter"


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    headers: Mapping[str, str]
    body: bytes


@dataclass(frozen=True, slots=True)
class Program:
    """A running worker. `ports` are those of its listeners."""

    worker: StandaloneWorker | DistributedWorker
    rest: RestServer
    ports: Sequence[int]

    async def request(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        *,
        headers: Mapping[str, str] | None = None,
        tls: ssl.SSLContext | None = None,
        listener: int = 0,
    ) -> Answer:
        return await request(self.ports[listener], method, path, body, headers=headers, tls=tls)


async def request(
    port: int,
    method: str,
    path: str,
    body: bytes | None = None,
    *,
    headers: Mapping[str, str] | None = None,
    tls: ssl.SSLContext | None = None,
) -> Answer:
    """Sends one request on a connection of its own."""
    host = None if tls is None else "localhost"
    reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=tls, server_hostname=host)
    lines = {"Host": "localhost", "Connection": "close", **(headers or {})}
    if body is not None:
        lines = {"Content-Type": "application/json", "Content-Length": str(len(body)), **lines}
    head = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
    writer.write(f"{method} {path} HTTP/1.1\r\n{head}\r\n".encode() + (body or b""))
    try:
        answer = await reader.read()
    finally:
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()
    head_bytes, _, content = answer.partition(b"\r\n\r\n")
    first, *rest = head_bytes.decode().split("\r\n")
    pairs = (line.partition(": ") for line in rest)
    return Answer(int(first.split(" ")[1]), {name: value for name, _, value in pairs}, content)


@contextlib.asynccontextmanager
async def standalone(directory: Path, properties: Mapping[str, str] | None = None) -> AsyncIterator[Program]:
    """A worker alone, which needs no broker as long as it runs no task."""
    config = standalone_config(
        {
            "bootstrap.servers": "127.0.0.1:1",
            "listeners": "http://127.0.0.1:0",
            "key.converter": JSON_CONVERTER,
            "value.converter": JSON_CONVERTER,
            "offset.storage.file.filename": str(directory / "offsets"),
            **(properties or {}),
        }
    )
    async with _running(config) as program:
        yield program


@contextlib.asynccontextmanager
async def distributed(port: int, properties: Mapping[str, str] | None = None) -> AsyncIterator[Program]:
    """A worker of a group whose broker listens on a port."""
    topics = {f"{name}.storage.topic": f"connect-{name}" for name in ("config", "offset", "status")}
    factors = {f"{name}.storage.replication.factor": "1" for name in ("config", "offset", "status")}
    config = distributed_config(
        {
            "bootstrap.servers": f"127.0.0.1:{port}",
            "listeners": "http://127.0.0.1:0",
            "group.id": "connect",
            "key.converter": JSON_CONVERTER,
            "value.converter": JSON_CONVERTER,
            "offset.storage.partitions": "1",
            "status.storage.partitions": "1",
            "scheduled.rebalance.max.delay.ms": "0",
            **topics,
            **factors,
            **(properties or {}),
        }
    )
    async with _running(config) as program:
        yield program


@contextlib.asynccontextmanager
async def _running(config: WorkerConfig) -> AsyncIterator[Program]:
    settings = rest_settings(config)
    rest = RestServer(settings, SystemNetwork())
    addresses = await rest.listen()
    url = config.rest.advertised_url(addresses, "127.0.0.1")
    worker = (
        StandaloneWorker(config, "cluster", url)
        if config.group is None
        else DistributedWorker(config, "cluster", Peering(url, settings.forwarding_tls))
    )
    log = ConnectorLog()
    logging.getLogger().addHandler(log)
    rest.serve(worker.herder, url, log)
    running = asyncio.create_task(worker.run())
    try:
        await worker.started()
        yield Program(worker, rest, [address.port for address in addresses])
    finally:
        await rest.stop()
        worker.stop()
        await running
        logging.getLogger().removeHandler(log)

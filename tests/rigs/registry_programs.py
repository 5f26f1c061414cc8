"""Registries in this process, on a broker in this process, and requests to their REST APIs."""

from __future__ import annotations

import contextlib
import json
import ssl
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass

from kcli.registry.assembly import RegistryServer
from kcli.registry.config.settings import registry_config
from kcli.runtime.network import SystemNetwork
from rigs.connect_programs import Answer, request

TYPE = "application/vnd.schemaregistry.v1+json"


@dataclass(frozen=True, slots=True)
class Program:
    """A running registry."""

    server: RegistryServer

    @property
    def port(self) -> int:
        return self.server.ports[0]

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def leads(self) -> bool:
        return self.server.registry.leads

    async def request(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        *,
        headers: Mapping[str, str] | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> Answer:
        return await request(
            self.port, method, path, body, headers={"Content-Type": TYPE, **(headers or {})}, tls=tls
        )

    async def json(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        headers: Mapping[str, str] | None = None,
    ) -> tuple[int, object]:
        """Sends JSON, and returns the status and the JSON of the answer."""
        content = None if body is None else json.dumps(body).encode()
        answer = await self.request(method, path, content, headers=headers)
        return answer.status, json.loads(answer.body) if answer.body else None


@contextlib.asynccontextmanager
async def registry(port: int, properties: Mapping[str, str] | None = None) -> AsyncIterator[Program]:
    """A registry whose broker listens on a port."""
    config = registry_config(
        {
            "kafkastore.bootstrap.servers": f"127.0.0.1:{port}",
            "kafkastore.retry.backoff.ms": "5",
            "kafkastore.timeout.ms": "20000",
            "listeners": "http://127.0.0.1:0",
            **(properties or {}),
        }
    )
    server = RegistryServer(config, SystemNetwork())
    try:
        await server.start()
        yield Program(server)
    finally:
        await server.stop()

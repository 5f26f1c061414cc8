"""Puts a registry together: its state, its topic, its group and its REST API."""

from __future__ import annotations

import asyncio
import dataclasses
import logging
from collections.abc import Iterator, Mapping

from kcli.client.client import Client
from kcli.client.config import client_config
from kcli.errors import KcliError
from kcli.http.client import request
from kcli.http.rest.listeners import client_context, listening
from kcli.registry.config.settings import WILDCARD_HOSTS, RegistryConfig
from kcli.registry.decider import Decider
from kcli.registry.decisions.leadership import Identity
from kcli.registry.election import Election
from kcli.registry.forwarding import Forwarder
from kcli.registry.registry import Registry, decision_settings
from kcli.registry.rest.access import logins
from kcli.registry.rest.server import RestServer
from kcli.registry.store import CLIENT_ID, CannotStart, Store
from kcli.runtime.network import Network

_log = logging.getLogger("kcli.registry")

SELF_CHECK_SECONDS = 5.0
"""The time of the request to the own URL. An address that drops packets gives no answer at all."""

SELF_CHECK_BYTES = 64 * 1024

Beans = Iterator[tuple[str, Mapping[str, float | str]]]


class RegistryServer:
    """A registry from `start` to `stop`. Raises ConfigError or StoreError if TLS or the users are invalid."""

    def __init__(self, config: RegistryConfig, network: Network) -> None:
        rest = config.rest
        self._config = config
        self._tls = client_context(rest.ssl) if any(one.is_https for one in rest.listeners) else None
        self._decider = Decider(decision_settings(config))
        self._store = Store(
            config.store,
            self._decider.take,
            lambda: self.registry.leads,
            write_max_ms=config.election.write_max_ms,
        )
        self.registry = Registry(config, self._decider, self._store, Forwarder(config.forwarding, self._tls))
        self.rest = RestServer(
            rest,
            self.registry,
            [listening(listener, rest.ssl) for listener in rest.listeners],
            None if rest.login is None else logins(rest.login),
            network,
        )
        self._client: Client | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self.identity = Identity(host="localhost", port=0)
        self.ports: tuple[int, ...] = ()

    async def start(self) -> None:
        """Reads the topic, listens, and joins the group. Raises CannotStart, KafkaError or OSError."""
        await self._store.start()
        self._decider.is_loaded = True
        addresses = await self.rest.listen()
        self.ports = tuple(address.port for address in addresses)
        self.identity = self._config.rest.identity(addresses, is_eligible=self._config.election.is_eligible)
        # Reads are answered from here on, although the first election of a group may take some seconds.
        if not self._config.read_only:
            await self._join()
        self._tasks.append(asyncio.create_task(self._check_own_url()))

    async def _join(self) -> None:
        settings = client_config(self._config.store.client)
        self._client = Client(dataclasses.replace(settings, client_id=CLIENT_ID))
        election = Election(self._client, self._config.election, self.identity, self.registry)
        self.registry.election = election
        running = asyncio.create_task(election.run())
        self._tasks.append(running)
        if self._config.election.is_delayed:
            return
        joined = asyncio.create_task(election.joined())
        timeout_s = self._config.store.init_timeout_ms / 1000
        await asyncio.wait((running, joined), timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
        has_joined = joined.done()
        joined.cancel()
        if running.done():
            running.result()
        if not has_joined:
            raise CannotStart("Timed out waiting for join group to complete")

    async def stop(self) -> None:
        # The other registries should have another leader before this one stops to answer.
        if self.registry.election is not None:
            await self.registry.election.stop()
        await self.rest.stop()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._client is not None:
            await self._client.close()
        await self._store.stop()
        self._decider.stop()

    async def _check_own_url(self) -> None:
        """Warns if the other registries will probably not reach this one, because the advertised host is wrong."""
        url = self.identity.url
        listener = self._config.rest.listeners[self._config.rest.advertised]
        if self.identity.is_loopback and listener.host in WILDCARD_HOSTS:
            _log.warning(
                "This registry advertises the URL %s, which other machines cannot reach. Set host.name if registries "
                "run on several machines.",
                url,
            )
        try:
            async with asyncio.timeout(SELF_CHECK_SECONDS):
                await request(
                    "GET", f"{url}/health", headers={}, body_max_bytes=SELF_CHECK_BYTES, tls=self._tls
                )
        except (KcliError, OSError) as error:  # a TimeoutError is an OSError
            _log.warning(
                "This registry advertises the URL %s, but cannot reach itself there (%s). If it becomes the leader, "
                "the other registries answer changes with the error 50003. Set host.name, and host.port if the port "
                "is mapped, to an address that they can reach.",
                url,
                error or type(error).__name__,
            )

    def beans(self) -> Beans:
        """The metrics, with the name of their MBean."""
        prefix = "kafka.schema.registry:type="
        election = self.registry.election
        values: dict[str, int] = {
            "master-slave-role": 1 if self.registry.leads else 0,
            "node-count": 0 if election is None else election.node_count,
            **self._decider.counts(),
        }
        for name, value in values.items():
            yield prefix + name, {name: value}
        yield from self.rest.counts.beans()

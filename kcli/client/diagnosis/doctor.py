"""Checks everything in order: the bootstrap servers, the advertised brokers, a topic, a group and a record."""

from __future__ import annotations

import ipaddress
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from kcli.client.client import Client, Node
from kcli.client.config import ClientConfig
from kcli.client.diagnosis.cluster import ClusterWalk
from kcli.client.diagnosis.finding import Finding, warning
from kcli.client.diagnosis.servers import ServerWalk
from kcli.model.addresses import Address

ADVERTISED = "advertised"


@dataclass(frozen=True, slots=True)
class Wishes:
    """The topics and groups to check. If `writes` is True, the doctor writes a record to each topic and reads the
    record again.
    """

    topics: Sequence[str] = ()
    groups: Sequence[str] = ()
    writes: bool = False


async def diagnose(
    config: ClientConfig, wishes: Wishes, *, principal: str, now: datetime
) -> AsyncIterator[Finding]:
    """Yields one finding for each check. `principal` is the name of the client in ACLs, such as `User:alice`."""
    servers = ServerWalk(config, now)
    healthy: list[Address] = []
    for address in config.servers:
        is_wrong = False
        async for finding in servers.walk(address):
            is_wrong |= finding.is_wrong
            yield finding
        if not is_wrong:
            healthy.append(address)
    if not healthy or config.servers_are_controllers:
        return
    async with Client(replace(config, servers=tuple(healthy))) as client:
        cluster = ClusterWalk(client, principal)
        async for item in cluster.brokers():
            if isinstance(item, Finding):
                yield item
                if item.is_wrong:
                    return
            else:
                async for finding in _advertised(servers, item, config.servers):
                    yield finding
        for topic in wishes.topics:
            async for finding in cluster.topic(topic):
                yield finding
            if wishes.writes:
                async for finding in cluster.write_and_read(topic):
                    yield finding
        for group in wishes.groups:
            async for finding in cluster.group(group):
                yield finding


async def _advertised(
    servers: ServerWalk, node: Node, bootstrap: Sequence[Address]
) -> AsyncIterator[Finding]:
    """Checks the advertised address of a broker, if it is not one of the bootstrap servers."""
    address = Address(node.host, node.port)
    if address in bootstrap:
        return
    if _is_loopback(address) and not any(map(_is_loopback, bootstrap)):
        yield warning(
            ADVERTISED,
            str(address),
            f"broker {node.id} advertises an address that only programs on its own machine can reach",
            "set advertised.listeners of this broker to a name that its clients can reach",
        )
    async for finding in servers.walk(address):
        if finding.is_wrong:
            finding = replace(
                finding,
                text=f"{finding.text}; broker {node.id} advertises this address",
                advice=f"{finding.advice}; or correct advertised.listeners of broker {node.id}",
            )
        yield finding


def _is_loopback(address: Address) -> bool:
    if address.host == "localhost":
        return True
    try:
        return ipaddress.ip_address(address.host).is_loopback
    except ValueError:
        return False

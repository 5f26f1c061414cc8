"""Other brokers as a broker sees them: their partitions in the metadata, and scripted answers to its requests."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from kcli.client.connection import Connection
from kcli.errors import UnsupportedVersionException
from kcli.metadata.image import (
    BrokerRegistration,
    Endpoint,
    MetadataImage,
    PartitionImage,
    TopicImage,
    Topics,
)
from kcli.model.addresses import Address
from kcli.model.ids import BrokerId
from kcli.protocol.wire.api import ApiKey

LISTENER = "INTERNAL"
HOME = 1


def cluster_image(
    topics: Mapping[str, tuple[int, ...]], brokers: tuple[int, ...] = (1, 2, 3)
) -> MetadataImage:
    """`topics` has the leader of each partition of each topic. Broker n has the address broker-n:9000."""
    images = [
        TopicImage(
            name,
            uuid.UUID(int=at),
            {
                number: PartitionImage(
                    (max(leader, 1),), (max(leader, 1),), leader, 5, 6, (uuid.UUID(int=9),)
                )
                for number, leader in enumerate(leaders)
            },
        )
        for at, (name, leaders) in enumerate(topics.items(), start=100)
    ]
    return MetadataImage(
        brokers={
            BrokerId(each): BrokerRegistration(
                BrokerId(each),
                each,
                uuid.UUID(int=each),
                {LISTENER: Endpoint(LISTENER, f"broker-{each}", 9000, 0)},
                {},
                fenced=False,
            )
            for each in brokers
        },
        topics=Topics(
            {each.topic_id: each for each in images}, {each.name: each.topic_id for each in images}
        ),
    )


@dataclass
class OtherBrokers:
    """Stands in for `Connection`. `answer` is called with the address, the API and the request. A request waits for
    `gate`, if it is not set."""

    answer: Callable[[Address, ApiKey, Any], Any]
    requests: list[tuple[Address, Any]] = field(default_factory=list)
    opened: list[Address] = field(default_factory=list)
    closed: list[Address] = field(default_factory=list)
    refused: set[Address] = field(default_factory=set)
    oldest: int = 0
    gate: asyncio.Event = field(default_factory=asyncio.Event)

    def install(self, monkeypatch: pytest.MonkeyPatch) -> OtherBrokers:
        monkeypatch.setattr(Connection, "open", self._open)
        self.gate.set()
        return self

    async def _open(
        self, _network: Any, address: Address, _client_id: str | None, _timeout: float, _security: Any
    ) -> Any:
        self.opened.append(address)
        if address in self.refused:
            raise ConnectionRefusedError
        return _Opened(self, address)


class _Opened:
    is_closed = False
    is_stale = False

    def __init__(self, brokers: OtherBrokers, address: Address) -> None:
        self._brokers, self._address = brokers, address

    def version_for(self, _key: ApiKey, *, at_least: int = 0) -> int:
        if at_least < self._brokers.oldest:
            raise UnsupportedVersionException
        return at_least

    async def request(self, message: Any, key: ApiKey, *, version: int, timeout: float) -> Any:
        self._brokers.requests.append((self._address, message))
        async with asyncio.timeout(timeout):
            await self._brokers.gate.wait()
        return self._brokers.answer(self._address, key, message)

    def retire(self) -> None:
        self.close()

    def close(self) -> None:
        self.is_closed = True
        self._brokers.closed.append(self._address)

"""Requests between brokers: connections, pauses, and items that share a request."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from kcli.errors import NetworkException, UnsupportedVersionException
from kcli.metadata.image import Endpoint
from kcli.model.addresses import Address
from kcli.protocol.wire.api import ApiKey
from kcli.runtime.network import SystemNetwork
from kcli.server.coordinators import broker_links
from kcli.server.coordinators.broker_links import BrokerLinks, GatheredRequests
from rigs.loops import on_a_loop, until
from rigs.other_brokers import LISTENER, OtherBrokers, cluster_image

KEY = ApiKey.WRITE_TXN_MARKERS
SECOND = Address("broker-2", 9000)


class Rig:
    def __init__(self, monkeypatch: pytest.MonkeyPatch, timeout_s: float = 60.0) -> None:
        self.image = cluster_image({})
        self.others = OtherBrokers(lambda _address, _key, request: f"{request}!").install(monkeypatch)
        self.links = BrokerLinks(
            SystemNetwork(), lambda: self.image, listener=LISTENER, client_id="c", timeout_s=timeout_s
        )


@on_a_loop
async def test_a_connection_serves_all_requests_to_a_broker(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = Rig(monkeypatch)
    assert [await rig.links.ask(2, KEY, text) for text in ("a", "b")] == ["a!", "b!"]
    assert rig.others.opened == [SECOND]
    rig.links.close()
    assert rig.others.closed == [SECOND]


@on_a_loop
async def test_a_broker_that_moved_is_found_at_its_new_address(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = Rig(monkeypatch)
    await rig.links.ask(2, KEY, "a")
    moved = replace(rig.image.brokers[2], endpoints={LISTENER: Endpoint(LISTENER, "moved", 1, 0)})
    rig.image = replace(rig.image, brokers={**rig.image.brokers, 2: moved})
    await rig.links.ask(2, KEY, "a")
    assert (rig.others.opened, rig.others.closed) == ([SECOND, Address("moved", 1)], [SECOND])


@on_a_loop
async def test_the_connection_to_a_broker_that_has_left_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = Rig(monkeypatch)
    await rig.links.ask(2, KEY, "a")
    rig.image = replace(rig.image, brokers={n: each for n, each in rig.image.brokers.items() if n != 2})
    await rig.links.ask(next(iter(rig.image.brokers)), KEY, "a")
    assert rig.others.closed == [SECOND]


@on_a_loop
async def test_a_broker_without_the_listener_cannot_be_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = Rig(monkeypatch)
    with pytest.raises(NetworkException, match="Broker 9 has no listener INTERNAL"):
        await rig.links.ask(9, KEY, "a")


@on_a_loop
async def test_a_broker_that_refuses_is_asked_again_after_a_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(broker_links, "RECONNECT_BACKOFF_S", 0.02)
    rig = Rig(monkeypatch)
    rig.others.refused.add(SECOND)
    loop = asyncio.get_running_loop()
    began = loop.time()
    with pytest.raises(NetworkException):
        await rig.links.ask(2, KEY, "a")
    rig.others.refused.clear()
    assert await rig.links.ask(2, KEY, "a") == "a!"
    assert loop.time() - began >= 0.02


@on_a_loop
async def test_a_broker_that_does_not_answer_is_disconnected(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = Rig(monkeypatch, timeout_s=0.01)
    rig.others.gate.clear()
    with pytest.raises(NetworkException, match="Broker 2 at broker-2:9000 did not answer WRITE_TXN_MARKERS"):
        await rig.links.ask(2, KEY, "a")
    assert rig.others.closed == [SECOND]


@on_a_loop
async def test_a_broker_that_is_too_old_stays_connected(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = Rig(monkeypatch)
    rig.others.oldest = 1
    with pytest.raises(UnsupportedVersionException):
        await rig.links.ask(2, KEY, "a")
    assert rig.others.closed == []


class Batches:
    """Items of a gatherer: their first letter is the key, their length the size."""

    def __init__(self) -> None:
        self.sent: list[tuple[int, list[str]]] = []
        self.gate = asyncio.Event()
        self.failure: Exception | None = None
        self.requests: GatheredRequests[str, str] = GatheredRequests(
            self._exchange, key_of=lambda item: item[0], size_of=len, max_size=6
        )

    async def _exchange(self, broker_id: int, items: Sequence[str]) -> Sequence[str]:
        self.sent.append((broker_id, list(items)))
        await self.gate.wait()
        if self.failure is not None:
            raise self.failure
        return [item.upper() for item in items]

    async def first(self) -> asyncio.Future[str]:
        """Sends an item that stays in flight until the gate opens."""
        result = self.requests.send(2, "a1")
        await until(lambda: self.sent)
        return result


@on_a_loop
async def test_items_that_come_meanwhile_go_together() -> None:
    batches = Batches()
    results = [await batches.first()] + [batches.requests.send(2, item) for item in ("b1", "c1")]
    other = batches.requests.send(3, "d1")
    batches.gate.set()
    assert await asyncio.gather(*results, other) == ["A1", "B1", "C1", "D1"]
    assert batches.sent == [(2, ["a1"]), (3, ["d1"]), (2, ["b1", "c1"])]


@on_a_loop
async def test_items_with_the_same_key_never_share_a_request() -> None:
    batches = Batches()
    results = [await batches.first()] + [batches.requests.send(2, item) for item in ("b1", "b2", "c1", "b3")]
    batches.gate.set()
    assert await asyncio.gather(*results) == ["A1", "B1", "B2", "C1", "B3"]
    assert [items for _, items in batches.sent] == [["a1"], ["b1", "c1"], ["b2"], ["b3"]]


@on_a_loop
async def test_a_request_has_a_largest_size_but_at_least_one_item() -> None:
    batches = Batches()
    items = ("b" * 9, "c" * 3, "d" * 3, "e" * 3)
    results = [await batches.first()] + [batches.requests.send(2, item) for item in items]
    batches.gate.set()
    await asyncio.gather(*results)
    assert [len(items) for _, items in batches.sent] == [1, 1, 2, 1]


@on_a_loop
async def test_an_item_that_is_not_awaited_any_more_is_not_sent() -> None:
    batches = Batches()
    first = await batches.first()
    dropped, kept = (batches.requests.send(2, item) for item in ("b1", "c1"))
    dropped.cancel()
    batches.gate.set()
    assert await asyncio.gather(first, kept) == ["A1", "C1"]
    assert [items for _, items in batches.sent] == [["a1"], ["c1"]]


@pytest.mark.parametrize("failure", [NetworkException("gone"), ZeroDivisionError()])
def test_a_failure_is_the_result_of_every_item_of_the_request(failure: Exception) -> None:
    @on_a_loop
    async def story() -> None:
        batches = Batches()
        batches.failure = failure
        first = await batches.first()
        batches.gate.set()
        with pytest.raises(NetworkException):
            await first
        batches.failure = None
        assert await batches.requests.send(2, "b1") == "B1", "later items are sent"

    story()


@on_a_loop
async def test_a_stop_cancels_what_is_awaited_and_refuses_more() -> None:
    batches = Batches()
    results: list[Any] = [await batches.first(), batches.requests.send(2, "b1")]
    await batches.requests.stop()
    assert all(result.cancelled() for result in results)
    with pytest.raises(NetworkException):
        batches.requests.send(2, "c1")

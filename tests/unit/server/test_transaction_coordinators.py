"""Verification of partitions with the coordinator of a transaction on another broker, with scripted answers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from kcli.errors import ErrorCode
from kcli.metadata.image import MetadataImage
from kcli.model.addresses import Address
from kcli.model.topic_partition import TopicPartition
from kcli.protocol.messages import add_partitions_to_txn as ap
from kcli.protocol.wire.api import ApiKey
from kcli.runtime.network import SystemNetwork
from kcli.server.coordinators.broker_links import BrokerLinks
from kcli.server.coordinators.transaction_coordinators import RemoteVerifications, TransactionCoordinators
from rigs.loops import on_a_loop, until
from rigs.other_brokers import HOME, LISTENER, OtherBrokers, cluster_image

NONE = ErrorCode.NONE
ASKED = tuple(TopicPartition("t", number) for number in (0, 1))
Codes = dict[TopicPartition, ErrorCode]


class Local:
    """The coordinator of this broker."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    async def verify_or_add(self, transactional_id: str, *_: Any, add: bool) -> Codes:
        self.asked.append(transactional_id)
        return dict.fromkeys(ASKED, NONE)


class Rig:
    def __init__(self, monkeypatch: pytest.MonkeyPatch, leader: int = 2) -> None:
        self.image: MetadataImage = cluster_image({"t": (1, 1), "__transaction_state": (leader,)})
        self.change: Callable[[ap.AddPartitionsToTxnResponse], Any] = lambda response: response
        self.others = OtherBrokers(self._answer).install(monkeypatch)
        self.local: Any = Local()
        links = BrokerLinks(
            SystemNetwork(), lambda: self.image, listener=LISTENER, client_id="c", timeout_s=60.0
        )
        self.remote = RemoteVerifications(links)
        self.coordinators = TransactionCoordinators(HOME, lambda: self.image, self.local, self.remote)

    def _answer(self, _address: Address, key: ApiKey, request: ap.AddPartitionsToTxnRequest) -> Any:
        """Adds partition 0, and refuses partition 1."""
        assert key is ApiKey.ADD_PARTITIONS_TO_TXN
        codes = {0: NONE, 1: ErrorCode.TRANSACTION_ABORTABLE}
        results = tuple(
            ap.AddPartitionsToTxnResult(
                transactional_id=transaction.transactional_id,
                topic_results=tuple(
                    ap.AddPartitionsToTxnTopicResult(
                        name=topic.name,
                        results_by_partition=tuple(
                            ap.AddPartitionsToTxnPartitionResult(
                                partition_index=number, partition_error_code=codes[number]
                            )
                            for number in topic.partitions
                        ),
                    )
                    for topic in transaction.topics
                ),
            )
            for transaction in request.transactions
        )
        return self.change(ap.AddPartitionsToTxnResponse(results_by_transaction=results))

    async def verify(self, transactional_id: str = "x", *, add: bool = False) -> list[ErrorCode]:
        codes = await self.coordinators.verify_or_add(transactional_id, 7, 3, iter(ASKED), add=add)
        return [codes[key] for key in ASKED]


@pytest.mark.parametrize("add", [True, False])
def test_the_coordinator_on_another_broker_is_asked(monkeypatch: pytest.MonkeyPatch, add: bool) -> None:
    @on_a_loop
    async def story() -> None:
        rig = Rig(monkeypatch)
        assert await rig.verify(add=add) == [NONE, ErrorCode.TRANSACTION_ABORTABLE]
        ((address, request),) = rig.others.requests
        assert address == Address("broker-2", 9000)
        (transaction,) = request.transactions
        assert (transaction.transactional_id, transaction.producer_id, transaction.producer_epoch) == (
            "x",
            7,
            3,
        )
        assert transaction.verify_only is not add
        assert rig.local.asked == []

    story()


@on_a_loop
async def test_the_coordinator_on_this_broker_is_asked_directly(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = Rig(monkeypatch, leader=HOME)
    assert await rig.verify() == [NONE, NONE]
    assert (rig.local.asked, rig.others.opened) == (["x"], [])


@pytest.mark.parametrize(
    "image", [cluster_image({"t": (1, 1)}), cluster_image({"__transaction_state": (-1,)})]
)
def test_without_a_coordinator_the_answer_comes_at_once(
    monkeypatch: pytest.MonkeyPatch, image: MetadataImage
) -> None:
    @on_a_loop
    async def story() -> None:
        rig = Rig(monkeypatch)
        rig.image = image
        assert await rig.verify() == [ErrorCode.COORDINATOR_NOT_AVAILABLE] * 2
        assert rig.others.opened == []

    story()


@pytest.mark.parametrize(
    ("response", "code"),
    [
        (
            ap.AddPartitionsToTxnResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED),
            "INVALID_TXN_STATE",
        ),
        (ap.AddPartitionsToTxnResponse(error_code=ErrorCode.NOT_COORDINATOR), "NOT_COORDINATOR"),
        (ap.AddPartitionsToTxnResponse(), "NETWORK_EXCEPTION"),
    ],
)
def test_an_answer_without_results_is_an_error_of_every_partition(
    monkeypatch: pytest.MonkeyPatch, response: ap.AddPartitionsToTxnResponse, code: str
) -> None:
    @on_a_loop
    async def story() -> None:
        rig = Rig(monkeypatch)
        rig.change = lambda _: response
        assert await rig.verify() == [ErrorCode[code]] * 2

    story()


@pytest.mark.parametrize("spoil", ["refuse", "age"])
def test_a_coordinator_that_cannot_be_asked_is_a_network_error(
    monkeypatch: pytest.MonkeyPatch, spoil: str
) -> None:
    @on_a_loop
    async def story() -> None:
        rig = Rig(monkeypatch)
        rig.others.refused = {Address("broker-2", 9000)} if spoil == "refuse" else set()
        rig.others.oldest = 5 if spoil == "age" else 0
        assert await rig.verify() == [ErrorCode.NETWORK_EXCEPTION] * 2

    story()


@on_a_loop
async def test_transactions_share_a_request_but_not_if_their_id_is_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rig = Rig(monkeypatch)
    rig.others.gate.clear()
    works = [asyncio.ensure_future(rig.verify())]
    await until(lambda: rig.others.requests)
    works += [asyncio.ensure_future(rig.verify(name)) for name in ("y", "z", "y")]
    await asyncio.sleep(0)
    rig.others.gate.set()
    assert await asyncio.gather(*works) == [[NONE, ErrorCode.TRANSACTION_ABORTABLE]] * 4
    sent = [[each.transactional_id for each in request.transactions] for _, request in rig.others.requests]
    assert sent == [["x"], ["y", "z"], ["y"]]

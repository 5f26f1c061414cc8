"""Markers of transactions for partitions of several brokers, with the answers of other brokers scripted."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from kcli.errors import ErrorCode
from kcli.metadata.image import MetadataImage
from kcli.model.addresses import Address
from kcli.model.topic_partition import TopicPartition
from kcli.protocol.messages import write_txn_markers as wt
from kcli.protocol.wire.api import ApiKey
from kcli.runtime.network import SystemNetwork
from kcli.server.coordinators import marker_sender
from kcli.server.coordinators.broker_links import BrokerLinks
from kcli.server.coordinators.marker_sender import MarkerSender, Overtaken, RemoteMarkers
from kcli.server.coordinators.transaction_markers import TransactionEnd
from rigs.loops import on_a_loop, until
from rigs.other_brokers import HOME, LISTENER, OtherBrokers, cluster_image

NONE = ErrorCode.NONE
LEADERS = (1, 2, 3, 2)
"""The leader of each partition of the topic t."""


class Local:
    """The markers of this broker."""

    def __init__(self) -> None:
        self.written: list[TopicPartition] = []
        self.code = NONE

    async def write(self, _end: TransactionEnd, topic: str, partition: int) -> ErrorCode:
        self.written.append(TopicPartition(topic, partition))
        return self.code


class Rig:
    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(marker_sender, "MARKER_RETRY_SECONDS", 0.001)
        self.image: MetadataImage = cluster_image({"t": LEADERS})
        self.codes: dict[int, ErrorCode] = {}
        """The code of other brokers for a partition, if it is not NONE."""
        self.others = OtherBrokers(self._answer).install(monkeypatch)
        self.local: Any = Local()
        links = BrokerLinks(
            SystemNetwork(), lambda: self.image, listener=LISTENER, client_id="c", timeout_s=60.0
        )
        self.remote = RemoteMarkers(links)
        self.sender = MarkerSender(HOME, lambda: self.image, self.local, self.remote)
        self.reports: list[list[int]] = []

    def _answer(self, _address: Address, key: ApiKey, request: wt.WriteTxnMarkersRequest) -> Any:
        assert key is ApiKey.WRITE_TXN_MARKERS
        return wt.WriteTxnMarkersResponse(
            markers=tuple(
                wt.WritableTxnMarkerResult(
                    producer_id=marker.producer_id,
                    topics=tuple(
                        wt.WritableTxnMarkerTopicResult(
                            name=topic.name,
                            partitions=tuple(
                                wt.WritableTxnMarkerPartitionResult(
                                    partition_index=number, error_code=self.codes.get(number, NONE)
                                )
                                for number in topic.partition_indexes
                            ),
                        )
                        for topic in marker.topics
                    ),
                )
                for marker in request.markers
            )
        )

    async def write(self, *partitions: int, producer_id: int = 7) -> None:
        end = TransactionEnd(
            producer_id=producer_id,
            producer_epoch=4,
            committed=True,
            coordinator_epoch=11,
            transaction_version=2,
        )
        keys = [TopicPartition("t", number) for number in partitions]
        await self.sender.write_all(
            end, keys, lambda done: self.reports.append([key.partition for key in done])
        )

    @property
    def reported(self) -> list[int]:
        return sorted(number for report in self.reports for number in report)

    def asked(self, broker: int) -> list[list[int]]:
        """The partitions in each request to a broker."""
        return [
            [
                number
                for marker in request.markers
                for topic in marker.topics
                for number in topic.partition_indexes
            ]
            for address, request in self.others.requests
            if address.host == f"broker-{broker}"
        ]


@on_a_loop
async def test_each_leader_writes_the_markers_of_its_partitions(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = Rig(monkeypatch)
    await rig.write(0, 1, 2, 3)
    assert rig.local.written == [("t", 0)]
    assert (rig.asked(2), rig.asked(3)) == ([[1, 3]], [[2]])
    assert rig.reported == [0, 1, 2, 3]
    (_, request), *_ = rig.others.requests
    (marker,) = request.markers
    assert (marker.producer_id, marker.producer_epoch, marker.transaction_result) == (7, 4, True)
    assert marker.coordinator_epoch == 11


@on_a_loop
async def test_a_transaction_without_partitions_is_done_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = Rig(monkeypatch)
    await rig.write()
    assert rig.reports == [[]]


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    ],
)
def test_a_refused_marker_is_sent_again_to_the_present_leader(
    monkeypatch: pytest.MonkeyPatch, code: ErrorCode
) -> None:
    @on_a_loop
    async def story() -> None:
        rig = Rig(monkeypatch)
        rig.codes[1] = code
        work = asyncio.ensure_future(rig.write(1, 3))
        await until(lambda: len(rig.asked(2)) > 2)
        assert rig.reported == [3], "the other partition is done"
        rig.image = cluster_image({"t": (1, 3, 3, 2)})
        rig.codes.clear()
        await work
        assert rig.asked(2)[0] == [1, 3]
        assert rig.asked(3) == [[1]]
        assert rig.reported == [1, 3]

    story()


@pytest.mark.parametrize("code", [ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT, ErrorCode.UNSUPPORTED_VERSION])
def test_a_partition_that_cannot_have_transactions_is_done(
    monkeypatch: pytest.MonkeyPatch, code: ErrorCode
) -> None:
    @on_a_loop
    async def story() -> None:
        rig = Rig(monkeypatch)
        rig.codes[1] = code
        await rig.write(1)
        assert rig.reported == [1]

    story()


@pytest.mark.parametrize("code", [ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.TRANSACTION_COORDINATOR_FENCED])
def test_a_newer_coordinator_or_producer_ends_the_work(
    monkeypatch: pytest.MonkeyPatch, code: ErrorCode
) -> None:
    @on_a_loop
    async def story() -> None:
        rig = Rig(monkeypatch)
        rig.codes[1] = code
        rig.local.code = ErrorCode.NOT_LEADER_OR_FOLLOWER  # it would be tried again for ever
        with pytest.raises(Overtaken, match=f"t-1 answered {code.name}"):
            await rig.write(0, 1)
        assert 1 not in rig.reported

    story()


@on_a_loop
async def test_a_partition_without_a_leader_waits_for_one(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = Rig(monkeypatch)
    rig.image = cluster_image({"t": (1, -1)})
    work = asyncio.ensure_future(rig.write(0, 1))
    await until(lambda: rig.reported == [0])
    rig.image = cluster_image({"t": (1, 3)})
    await work
    assert rig.asked(3) == [[1]]


@on_a_loop
async def test_a_deleted_partition_needs_no_marker(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = Rig(monkeypatch)
    rig.codes[1] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    work = asyncio.ensure_future(rig.write(0, 1))
    await until(lambda: rig.asked(2))
    rig.image = cluster_image({"u": LEADERS})
    await work
    assert rig.reported == [0, 1]


@on_a_loop
async def test_a_broker_that_hangs_does_not_delay_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = Rig(monkeypatch)
    rig.others.gate.clear()
    work = asyncio.ensure_future(rig.write(1, 0))
    await until(lambda: rig.reported == [0])
    rig.others.gate.set()
    await work


@on_a_loop
async def test_transactions_share_requests_but_not_if_their_producer_is_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rig = Rig(monkeypatch)
    rig.others.gate.clear()
    works = [asyncio.ensure_future(rig.write(1))]
    await until(lambda: rig.others.requests)
    works += [asyncio.ensure_future(rig.write(1, producer_id=each)) for each in (8, 9, 8)]
    await asyncio.sleep(0)
    rig.others.gate.set()
    await asyncio.gather(*works)
    sent = [[marker.producer_id for marker in request.markers] for _, request in rig.others.requests]
    assert sent == [[7], [8, 9], [8]]


@pytest.mark.parametrize("spoil", ["refuse", "age"])
def test_a_broker_that_cannot_be_asked_is_asked_again(monkeypatch: pytest.MonkeyPatch, spoil: str) -> None:
    @on_a_loop
    async def story() -> None:
        rig = Rig(monkeypatch)
        rig.others.refused = {Address("broker-2", 9000)} if spoil == "refuse" else set()
        rig.others.oldest = 1 if spoil == "age" else 0
        work = asyncio.ensure_future(rig.write(1))
        await until(lambda: rig.others.opened)
        await asyncio.sleep(0.01)
        assert not work.done() and not rig.reported
        rig.others.refused, rig.others.oldest = set(), 0
        await work
        assert rig.reported == [1]

    story()


@on_a_loop
async def test_a_stop_ends_the_work(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = Rig(monkeypatch)
    rig.others.gate.clear()
    work: asyncio.Future[None] = asyncio.ensure_future(rig.write(1))
    await until(lambda: rig.others.requests)
    work.cancel()
    await rig.remote.stop()
    with pytest.raises(asyncio.CancelledError):
        await work
    assert not rig.reports


@on_a_loop
async def test_a_request_has_a_limited_number_of_markers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(marker_sender, "PARTITIONS_PER_REQUEST", 2)
    rig = Rig(monkeypatch)
    rig.image = cluster_image({"t": (2, 2, 2, 2, 2)})
    await rig.write(0, 1, 2, 3, 4)
    assert rig.asked(2) == [[0, 1], [2, 3], [4]]
    assert rig.reported == [0, 1, 2, 3, 4]

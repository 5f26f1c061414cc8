"""The verification of a batch, while markers of the producer's last transaction arrive."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from kcli.config.dynamic import DynamicConfig
from kcli.config.topic import LogConfig
from kcli.errors import ErrorCode
from kcli.model.pace import no_pause
from kcli.model.topic_partition import TopicPartition
from kcli.protocol.batches.batch import Record, encode_batch
from kcli.server.coordinators.transaction_verification import TransactionalClient, TransactionVerifier
from kcli.server.partitions.leader_partition import LeaderPartition
from kcli.storage.log.producer_state import Verification
from rigs.data_path import BrokerRig, topic_image
from rigs.leader_appends import append_batch
from rigs.logs import marker_of
from rigs.loops import on_a_loop
from rigs.quorum import broker_config

PRODUCER_ID, EPOCH = 7, 3
Codes = dict[TopicPartition, ErrorCode]


class Coordinators:
    """Answers later, after `meanwhile`."""

    def __init__(self, *meanwhile: Callable[[], object]) -> None:
        self.meanwhile = list(meanwhile)
        self.asked = 0

    async def verify_or_add(
        self, _id: str, _producer_id: int, _epoch: int, partitions: Iterable[TopicPartition], *, add: bool
    ) -> Codes:
        self.asked += 1
        await asyncio.sleep(0)
        if self.meanwhile:
            self.meanwhile.pop(0)()
        return dict.fromkeys(partitions, ErrorCode.NONE)


def end_last_transaction(leader: LeaderPartition) -> None:
    leader.append_marker(
        marker_of(producer_id=PRODUCER_ID, producer_epoch=EPOCH, commit=True),
        now_ms=1_700_000_000_000,
        transaction_version=0,
    )


@pytest.mark.parametrize(("adds", "markers"), [(True, 0), (True, 1), (True, 2), (False, 1)])
def test_a_marker_that_comes_meanwhile_makes_the_leader_ask_again(
    tmp_path: Path, adds: bool, markers: int
) -> None:
    @on_a_loop
    async def story() -> None:
        broker = BrokerRig(tmp_path, topic_image("t"), config=LogConfig(segment_index_bytes=65536))
        leader = broker.replicas.get("t", 0)
        coordinators: Any = Coordinators(*[lambda: end_last_transaction(leader)] * markers)
        verifier = TransactionVerifier(DynamicConfig(broker_config()), broker.clock, coordinators)
        client = TransactionalClient(
            transactional_id="x",
            producer_id=PRODUCER_ID,
            producer_epoch=EPOCH,
            adds=adds,
            knows_abortable=True,
        )
        (verification,) = (await verifier.verify(client, [(leader, 0)], no_pause)).values()
        assert isinstance(verification, Verification)
        assert coordinators.asked == markers + 1
        batch = encode_batch(
            [Record(-1, 1_700_000_000_000, None, b"x")],
            producer_id=PRODUCER_ID,
            producer_epoch=EPOCH,
            base_sequence=0,
            transactional=True,
        )
        append_batch(leader, batch, acks=-1, now_ms=1_700_000_000_000, verification=verification)
        broker.logs.close()

    story()

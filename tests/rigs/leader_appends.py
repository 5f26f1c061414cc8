"""Appends a batch to a partition's leader, as Produce does."""

from __future__ import annotations

from kcli.model.buffers import Buffer
from kcli.server.partitions.leader_partition import LeaderPartition
from kcli.storage.log.log import AppendResult
from kcli.storage.log.producer_state import Verification
from kcli.storage.log.validation import CheckedBatch


def append_batch(
    leader: LeaderPartition,
    records: Buffer,
    *,
    acks: int,
    now_ms: int,
    verification: Verification | None = None,
) -> AppendResult:
    """Appends a batch that needs no thread. Raises KafkaError."""
    batch = leader.check_client_batch(records, acks=acks, now_ms=now_ms)
    assert isinstance(batch, CheckedBatch)
    return leader.append_checked(batch, now_ms=now_ms, verification=verification)

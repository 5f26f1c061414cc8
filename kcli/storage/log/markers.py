"""Reads the marker that ends a transaction in a partition."""

from __future__ import annotations

from dataclasses import dataclass

from kcli.errors import InvalidRecordException
from kcli.model.buffers import Buffer
from kcli.protocol.batches.batch import read_records
from kcli.protocol.batches.control import ControlType, EndTransactionMarker, control_type_of, decode_control


@dataclass(frozen=True, slots=True)
class TransactionEnd:
    """The end of a transaction, read from its control record."""

    commit: bool
    coordinator_epoch: int
    timestamp_ms: int


def read_marker(batch: Buffer) -> TransactionEnd | None:
    """Reads the marker in a control batch. Returns None if the batch has another type of control record."""
    record = next(iter(read_records(batch)), None)
    if record is None or control_type_of(record.key) not in (ControlType.ABORT, ControlType.COMMIT):
        return None
    try:
        control = decode_control(record.key, record.value)
    except InvalidRecordException:
        return None
    if not isinstance(control, EndTransactionMarker):
        return None
    return TransactionEnd(control.committed, control.coordinator_epoch, record.timestamp_ms)

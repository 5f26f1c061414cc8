"""Replays the batches of the metadata log into images. Metadata transactions take effect when they end (KIP-868).

The records between BeginTransaction and EndTransaction become visible together. AbortTransaction drops the records. An
unfinished transaction at the end of the log stays open until the next leader aborts it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from kcli.metadata.delta import MetadataDelta, MetadataLogError
from kcli.metadata.image import MetadataImage
from kcli.model.ids import LeaderEpoch, Offset
from kcli.protocol.records.metadata import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    EndTransactionRecord,
    MetadataRecord,
)


@dataclass(frozen=True, slots=True)
class ReplayPoint:
    """The result of a replay up to a batch: the image, and the records of the open transaction, or None without a
    transaction.

    A new replay can start at any such point. So if the records after a point are replaced in the log, only the new
    records are replayed.
    """

    image: MetadataImage
    transaction: tuple[MetadataRecord, ...] | None = None


class ImageReplayer:
    """Holds the newest image and the open transaction, if there is one. Call `replay` or `skip` for each batch, in log
    order."""

    def __init__(self, image: MetadataImage, transaction: tuple[MetadataRecord, ...] | None = None) -> None:
        self.image = image
        self._transaction = transaction

    @classmethod
    def at(cls, point: ReplayPoint) -> ImageReplayer:
        """Makes a replayer that continues from a point."""
        return cls(point.image, point.transaction)

    @property
    def point(self) -> ReplayPoint:
        return ReplayPoint(self.image, self._transaction)

    @property
    def in_transaction(self) -> bool:
        """Whether a transaction is open. While it is open, no snapshot may be written, because the image lacks records
        of the log."""
        return self._transaction is not None

    def replay(
        self, records: Iterable[MetadataRecord], *, last_offset: Offset, epoch: LeaderEpoch, timestamp_ms: int
    ) -> MetadataDelta | None:
        """Replays the batch that ends at `last_offset`. Returns the changes, or None while a transaction is open.

        If a transaction ends in the batch, its records and the rest of the batch form one delta.
        """
        delta = MetadataDelta(self.image)
        held = None if self._transaction is None else list(self._transaction)
        for record in records:
            match record:
                case BeginTransactionRecord():
                    if held is not None:
                        raise MetadataLogError("a metadata transaction begins inside another one")
                    if not delta.is_empty:
                        raise MetadataLogError("a metadata transaction begins in the middle of a batch")
                    held = []
                case EndTransactionRecord():
                    for held_record in _opened(held, "ends"):
                        delta.replay(held_record)
                    held = None
                case AbortTransactionRecord():
                    _opened(held, "is aborted")
                    held = None
                case _ if held is not None:
                    held.append(record)
                case _:
                    delta.replay(record)
        self._transaction = None if held is None else tuple(held)
        if held is not None:
            return None
        assert last_offset > self.image.offset, "the metadata log went back"
        self.image = delta.apply(last_offset, epoch, timestamp_ms)
        return delta

    def skip(self, last_offset: Offset, epoch: LeaderEpoch, timestamp_ms: int) -> None:
        """Moves the image past control records of the quorum. These records have offsets, but do not change the
        cluster."""
        if self._transaction is None:
            self.image = replace(self.image, offset=last_offset, epoch=epoch, timestamp_ms=timestamp_ms)


def _opened(held: list[MetadataRecord] | None, what: str) -> list[MetadataRecord]:
    if held is None:
        raise MetadataLogError(f"a metadata transaction {what} that never began")
    return held

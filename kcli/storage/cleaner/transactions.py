"""Tracks transactions for the cleaner: which batches were aborted, and which markers are no longer needed.

A marker must stay longer than the records of its transaction, because consumers need the marker to drop aborted
records. If a pass finds no records of the transaction, the pass sets a delete horizon for the marker. A pass after this
horizon drops the marker (KIP-534).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from kcli.model.ids import Offset, ProducerId
from kcli.protocol.batches.control import ControlType
from kcli.storage.log.transaction_index import AbortedTransaction


class CleanedTransactions:
    """Tracks the transactions in one pass. Call its methods for every transactional batch and every control batch, in
    offset order."""

    def __init__(self, aborted: Iterable[AbortedTransaction]) -> None:
        self._upcoming = deque(sorted(aborted, key=lambda entry: entry.first_offset))
        # By producer id: aborted transactions that the pass has entered, until it reaches their markers.
        self._aborted: dict[int, AbortedTransaction] = {}
        self._with_aborted_data: set[int] = set()
        self._with_committed_data: set[int] = set()

    def is_aborted(self, producer_id: ProducerId, last_offset: Offset) -> bool:
        """Whether the transaction of a batch was aborted, so that the batch can be dropped."""
        self._begin_until(last_offset)
        if producer_id in self._aborted:
            self._with_aborted_data.add(producer_id)
            return True
        self._with_committed_data.add(producer_id)
        return False

    def end(
        self, producer_id: ProducerId, last_offset: Offset, control_type: int | None
    ) -> tuple[bool, AbortedTransaction | None]:
        """Processes a control batch. `control_type` is None if an earlier pass has removed the control record. Returns
        whether the marker is no longer needed, and the entry for the transaction index or None. An entry is needed if
        this pass has found records of an aborted transaction."""
        self._begin_until(last_offset)
        match control_type:
            case ControlType.ABORT:
                aborted = self._aborted.pop(producer_id, None)
                has_data = producer_id in self._with_aborted_data
                self._with_aborted_data.discard(producer_id)
                return not has_data, aborted if has_data else None
            case ControlType.COMMIT:
                has_data = producer_id in self._with_committed_data
                self._with_committed_data.discard(producer_id)
                return not has_data, None
            case None:
                return True, None
            case _:
                return False, None

    def _begin_until(self, offset: Offset) -> None:
        while self._upcoming and self._upcoming[0].first_offset <= offset:
            entry = self._upcoming.popleft()
            self._aborted.setdefault(entry.producer_id, entry)

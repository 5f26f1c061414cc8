"""The cleaner's view of transactions: whose data was aborted, and which markers nothing depends on any more.

A marker must outlive the records of its transaction, because consumers drop aborted records by it. A pass that finds no
records of the transaction gives the marker a delete horizon. The marker goes after that horizon (KIP-534).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from kcli.model.ids import Offset, ProducerId
from kcli.protocol.batches.control import ControlType
from kcli.storage.log.transaction_index import AbortedTransaction


class CleanedTransactions:
    """The transactions of one pass. The caller passes every transactional or control batch, in offset order."""

    def __init__(self, aborted: Iterable[AbortedTransaction]) -> None:
        self._upcoming = deque(sorted(aborted, key=lambda entry: entry.first_offset))
        self._aborted: dict[
            int, AbortedTransaction
        ] = {}  # by producer id: begun, and its marker not reached yet
        self._with_aborted_data: set[int] = set()
        self._with_committed_data: set[int] = set()

    def is_aborted(self, producer_id: ProducerId, last_offset: Offset) -> bool:
        """Whether a transactional batch of records was aborted, and can go."""
        self._begin_until(last_offset)
        if producer_id in self._aborted:
            self._with_aborted_data.add(producer_id)
            return True
        self._with_committed_data.add(producer_id)
        return False

    def end(
        self, producer_id: ProducerId, last_offset: Offset, control_type: int | None
    ) -> tuple[bool, AbortedTransaction | None]:
        """Takes a control batch; `control_type` None: an earlier pass emptied it. Returns whether nothing depends on
        it, and the entry it needs in the transaction index if records of an aborted transaction are still there."""
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

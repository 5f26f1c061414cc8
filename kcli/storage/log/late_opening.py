"""Opens a batch with numpy. The first step imports numpy, so the start of the broker does not."""

from __future__ import annotations

from kcli.storage.log.validation import Opening, UnopenedBatch


def opening_of(batch: UnopenedBatch) -> Opening:
    """Checks the records, and encodes the batch again if it cannot be written as it is. May run in any thread."""
    # The import takes longer than a turn of the event loop.
    from kcli.storage.log.opening import open_batch

    return (yield from open_batch(batch))

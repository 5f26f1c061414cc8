"""Decompresses and reads a batch with numpy. The first step imports numpy, so that the start of the broker need not
import it."""

from __future__ import annotations

from kcli.storage.log.validation import Opening, UnopenedBatch


def opening_of(batch: UnopenedBatch) -> Opening:
    """Checks the records. If the batch cannot be written unchanged, encodes it again. May run in any thread."""
    # The import takes longer than a iteration of the event loop.
    from kcli.storage.log.opening import open_batch

    return (yield from open_batch(batch))

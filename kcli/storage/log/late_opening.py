"""Checks a batch with `opening`, which needs numpy. numpy is imported only at the first such check, so that the broker
starts faster."""

from __future__ import annotations

from kcli.storage.log.validation import Opening, UnopenedBatch


def opening_of(batch: UnopenedBatch) -> Opening:
    """Checks the records of a batch in steps. If the batch cannot be written unchanged, encodes it again. May run in
    any thread.
    """
    # The import takes longer than an iteration of the event loop.
    from kcli.storage.log.opening import open_batch

    return (yield from open_batch(batch))

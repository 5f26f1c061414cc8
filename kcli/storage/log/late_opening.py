"""Checks a batch that was not checked on the event loop. Large batches need numpy, which is imported only at the first
such batch, so that the broker starts faster."""

from __future__ import annotations

from kcli.storage.log.record_validation import examine
from kcli.storage.log.validation import CheckedBatch, Opening, UnopenedBatch, takes_long_to_write


def opening_of(batch: UnopenedBatch) -> Opening:
    """Checks the records of a batch in steps. If the batch cannot be written unchanged, encodes it again. May run in
    any thread.
    """
    if batch.is_untried:
        batch_survey = examine(batch.records, batch.header, batch.config, batch.now_ms, batch.topic_partition)
        if batch_survey is not None and not takes_long_to_write(batch.header, batch.config, batch_survey):
            return CheckedBatch(batch.records, batch.header, batch_survey)
        yield
    # The import takes longer than an iteration of the event loop.
    from kcli.storage.log.opening import open_batch

    return (yield from open_batch(batch))

"""The committed metadata of this node, and the functions that are called after each change (listeners)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from kcli.metadata.delta import MetadataDelta
from kcli.metadata.image import MetadataImage
from kcli.runtime.clock import Clock, SystemClock
from kcli.server.quorum.counts import LoaderTimes

_log = logging.getLogger("kcli.server.MetadataLoader")

MetadataListener = Callable[[MetadataDelta, MetadataImage], None]


class MetadataLoader:
    """Holds the newest committed `image`, and calls listeners with each change in the order of the log."""

    def __init__(self, image: MetadataImage, clock: Clock | None = None) -> None:
        """`image` is the empty image of the cluster. `clock` measures the times of the listeners."""
        self._clock = clock or SystemClock()
        self.image = image
        self._empty = image
        self._listeners: list[MetadataListener] = []
        self._loaded = asyncio.Event()
        self.times = LoaderTimes()
        self.snapshot_count = 0
        self.apply_errors = 0

    def subscribe(self, listener: MetadataListener) -> None:
        """Calls `listener(delta, image)` on the event loop after every commit that changes the metadata.

        A listener that subscribes before the metadata is loaded is first called with all metadata.
        """
        self._listeners.append(listener)

    def publish(self, delta: MetadataDelta | None, image: MetadataImage, records: int = 0) -> None:
        """Publishes a committed batch with this number of records. `delta` is None for control batches and open
        metadata transactions.

        No listener is called before `caught_up`, because the image is not up to date yet.
        """
        self.image = image
        if records:
            self.times.batch_records.add(records)
        if delta is not None and self.is_loaded:
            self._call_listeners(delta)

    @property
    def is_loaded(self) -> bool:
        return self._loaded.is_set()

    def caught_up(self) -> None:
        """Reports that the image has every record up to the high watermark.

        At the first call for an image with the bootstrap records, `loaded` returns, and listeners get the whole image
        as one change.
        """
        if not self.is_loaded and self.image.metadata_version > 0:
            self._loaded.set()
            if self._listeners:
                self._call_listeners(MetadataDelta.between(self._empty, self.image))

    async def loaded(self) -> None:
        """Returns when the image is the metadata of a cluster, up to the high watermark."""
        await self._loaded.wait()

    def _call_listeners(self, delta: MetadataDelta) -> None:
        if delta.is_empty:
            return
        began = self._clock.monotonic()
        for listener in self._listeners:
            try:
                listener(delta, self.image)
            except Exception:
                # The change stays committed, and the other listeners still need it.
                self.apply_errors += 1
                _log.exception("A listener failed on the metadata at offset %d", self.image.offset)
        self.times.batch_us.add((self._clock.monotonic() - began) * 1_000_000)

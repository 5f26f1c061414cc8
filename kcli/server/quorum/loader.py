"""The committed metadata of this node, and the listeners that follow it. Every node has one loader."""

from __future__ import annotations

import logging
from collections.abc import Callable

from kcli.metadata.delta import MetadataDelta
from kcli.metadata.image import MetadataImage

_log = logging.getLogger("kcli.server.MetadataLoader")

MetadataListener = Callable[[MetadataDelta, MetadataImage], None]


class MetadataLoader:
    """Holds the newest committed `image`, and calls listeners with each change in the order of the log."""

    def __init__(self, image: MetadataImage) -> None:
        self.image = image
        self._listeners: list[MetadataListener] = []

    def subscribe(self, listener: MetadataListener) -> None:
        """Calls `listener(delta, image)` on the event loop at every commit that changes something."""
        self._listeners.append(listener)

    def publish(self, delta: MetadataDelta | None, image: MetadataImage) -> None:
        """Publishes a committed batch. `delta` is None for control batches and open metadata transactions."""
        self.image = image
        if delta is None or delta.is_empty:
            return
        for listener in self._listeners:
            try:
                listener(delta, image)
            except Exception:
                # The change stays committed, and the other listeners still need it.
                _log.exception("A listener failed on the metadata at offset %d", image.offset)

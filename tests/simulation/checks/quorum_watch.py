"""Watches the metadata of all nodes of a simulated cluster, and raises AssertionError for a broken promise.

These promises must hold at every moment of a run. An epoch has one leader and one active controller, and the leader has
every committed batch. The epoch and the metadata of a node never go back during one life, the time from a start of the
node to its end. A broker gets a higher broker epoch in each life. A batch below the high watermark never changes, on
any node and in any life. Two nodes whose images have the same offset have the same image.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from zlib import crc32

from kcli.metadata.image import MetadataImage
from kcli.model.ids import NO_OFFSET, Offset
from kcli.protocol.batches.batch import iter_batches
from kcli.server.node import Node
from kcli.storage.log.log import PartitionLog

READ_BYTES = 1 << 20
IMAGES_MAX = 2_000
"""The number of newest images that are kept for comparisons. The image of a node that is further behind is not
compared."""


@dataclass(slots=True)
class _Seen:
    """What was already checked in one life of a node, the time from a start of the node to its end."""

    epoch: int = -1
    checked_to: Offset = NO_OFFSET
    image: MetadataImage | None = None


@dataclass(slots=True)
class QuorumWatch:
    """Collects the committed metadata of a cluster from all nodes, and compares it."""

    leaders: dict[int, int] = field(default_factory=dict)
    """The leader of each epoch."""
    batches: dict[int, tuple[int, int]] = field(default_factory=dict)
    """The end offset and the checksum of each committed batch, by its base offset."""
    images: dict[int, MetadataImage] = field(default_factory=dict)
    compared_images: int = 0
    newest_epoch: int = -1
    """The newest epoch that any node knows."""
    committed_to: Offset = NO_OFFSET
    """The highest high watermark of any node."""
    broker_epochs: dict[int, int] = field(default_factory=dict)
    """The newest epoch of each broker."""
    _seen: dict[Node, _Seen] = field(default_factory=dict)

    def check(self, node: Node) -> None:
        """Checks one running node. Call this method after every iteration of the event loop."""
        seen = self._seen.get(node)
        if seen is None:
            seen = self._seen[node] = _Seen()
            self._check_broker_epoch(node)
        self._check_epoch(node, seen)
        self._check_log(node, seen)
        self._check_image(node, seen)

    def _check_broker_epoch(self, node: Node) -> None:
        if node.broker is not None:
            node_id, epoch = node.config.node_id, node.broker.lifecycle.epoch
            before = self.broker_epochs.get(node_id, -1)
            assert epoch > before, f"the epoch {epoch} of broker {node_id} follows {before}"
            self.broker_epochs[node_id] = epoch

    def _check_epoch(self, node: Node, seen: _Seen) -> None:
        view = node.quorum.view
        assert view.epoch >= seen.epoch, f"node {node.config.node_id} went back from epoch {seen.epoch}"
        seen.epoch = view.epoch
        self.newest_epoch = max(self.newest_epoch, view.epoch)
        if view.is_leader or (node.controller is not None and node.controller.is_active):
            self._leads(node.config.node_id, view.epoch)
        # A former leader that is cut off does not know yet that other nodes have committed more.
        if view.is_leader and view.epoch == self.newest_epoch:
            end = node.quorum.log.end_offset
            assert end >= self.committed_to, (
                f"node {node.config.node_id} leads epoch {view.epoch} with metadata before {end}, "
                f"{self.committed_to} is committed"
            )

    def _leads(self, node_id: int, epoch: int) -> None:
        known = self.leaders.setdefault(epoch, node_id)
        assert known == node_id, f"epoch {epoch} has the leaders {known} and {node_id}"

    def _check_log(self, node: Node, seen: _Seen) -> None:
        known_watermark = node.quorum.view.high_watermark
        if known_watermark <= seen.checked_to:
            return
        log = node.quorum.log.log
        high_watermark = min(Offset(known_watermark), log.log_end_offset)
        start = max(seen.checked_to, log.log_start_offset)
        if high_watermark <= start or log.directory.error is not None:
            return
        for base_offset, next_offset, checksum in _batches(log, start, high_watermark):
            known = self.batches.setdefault(base_offset, (next_offset, checksum))
            assert known == (next_offset, checksum), (
                f"the committed batch at {base_offset} is another one on node {node.config.node_id}"
            )
        seen.checked_to = high_watermark
        self.committed_to = max(self.committed_to, high_watermark)

    def _check_image(self, node: Node, seen: _Seen) -> None:
        image = node.metadata
        if image is seen.image or not node.loader.is_loaded:
            return
        assert seen.image is None or image.offset >= seen.image.offset, (
            f"the metadata of node {node.config.node_id} went back from {seen.image.offset} to {image.offset}"
        )
        seen.image = image
        known = self.images.setdefault(image.offset, image)
        if known is not image:
            self.compared_images += 1
            assert known == image, f"node {node.config.node_id} has another image at offset {image.offset}"
        while len(self.images) > IMAGES_MAX:
            del self.images[next(iter(self.images))]


def _batches(log: PartitionLog, start: Offset, end: Offset) -> list[tuple[int, int, int]]:
    """Returns (base offset, next offset, checksum of all bytes) of each batch from `start` up to `end` (exclusive)."""
    found: list[tuple[int, int, int]] = []
    while start < end:
        content = log.read(start, READ_BYTES, end_offset=end).read()
        assert content, f"the log ends at {log.log_end_offset} and the high watermark is {end}"
        for position, header in iter_batches(content):
            if header.last_offset < start:
                continue
            whole = content[position : position + header.size_bytes]
            found.append((header.base_offset, header.next_offset, crc32(whole)))
            start = header.next_offset
    return found

"""A partition that a fetch reads, and the last values of the partition that the client got."""

from __future__ import annotations

import uuid
from dataclasses import dataclass

from kcli.protocol.messages.fetch import FetchPartition

Key = tuple[uuid.UUID | str | None, int]
"""A partition with its topic id (v13+) or its topic name, as the request contains it."""


@dataclass(slots=True, eq=False)
class FetchTarget:
    """One partition to read. The request has either `topic_id` (v13+) or `topic`."""

    topic_id: uuid.UUID | None
    topic: str
    wants: FetchPartition
    # The last values that the client of a session got. -1 means that the partition must be sent again.
    told_high_watermark: int = -1
    told_log_start_offset: int = -1

    @property
    def key(self) -> Key:
        return (self.topic_id or self.topic, self.wants.partition)

"""The input of the assignors for one member."""

from __future__ import annotations

import uuid
from dataclasses import dataclass

from kcli.coordinator.group.consumer.state.assignment import Assignment


@dataclass(frozen=True, slots=True)
class Subscriber:
    """A member of the group. `topic_ids` are the ids of the existing topics to which the member subscribes. `assigned`
    has the partitions of the member's present target."""

    instance_id: str | None
    topic_ids: tuple[uuid.UUID, ...]
    assigned: Assignment

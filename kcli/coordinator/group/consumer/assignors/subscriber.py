"""A member as the assignors see it."""

from __future__ import annotations

import uuid
from dataclasses import dataclass

from kcli.coordinator.group.consumer.state.assignment import Assignment


@dataclass(frozen=True, slots=True)
class Subscriber:
    """`topic_ids`: of the existing topics that it subscribes; `assigned`: its present target."""

    instance_id: str | None
    topic_ids: tuple[uuid.UUID, ...]
    assigned: Assignment

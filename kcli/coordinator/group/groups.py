"""The groups of a shard, of whatever protocol."""

from __future__ import annotations

from kcli.coordinator.group.classic.group import ClassicGroup
from kcli.coordinator.group.consumer.state.group import ConsumerGroup
from kcli.coordinator.group.other.group import OtherGroup

Group = ClassicGroup | ConsumerGroup | OtherGroup
Groups = dict[str, Group]
"""By group id. Shared by the parts of a shard."""

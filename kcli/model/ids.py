"""The numbers that name things in Kafka, each a type of its own, and the values that stand for none.

An offset counts records of a partition; a position counts bytes of a file. mypy refuses one for the other.
"""

from __future__ import annotations

import uuid
from typing import NewType

Offset = NewType("Offset", int)
Position = NewType("Position", int)
LeaderEpoch = NewType("LeaderEpoch", int)
BrokerId = NewType("BrokerId", int)
ProducerId = NewType("ProducerId", int)

NO_OFFSET = Offset(-1)
NO_TIMESTAMP = -1
"""The timestamp of a record that has none, in milliseconds."""
NO_LEADER = BrokerId(-1)
"""The leader of a partition without one."""
NO_LEADER_EPOCH = LeaderEpoch(-1)
NO_PRODUCER_ID = ProducerId(-1)
NO_PRODUCER_EPOCH = -1
NO_SEQUENCE = -1
ZERO_ID = uuid.UUID(int=0)
"""The directory or topic id that stands for none, or for any."""

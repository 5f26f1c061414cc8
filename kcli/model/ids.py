"""The numbers that name things in Kafka, each a type of its own, and the values that mean "none".

An offset counts the records of a partition; a position counts the bytes of a file. mypy refuses one in place of the
other. A sum or a difference is a plain int again, and so are the fields of generated messages: wrap such a number once,
where it enters (`Offset(part.fetch_offset)`). A call costs 80 ns, so it has no place in a loop over records.
"""

from __future__ import annotations

import uuid
from typing import NewType

Offset = NewType("Offset", int)
Position = NewType("Position", int)
LeaderEpoch = NewType("LeaderEpoch", int)
BrokerId = NewType("BrokerId", int)
"""The `node.id` of a broker or of a controller."""
ProducerId = NewType("ProducerId", int)

NO_OFFSET = Offset(-1)
FIRST_OFFSET = Offset(0)
NO_TIMESTAMP = -1
"""The timestamp of a record that has none, in milliseconds."""
NO_LEADER = BrokerId(-1)
"""The leader of a partition that has no leader."""
NO_LEADER_EPOCH = LeaderEpoch(-1)
FIRST_LEADER_EPOCH = LeaderEpoch(0)
NO_PRODUCER_ID = ProducerId(-1)
FIRST_PRODUCER_ID = ProducerId(0)
NO_PRODUCER_EPOCH = -1
NO_SEQUENCE = -1
ZERO_ID = uuid.UUID(int=0)
"""The directory or topic id that means none, or any."""

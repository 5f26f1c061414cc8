"""A type for each kind of number in Kafka (ids, offsets, epochs), and the special values that mean "none".

An offset counts the records of a partition. A position counts the bytes of a file. If an offset is used in place of a
position, mypy reports an error. The sum or difference of two such numbers is a plain int. The fields of generated
messages are plain ints too. Convert such a field once, for example `Offset(part.fetch_offset)`. A conversion takes 80
ns, so do not convert in a loop over records.
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
MAX_OFFSET = Offset((1 << 63) - 1)
"""The largest offset, because offsets in requests and files have 64 bits."""
NO_TIMESTAMP = -1
"""The value in the timestamp field of a record that has no timestamp."""
NO_LEADER = BrokerId(-1)
"""The value of a partition's leader if the partition has no leader."""
NO_BROKER_EPOCH = -1
"""The epoch of a broker whose epoch is not known, or of a request that contains no epoch."""
NO_LEADER_EPOCH = LeaderEpoch(-1)
FIRST_LEADER_EPOCH = LeaderEpoch(0)
NO_PRODUCER_ID = ProducerId(-1)
FIRST_PRODUCER_ID = ProducerId(0)
NO_PRODUCER_EPOCH = -1
NO_SEQUENCE = -1
ZERO_ID = uuid.UUID(int=0)
"""The directory id or topic id that means "none" or "any"."""

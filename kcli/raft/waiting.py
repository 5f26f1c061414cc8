"""The requests that wait for the leader: Fetch requests at the end of the log, and one change of the voters."""

from __future__ import annotations

from dataclasses import dataclass, field

from kcli.model.ids import Offset
from kcli.raft.requests import FetchRequest
from kcli.raft.voters import Voter


@dataclass(frozen=True, slots=True)
class ParkedFetch:
    """A Fetch that waits at the end of the log. The leader answers it when there are new records, or without records at
    `deadline`."""

    request: FetchRequest
    deadline: float


@dataclass(frozen=True, slots=True)
class PendingChange:
    """A requested change of the voters that is not answered yet. `offset`: the offset of its record, or None while the
    leader waits for the versions of a new voter."""

    token: int
    voter: Voter | None
    deadline: float
    offset: Offset | None = None


@dataclass(slots=True)
class Waiting:
    """`fetches` has the Fetch requests by their tokens. Only one change may wait at a time."""

    fetches: dict[int, ParkedFetch] = field(default_factory=dict)
    change: PendingChange | None = None

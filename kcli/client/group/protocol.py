"""The interface between a membership and the protocol that is embedded in its requests.

The coordinator of a classic group treats metadata and assignments as bytes. Their content depends on the protocol type:
`consumer` for consumers, `connect` for the workers of Kafka Connect, `sr` for the nodes of a schema registry.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

NO_GENERATION = -1
"""The generation of a member that is not in the group (Java's Generation.NO_GENERATION)."""


@dataclass(frozen=True, slots=True)
class Generation:
    """The generation that a member belongs to. Commits of offsets contain `id` and `member_id`."""

    id: int = NO_GENERATION
    member_id: str = ""
    protocol_name: str = ""


NOT_A_MEMBER = Generation()


@dataclass(frozen=True, slots=True)
class JoinedMember:
    """A member as its leader sees it. `metadata` is the metadata for the protocol that the coordinator has chosen."""

    member_id: str
    group_instance_id: str | None
    metadata: bytes


class EmbeddedProtocol(Protocol):
    """Decides about the embedded bytes, and owns what is assigned to this member.

    The calls come one after another. While a coroutine runs, the member sends heartbeats but does not join again. So a
    coroutine may take as long as the session lasts, and `revoked` as long as the rebalance timeout.
    """

    @property
    def protocol_type(self) -> str: ...

    def metadata(self) -> Sequence[tuple[str, bytes]]:
        """Returns name and metadata of each supported protocol, the preferred protocol first.

        The member calls this before each JoinGroup.
        """
        ...

    async def assign(self, leader: Generation, members: Sequence[JoinedMember]) -> Mapping[str, bytes]:
        """Returns the assignment of each member id. Only the leader of the generation calls this."""
        ...

    async def assigned(self, generation: Generation, assignment: bytes) -> bool:
        """Takes over the assignment of a generation. Returns whether the member must join again immediately.

        An incremental protocol must join again after it has given up what another member is to get (KIP-429).
        """
        ...

    async def revoked(self, *, everything: bool) -> None:
        """Gives up what the member may not own during the next rebalance, or `everything` before the member leaves."""
        ...

    async def lost(self) -> None:
        """Drops everything without a commit, because other members may own it already."""
        ...

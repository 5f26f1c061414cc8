"""An administrator of a simulated quorum, who removes voters and adds them again (KIP-853)."""

from __future__ import annotations

import asyncio
import uuid
from typing import Any

from kcli.errors import ErrorCode
from kcli.protocol.messages.add_raft_voter import AddRaftVoterRequest, Listener
from kcli.protocol.messages.remove_raft_voter import RemoveRaftVoterRequest
from kcli.protocol.wire.api import ApiKey
from kcli.storage.meta_properties import read_meta_properties
from simulation.actors.client import TROUBLE, Client, World
from simulation.world.cluster import CLUSTER_ID, CONTROLLER_PORT, DATA, SimNode

LIMIT_S = 60.0
"""The time limit of a change. A new voter first reads all metadata."""
TIMEOUT_MS = 8_000


class VoterChanges:
    """Sends the requests to any broker, and repeats them until the change is done."""

    def __init__(self, world: World) -> None:
        self._client = Client(world, "administrator of voters")

    async def remove(self, node: SimNode) -> None:
        """Removes a voter. Raises AssertionError if this takes longer than LIMIT_S."""
        request = RemoveRaftVoterRequest(
            cluster_id=CLUSTER_ID, voter_id=node.node_id, voter_directory_id=_directory_id(node)
        )
        await self._ask(request, ApiKey.REMOVE_RAFT_VOTER, ErrorCode.VOTER_NOT_FOUND)
        self._client.note(f"{node.name} is no voter any more")

    async def add(self, node: SimNode) -> None:
        """Adds a node as a voter. Raises AssertionError if this takes longer than LIMIT_S."""
        request = AddRaftVoterRequest(
            cluster_id=CLUSTER_ID,
            timeout_ms=TIMEOUT_MS,
            voter_id=node.node_id,
            voter_directory_id=_directory_id(node),
            listeners=(Listener(name="CONTROLLER", host=node.name, port=CONTROLLER_PORT),),
        )
        await self._ask(request, ApiKey.ADD_RAFT_VOTER, ErrorCode.DUPLICATE_VOTER)
        self._client.note(f"{node.name} is a voter")

    async def _ask(self, request: object, key: ApiKey, done_before: ErrorCode) -> None:
        """Sends a request, and repeats it until it succeeds. The answer `done_before` also counts as a success: an
        earlier request was carried out, but its answer was lost."""
        last: Any = None
        end = self._client.world.cluster.loop.time() + LIMIT_S
        while self._client.world.cluster.loop.time() < end:
            try:
                last = await self._client.ask(self._client.any_broker(), request, key)
                if last.error_code in (ErrorCode.NONE, done_before):
                    return
            except TROUBLE as error:
                last = error
            await asyncio.sleep(0.5)
        raise AssertionError(f"the voters could not be changed: {request}, last {last!r}")


def _directory_id(node: SimNode) -> uuid.UUID:
    properties = read_meta_properties(node.disk, DATA)
    assert properties is not None and properties.directory_id is not None
    return properties.directory_id

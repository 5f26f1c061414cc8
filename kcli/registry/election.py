"""The membership of a registry in its group, and which registry leads (protocol type `sr`).

A registry writes only while it is sure that it leads: not during a rebalance, and not shortly before its session could
end. A new leader first reads the topic to its end, in `take_over`. Before a leader lets the group choose another one,
it waits until its writes have ended, in `give_up`.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Mapping, Sequence
from typing import Protocol

from kcli.client.client import Client
from kcli.client.group.member import Member
from kcli.client.group.protocol import Generation, JoinedMember
from kcli.client.group.requests import GroupSettings
from kcli.errors import KafkaError, KcliError
from kcli.registry.config.settings import ElectionSettings
from kcli.registry.decisions.leadership import (
    DUPLICATE_URLS,
    NO_ERROR,
    PROTOCOL_NAME,
    PROTOCOL_TYPE,
    Assignment,
    Identity,
    InvalidMetadata,
    decode_assignment,
    decode_identity,
    elect,
    encode_assignment,
    encode_identity,
)
from kcli.runtime import log_text
from kcli.runtime.rng import Rng

_log = logging.getLogger("kcli.registry.election")

RETRY_SECONDS = 1.0
"""The pause before another attempt to join the group or to take over, so that a broken cluster is not flooded."""

DUPLICATES = (
    "The schema registry group contains several members that advertise the same URL, so that no member leads. Give "
    "each instance its own URL that the others can reach, with host.name and listeners."
)
NO_ELIGIBLE = (
    "No leader eligible schema registry instances joined the schema registry group. Rebalancing was successful and "
    "this instance can serve reads, but no writes can be processed."
)


class Transfer(Protocol):
    """The two ends of a leadership."""

    async def take_over(self) -> None:
        """Reads the topic to its end. This registry accepts writes when the coroutine has returned."""
        ...

    async def give_up(self) -> None:
        """Waits until the writes of this registry have ended."""
        ...


class Election:
    """Joins the group in `run`. `client` serves only this membership."""

    def __init__(
        self,
        client: Client,
        settings: ElectionSettings,
        identity: Identity,
        transfer: Transfer,
        rng: Rng | None = None,
    ) -> None:
        self.identity = identity
        self.node_count = 0
        """The number of registries in the group, which only the leader of the Kafka group knows."""
        self.leader: Identity | None = None
        """The registry that leads, or None if it is not known."""
        self._client = client
        self._settings = settings
        self._transfer = transfer
        self._rng = rng
        self._member: Member | None = None
        self._leads = False
        self._has_joined = False
        self._stopping = False
        self._changes = asyncio.Condition()
        self._taking_over: asyncio.Task[None] | None = None

    # Who leads.

    @property
    def leads(self) -> bool:
        """Whether this registry may write now. It stops to write before its session can end without its knowledge."""
        if not self._leads or self._member is None:
            return False
        since_s = self._member.coordinator_silent_since
        end_s = None if since_s is None else since_s + self._settings.lease_ms / 1000
        return end_s is None or asyncio.get_running_loop().time() < end_s

    async def wait_for_leader(
        self, timeout_s: float, *, other_than: Identity | None = None
    ) -> Identity | None:
        """Returns the leader, which may be this registry, or None if none is known in this time."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s), self._changes:
                await self._changes.wait_for(lambda: self._known_leader(other_than) is not None)
        return self._known_leader(other_than)

    def _known_leader(self, other_than: Identity | None) -> Identity | None:
        if self.leads:
            return self.identity
        leader = self.leader
        if leader is None or leader.text in (self.identity.text, other_than and other_than.text):
            return None
        return leader

    async def joined(self) -> None:
        """Returns when the registry has joined the group for the first time."""
        async with self._changes:
            await self._changes.wait_for(lambda: self._has_joined)

    # The membership.

    async def run(self) -> None:
        """Stays in the group until `stop`. Raises the error of the first attempt to join if it is final."""
        while not self._stopping:
            protocol = _RegistryProtocol(self)
            self._member = Member(self._client, self._group_settings(), protocol, self._rng)
            try:
                await self._member.run()
            except Exception as error:
                if not self._has_joined and isinstance(error, KafkaError) and not error.retriable:
                    raise
                _log.error("The membership in group %s has ended: %s", self._settings.group_id, error)
            finally:
                await self._set(None, leads=False)
            if not self._stopping:
                await asyncio.sleep(RETRY_SECONDS)

    async def stop(self) -> None:
        """Leaves the group, after the writes of this registry have ended."""
        self._stopping = True
        if self._member is not None:
            await self._member.leave("the registry stops")

    def _group_settings(self) -> GroupSettings:
        settings, config = self._settings, self._client.config
        return GroupSettings(
            group_id=settings.group_id,
            session_timeout_ms=settings.session_timeout_ms,
            heartbeat_interval_ms=settings.heartbeat_interval_ms,
            rebalance_timeout_ms=settings.rebalance_timeout_ms,
            request_timeout_ms=config.request_timeout_ms,
            retry_backoff_ms=config.retry_backoff_ms,
            retry_backoff_max_ms=config.retry_backoff_max_ms,
        )

    # What the protocol reports.

    def choose(self, members: Sequence[JoinedMember]) -> Mapping[str, bytes]:
        """Elects the leader for all members of the group."""
        identities = {}
        for member in members:
            try:
                identities[member.member_id] = decode_identity(member.metadata)
            except InvalidMetadata as error:
                # Any client may join the group, and must not stop the registries by this.
                _log.warning("Member %s cannot lead: %s", log_text.name(member.member_id), error)
        self.node_count = len(identities)
        assignment = encode_assignment(elect(identities, sticky=self._settings.is_sticky))
        return {member.member_id: assignment for member in members}

    async def assigned(self, member_id: str, assignment: Assignment) -> None:
        is_chosen = assignment.error == NO_ERROR and assignment.member_id == member_id
        self.identity = self.identity.as_leader(is_chosen and self._settings.is_sticky)
        if assignment.error != NO_ERROR:
            is_known = assignment.error == DUPLICATE_URLS
            _log.error("%s", DUPLICATES if is_known else f"The election has the error {assignment.error}.")
            await self._set(None, leads=False, has_joined=True)
        elif assignment.identity is None:
            _log.warning("%s", NO_ELIGIBLE)
            await self._set(None, leads=False, has_joined=True)
        elif is_chosen:
            # The take-over must not delay heartbeats and rebalances, so it is a task of its own.
            self._taking_over = asyncio.create_task(self._take_over())
        else:
            _log.info("The leader is %s", assignment.identity.url)
            await self._set(assignment.identity, leads=False, has_joined=True)

    async def _take_over(self) -> None:
        _log.info("This registry becomes the leader")
        while True:
            try:
                await self._transfer.take_over()
                break
            except (KcliError, OSError) as error:
                _log.error("This registry cannot read the topic to become the leader: %s", error)
                await asyncio.sleep(RETRY_SECONDS)
        _log.info("This registry is the leader")
        await self._set(self.identity, leads=True, has_joined=True)

    async def revoked(self) -> None:
        await self._set(None, leads=False)
        await self._transfer.give_up()

    async def lost(self) -> None:
        # The group may have another leader meanwhile, which then remains the leader.
        self.identity = self.identity.as_leader(False)
        await self._set(None, leads=False)

    async def _set(self, leader: Identity | None, *, leads: bool, has_joined: bool = False) -> None:
        if not leads and self._taking_over is not None:
            self._taking_over.cancel()
            await asyncio.gather(self._taking_over, return_exceptions=True)
            self._taking_over = None
        async with self._changes:
            self.leader, self._leads = leader, leads
            self._has_joined = self._has_joined or has_joined
            self._changes.notify_all()


class _RegistryProtocol:
    """The embedded protocol of one membership."""

    protocol_type = PROTOCOL_TYPE

    def __init__(self, election: Election) -> None:
        self._election = election

    def metadata(self) -> Sequence[tuple[str, bytes]]:
        return [(PROTOCOL_NAME, encode_identity(self._election.identity))]

    async def assign(self, leader: Generation, members: Sequence[JoinedMember]) -> Mapping[str, bytes]:
        return self._election.choose(members)

    async def assigned(self, generation: Generation, assignment: bytes) -> bool:
        await self._election.assigned(generation.member_id, decode_assignment(assignment))
        return False

    async def revoked(self, *, everything: bool) -> None:
        await self._election.revoked()

    async def lost(self) -> None:
        await self._election.lost()

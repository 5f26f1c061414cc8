"""The membership of a worker in its group, with the protocol type `connect`.

The worker keeps its assignment during an incremental rebalance. If the group may have given its work to others, because
the coordinator was silent for a whole session or does not know the worker any more, the worker stops its work at once.
It still claims the work when it joins again. So a worker that was away for a moment gets its work back, without the
delay for lost workers. Work that other workers have got meanwhile is taken from both before one of them gets it.
"""

from __future__ import annotations

import asyncio
import dataclasses
import logging
import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from kcli.client.client import Client
from kcli.client.group.member import Member
from kcli.client.group.protocol import NO_GENERATION, Generation, JoinedMember
from kcli.client.group.requests import GroupSettings
from kcli.connect.decisions.assignment import IncrementalAssignor
from kcli.connect.decisions.config_state import ConfigState
from kcli.connect.decisions.leader import Leader, Round, with_kept_work
from kcli.connect.decisions.protocol import (
    EAGER,
    OFFERS,
    PROTOCOL_TYPE,
    SESSIONED,
    VERSIONS,
    ExtendedAssignment,
    WorkerState,
    connectors_of,
    decode_assignment,
    decode_metadata,
    encode_assignment,
    encode_metadata,
    tasks_of,
)
from kcli.connect.herders.group import GroupAssignment, WorkListener
from kcli.connect.model import TaskId
from kcli.connect.stores.store import ConfigStore
from kcli.errors import CorruptRecordError, KcliError
from kcli.runtime.rng import Rng

_log = logging.getLogger("kcli.connect.membership")

LEASE_CHECKS_PER_HEARTBEAT = 3
"""A lease is prolonged soon after an answer, so that a busy event loop has almost all of the lease for the next one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerGroup:
    """The settings of a worker in its group. `protocol` is the value of connect.protocol."""

    group: GroupSettings
    url: str
    protocol: str = "sessioned"
    max_delay_ms: int = 300_000
    """scheduled.rebalance.max.delay.ms"""
    sync_timeout_ms: int = 3_000
    """worker.sync.timeout.ms: how long a leader reads configurations that another member has read already."""

    @property
    def lease_s(self) -> float:
        """The time after an answer of the coordinator for which a worker owns its work: a little less than a session,
        because the coordinator then removes the worker from the group."""
        return max(self.group.session_timeout_ms - self.group.heartbeat_interval_ms, 0) / 1000


class WorkerProtocol:
    """The embedded protocol of one worker: its metadata, its assignment, and its decisions as the leader."""

    protocol_type = PROTOCOL_TYPE

    def __init__(
        self,
        settings: WorkerGroup,
        configs: ConfigStore,
        leader: Leader,
        listener: WorkListener,
        now_ms: Callable[[], int],
    ) -> None:
        """`now_ms` never goes back."""
        self.assignment: ExtendedAssignment | None = None
        """The whole work of this worker, or the work that it claims while it is out of the group."""
        self.owners: Mapping[TaskId, str] = {}
        """The URLs of the owners of all work, if this worker has made the assignments of the present generation."""
        self.name = OFFERS[settings.protocol][0]
        """The protocol of the last generation, or before it, the preferred protocol of this worker."""
        self.member_id = ""
        """The member id in the last generation."""
        self._settings = settings
        self._configs = configs
        self._listener = listener
        self._now_ms = now_ms
        self._state: ConfigState = configs.state
        self._leader = leader
        self._last_generation = NO_GENERATION
        self._lost_ms: int | None = None
        """The time at which the worker fell out of the group, if it has stopped its work because of this."""
        self.lease_end_s = math.inf
        """The end of the last lease, or infinity without a lease."""
        self._calls = asyncio.Lock()

    @property
    def is_leader(self) -> bool:
        """Whether this worker leads the group. A leader leads during a rebalance too, because it writes the
        configurations."""
        return self.assignment is not None and self.assignment.leader == self.member_id

    # The embedded protocol.

    def metadata(self) -> Sequence[tuple[str, bytes]]:
        self.owners = {}
        self._state = self._configs.state
        if self._lost_ms is not None and (self.is_leader or self._is_too_late(self._lost_ms)):
            self.assignment = None
        state = WorkerState(self._settings.url, self._state.offset, self.assignment)
        return [(name, encode_metadata(state, VERSIONS[name])) for name in OFFERS[self._settings.protocol]]

    def _is_too_late(self, lost_ms: int) -> bool:
        """Whether other workers have got the work of this worker for certain."""
        return self._now_ms() - lost_ms > self._settings.max_delay_ms

    async def assign(self, leader: Generation, members: Sequence[JoinedMember]) -> Mapping[str, bytes]:
        version = VERSIONS[leader.protocol_name]
        round = Round(
            leader.id,
            self._last_generation,
            leader.protocol_name,
            leader.member_id,
            dict(_readable(members)),
        )
        if self._state.offset < round.config_offset:
            await self._catch_up(round.config_offset)
        outcome = self._leader.assign(round, self._state, self._now_ms())
        self.owners = outcome.owners
        return {
            member: encode_assignment(assignment, version)
            for member, assignment in outcome.assignments.items()
        }

    async def _catch_up(self, offset: int) -> None:
        """Reads the config topic to the offset that another member has read."""
        if self._configs.state.offset < offset:
            try:
                async with asyncio.timeout(self._settings.sync_timeout_ms / 1000):
                    await self._configs.refresh()
            except (KcliError, OSError) as error:  # a TimeoutError is an OSError
                _log.warning("The leader cannot read the configurations that other workers have: %s", error)
        self._state = self._configs.state

    async def assigned(self, generation: Generation, assignment: bytes) -> bool:
        async with self._calls:
            new = decode_assignment(assignment)
            was_eager, self.name = self.name == EAGER, generation.protocol_name
            revoked = self._revoked_by(new, was_eager=was_eager)
            if revoked:
                await self._listener.revoked(connectors_of(revoked), tasks_of(revoked))
            if self.name != EAGER:
                new = with_kept_work(new, self.assignment)
            self.assignment = dataclasses.replace(new, revoked=())
            self.member_id, self._last_generation = generation.member_id, generation.id
            self._lost_ms = None
            self.renew_lease(self._now_ms() / 1000 + self._settings.lease_s)
            await self._listener.assigned(_for_herder(new), generation.id)
            return False  # the herder joins again after it has started the rest of its work

    def _revoked_by(self, new: ExtendedAssignment, *, was_eager: bool) -> Sequence[TaskId]:
        """The work that this worker must stop before it takes the new assignment."""
        if self.name != EAGER:
            return new.revoked
        # A worker that can only do eager rebalances has joined. The others still run what they had before.
        before = () if self.assignment is None or was_eager else self.assignment.assigned
        return [id for id in before if id not in set(new.assigned)]

    async def revoked(self, *, everything: bool) -> None:
        async with self._calls:
            if everything or self.name == EAGER:
                await self._revoke_all()
            if everything:
                self.assignment = None

    async def _revoke_all(self) -> None:
        assignment = self.assignment
        if assignment is not None and self._lost_ms is None:
            await self._listener.revoked(assignment.connectors, assignment.tasks)

    async def lost(self) -> None:
        await self.fall_out(self._now_ms())

    async def fall_out(self, lost_ms: int) -> None:
        """Stops all work, because the worker is out of the group since `lost_ms`."""
        async with self._calls:
            if self.assignment is not None and self._lost_ms is None:
                _log.warning("This worker has fallen out of its group, and stops its work")
                await self._revoke_all()
                self._lost_ms = lost_ms
            self.lease_end_s = math.inf

    def renew_lease(self, end_s: float) -> None:
        """Half a heartbeat interval is left to the end of the session, and half is for a graceful stop of tasks."""
        self.lease_end_s = end_s
        self._listener.lease(end_s + self._settings.group.heartbeat_interval_ms / 2 / 1000)


def _readable(members: Sequence[JoinedMember]) -> list[tuple[str, WorkerState]]:
    """The members whose metadata is valid. Any client may join the group, and must not stop the workers by this."""
    readable = []
    for member in members:
        try:
            readable.append((member.member_id, decode_metadata(member.metadata)))
        except CorruptRecordError as error:
            _log.warning(
                "Member %s gets no work, because its metadata is invalid: %s", member.member_id, error
            )
    return readable


class WorkerMembership:
    """Implements `GroupMembership` for one worker. `run` may be called again after it has returned."""

    def __init__(
        self, client: Client, settings: WorkerGroup, configs: ConfigStore, rng: Rng | None = None
    ) -> None:
        """`client` serves only this membership. Its client id is `client.id`, or `connect-<host>:<port>` of the
        worker."""
        self._client = client
        self._settings = settings
        self._configs = configs
        self._leader = Leader(IncrementalAssignor(settings.max_delay_ms))
        self._rng = rng
        self._member: Member | None = None
        self._protocol: WorkerProtocol | None = None

    @property
    def member_id(self) -> str:
        return "" if self._protocol is None else self._protocol.member_id

    @property
    def is_eager(self) -> bool:
        return self._protocol_name == EAGER

    @property
    def is_sessioned(self) -> bool:
        return self._protocol_name == SESSIONED

    @property
    def protocol(self) -> str:
        return self._protocol_name

    @property
    def _protocol_name(self) -> str:
        return OFFERS[self._settings.protocol][0] if self._protocol is None else self._protocol.name

    def owner_url(self, id: TaskId) -> str | None:
        return None if self._protocol is None else self._protocol.owners.get(id)

    async def run(self, listener: WorkListener) -> None:
        """Joins the group, and stays in it until `leave` or a final error, which is raised."""
        protocol = WorkerProtocol(self._settings, self._configs, self._leader, listener, _now_ms)
        member = Member(self._client, self._settings.group, protocol, self._rng)
        self._protocol, self._member = protocol, member
        watch = asyncio.create_task(self._watch(member, protocol))
        try:
            await member.run()
        finally:
            watch.cancel()
            with suppress(asyncio.CancelledError):
                await watch

    def rejoin(self, reason: str) -> None:
        if self._member is not None:
            self._member.rejoin(reason)

    async def leave(self, reason: str) -> None:
        if self._member is not None:
            await self._member.leave(reason)

    async def give_up_work(self) -> None:
        if self._protocol is not None:
            self._protocol.assignment = None

    async def _watch(self, member: Member, protocol: WorkerProtocol) -> None:
        """Stops the work of this worker if the coordinator is silent for almost a session.

        After a session, the coordinator removes the worker from the group. So the work must have stopped by then. A
        worker that is frozen cannot stop it, so the processes of tasks know the end of the lease.
        """
        interval_s = self._settings.group.heartbeat_interval_ms / LEASE_CHECKS_PER_HEARTBEAT / 1000
        while True:
            now_s, since_s = asyncio.get_running_loop().time(), member.coordinator_silent_since
            end_s = (now_s if since_s is None else since_s) + self._settings.lease_s
            # A worker that was frozen may get an answer before it sees that its lease has ended.
            left_s = min(end_s, protocol.lease_end_s) - now_s
            if left_s <= 0:
                await protocol.fall_out(_now_ms() + round(left_s * 1000))
                # The coordinator may know the member still. Only a new assignment starts the work again.
                member.rejoin("the coordinator was silent for too long")
                left_s = math.inf
            elif end_s != protocol.lease_end_s:
                protocol.renew_lease(end_s)
                left_s = end_s - now_s
            await asyncio.sleep(min(left_s, interval_s))


def _for_herder(assignment: ExtendedAssignment) -> GroupAssignment:
    return GroupAssignment(
        leader=assignment.leader,
        leader_url=assignment.leader_url,
        offset=assignment.config_offset,
        connectors=frozenset(assignment.connectors),
        tasks=frozenset(assignment.tasks),
        has_failed=assignment.has_failed,
        has_revoked=bool(assignment.revoked),
        delay_ms=assignment.delay_ms,
    )


def _now_ms() -> int:
    return int(asyncio.get_running_loop().time() * 1000)

"""The phases of a rebalance, and the timers that end the phases.

A rebalance begins with `prepare`. In the join phase, the group waits until every known member has joined again. The
group waits at most for the longest rebalance timeout of its members. An empty group waits for
`group.initial.rebalance.delay.ms` instead. This delay is extended while new members join (KIP-134). `complete_join`
starts the next generation and answers every waiting JoinGroup. A timer then limits the sync phase.

As in Kafka, the session timer of a member limits three durations:

- the time between two heartbeats;
- the time that a new member waits for the answer to its JoinGroup;
- the time until a client that got a member id sends a JoinGroup with this id (KIP-394).
"""

from __future__ import annotations

import logging
from enum import StrEnum

from kcli.coordinator.group.classic.group import ClassicGroup, ClassicMember, GroupState
from kcli.coordinator.group.classic.records import GroupRecord
from kcli.coordinator.group.config import GroupConfig
from kcli.coordinator.group.step import GroupStep, GroupTimers, TimerKey
from kcli.errors import ErrorCode
from kcli.protocol.messages.join_group import JoinGroupResponse
from kcli.protocol.messages.sync_group import SyncGroupResponse

_log = logging.getLogger("kcli.coordinator.group")

NEW_MEMBER_JOIN_TIMEOUT_MS = 300_000
"""The longest time that a new member may wait for the answer to its first JoinGroup. The member sends no heartbeats
before this answer. So if its client is gone, the coordinator removes the member only after this time (KAFKA-7610)."""


class ClassicTimer(StrEnum):
    SESSION = "classic session"
    JOIN = "classic join"
    """The end of the join phase."""
    SYNC = "classic sync"
    """The end of the sync phase."""


class Rebalance:
    """Moves classic groups through their phases. All groups of a partition of `__consumer_offsets` share one
    `Rebalance`."""

    def __init__(self, config: GroupConfig, timers: GroupTimers) -> None:
        self._config = config
        self._timers = timers

    # Sessions

    def restart_session(self, group: ClassicGroup, member: ClassicMember, now_ms: int) -> None:
        self._timers.schedule(
            _session_key(group.group_id, member.member_id), now_ms + member.session_timeout_ms
        )

    def schedule_session(self, group: ClassicGroup, member_id: str, deadline_ms: int) -> None:
        self._timers.schedule(_session_key(group.group_id, member_id), deadline_ms)

    def cancel_session(self, group: ClassicGroup, member_id: str) -> None:
        self._timers.cancel(_session_key(group.group_id, member_id))

    def expire_session(self, group: ClassicGroup, member_id: str, step: GroupStep) -> None:
        if member_id in group.pending_joins:
            group.remove(member_id)
            self.maybe_complete_join(group, step)
            return
        member = group.members.get(member_id)
        if member is None:
            return
        if not member.is_new and (member.join_token is not None or member.sync_token is not None):
            # A member with a waiting request is alive; the answer to the request starts the session again.
            return
        _log.debug("Member %s in group %s has failed, removing it from the group.", member_id, group.group_id)
        self.remove_member(group, member, step)
        self.after_removal(group, f"removing member {member_id} on heartbeat expiration", step)

    def remove_member(self, group: ClassicGroup, member: ClassicMember, step: GroupStep) -> None:
        """Removes a member. Its waiting requests get UNKNOWN_MEMBER_ID, so the client joins again."""
        self.fail_waiting(group, member, ErrorCode.UNKNOWN_MEMBER_ID, "", step)
        self.cancel_session(group, member.member_id)
        group.remove(member.member_id)

    def after_removal(self, group: ClassicGroup, reason: str, step: GroupStep) -> None:
        if group.state in (GroupState.STABLE, GroupState.COMPLETING_REBALANCE):
            self.prepare(group, reason, step)
        elif group.state is GroupState.PREPARING_REBALANCE:
            self.maybe_complete_join(group, step)

    def fail_waiting(
        self, group: ClassicGroup, member: ClassicMember, code: ErrorCode, answered_id: str, step: GroupStep
    ) -> None:
        join_token = group.await_join(member, None)
        if join_token is not None:
            step.reply(join_token, JoinGroupResponse(error_code=code, member_id=answered_id))
        if member.sync_token is not None:
            step.reply(member.sync_token, SyncGroupResponse(error_code=code))
            member.sync_token = None

    # Join phase

    def rebalance_or_complete_join(self, group: ClassicGroup, reason: str, step: GroupStep) -> None:
        if group.state is GroupState.PREPARING_REBALANCE:
            self.maybe_complete_join(group, step)
        else:
            self.prepare(group, reason, step)

    def prepare(self, group: ClassicGroup, reason: str, step: GroupStep) -> None:
        # Logged at DEBUG, because each member that joins causes this line. A new generation is logged at INFO.
        _log.debug(
            "Preparing to rebalance group %s in state %s with old generation %d (reason: %s).",
            group.group_id,
            group.state.value,
            group.generation_id,
            reason,
        )
        if group.state is GroupState.COMPLETING_REBALANCE:
            self.fail_sync_phase(group, ErrorCode.REBALANCE_IN_PROGRESS, step)
        self._timers.cancel((ClassicTimer.SYNC, group.group_id, ""))
        initial = group.state is GroupState.EMPTY
        group.transition_to(GroupState.PREPARING_REBALANCE, step.now_ms)
        if initial:
            delay_ms = self._config.initial_rebalance_delay_ms
            group.initial_delay_ms = delay_ms
            group.initial_remaining_ms = max(group.rebalance_timeout_ms - delay_ms, 0)
            self._schedule_join(group, delay_ms, step)
        elif group.has_all_members_joined:
            self.complete_join(group, step)
        else:
            self._schedule_join(group, group.rebalance_timeout_ms, step)

    def maybe_complete_join(self, group: ClassicGroup, step: GroupStep) -> None:
        """Ends the join phase if all members have joined. If the group was empty, the join phase still lasts for the
        whole initial delay."""
        if (
            group.state is GroupState.PREPARING_REBALANCE
            and group.previous_state is not GroupState.EMPTY
            and group.has_all_members_joined
        ):
            self.complete_join(group, step)

    def expire_join(self, group: ClassicGroup, step: GroupStep) -> None:
        if group.state is not GroupState.PREPARING_REBALANCE:
            return
        if (
            group.previous_state is GroupState.EMPTY
            and group.new_member_added
            and group.initial_remaining_ms > 0
        ):
            group.new_member_added = False
            delay_ms = min(self._config.initial_rebalance_delay_ms, group.initial_remaining_ms)
            group.initial_remaining_ms = max(group.initial_remaining_ms - group.initial_delay_ms, 0)
            group.initial_delay_ms = delay_ms
            self._schedule_join(group, delay_ms, step)
            return
        self.complete_join(group, step)

    def complete_join(self, group: ClassicGroup, step: GroupStep) -> None:
        self._timers.cancel((ClassicTimer.JOIN, group.group_id, ""))
        group.new_member_added = False
        for member in tuple(group.members.values()):
            # Static members keep their place until their session ends (KIP-345).
            if member.join_token is None and member.group_instance_id is None:
                self.remove_member(group, member, step)
        # Only static members remain, and none of them has joined again. A generation without a leader would get no
        # assignment, so the join phase is extended.
        if group.members and not group.elect_joined_leader():
            self._schedule_join(group, group.rebalance_timeout_ms, step)
            return
        group.next_generation(step.now_ms)
        if group.state is GroupState.EMPTY:
            _log.info("Group %s with generation %d is now empty.", group.group_id, group.generation_id)
            step.append(GroupRecord(group.group_id, group.to_metadata({})))
            return
        _log.info(
            "Stabilized group %s generation %d with %d members.",
            group.group_id,
            group.generation_id,
            len(group.members),
        )
        for member in group.members.values():
            self.answer_join(group, member, step)
            self.restart_session(group, member, step.now_ms)
            member.is_new = False
            group.pending_syncs[member.member_id] = None
        self._timers.schedule(
            (ClassicTimer.SYNC, group.group_id, ""), step.now_ms + group.rebalance_timeout_ms
        )

    def answer_join(self, group: ClassicGroup, member: ClassicMember, step: GroupStep) -> None:
        """Answers a waiting JoinGroup with the current generation. The answer to the leader lists all members."""
        token = group.await_join(member, None)
        if token is not None:
            step.reply(token, self.current_generation(group, member, with_members=True))

    def current_generation(
        self, group: ClassicGroup, member: ClassicMember, *, with_members: bool
    ) -> JoinGroupResponse:
        leads = with_members and group.leader_id == member.member_id
        return JoinGroupResponse(
            generation_id=group.generation_id,
            protocol_type=group.protocol_type,
            protocol_name=group.protocol_name,
            leader=group.leader_id or "",
            member_id=member.member_id,
            members=group.joined_members() if leads else (),
        )

    def _schedule_join(self, group: ClassicGroup, delay_ms: int, step: GroupStep) -> None:
        self._timers.schedule((ClassicTimer.JOIN, group.group_id, ""), step.now_ms + delay_ms)

    def restart_phase(self, group: ClassicGroup, now_ms: int) -> None:
        """Gives a group a deadline for its phase again. The deadline may have passed while a group of another type,
        whose write has failed since, had the id of this group."""
        if group.state is GroupState.PREPARING_REBALANCE:
            kind, is_initial = ClassicTimer.JOIN, group.previous_state is GroupState.EMPTY
            delay_ms = group.initial_delay_ms if is_initial else group.rebalance_timeout_ms
        elif group.pending_syncs:
            kind, delay_ms = ClassicTimer.SYNC, group.rebalance_timeout_ms
        else:
            return
        if not self._timers.is_scheduled((kind, group.group_id, "")):
            self._timers.schedule((kind, group.group_id, ""), now_ms + delay_ms)

    # Sync phase

    def received_sync(self, group: ClassicGroup, member_id: str) -> None:
        group.pending_syncs.pop(member_id, None)
        if not group.pending_syncs:
            self._timers.cancel((ClassicTimer.SYNC, group.group_id, ""))

    def fail_sync_phase(self, group: ClassicGroup, code: ErrorCode, step: GroupStep) -> None:
        """Removes the assignments and answers every waiting SyncGroup with the error, so that the members join
        again."""
        for member in group.members.values():
            member.assignment = b""
            if member.sync_token is not None:
                step.reply(member.sync_token, SyncGroupResponse(error_code=code))
                member.sync_token = None
                self.restart_session(group, member, step.now_ms)

    def expire_sync(self, group: ClassicGroup, step: GroupStep) -> None:
        if group.state not in (GroupState.COMPLETING_REBALANCE, GroupState.STABLE) or not group.pending_syncs:
            return
        silent = tuple(group.pending_syncs)
        for member_id in silent:
            self.remove_member(group, group.members[member_id], step)
        self.prepare(group, f"removing {', '.join(silent)} on pending sync request expiration", step)

    def forget(self, group: ClassicGroup) -> None:
        """Stops every timer of a group that no longer exists."""
        for member_id in (*group.members, *group.pending_joins):
            self.cancel_session(group, member_id)
        self._timers.cancel((ClassicTimer.JOIN, group.group_id, ""))
        self._timers.cancel((ClassicTimer.SYNC, group.group_id, ""))


def _session_key(group_id: str, member_id: str) -> TimerKey:
    return (ClassicTimer.SESSION, group_id, member_id)

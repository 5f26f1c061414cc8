"""The membership of one member in a classic group, as a state machine without input or output.

The caller tells what happened: an answer, a failure, the end of a callback, the passing of time. Each of these calls
returns actions, which the caller carries out in any order. `next_deadline_ms` is the time of the next `tick`. The rules
are those of AbstractCoordinator in Apache Kafka 4.1.

    UNJOINED --start--> JOINING --JoinGroup--> SYNCING --SyncGroup--> STABLE
                           ^                      |                     | a rebalance begins
                           |---- a new try -------+                     v
                           +-------- the member has given up ------ PREPARING
    any state --leave, or a final error--> LEAVING --LeaveGroup--> UNJOINED

At most one callback runs at a time, and at most one request other than a heartbeat is unanswered. A member sends
heartbeats in PREPARING, SYNCING and STABLE, and in LEAVING until it has given up its assignment. It sends none in
JOINING, because the coordinator does not end the session of a member whose JoinGroup it holds.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum, auto
from typing import TypeVar

from kcli.client.group.actions import (
    Action,
    Assign,
    Callback,
    End,
    Find,
    Lose,
    Response,
    Revoke,
    Send,
    Take,
)
from kcli.client.group.protocol import NO_GENERATION, NOT_A_MEMBER, EmbeddedProtocol, Generation, JoinedMember
from kcli.client.group.requests import (
    GroupSettings,
    heartbeat_request,
    join_request,
    leave_request,
    sync_request,
)
from kcli.errors import ErrorCode, KafkaError, error_for
from kcli.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kcli.protocol.messages.join_group import JoinGroupResponse
from kcli.protocol.messages.leave_group import LeaveGroupResponse
from kcli.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from kcli.runtime.rng import Rng

JOIN_GROUP_LAPSE_MS = 5_000
"""The time that JoinGroup may take beyond the rebalance timeout (JOIN_GROUP_TIMEOUT_LAPSE of Java's client)."""

BACKOFF_JITTER = 0.2
"""The random part of the back-off in Java's clients. Each failure doubles the back-off up to a maximum (KIP-580)."""

DOUBLINGS_MAX = 30
"""The number of doublings after which every configured maximum is reached: 2^30 ms are 12 days."""

CallbackT = TypeVar("CallbackT", bound=Callback)

_MOVED = (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE)
_FORGOTTEN = (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION)


class State(Enum):
    UNJOINED = auto()
    PREPARING = auto()
    JOINING = auto()
    SYNCING = auto()
    STABLE = auto()
    LEAVING = auto()


_BEATING = (State.PREPARING, State.SYNCING, State.STABLE)


class Membership:
    """One member of one group. Times are milliseconds of any clock that never goes back."""

    def __init__(self, settings: GroupSettings, protocol: EmbeddedProtocol, rng: Rng) -> None:
        self.state = State.UNJOINED
        self.generation = NOT_A_MEMBER
        self.leader_id = ""
        """The member id of the leader of this generation."""
        self._settings = settings
        self._protocol = protocol
        self._rng = rng
        self._has_assignment = False
        self._must_rejoin = False
        self._reason = ""
        self._removes_static = False
        self._error: Exception | None = None
        # Work that is not finished.
        self._callback: Callback | None = None
        self._to_call: Callback | None = None
        self._request: Send | None = None
        self._heartbeat: Send | None = None
        self._assignments: Mapping[str, bytes] | None = None
        # The coordinator, and times.
        self._has_coordinator = False
        self._is_finding = False
        self._failures = 0
        self._retry_at_ms = 0
        self._heartbeat_at_ms = 0
        self._session_ends_ms = 0
        self._silent_since_ms = 0

    @property
    def is_leader(self) -> bool:
        return bool(self.leader_id) and self.leader_id == self.generation.member_id

    @property
    def silent_since_ms(self) -> int | None:
        """The time since which the coordinator has not answered: the time of its last answer, or of the start.

        None for a member that is not in the group and does not join. None also while a JoinGroup or a SyncGroup is
        unanswered, because the coordinator may hold it during a rebalance. The coordinator keeps such a member.
        """
        if self.state is State.UNJOINED or self._request is not None:
            return None
        return self._silent_since_ms

    @property
    def next_deadline_ms(self) -> int | None:
        """The time at which `tick` has something to do."""
        times = []
        if self._has_request_to_send() and not self._is_finding:
            times.append(self._retry_at_ms)
        if self._is_beating:
            if self._heartbeat is None and not self._is_finding:
                beat_ms = self._heartbeat_at_ms
                times.append(beat_ms if self._has_coordinator else max(beat_ms, self._retry_at_ms))
            if self._has_coordinator:
                times.append(self._session_ends_ms)
        return min(times, default=None)

    # What happened.

    def start(self, now_ms: int) -> tuple[Action, ...]:
        """Begins to join the group."""
        assert self.state is State.UNJOINED, self.state
        self.state, self._silent_since_ms = State.JOINING, now_ms
        return self._actions(now_ms)

    def tick(self, now_ms: int) -> tuple[Action, ...]:
        """Time has passed."""
        return self._actions(now_ms)

    def found(self, now_ms: int) -> tuple[Action, ...]:
        """The caller knows the coordinator now."""
        self._is_finding, self._has_coordinator = False, True
        self._session_ends_ms = now_ms + self._settings.session_timeout_ms
        return self._actions(now_ms)

    def not_found(self, error: KafkaError, now_ms: int) -> tuple[Action, ...]:
        """The look-up of the coordinator has failed."""
        self._is_finding = False
        if error.retriable:
            self._back_off(now_ms)
        else:
            self._fail(error)
        return self._actions(now_ms)

    def answered(self, sent: Send, response: Response, now_ms: int) -> tuple[Action, ...]:
        """The coordinator has answered a request. The answer to a request that was given up is ignored."""
        if self._forget_sent(sent):
            if response.error_code not in _MOVED:
                self._silent_since_ms = now_ms
            match response:
                case JoinGroupResponse():
                    self._take_joined(response, now_ms)
                case SyncGroupResponse():
                    self._take_synced(response, now_ms)
                case HeartbeatResponse():
                    self._take_heartbeat(sent, response.error_code, now_ms)
                case LeaveGroupResponse():
                    self._has_coordinator = False  # so that a member that left sends nothing more
        return self._actions(now_ms)

    def failed(self, sent: Send, error: KafkaError, now_ms: int) -> tuple[Action, ...]:
        """A request has no answer. Unless the error is final, the coordinator is looked up again."""
        if self._forget_sent(sent):
            self._has_coordinator = False
            if not sent.is_heartbeat and not self._failures:
                self._silent_since_ms = now_ms  # the coordinator may have held the request until now
            self._back_off(now_ms)
            self._heartbeat_at_ms = min(self._heartbeat_at_ms, self._retry_at_ms)
            if not error.retriable:
                self._fail(error)
            elif self.state is State.SYNCING and isinstance(sent.request, SyncGroupRequest):
                self._join_again("the connection to the coordinator failed")
        return self._actions(now_ms)

    def made(self, assignments: Mapping[str, bytes], now_ms: int) -> tuple[Action, ...]:
        """The leader has made the assignments of an `Assign`."""
        assign = self._end_callback(Assign)
        if self.state is State.SYNCING and assign.generation == self.generation:
            self._assignments = assignments
        return self._actions(now_ms)

    def taken(self, now_ms: int, *, must_rejoin: bool) -> tuple[Action, ...]:
        """The member owns the assignment of a `Take`."""
        self._end_callback(Take)
        if must_rejoin:
            self._ask_to_rejoin("the member has given up a part of its assignment")
        return self._actions(now_ms)

    def given_up(self, now_ms: int) -> tuple[Action, ...]:
        """The member has given up its assignment after a `Revoke` or a `Lose`."""
        callback = self._end_callback(Revoke, Lose)
        is_empty = callback == Lose() or callback == Revoke(everything=True)
        self._has_assignment = self._has_assignment and not is_empty
        # If the coordinator has forgotten the member meanwhile, the rest is lost too.
        if self.state is State.PREPARING and (is_empty or self._is_member):
            self.state = State.JOINING
        return self._actions(now_ms)

    def rejoin(self, reason: str, now_ms: int) -> tuple[Action, ...]:
        """The metadata of this member has changed, so it must join again."""
        self._ask_to_rejoin(reason)
        return self._actions(now_ms)

    def leave(self, reason: str, now_ms: int, *, removes_static: bool = False) -> tuple[Action, ...]:
        """The member leaves. A static member stays in the group until its session ends, except if `removes_static`."""
        if self.state not in (State.UNJOINED, State.LEAVING):
            self.state, self._reason, self._removes_static = State.LEAVING, reason, removes_static
            # The caller may close the connection of a request that the coordinator holds. A heartbeat that is lost
            # with this connection must not count as a silent coordinator, because LeaveGroup needs the coordinator.
            self._request = self._heartbeat = None
        return self._actions(now_ms)

    # Answers.

    def _take_joined(self, response: JoinGroupResponse, now_ms: int) -> None:
        if self.state is not State.JOINING:
            return
        code = response.error_code
        expected = self._protocol.protocol_type
        if code is ErrorCode.NONE and response.protocol_type not in (None, expected):
            self._fail_of(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, f"JoinGroup: type {response.protocol_type}")
        elif code is ErrorCode.NONE:
            name = response.protocol_name or ""
            self.generation = Generation(response.generation_id, response.member_id, name)
            self.leader_id = response.leader
            self.state = State.SYNCING
            self._heard(now_ms)
            self._heartbeat_at_ms = now_ms + self._settings.heartbeat_interval_ms
            members = tuple(
                JoinedMember(member.member_id, member.group_instance_id, member.metadata)
                for member in response.members
            )
            # The coordinator of a static leader that returns may keep the assignments of the group (KIP-814).
            if self.is_leader and not response.skip_assignment:
                self._assignments, self._to_call = None, Assign(self.generation, members)
            else:
                self._assignments = {}
        elif code is ErrorCode.MEMBER_ID_REQUIRED:  # KIP-394
            self.generation = Generation(member_id=response.member_id)
        elif code in _FORGOTTEN:
            self._reset(code)
        elif code is not ErrorCode.REBALANCE_IN_PROGRESS:
            self._try_later_or_fail("JoinGroup", code, now_ms)

    def _take_synced(self, response: SyncGroupResponse, now_ms: int) -> None:
        if self.state is not State.SYNCING:
            return
        code = response.error_code
        expected = (self._protocol.protocol_type, self.generation.protocol_name)
        if code is ErrorCode.NONE:
            for actual, own in zip((response.protocol_type, response.protocol_name), expected, strict=True):
                if actual not in (None, own):
                    self._fail_of(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, f"SyncGroup: {actual}, not {own}")
                    return
            self.state = State.STABLE
            self._has_assignment = True
            self._failures = 0
            self._to_call = Take(self.generation, response.assignment)
        elif code is ErrorCode.REBALANCE_IN_PROGRESS:
            self._join_again("the group began another rebalance")
        elif code in _FORGOTTEN:
            self._reset(code)
        else:
            self._join_again(f"SyncGroup failed with {code.name}")
            self._try_later_or_fail("SyncGroup", code, now_ms)

    def _take_heartbeat(self, sent: Send, code: ErrorCode, now_ms: int) -> None:
        request = sent.request
        assert isinstance(request, HeartbeatRequest)
        if code is ErrorCode.NONE or code is ErrorCode.REBALANCE_IN_PROGRESS:
            self._heard(now_ms)
            self._failures = 0
            # In SYNCING the answer to SyncGroup reports the rebalance.
            if code is ErrorCode.REBALANCE_IN_PROGRESS and self.state is State.STABLE:
                self._ask_to_rejoin("the group is rebalancing")
            return
        self._heartbeat_at_ms = now_ms + self._backoff_ms()
        is_current = (request.generation_id, request.member_id) == (
            self.generation.id,
            self.generation.member_id,
        )
        if code in _FORGOTTEN:
            if is_current:
                self._reset(code)
        elif code is not ErrorCode.FENCED_INSTANCE_ID or is_current:
            self._try_later_or_fail("Heartbeat", code, now_ms)

    def _try_later_or_fail(self, name: str, code: ErrorCode, now_ms: int) -> None:
        if code in _MOVED:
            self._has_coordinator = False
            self._back_off(now_ms)
        elif code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
            self._back_off(now_ms)
        else:
            self._fail_of(code, f"{name} of group {self._settings.group_id}")

    # State.

    @property
    def _is_member(self) -> bool:
        return self.generation.id != NO_GENERATION

    @property
    def _is_beating(self) -> bool:
        gives_up = self.state is State.LEAVING and self._callback is not None
        return self._is_member and (gives_up or self.state in _BEATING)

    def _heard(self, now_ms: int) -> None:
        self._session_ends_ms = now_ms + self._settings.session_timeout_ms

    def _ask_to_rejoin(self, reason: str) -> None:
        if self.state is not State.LEAVING:  # LeaveGroup keeps its own reason
            self._must_rejoin, self._reason = True, reason

    def _join_again(self, reason: str) -> None:
        """Joins again after a failed SyncGroup. The member has prepared for this rebalance already."""
        self.state, self._reason = State.JOINING, reason

    def _reset(self, code: ErrorCode) -> None:
        """Forgets the generation, because the coordinator does not know it. Only UNKNOWN_MEMBER_ID refuses the member
        id too."""
        member_id = "" if code is ErrorCode.UNKNOWN_MEMBER_ID else self.generation.member_id
        self.generation, self.leader_id = Generation(member_id=member_id), ""
        self._request = self._heartbeat = None
        if self.state is not State.LEAVING:
            self.state, self._reason = State.PREPARING, f"the coordinator answered {code.name}"

    def _fail_of(self, code: ErrorCode, subject: str) -> None:
        self._fail(error_for(code, f"{subject}: {code.name}"))

    def _fail(self, error: KafkaError) -> None:
        """Ends the membership with an error that another attempt would get too."""
        self.state, self._error = State.LEAVING, error
        self.generation, self.leader_id = NOT_A_MEMBER, ""
        self._request = self._heartbeat = None

    def _back_off(self, now_ms: int) -> None:
        self._retry_at_ms = now_ms + self._backoff_ms()
        self._failures += 1

    def _backoff_ms(self) -> int:
        settings = self._settings
        longest = settings.retry_backoff_max_ms
        base = min(settings.retry_backoff_ms << min(self._failures, DOUBLINGS_MAX), longest)
        jitter = 1 + BACKOFF_JITTER * (2 * self._rng.random() - 1)
        return round(base * jitter)

    def _forget_sent(self, sent: Send) -> bool:
        """Whether the membership still waits for the answer to this request."""
        if sent is self._heartbeat:
            self._heartbeat = None
        elif sent is self._request:
            self._request = None
        else:
            return False
        return True

    # What to do next.

    def _actions(self, now_ms: int) -> tuple[Action, ...]:
        if self._is_beating and self._has_coordinator and now_ms >= self._session_ends_ms:
            self._has_coordinator, self._heartbeat = False, None  # it may be cut off
        actions = []
        while (action := self._next(now_ms)) is not None:
            actions.append(action)
        return tuple(actions)

    def _next(self, now_ms: int) -> Action | None:
        if self._callback is None:
            self._callback = self._next_callback()
            if self._callback is not None:
                return self._callback
            if self.state is State.LEAVING and self._request is None and not self._has_request_to_send():
                return self._end()
        return self._next_send(now_ms)

    def _next_callback(self) -> Callback | None:
        callback, self._to_call = self._to_call, None
        if callback is not None:
            return callback
        if self.state is State.STABLE and self._must_rejoin:
            self.state = State.PREPARING
        if self._has_assignment and self.state in (State.PREPARING, State.LEAVING):
            return Revoke(everything=self.state is State.LEAVING) if self._is_member else Lose()
        if self.state is State.PREPARING:
            self.state = State.JOINING
        return None

    def _end_callback(self, *kinds: type[CallbackT]) -> CallbackT:
        callback, self._callback = self._callback, None
        assert isinstance(callback, kinds), f"{callback} has ended, not {kinds}"
        return callback

    def _end(self) -> End:
        error, self._error = self._error, None
        self.state, self.generation, self.leader_id = State.UNJOINED, NOT_A_MEMBER, ""
        self._must_rejoin, self._reason = False, ""
        self._heartbeat, self._is_finding, self._failures = None, False, 0
        return End(error)

    def _next_send(self, now_ms: int) -> Action | None:
        may_send = self._has_request_to_send() and now_ms >= self._retry_at_ms
        may_beat = self._is_beating and self._heartbeat is None and now_ms >= self._heartbeat_at_ms
        if not may_send and not may_beat:
            return None
        if not self._has_coordinator:
            if self._is_finding or now_ms < self._retry_at_ms:
                return None
            self._is_finding = True
            return Find()
        if may_send:
            try:
                self._request = self._new_request()
            except Exception as error:  # the protocol's `metadata` may raise anything
                self._error, self.state = error, State.LEAVING
                self._reason = f"the member failed with {type(error).__name__}"
                return self._next(now_ms)
            return self._request
        self._heartbeat_at_ms = now_ms + self._settings.heartbeat_interval_ms
        self._heartbeat = Send(
            heartbeat_request(self._settings, self.generation), self._settings.request_timeout_ms
        )
        return self._heartbeat

    def _has_request_to_send(self) -> bool:
        if self._request is not None or self._callback is not None:
            return False
        match self.state:
            case State.JOINING:
                return True
            case State.SYNCING:
                return self._assignments is not None
            case State.LEAVING:
                # Without a coordinator, the session of the member ends by itself.
                is_dynamic = self._settings.group_instance_id is None or self._removes_static
                return is_dynamic and self._has_coordinator and bool(self.generation.member_id)
            case _:
                return False

    def _new_request(self) -> Send:
        settings, generation, timeout_ms = self._settings, self.generation, self._settings.request_timeout_ms
        match self.state:
            case State.JOINING:
                self._must_rejoin = False
                request = join_request(settings, self._protocol, generation.member_id, self._reason)
                return Send(request, max(timeout_ms, settings.rebalance_timeout_ms + JOIN_GROUP_LAPSE_MS))
            case State.SYNCING:
                assert self._assignments is not None
                protocol_type = self._protocol.protocol_type
                return Send(sync_request(settings, protocol_type, generation, self._assignments), timeout_ms)
            case _:
                return Send(leave_request(settings, generation.member_id, self._reason), timeout_ms)

"""The decisions of a follower on one partition, without input or output (KIP-101, KIP-279, KIP-320, KIP-595).

A follower fetches from its log end, and sends the leader epoch that it knows and the epoch of its last record. If the
leader's log differs before the follower's log end, the answer has no records. Instead, the answer has the end of the
last common epoch. The follower cuts its log at this offset and fetches again. The follower may have to do this several
times, because each answer goes back by at least one epoch.

If the fetch offset is outside the leader's log, the follower asks for the log end offset of the leader. If this offset
is before the end of the follower's log, the follower cuts its log to this offset. If not, the follower asks for the log
start offset of the leader. If the follower's log ends before this log start offset, the follower begins again at the
leader's log start.

The caller keeps one `FollowedState` per partition, carries out the returned action, and replaces the state by
`FollowedState.after`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import Enum

from kcli.errors import ErrorCode
from kcli.model.ids import NO_LEADER_EPOCH, NO_OFFSET, LeaderEpoch, Offset

FIRST_PAUSE_MS = 20
"""The first pause after a usual error. The pause is short, because the leader has often read the metadata a few
milliseconds later, and producers with acks=all wait for this follower. The pause doubles up to
replica.fetch.backoff.ms."""
DOUBLINGS_MAX = 20


class Phase(Enum):
    """The activity of a follower for a partition. The partition is in a Fetch request only in the phase FETCHING."""

    FETCHING = "fetching"
    CUTTING = "cutting"  # records are dropped, and the state of producers is read again
    ASKING = "asking"  # the leader is asked for the ends of its log
    FAILED = "failed"  # waits for a new leader epoch


@dataclass(frozen=True, slots=True)
class OwnLog:
    """The log of the follower. `end_of_epoch` returns the largest known epoch ≤ its argument, and the offset after the
    last record of this epoch. If the log has no such epoch, the function returns −1 and −1."""

    start_offset: Offset
    end_offset: Offset
    high_watermark: Offset
    latest_epoch: LeaderEpoch
    end_of_epoch: Callable[[LeaderEpoch], tuple[LeaderEpoch, Offset]]


@dataclass(frozen=True, slots=True)
class FollowedState:
    """The state of one followed partition in one leader epoch.

    `lag` is the number of records that the leader has committed and this follower lacks, or None before the first
    answer. The partition is not fetched before `delayed_until_ms`, a time of the monotonic clock. `pauses` counts the
    pauses since the last answer without an error.
    """

    leader_epoch: LeaderEpoch
    fetch_offset: Offset
    last_fetched_epoch: LeaderEpoch
    log_start_offset: Offset
    lag: int | None = None
    delayed_until_ms: int = 0
    phase: Phase = Phase.FETCHING
    pauses: int = 0

    @property
    def is_caught_up(self) -> bool:
        return self.lag is not None and self.lag <= 0

    def after(self, log: OwnLog, *, leader_high_watermark: Offset | None = None) -> FollowedState:
        """The state for the next fetch, after the log has changed. Pass `leader_high_watermark` if the change came from
        an answer with records."""
        lag = self.lag
        if leader_high_watermark is not None:
            lag = max(0, leader_high_watermark - log.end_offset)
        return FollowedState(
            self.leader_epoch, log.end_offset, log.latest_epoch, log.start_offset, lag, self.delayed_until_ms
        )

    def delayed(self, until_ms: int) -> FollowedState:
        """The state after an error that may be temporary."""
        return replace(self, delayed_until_ms=until_ms, phase=Phase.FETCHING, pauses=self.pauses + 1)

    def pause_ms(self, error: BackOff, longest_ms: int) -> int:
        """The pause after an error. `longest_ms` is replica.fetch.backoff.ms."""
        if not error.is_usual:
            return longest_ms
        return min(FIRST_PAUSE_MS << min(self.pauses, DOUBLINGS_MAX), longest_ms)

    def during(self, phase: Phase) -> FollowedState:
        return replace(self, phase=phase)


@dataclass(frozen=True, slots=True)
class Answer:
    """The leader's answer for one partition. `diverging_epoch` is −1 if the logs do not diverge. `has_records` is True
    if the answer has bytes of records."""

    error_code: ErrorCode = ErrorCode.NONE
    high_watermark: Offset = NO_OFFSET
    log_start_offset: Offset = NO_OFFSET
    diverging_epoch: LeaderEpoch = NO_LEADER_EPOCH
    diverging_end_offset: Offset = NO_OFFSET
    has_records: bool = False


# Actions.


@dataclass(frozen=True, slots=True)
class Ignore:
    """Do nothing, because the answer belongs to an earlier state."""


@dataclass(frozen=True, slots=True)
class Append:
    """Append the records, then set the high watermark, then raise the log start offset."""

    high_watermark: Offset
    log_start_offset: Offset


@dataclass(frozen=True, slots=True)
class Cut:
    """Drop every record from `offset` on. `below_high_watermark` is True if committed records are dropped, which only
    an unclean election can cause."""

    offset: Offset
    below_high_watermark: bool


@dataclass(frozen=True, slots=True)
class Restart:
    """Drop all records. The log begins again at `offset`."""

    offset: Offset


@dataclass(frozen=True, slots=True)
class AskEnd:
    """Ask the leader for its log end offset, and then call `on_leader_end`."""


@dataclass(frozen=True, slots=True)
class AskStart:
    """Ask the leader for its log start offset, and then call `on_leader_start`."""


@dataclass(frozen=True, slots=True)
class BackOff:
    """Fetch again after `FollowedState.pause_ms`. `is_usual` is True for errors that are normal for a short time after
    a change of the metadata, because brokers read this change at different times. It is also True if another line of
    the log already has the reason."""

    reason: str
    is_usual: bool = False


@dataclass(frozen=True, slots=True)
class Fail:
    """Do not fetch until the metadata has a new leader epoch. `is_usual` is True if the new leader epoch is expected
    soon."""

    reason: str
    is_usual: bool = False


_USUAL_ERRORS = (
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.UNKNOWN_LEADER_EPOCH,
    ErrorCode.UNKNOWN_TOPIC_ID,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
)

Action = Ignore | Append | Cut | Restart | AskEnd | AskStart | BackOff | Fail


def begin(leader_epoch: LeaderEpoch, log: OwnLog) -> tuple[FollowedState, Cut | None]:
    """The first state in a leader epoch, and the cut of the log that is necessary before the first fetch, or None.

    If a log has no epochs, the follower cannot find the offset at which its log diverges from the leader's log. So it
    keeps only committed records.
    """
    state = FollowedState(leader_epoch, log.end_offset, log.latest_epoch, log.start_offset)
    if log.latest_epoch == NO_LEADER_EPOCH and log.high_watermark < log.end_offset:
        return state.during(Phase.CUTTING), Cut(log.high_watermark, below_high_watermark=False)
    return state, None


def on_answer(state: FollowedState, before: FollowedState, answer: Answer, log: OwnLog) -> Action:
    """The action for an answer to a fetch. `before` is the state of the partition when the request was made."""
    if state.phase is not Phase.FETCHING or _asks_otherwise(state, before):
        return Ignore()
    match answer.error_code:
        case ErrorCode.NONE:
            if answer.diverging_epoch != NO_LEADER_EPOCH or answer.diverging_end_offset != NO_OFFSET:
                return _on_divergence(answer, log)
            return Append(answer.high_watermark, answer.log_start_offset)
        case ErrorCode.OFFSET_OUT_OF_RANGE:
            return AskEnd()
        case ErrorCode.FENCED_LEADER_EPOCH:
            return Fail(f"the leader epoch {state.leader_epoch} is fenced", is_usual=True)
        case code:
            return BackOff(code.name, code in _USUAL_ERRORS)


def on_leader_end(leader_end_offset: Offset, log: OwnLog) -> Action:
    """The action for the leader's answer with its log end offset. The follower has requested this offset after
    OFFSET_OUT_OF_RANGE."""
    if leader_end_offset < log.end_offset:
        return _cut(leader_end_offset, log)
    return AskStart()


def on_leader_start(leader_start_offset: Offset, log: OwnLog) -> Action:
    """The action for the leader's answer with its log start offset. The follower requests this offset only if the
    leader's log does not end before its own log."""
    if leader_start_offset > log.end_offset:
        return Restart(leader_start_offset)
    # The leader has the offset now. If it answers with the same error again, a pause prevents a loop.
    return BackOff("the fetch offset is in the range of the leader", is_usual=True)


def on_offsets_error(error_code: ErrorCode, state: FollowedState) -> Action:
    """The action if the leader answers the request for its log end or start offset with an error."""
    if error_code is ErrorCode.FENCED_LEADER_EPOCH:
        return Fail(f"the leader epoch {state.leader_epoch} is fenced", is_usual=True)
    return BackOff(error_code.name, error_code in _USUAL_ERRORS)


def _asks_otherwise(state: FollowedState, before: FollowedState) -> bool:
    return before.fetch_offset != state.fetch_offset or before.leader_epoch != state.leader_epoch


def _on_divergence(answer: Answer, log: OwnLog) -> Action:
    """The action after an answer with a `diverging_epoch` (KIP-279). This answer contains the last common epoch, and
    the end of this epoch in the leader's log."""
    epoch, end_offset = answer.diverging_epoch, answer.diverging_end_offset
    if end_offset == NO_OFFSET:
        return _cut(log.high_watermark, log)
    own_epoch, own_end_offset = log.end_of_epoch(epoch)
    if own_epoch == NO_LEADER_EPOCH:
        return _cut(end_offset, log)
    if own_epoch == epoch:
        return _cut(min(own_end_offset, end_offset), log)
    # The leader has an epoch that this log does not have. This log may also differ before that epoch. So it is cut at
    # the end of its newest epoch below that epoch, and the next fetch shows whether that is enough.
    return _cut(own_end_offset, log)


def _cut(offset: Offset, log: OwnLog) -> Action:
    if offset < 0:
        return BackOff(f"the leader states an end offset of {offset}")
    return Cut(Offset(min(offset, log.end_offset)), offset < log.high_watermark)

"""What the node knows of its log: the ends of epochs, and where the log of a follower diverges from it."""

from __future__ import annotations

import pytest

from kcli.metadata.snapshot_file import BOOTSTRAP_SNAPSHOT_ID, SnapshotId
from kcli.raft.log_state import LogState
from kcli.raft.messages import EpochStart, Start
from kcli.raft.requests import EpochEnd
from kcli.raft.voters import NO_VOTERS


def log(
    end: int, *epochs: tuple[int, int], start: int = 0, snapshots: tuple[SnapshotId, ...] = ()
) -> LogState:
    return LogState(
        Start(
            stored=None,
            log_start=start,
            log_end_offset=end,
            epochs=tuple(EpochStart(*epoch) for epoch in epochs),
            snapshots=snapshots,
            voters=NO_VOTERS,
            kraft_version=1,
        )
    )


def three_epochs() -> LogState:
    """Epoch 1 has offsets 0 to 4, epoch 3 has 5 to 8, epoch 4 has 9 to 11."""
    return log(12, (1, 0), (3, 5), (4, 9))


def test_an_empty_log_ends_in_epoch_0() -> None:
    assert log(0).last == EpochEnd(0, 0)
    assert log(7, start=7, snapshots=(SnapshotId(7, 5),)).last == EpochEnd(5, 7), "the epoch of the snapshot"


@pytest.mark.parametrize(
    ("epoch", "end"),
    [
        (0, EpochEnd(0, 0)),
        (1, EpochEnd(1, 5)),
        (2, EpochEnd(1, 5)),
        (3, EpochEnd(3, 9)),
        (9, EpochEnd(4, 12)),
    ],
)
def test_the_end_of_an_epoch_is_the_start_of_the_next(epoch: int, end: EpochEnd) -> None:
    assert three_epochs().end_of(epoch) == end


def test_appending_begins_a_new_epoch() -> None:
    state = three_epochs()
    state.append(4, 14)
    state.append(6, 15)
    assert state.end_of(4) == EpochEnd(4, 14) and state.last == EpochEnd(6, 15)
    with pytest.raises(AssertionError, match="epochs only rise"):
        state.append(5, 16)


def test_truncation_forgets_epochs_and_what_was_flushed() -> None:
    state = three_epochs()
    state.flushed_to(11)
    state.truncate(9)
    assert state.last == EpochEnd(3, 9) and state.flushed == 9
    state.flushed_to(12)
    assert state.flushed == 9, "an older flush reports no more than the log has"
    state.truncate(0)
    assert state.last == EpochEnd(0, 0)


@pytest.mark.parametrize(
    ("offset", "epoch", "found"),
    [
        (0, 0, None),
        (12, 4, None),
        (10, 4, None),
        (9, 3, None),
        (5, 1, None),
        (13, 4, EpochEnd(4, 12)),
        (7, 1, EpochEnd(1, 5)),
        (7, 2, EpochEnd(1, 5)),
        (12, 3, EpochEnd(3, 9)),
        (3, 0, EpochEnd(0, 0)),
    ],
)
def test_a_follower_diverges_if_its_newest_record_is_not_in_the_log(
    offset: int, epoch: int, found: EpochEnd | None
) -> None:
    assert three_epochs().check(offset, epoch) == found


OLDER, NEWER = SnapshotId(5, 1), SnapshotId(9, 3)


@pytest.mark.parametrize(
    ("offset", "epoch", "found"),
    [
        (0, 0, NEWER),
        (4, 1, NEWER),
        (5, 1, None),
        (5, 0, NEWER),
        (5, 2, NEWER),
        (8, 3, None),
        (9, 3, None),
        (12, 2, EpochEnd(1, 5)),
    ],
)
def test_a_follower_before_the_log_needs_the_newest_snapshot(
    offset: int, epoch: int, found: EpochEnd | SnapshotId | None
) -> None:
    state = three_epochs()
    state.cleaned(5, (OLDER, NEWER))
    assert state.check(offset, epoch) == found


def test_the_snapshot_of_format_is_never_replicated() -> None:
    state = log(3, (1, 0), snapshots=(BOOTSTRAP_SNAPSHOT_ID,))
    assert state.snapshots == () and state.check(0, 0) is None


def test_cleaning_keeps_the_epoch_before_the_new_start() -> None:
    state = three_epochs()
    state.cleaned(7, (SnapshotId(7, 3),))
    assert state.start == 7
    assert state.end_of(3) == EpochEnd(3, 9)
    assert state.end_of(1) == EpochEnd(1, 7), "epoch 1 is not in the log any more"


def test_a_log_that_starts_at_a_snapshot_knows_the_epoch_before() -> None:
    state = log(12, (4, 9), start=9, snapshots=(NEWER,))
    assert state.end_of(3) == EpochEnd(3, 9) and state.check(9, 3) is None


def test_a_downloaded_snapshot_replaces_the_log() -> None:
    state = three_epochs()
    state.restart_at(SnapshotId(40, 7))
    assert (state.start, state.end, state.flushed) == (40, 40, 40)
    assert state.last == EpochEnd(7, 40) and state.snapshots == (SnapshotId(40, 7),)

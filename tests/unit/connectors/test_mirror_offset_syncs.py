"""Which offset syncs are kept and written, and what they translate to."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from kcli.connectors.mirror.offset_syncs import (
    ENTRIES,
    SYNCS_MAX,
    TOO_OLD,
    WAITING_MAX,
    OffsetSyncQueue,
    OffsetSyncStore,
)
from kcli.connectors.mirror.records import OffsetSync
from kcli.model.topic_partition import TopicPartition
from rigs.examples import examples

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


def store_of(*syncs: tuple[int, int], keeps_history: bool = True) -> OffsetSyncStore:
    store = OffsetSyncStore(keeps_history=keeps_history)
    for upstream, downstream in syncs:
        store.add(OffsetSync(T0, upstream, downstream))
    store.loaded()
    return store


def test_translations_of_offsets_near_syncs() -> None:
    store = store_of((100, 50), (200, 150))
    assert store.translate(T0, 99) == TOO_OLD
    assert store.translate(T0, 100) == 50
    assert (store.translate(T0, 101), store.translate(T0, 199)) == (51, 51)
    assert (store.translate(T0, 200), store.translate(T0, 1000)) == (150, 151)
    assert store.translate(T1, 100) is None


def test_no_translation_before_the_store_is_loaded() -> None:
    store = OffsetSyncStore(keeps_history=True)
    store.add(OffsetSync(T0, 1, 1))
    assert store.translate(T0, 5) is None and not store.is_loaded


def test_only_the_last_sync_counts_without_earlier_checkpoints() -> None:
    store = store_of((100, 100), (200, 200), keeps_history=False)
    assert store.translate(T0, 150) == TOO_OLD
    store.add(OffsetSync(T0, 300, 300))
    assert store.translate(T0, 250) == 201


def test_a_source_that_begins_again() -> None:
    store = store_of((100, 100), (200, 200), (5, 201))
    assert [sync.upstream_offset for sync in store.entries(T0)] == [5] * ENTRIES
    assert (store.translate(T0, 4), store.translate(T0, 150)) == (TOO_OLD, 202)


@st.composite
def histories(draw: st.DrawFn) -> list[tuple[int, int]]:
    """Records that were copied: upstream offsets with gaps, and downstream offsets with gaps."""
    steps = draw(
        st.lists(st.tuples(st.sampled_from([1, 1, 1, 2, 7, 300]), st.sampled_from([1, 1, 2])), max_size=120)
    )
    upstream = downstream = draw(st.integers(0, 3))
    copied = []
    for up, down in steps:
        copied.append((upstream, downstream))
        upstream, downstream = upstream + up, downstream + down
    return copied


@settings(max_examples=examples(80), deadline=None)
@given(histories(), st.data())
def test_a_translation_is_never_ahead_of_the_copied_records(
    copied: list[tuple[int, int]], data: st.DataObject
) -> None:
    """Compared with a store that keeps every sync, and with the records themselves."""
    syncs = [sync for sync in copied if data.draw(st.booleans())]
    store = store_of(*syncs)
    entries = store.entries(T0)
    for place, sync in enumerate(entries):
        for later, older in enumerate(entries[place + 1 :], place + 1):
            assert sync.upstream_offset <= older.upstream_offset + 2**later - 2**place
        if place + 1 < ENTRIES and entries[place + 1] is not sync:
            assert sync.upstream_offset >= entries[place + 1].upstream_offset + 2 ** max(place - 2, 0)
    for group_offset in {offset for upstream, _ in copied for offset in (upstream, upstream + 1)}:
        translated = store.translate(T0, group_offset)
        if translated in (None, TOO_OLD):
            assert not syncs or group_offset < entries[-1].upstream_offset
            continue
        unread = [downstream for upstream, downstream in copied if upstream >= group_offset]
        assert not unread or translated <= unread[0]
        before = [sync for sync in syncs if sync[0] <= group_offset]
        exact = before[-1][1] + (before[-1][0] != group_offset)
        assert translated <= exact
        assert translated == exact or group_offset < syncs[-1][0]


def test_a_sync_is_due_at_the_first_record_after_gaps_and_after_enough_records() -> None:
    queue = OffsetSyncQueue(lag_max=3)

    def due(upstream: int, downstream: int) -> list[tuple[int, int]]:
        queue.copied(T0, upstream, downstream)
        return [(sync.upstream_offset, sync.downstream_offset) for sync in queue.take()]

    assert due(0, 0) == [(0, 0)]
    assert due(1, 1) == due(2, 2) == due(3, 3) == []
    assert due(4, 4) == [(4, 4)]
    assert due(5, 5) == []
    assert due(9, 6) == [(9, 6)]  # a gap in the source
    assert due(10, 3) == [(10, 3)]  # the target was truncated
    assert due(10, 4) == [(10, 4)]  # copied again


def test_a_sync_that_is_not_due_is_written_at_the_next_commit() -> None:
    queue = OffsetSyncQueue(lag_max=100)
    for offset in range(5):
        queue.copied(T0, offset, offset + 10)
        queue.copied(T1, offset, offset)
    assert queue.take() == [OffsetSync(T0, 0, 10), OffsetSync(T1, 0, 0)]
    assert queue.take() == []
    queue.commit()
    assert queue.take() == [OffsetSync(T0, 4, 14), OffsetSync(T1, 4, 4)]


def test_syncs_that_could_not_be_written() -> None:
    queue = OffsetSyncQueue(lag_max=1)
    queue.copied(T0, 0, 0)
    queue.copied(T1, 0, 0)
    lost = queue.take()
    queue.copied(T1, 5, 5)
    queue.give_back(lost)
    assert queue.take() == [OffsetSync(T0, 0, 0), OffsetSync(T1, 0, 0), OffsetSync(T1, 5, 5)]


def test_each_sync_that_is_due_is_written_because_old_offsets_need_it() -> None:
    queue = OffsetSyncQueue(lag_max=100)
    queue.copied(T0, 0, 0)
    queue.copied(T0, 1, 1)
    queue.commit()
    assert queue.take() == [OffsetSync(T0, 0, 0), OffsetSync(T0, 1, 1)]


def test_a_batch_of_syncs_is_bounded() -> None:
    queue = OffsetSyncQueue(lag_max=1)
    for number in range(SYNCS_MAX + 1):
        queue.copied(TopicPartition("t", number), 0, 0)
    assert (len(queue.take()), len(queue.take())) == (SYNCS_MAX, 1)


def test_only_the_newest_syncs_wait_if_there_are_too_many() -> None:
    queue = OffsetSyncQueue(lag_max=0)
    for offset in range(WAITING_MAX + 1):
        queue.copied(T0, offset, offset)
    assert queue.take() == [OffsetSync(T0, WAITING_MAX, WAITING_MAX)]

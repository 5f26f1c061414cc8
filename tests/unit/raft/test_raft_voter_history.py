"""The voters as the log changes them, and what truncation undoes."""

from __future__ import annotations

from kcli.model.addresses import Address
from kcli.protocol.batches.control import KRaftVersionRecord, LeaderChangeMessage
from kcli.raft.messages import Start, VotersAt
from kcli.raft.voter_history import VoterHistory
from kcli.raft.voters import ReplicaKey, Voter, VoterSet
from rigs.raft import directory, voter_of


def voters(*ids: int) -> VoterSet:
    return VoterSet(tuple(voter_of(ReplicaKey(number, directory(number))) for number in ids))


def history(*entries: VotersAt) -> VoterHistory:
    return VoterHistory(
        Start(
            stored=None,
            log_start=0,
            log_end_offset=20,
            epochs=(),
            voters=voters(1),
            kraft_version=0,
            voter_history=entries,
        )
    )


def test_the_first_entry_is_in_force_until_the_log_names_voters() -> None:
    state = history()
    assert (state.offset, state.kraft_version, state.voters) == (-1, 0, voters(1))
    state.read((LeaderChangeMessage(leader_id=1),), 4)
    assert state.offset == -1, "other records change nothing"


def test_a_batch_can_change_the_level_and_the_voters() -> None:
    state = history()
    state.read((KRaftVersionRecord(k_raft_version=1), voters(1, 2).record()), 4)
    assert (state.offset, state.kraft_version, state.voters) == (4, 1, voters(1, 2))


def test_truncation_undoes_a_change() -> None:
    state = history(VotersAt(4, 1, voters(1, 2)))
    state.read((voters(1, 2, 3).record(),), 9)
    state.truncate(10)
    assert state.voters == voters(1, 2, 3)
    state.truncate(9)
    assert (state.offset, state.voters) == (4, voters(1, 2))
    state.truncate(0)
    assert (state.offset, state.kraft_version, state.voters) == (-1, 0, voters(1))


def test_a_snapshot_has_the_voters_as_of_its_end() -> None:
    state = history(VotersAt(4, 1, voters(1, 2)), VotersAt(9, 1, voters(1, 2, 3)))
    assert state.at(3).voters == voters(1)
    assert state.at(4).voters == state.at(8).voters == voters(1, 2)
    assert state.at(100).voters == voters(1, 2, 3)


def test_an_installed_snapshot_replaces_the_history() -> None:
    state = history(VotersAt(4, 1, voters(1, 2)))
    state.restart_at(29, 1, voters(2, 3))
    assert (state.offset, state.voters) == (29, voters(2, 3))
    state.truncate(30)
    assert state.voters == voters(2, 3), "the log cannot be cut below the snapshot"
    state.restart_at(49, None, None)
    assert (state.offset, state.kraft_version, state.voters) == (-1, 0, voters(1))


def test_voters_are_added_removed_and_updated_by_key() -> None:
    two = voters(1, 2)
    assert two.with_voter(voters(3).voters[0]) == voters(1, 2, 3)
    assert voters(1, 3).with_voter(voters(2).voters[0]) == voters(1, 2, 3), "in the order of Kafka's hash map"
    assert two.without(ReplicaKey(2, directory(2))) == voters(1)
    assert two.without(ReplicaKey(2, directory(9))) is None, "the disk must be the same"
    moved = Voter(ReplicaKey(2, directory(2)), {"CONTROLLER": Address("elsewhere", 1)})
    assert two.updated(moved) == VoterSet((two.voters[0], moved))
    assert two.updated(Voter(ReplicaKey(2, directory(9)), {})) is None

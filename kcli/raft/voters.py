"""The voters of the metadata quorum, from the log (KIP-853) or from the configuration."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass

from kcli.model.addresses import Address
from kcli.model.ids import NO_OFFSET, ZERO_ID, BrokerId, Offset
from kcli.model.java_order import map_order
from kcli.protocol.batches.control import KRaftVersionFeature, VoterEndpoint, VoterRecord, VotersRecord


@dataclass(frozen=True, slots=True)
class ReplicaKey:
    """The identity of a voter: node id *and* directory id, so a node with a new disk is a new voter.

    A directory id of zero matches any directory.
    """

    id: BrokerId
    directory_id: uuid.UUID = ZERO_ID

    def matches(self, other: ReplicaKey) -> bool:
        return self.id == other.id and (
            ZERO_ID in (self.directory_id, other.directory_id) or self.directory_id == other.directory_id
        )


@dataclass(frozen=True, slots=True)
class Voter:
    """A voter. `endpoints` maps listener names to (host, port), in the order of the record in the log."""

    key: ReplicaKey
    endpoints: Mapping[str, Address]
    min_kraft_version: int = 0
    max_kraft_version: int = 1


@dataclass(frozen=True, slots=True)
class VoterSet:
    voters: tuple[Voter, ...] = ()

    def voter(self, key: ReplicaKey) -> Voter | None:
        return next((voter for voter in self.voters if voter.key.matches(key)), None)

    def is_only_voter(self, key: ReplicaKey) -> bool:
        return len(self.voters) == 1 and self.voters[0].key.matches(key)

    @property
    def ids(self) -> tuple[BrokerId, ...]:
        return tuple(voter.key.id for voter in self.voters)

    def is_majority(self, count: int) -> bool:
        return count > len(self.voters) // 2

    def majority_offset(self, end_offsets: Mapping[BrokerId, Offset]) -> Offset:
        """The highest offset that a majority of the voters has reached. A voter that `ends` does not contain has
        reached no offset.

        If n end offsets are sorted highest first, n // 2 + 1 voters (a majority) have reached the offset at index n //
        2.
        """
        reached = sorted((end_offsets.get(voter_id, NO_OFFSET) for voter_id in self.ids), reverse=True)
        return reached[len(reached) // 2]

    def with_voter(self, voter: Voter) -> VoterSet:
        """Returns the voters with one more voter. The order is the order of Kafka's hash map of voter ids, because
        tools show this order."""
        by_id = {known.key.id: known for known in (*self.voters, voter)}
        return VoterSet(tuple(by_id[voter_id] for voter_id in map_order(by_id, int)))

    def without(self, key: ReplicaKey) -> VoterSet | None:
        """Returns the voters without this one, or None if no voter has this id and directory."""
        if all(voter.key != key for voter in self.voters):
            return None
        return VoterSet(tuple(voter for voter in self.voters if voter.key != key))

    def updated(self, update: Voter) -> VoterSet | None:
        """Returns the voters with `update` in place of its old entry, or None if `update` is not a voter."""
        if self.voter(update.key) is None:
            return None
        return VoterSet(tuple(update if voter.key.matches(update.key) else voter for voter in self.voters))

    def record(self) -> VotersRecord:
        return VotersRecord(
            voters=tuple(
                VoterRecord(
                    voter_id=voter.key.id,
                    voter_directory_id=voter.key.directory_id,
                    endpoints=tuple(
                        VoterEndpoint(name=name, host=host, port=port)
                        for name, (host, port) in voter.endpoints.items()
                    ),
                    k_raft_version_feature=KRaftVersionFeature(
                        min_supported_version=voter.min_kraft_version,
                        max_supported_version=voter.max_kraft_version,
                    ),
                )
                for voter in self.voters
            )
        )


NO_VOTERS = VoterSet()


def voter_set(record: VotersRecord) -> VoterSet:
    return VoterSet(
        tuple(
            Voter(
                key=ReplicaKey(BrokerId(voter.voter_id), voter.voter_directory_id),
                endpoints={
                    endpoint.name: Address(endpoint.host, endpoint.port) for endpoint in voter.endpoints
                },
                min_kraft_version=voter.k_raft_version_feature.min_supported_version,
                max_kraft_version=voter.k_raft_version_feature.max_supported_version,
            )
            for voter in record.voters
        )
    )

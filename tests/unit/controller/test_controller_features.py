"""Feature levels: what may be raised and lowered, in Kafka's words; the records of a new cluster."""

from __future__ import annotations

import uuid

import pytest

from kcli.controller.api import UPDATE_FEATURES
from kcli.controller.bootstrap import (
    bootstrap_records,
    decode_bootstrap,
    encode_bootstrap,
    encode_voters_snapshot,
    first_log_records,
)
from kcli.errors import CorruptRecordError, ErrorCode
from kcli.metadata.snapshot_file import decode_snapshot
from kcli.model.addresses import Address
from kcli.model.configs import CLUSTER_DEFAULT
from kcli.protocol.messages import update_features as uf
from kcli.protocol.records.metadata import (
    BeginTransactionRecord,
    ConfigRecord,
    EndTransactionRecord,
    FeatureLevelRecord,
    UserScramCredentialRecord,
)
from kcli.raft.voters import ReplicaKey, Voter, VoterSet, voter_set
from rigs.controller import FEATURES, ControllerRig

PREFIX = "The update failed for all features since the following feature had an error: "
UPGRADE, SAFE, UNSAFE = 1, 2, 3


@pytest.fixture
def rig() -> ControllerRig:
    made = ControllerRig()
    made.add_brokers(1)
    return made


def update(
    rig: ControllerRig, *levels: tuple[str, int], kind: int = UPGRADE, validate: bool = False
) -> uf.UpdateFeaturesResponse:
    request = uf.UpdateFeaturesRequest(
        feature_updates=tuple(
            uf.FeatureUpdateKey(feature=name, max_version_level=level, upgrade_type=kind)
            for name, level in levels
        ),
        validate_only=validate,
    )
    return rig.obey(rig.decide(UPDATE_FEATURES, request))


def test_features_move_together(rig: ControllerRig) -> None:
    response = update(rig, ("share.version", 1), ("group.version", 1))
    assert response.error_code is ErrorCode.NONE
    assert rig.image.features["share.version"] == 1
    update(rig, ("share.version", 0), kind=SAFE)
    assert "share.version" not in rig.image.features


def test_levels_may_be_tried_out(rig: ControllerRig) -> None:
    assert update(rig, ("share.version", 1), validate=True).error_code is ErrorCode.NONE
    assert "share.version" not in rig.image.features


@pytest.mark.parametrize(
    ("levels", "kind", "message"),
    [
        (
            [("metadata.version", 21)],
            UPGRADE,
            (
                "Invalid update version 21 for feature metadata.version. Can't downgrade the version of this feature "
                "without setting the upgrade type to either safe or unsafe downgrade."
            ),
        ),
        (
            [("group.version", 99)],
            UPGRADE,
            "Invalid update version 99 for feature group.version. Local controller 1 only supports versions 0-1",
        ),
        (
            [("no.such", 1)],
            UPGRADE,
            "Invalid update version 1 for feature no.such. Local controller 1 does not support this feature.",
        ),
        ([("no.such", 0)], SAFE, "Invalid update version 0 for feature no.such. Feature no.such not found."),
        (
            [("metadata.version", 0)],
            UNSAFE,
            "Invalid update version 0 for feature metadata.version. Local controller 1 only supports versions 7-27",
        ),
        (
            [("metadata.version", 21)],
            SAFE,
            (
                "Invalid update version 21 for feature metadata.version. Refusing to perform the requested downgrade "
                "because it might delete metadata information."
            ),
        ),
        (
            [("share.version", 1)],
            SAFE,
            "Invalid update version 1 for feature share.version. Can't downgrade to a newer version.",
        ),
    ],
)
def test_invalid_updates_are_refused(
    rig: ControllerRig, levels: list[tuple[str, int]], kind: int, message: str
) -> None:
    response = update(rig, ("group.version", 1), *levels, kind=kind)
    assert (response.error_code, response.error_message) == (
        ErrorCode.INVALID_UPDATE_VERSION,
        PREFIX + message,
    )
    assert response.results == ()
    assert rig.image.features == FEATURES


def test_a_level_that_added_nothing_to_the_log_can_be_left(rig: ControllerRig) -> None:
    assert update(rig, ("metadata.version", 25), kind=SAFE).error_code is ErrorCode.NONE
    assert rig.image.metadata_version == 25


def test_switching_elr_on_settles_min_insync_replicas() -> None:
    rig = ControllerRig(
        {**FEATURES, "eligible.leader.replicas.version": 0}, static_config={"min.insync.replicas": "3"}
    )
    rig.add_brokers(1)
    rig.replay([ConfigRecord(resource_type=4, resource_name="1", name="min.insync.replicas", value="9")])
    update(rig, ("eligible.leader.replicas.version", 1))
    assert rig.image.config(CLUSTER_DEFAULT) == {"min.insync.replicas": "3"}
    assert list(rig.image.configs) == [CLUSTER_DEFAULT]


def test_a_broker_that_lacks_a_feature_holds_the_cluster_back(rig: ControllerRig) -> None:
    lacking = [feature for feature in rig.registration(2).features if feature.name != "share.version"]
    rig.register(2, features=tuple(lacking))
    response = update(rig, ("share.version", 1))
    assert response.error_message.endswith("Broker 2 does not support this feature.")


# The first records.


def test_the_records_of_a_new_cluster() -> None:
    credential = UserScramCredentialRecord(name="a", mechanism=1, iterations=4096)
    levels = {"transaction.version": 2, "kraft.version": 1, "metadata.version": 27, "group.version": 0}
    bootstrap = bootstrap_records(levels, [credential])
    assert bootstrap == [
        FeatureLevelRecord(name="metadata.version", feature_level=27),
        FeatureLevelRecord(name="transaction.version", feature_level=2),
        credential,
    ]
    assert first_log_records(bootstrap, {}) == [
        BeginTransactionRecord(name="Bootstrap records"),
        *bootstrap,
        EndTransactionRecord(),
    ]


def test_elr_begins_with_a_cluster_wide_min_insync_replicas() -> None:
    first = first_log_records(bootstrap_records(FEATURES), {"min.insync.replicas": "2"})
    assert first[-2] == ConfigRecord(resource_type=4, resource_name="", name="min.insync.replicas", value="2")


def test_before_metadata_transactions_the_records_stand_alone() -> None:
    bootstrap = bootstrap_records({"metadata.version": 12})
    assert first_log_records(bootstrap, {}) == bootstrap


def test_the_bootstrap_file_is_read_as_it_was_written() -> None:
    bootstrap = bootstrap_records(FEATURES)
    content = encode_bootstrap(bootstrap, now_ms=1_700_000_000_000)
    assert decode_bootstrap(content) == bootstrap
    with pytest.raises(CorruptRecordError):
        decode_bootstrap(content[:-1])
    with pytest.raises(CorruptRecordError):
        decode_bootstrap(content[:160] + bytes([content[160] ^ 1]) + content[161:])


def test_the_first_snapshot_names_the_voters() -> None:
    voters = VoterSet((Voter(ReplicaKey(1, uuid.UUID(int=500)), {"CONTROLLER": Address("h", 9093)}),))
    snapshot = decode_snapshot(encode_voters_snapshot(voters.record(), 1, 5), "x")
    assert (snapshot.kraft_version, snapshot.batches) == (1, ())
    assert voter_set(snapshot.voters) == voters

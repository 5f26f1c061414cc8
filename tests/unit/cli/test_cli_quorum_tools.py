"""groups, features and metadata-quorum, from words to bytes, against a scripted server."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from kcli.cli.main import run
from kcli.client.admin.quorum import Endpoint
from kcli.errors import ErrorCode
from kcli.protocol.messages import (
    add_raft_voter,
    api_versions,
    describe_cluster,
    describe_quorum,
    list_groups,
    metadata,
    remove_raft_voter,
    update_features,
)
from kcli.protocol.wire.api import ApiKey
from rigs.scripted_server import ScriptedAnswer, ScriptedServer

ID = uuid.UUID(int=1)
SHOWN_ID = "AAAAAAAAAAAAAAAAAAAAAQ"


class Cluster:
    """One node, id 1, that is the leader of a quorum of three."""

    def __init__(self) -> None:
        self.server = ScriptedServer(self.script())

    def script(self) -> dict[ApiKey, ScriptedAnswer]:
        return {
            ApiKey.METADATA: self.metadata,
            ApiKey.DESCRIBE_CLUSTER: self.cluster,
            ApiKey.LIST_GROUPS: self.groups,
            ApiKey.UPDATE_FEATURES: self.update,
            ApiKey.DESCRIBE_QUORUM: self.quorum,
            ApiKey.ADD_RAFT_VOTER: self.add,
            ApiKey.REMOVE_RAFT_VOTER: self.remove,
        }

    def metadata(self, request: Any, version: int) -> metadata.MetadataResponse:
        broker = metadata.MetadataResponseBroker(node_id=1, host="127.0.0.1", port=self.server.port)
        return metadata.MetadataResponse(brokers=(broker,), controller_id=1)

    def cluster(self, request: Any, version: int) -> describe_cluster.DescribeClusterResponse:
        return describe_cluster.DescribeClusterResponse(cluster_id="the-cluster")

    def groups(self, request: Any, version: int) -> list_groups.ListGroupsResponse:
        return list_groups.ListGroupsResponse(
            groups=tuple(
                list_groups.ListedGroup(group_id=name, protocol_type=protocol, group_type=kind)
                for name, kind, protocol in (
                    ("old", "classic", "consumer"),
                    ("connect", "classic", "connect"),
                    ("new", "consumer", "consumer"),
                    ("queue", "share", "share"),
                )
            )
        )

    def update(self, request: Any, version: int) -> update_features.UpdateFeaturesResponse:
        refused = any(update.max_version_level == 9 for update in request.feature_updates)
        return update_features.UpdateFeaturesResponse(
            error_code=ErrorCode.INVALID_UPDATE_VERSION if refused else ErrorCode.NONE,
            error_message="too high" if refused else None,
        )

    def quorum(self, request: Any, version: int) -> describe_quorum.DescribeQuorumResponse:
        def replica(node: int, end: int, moment: int) -> describe_quorum.ReplicaState:
            return describe_quorum.ReplicaState(
                replica_id=node,
                replica_directory_id=ID,
                log_end_offset=end,
                last_fetch_timestamp=moment,
                last_caught_up_timestamp=moment,
            )

        partition = describe_quorum.ResponsePartitionData(
            leader_id=1,
            leader_epoch=4,
            high_watermark=90,
            current_voters=(replica(2, 90, 700), replica(1, 100, 1000), replica(3, 95, -1)),
            observers=(replica(7, 60, 500),),
        )
        listener = describe_quorum.Listener(name="CONTROLLER", host="h", port=9093)
        return describe_quorum.DescribeQuorumResponse(
            topics=(describe_quorum.ResponseTopicData(partitions=(partition,)),),
            nodes=(describe_quorum.Node(node_id=1, listeners=(listener,)),),
        )

    def add(self, request: Any, version: int) -> add_raft_voter.AddRaftVoterResponse:
        return add_raft_voter.AddRaftVoterResponse()

    def remove(self, request: Any, version: int) -> remove_raft_voter.RemoveRaftVoterResponse:
        return remove_raft_voter.RemoveRaftVoterResponse(
            error_code=ErrorCode.VOTER_NOT_FOUND, error_message="no such voter"
        )


@dataclass(frozen=True)
class Done:
    code: int
    out: str
    err: str


Kcli = Callable[..., Done]


@pytest.fixture
def cluster() -> Any:
    made = Cluster()
    with made.server:
        yield made


@pytest.fixture
def kcli(cluster: Cluster, capsys: pytest.CaptureFixture[str]) -> Kcli:
    def call(tool: str, *words: str) -> Done:
        code = run([tool, "--bootstrap-server", cluster.server.address, *words])
        said = capsys.readouterr()
        return Done(code, said.out, said.err)

    return call


def _groups(done: Done) -> list[str]:
    return [json.loads(line)["group"] for line in done.out.splitlines()]


def test_groups_of_every_type(kcli: Kcli) -> None:
    done = kcli("groups", "--list")
    assert (done.code, done.err) == (0, "")
    assert done.out.splitlines()[:2] == [
        f"{'GROUP':<20} {'TYPE':<20} {'PROTOCOL':<20}",
        f"{'connect':<20} {'Classic':<20} {'connect':<20} ",
    ]


@pytest.mark.parametrize(
    ("words", "groups"),
    [
        (("--consumer",), ["new", "old"]),
        (("--share",), ["queue"]),
        (("--streams",), []),
        (("--group-type", "CLASSIC"), ["connect", "old"]),
        (("--protocol", "consumer"), ["new", "old"]),
        (("--group-type", "classic", "--protocol", "consumer"), ["old"]),
    ],
)
def test_groups_are_listed_by_type_and_protocol(
    kcli: Kcli, words: tuple[str, ...], groups: list[str]
) -> None:
    assert _groups(kcli("groups", "--list", "--output", "json", *words)) == groups


@pytest.mark.usefixtures("kafkas_script")
@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((), "Command must include exactly one action: --list."),
        (("--list", "--group-type", "x"), "--group-type must be a valid group type."),
        (("--list", "--share", "--consumer"), 'Option "[consumer]" can\'t be used with option "[share]"'),
        (
            ("--list", "--share", "--protocol", "x"),
            'Option "[share]" can\'t be used with option "[protocol]"',
        ),
    ],
)
def test_groups_refuses_invalid_options(kcli: Kcli, words: tuple[str, ...], message: str) -> None:
    done = kcli("groups", *words)
    assert (done.code, done.out, done.err.splitlines()[0]) == (1, "", message)


def test_features_describe_shows_supported_and_finalized_levels(
    kcli: Kcli, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    from kcli.client import client

    async def told(self: Any, message: Any, key: ApiKey, **_: Any) -> Any:
        assert key is ApiKey.API_VERSIONS
        return api_versions.ApiVersionsResponse(
            supported_features=(
                api_versions.SupportedFeatureKey(name="metadata.version", min_version=7, max_version=27),
                api_versions.SupportedFeatureKey(name="group.version", min_version=0, max_version=1),
            ),
            finalized_features_epoch=5,
            finalized_features=(
                api_versions.FinalizedFeatureKey(name="metadata.version", max_version_level=99),
            ),
        )

    monkeypatch.setattr(client.Client, "send", told)
    assert kcli("features", "describe").out == (
        "Feature: group.version\tSupportedMinVersion: 0\tSupportedMaxVersion: 1\t"
        "FinalizedVersionLevel: 0\tEpoch: 5\n"
        "Feature: metadata.version\tSupportedMinVersion: 3.3-IV3\tSupportedMaxVersion: 4.1-IV1\t"
        "FinalizedVersionLevel: UNKNOWN [99]\tEpoch: 5\n"
    )


def test_features_upgrade_downgrade_and_disable_send_their_upgrade_type(kcli: Kcli, cluster: Cluster) -> None:
    done = kcli("features", "upgrade", "--feature", "b=1", "--feature", "a=2")
    assert done == Done(0, "a was upgraded to 2.\nb was upgraded to 1.\n", "")
    assert kcli("features", "downgrade", "--feature", "a=0", "--dry-run").out == (
        "a can be downgraded to 0.\n"
    )
    assert kcli("features", "disable", "--feature", "a", "--unsafe").out == "a was disabled.\n"
    requested = [
        (request.feature_updates[0].upgrade_type, request.validate_only)
        for request in cluster.server.sent(ApiKey.UPDATE_FEATURES)
    ]
    assert requested == [(1, False), (2, True), (3, False)]


def test_features_of_a_release(kcli: Kcli, cluster: Cluster) -> None:
    kcli("features", "upgrade", "--release-version", "3.9")
    kcli("features", "downgrade", "--release-version", "3.9")
    up, down = (
        {update.feature: update.max_version_level for update in request.feature_updates}
        for request in cluster.server.sent(ApiKey.UPDATE_FEATURES)
    )
    assert up == {"metadata.version": 21, "kraft.version": 1}
    assert down["group.version"] == 0 and down["metadata.version"] == 21


def test_a_refused_feature_refuses_all(kcli: Kcli) -> None:
    done = kcli("features", "upgrade", "--feature", "a=9", "--feature", "b=1")
    assert done == Done(
        1,
        "Could not upgrade a to 9. too high\nCould not upgrade b to 1. too high\n",
        "2 out of 2 operation(s) failed.\n",
    )


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("upgrade",), "You must specify at least one feature to upgrade"),
        (("disable",), "You must specify at least one feature to disable"),
        (
            ("upgrade", "--feature", "a"),
            "Can't parse feature=level string a: equals sign not found.",
        ),
        (
            ("upgrade", "--feature", "a=70000"),
            "Can't parse feature=level string a=70000: unable to parse 70000 as a short.",
        ),
        (
            ("upgrade", "--feature", "a=0_1"),
            "Can't parse feature=level string a=0_1: unable to parse 0_1 as a short.",
        ),
        (
            ("upgrade", "--feature", "a=1\u00a0"),
            "Can't parse feature=level string a=1\u00a0: unable to parse 1\u00a0 as a short.",
        ),
        (
            ("upgrade", "--feature", "a=1", "--feature", "a=2"),
            "Feature a was specified more than once.",
        ),
        (
            ("upgrade", "--feature", "a=1", "--release-version", "4.1"),
            "Can not specify `release-version` with other feature flags.",
        ),
        (("feature-dependencies", "--feature", "group.version=99"),
         "No feature:group.version with feature level 99"),
    ],
)  # fmt: skip
def test_features_refuses_invalid_options(kcli: Kcli, words: tuple[str, ...], message: str) -> None:
    assert kcli("features", *words) == Done(1, "", message + "\n")


def test_quorum_status_shows_leader_voters_and_observers(kcli: Kcli) -> None:
    done = kcli("metadata-quorum", "describe", "--status")
    assert (done.code, done.out.splitlines()) == (
        0,
        [
            "ClusterId:              the-cluster",
            "LeaderId:               1",
            "LeaderEpoch:            4",
            "HighWatermark:          90",
            "MaxFollowerLag:         10",
            "MaxFollowerLagTimeMs:   300",
            (
                f'CurrentVoters:          [{{"id": 2, "directoryId": "{SHOWN_ID}"}}, '
                f'{{"id": 1, "directoryId": "{SHOWN_ID}", "endpoints": ["CONTROLLER://h:9093"]}}, '
                f'{{"id": 3, "directoryId": "{SHOWN_ID}"}}]'
            ),
            f'CurrentObservers:       [{{"id": 7, "directoryId": "{SHOWN_ID}"}}]',
        ],
    )


def test_quorum_replication_shows_a_row_for_each_replica(kcli: Kcli) -> None:
    lines = kcli("metadata-quorum", "describe", "--replication").out.splitlines()
    assert lines[0].startswith("NodeId\tDirectoryId           \tLogEndOffset\tLag\t")
    assert [[cell.strip() for cell in line.split("\t")] for line in lines[1:]] == [
        ["1", SHOWN_ID, "100", "0", "1000", "1000", "Leader", ""],
        ["2", SHOWN_ID, "90", "10", "700", "700", "Follower", ""],
        ["3", SHOWN_ID, "95", "5", "-1", "-1", "Follower", ""],
        ["7", SHOWN_ID, "60", "40", "500", "500", "Observer", ""],
    ]
    human = kcli("metadata-quorum", "describe", "--replication", "--human-readable").out
    assert human.count(" ms ago") == 6


def test_quorum_controllers_come_and_go(kcli: Kcli, cluster: Cluster, tmp_path: Path) -> None:
    (tmp_path / "meta.properties").write_text(
        f"version=1\nnode.id=4\ncluster.id=c\ndirectory.id={SHOWN_ID}\n"
    )
    properties = tmp_path / "controller.properties"
    properties.write_text(
        "node.id=4\nprocess.roles=controller\ncontroller.listener.names=CONTROLLER\n"
        f"listeners=CONTROLLER://localhost:29093\nlog.dirs={tmp_path}\ncontroller.quorum.bootstrap.servers=h:1\n"
    )
    add = ("metadata-quorum", "--command-config", str(properties), "add-controller")
    told = f"controller 4 with directory id {SHOWN_ID} and endpoints: CONTROLLER://localhost:29093\n"
    assert kcli(*add, "--dry-run") == Done(0, f"DRY RUN of adding {told}", "")
    assert not cluster.server.sent(ApiKey.ADD_RAFT_VOTER)
    assert kcli(*add) == Done(0, f"Added {told}", "")
    assert cluster.server.sent(ApiKey.ADD_RAFT_VOTER)[0].voter_directory_id == ID
    remove = ("metadata-quorum", "remove-controller", "-i", "4", "-d", SHOWN_ID)
    assert (
        kcli(*remove, "--dry-run").out
        == f"DRY RUN of removing  KRaft controller 4 with directory id {SHOWN_ID}\n"
    )
    done = kcli(*remove)
    assert (done.code, done.err) == (
        1,
        "org.apache.kafka.common.errors.VoterNotFoundException: no such voter\n",
    )


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("describe",), "One of --status or --replication must be specified with describe sub-command"),
        (
            ("remove-controller", "-i", "-1", "-d", SHOWN_ID),
            "Invalid negative --controller-id: -1",
        ),
        (
            ("remove-controller", "-i", "1", "-d", "bad"),
            (
                "Failed to parse --controller-directory-id: Input string `bad` decoded as 2 bytes, "
                "which is not equal to the expected 16 bytes of a base64-encoded UUID"
            ),
        ),
        (
            ("add-controller",),
            "You must supply the configuration file of the controller you are adding when using add-controller.",
        ),
    ],
)
def test_quorum_refuses_invalid_options(kcli: Kcli, words: tuple[str, ...], message: str) -> None:
    assert kcli("metadata-quorum", *words) == Done(1, "", message + "\n")


def test_an_ipv6_endpoint_stands_in_brackets() -> None:
    assert str(Endpoint("CONTROLLER", "::1", 9093)) == "CONTROLLER://[::1]:9093"
    assert str(Endpoint("CONTROLLER", "h", 9093)) == "CONTROLLER://h:9093"

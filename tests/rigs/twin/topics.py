"""Topics, partitions, elections, features and the cluster."""

from __future__ import annotations

from kcli.protocol.wire.api import ApiKey
from rigs.twin.case import TOPIC_IDS, UNKNOWN_ID, Case, Data, Since

A, NEW = TOPIC_IDS
NO_TOPIC = "This server does not host this topic-partition."
IN_TIME: dict[str, Data] = {"timeout_ms": 10_000}
NOT_NEEDED = "Leader election not needed for topic partition."

_CREATE = (
    Case(
        "the topics of this table",
        ApiKey.CREATE_TOPICS,
        {
            "topics": [
                {
                    "name": "twin-a",
                    "num_partitions": 2,
                    "replication_factor": 1,
                    # The records of the table are old, so a retention would delete them in between.
                    "configs": [{"name": "retention.ms", "value": "-1"}],
                },
                {
                    "name": "twin-compact",
                    "num_partitions": 1,
                    "replication_factor": 1,
                    "configs": [{"name": "cleanup.policy", "value": "compact"}],
                },
            ]
        },
        {"topics.error_code": (0, 0), "topics.error_message": (None, None)},
        since=7,
    ),
    Case(
        "a new topic",
        ApiKey.CREATE_TOPICS,
        {"topics": [{"name": "twin-new-{v}", "num_partitions": 3, "replication_factor": 1}]},
        {"topics.error_code": 0, "topics.error_message": None, "topics.num_partitions": Since({2: -1, 5: 3})},
    ),
    Case(
        "a topic that exists",
        ApiKey.CREATE_TOPICS,
        {"topics": [{"name": "twin-a", "num_partitions": 1, "replication_factor": 1}]},
        {"topics.error_code": 36, "topics.error_message": "Topic 'twin-a' already exists."},
    ),
    Case(
        "two brokers where there is one, a bad name, no partitions, an unknown config",
        ApiKey.CREATE_TOPICS,
        {
            "topics": [
                {"name": "twin-x1", "num_partitions": 1, "replication_factor": 2},
                {"name": "a b", "num_partitions": 1, "replication_factor": 1},
                {"name": "twin-x2", "num_partitions": 0, "replication_factor": 1},
                {
                    "name": "twin-x3",
                    "num_partitions": 1,
                    "replication_factor": 1,
                    "configs": [{"name": "no.such.key", "value": "1"}],
                },
            ],
            "validate_only": True,
        },
        {"topics.error_code": (38, 17, 37, 40)},
    ),
    Case(
        "the same name twice",
        ApiKey.CREATE_TOPICS,
        {
            "topics": [
                {"name": "twin-y", "num_partitions": number, "replication_factor": 1} for number in (1, 2)
            ]
        },
        {"topics.error_code": 42, "topics.error_message": "Duplicate topic name."},
    ),
)

_DELETE = (
    Case(
        "a time limit that is over",
        ApiKey.DELETE_TOPICS,
        {"topic_names": ["twin-a"], "timeout_ms": 0},
        {"responses.error_code": 7, "responses.error_message": None},
        until=5,
    ),
    Case(
        "an unknown name",
        ApiKey.DELETE_TOPICS,
        {**IN_TIME, "topic_names": ["twin-nope"]},
        {"responses.error_code": 3, "responses.error_message": Since({1: None, 5: NO_TOPIC})},
        until=5,
    ),
    Case(
        "an unknown name, an unknown id, both, neither",
        ApiKey.DELETE_TOPICS,
        {
            **IN_TIME,
            "topics": [
                {"name": "twin-nope"},
                {"topic_id": UNKNOWN_ID},
                {"name": "twin-a", "topic_id": A},
                {},
            ],
        },
        since=6,
    ),
    Case(
        "an unknown id",
        ApiKey.DELETE_TOPICS,
        {**IN_TIME, "topics": [{"topic_id": UNKNOWN_ID}]},
        {"responses.error_code": 100, "responses.error_message": "This server does not host this topic ID."},
        since=6,
    ),
    Case(
        "by name",
        ApiKey.DELETE_TOPICS,
        {**IN_TIME, "topic_names": ["twin-new-{v}"]},
        {
            "responses.error_code": Since({1: 3, 2: 0}),
            "responses.name": Since({v: f"twin-new-{v}" for v in range(1, 6)}),
        },
        until=5,
    ),
    Case(
        "the same name twice",
        ApiKey.DELETE_TOPICS,
        {**IN_TIME, "topics": [{"name": "twin-a"}, {"name": "twin-a"}]},
        {"responses.error_code": 42, "responses.error_message": "Duplicate topic name."},
        since=6,
    ),
    Case(
        "by id",
        ApiKey.DELETE_TOPICS,
        {**IN_TIME, "topics": [{"topic_id": NEW}]},
        {"responses.error_code": 0, "responses.error_message": None, "responses.name": "twin-new-7"},
        since=6,
    ),
)

_PARTITIONS = (
    Case(
        "a time limit that is over",
        ApiKey.CREATE_PARTITIONS,
        {"topics": [{"name": "twin-a", "count": 3, "assignments": None}], "timeout_ms": 0},
        {"results.error_code": 7, "results.error_message": None},
    ),
    Case(
        "one more partition, only checked",
        ApiKey.CREATE_PARTITIONS,
        {**IN_TIME, "topics": [{"name": "twin-a", "count": 3, "assignments": None}], "validate_only": True},
        {"results.error_code": 0, "results.error_message": None},
    ),
    Case(
        "fewer partitions, as many, an unknown topic",
        ApiKey.CREATE_PARTITIONS,
        {
            **IN_TIME,
            "topics": [
                {"name": "twin-a", "count": 1, "assignments": None},
                {"name": "twin-compact", "count": 1, "assignments": None},
                {"name": "twin-nope", "count": 5, "assignments": None},
            ],
        },
        {"results.error_code": (37, 37, 3)},
    ),
    Case(
        "a move to a broker that is not there; an unknown topic",
        ApiKey.ALTER_PARTITION_REASSIGNMENTS,
        {
            "topics": [
                {"name": "twin-a", "partitions": [{"partition_index": 0, "replicas": [99]}]},
                {"name": "twin-nope", "partitions": [{"partition_index": 0, "replicas": [1]}]},
                {"name": "twin-a", "partitions": [{"partition_index": 1, "replicas": None}]},
            ]
        },
        {"error_code": 0, "responses.partitions.error_code": (39, 3, 85)},
    ),
    Case(
        "all moves",
        ApiKey.LIST_PARTITION_REASSIGNMENTS,
        {"topics": None},
        {"error_code": 0, "error_message": None, "topics": ()},
    ),
    Case(
        "a move of one partition",
        ApiKey.LIST_PARTITION_REASSIGNMENTS,
        {"topics": [{"name": "twin-a", "partition_indexes": [0]}]},
        {"error_code": 0, "topics": ()},
    ),
    Case(
        "the preferred leader leads; unknown partition, unknown topic",
        ApiKey.ELECT_LEADERS,
        {
            "topic_partitions": [
                {"topic": "twin-a", "partitions": [0, 9]},
                {"topic": "twin-nope", "partitions": [0]},
            ]
        },
        {
            "error_code": 0,
            "replica_election_results.partition_result.error_code": (84, 3, 3),
            "replica_election_results.partition_result.error_message": (
                NOT_NEEDED,
                "No such partition as twin-a-9",
                "No such topic as twin-nope",
            ),
        },
    ),
    Case(
        "an unknown kind of election",
        ApiKey.ELECT_LEADERS,
        {"election_type": 7, "topic_partitions": [{"topic": "twin-a", "partitions": [0]}]},
        {"error_code": 42, "replica_election_results.partition_result.error_code": 42},
        since=1,
    ),
)

_CLUSTER = (
    Case(
        "topics by name",
        ApiKey.METADATA,
        {"topics": [{"name": "twin-a"}, {"name": "twin-nope"}], "allow_auto_topic_creation": False},
        {"topics.error_code": (0, 3)},
        since=4,
    ),
    Case(
        "a topic by id; an unknown id",
        ApiKey.METADATA,
        {"topics": [{"name": None, "topic_id": A}, {"name": None, "topic_id": UNKNOWN_ID}]},
        {"topics.error_code": (0, 100), "topics.name": ("twin-a", None)},
        since=12,
    ),
    Case("a bad name", ApiKey.METADATA, {"topics": [{"name": "a b"}]}, {"topics.error_code": 17}),
    Case("no topic", ApiKey.METADATA, {"topics": []}, since=1),
    Case(
        "partitions of topics",
        ApiKey.DESCRIBE_TOPIC_PARTITIONS,
        {"topics": [{"name": "twin-a"}, {"name": "twin-nope"}]},
        {"topics.error_code": (0, 3), "topics.partitions.partition_index": (0, 1)},
    ),
    Case(
        "one partition at a time",
        ApiKey.DESCRIBE_TOPIC_PARTITIONS,
        {"topics": [{"name": "twin-a"}], "response_partition_limit": 1},
        {"topics.partitions.partition_index": 0, "next_cursor.partition_index": 1},
    ),
    Case("brokers", ApiKey.DESCRIBE_CLUSTER, {}, {"error_code": 0, "error_message": None}),
    Case(
        "controllers, asked of a broker",
        ApiKey.DESCRIBE_CLUSTER,
        {"endpoint_type": 2},
        {"error_code": 114},
        since=1,
    ),
    Case(
        "an endpoint of no kind", ApiKey.DESCRIBE_CLUSTER, {"endpoint_type": 9}, {"error_code": 115}, since=1
    ),
    Case(
        "the metadata quorum; another topic",
        ApiKey.DESCRIBE_QUORUM,
        {"topics": [{"topic_name": "__cluster_metadata", "partitions": [{"partition_index": 0}]}]},
        {"error_code": 0, "topics.partitions.error_code": 0},
    ),
    Case(
        "an unknown feature",
        ApiKey.UPDATE_FEATURES,
        {"feature_updates": [{"feature": "no.such", "max_version_level": 1}]},
        {"error_code": 95, "results": ()},
    ),
    Case(
        "a level that is there",
        ApiKey.UPDATE_FEATURES,
        {"feature_updates": [{"feature": "group.version", "max_version_level": 1}], "validate_only": True},
        {"error_code": 0, "error_message": None, "results.feature": Since({0: "group.version", 2: ()})},
        since=1,
    ),
    Case("a client", ApiKey.API_VERSIONS, {"client_software_name": "twin", "client_software_version": "1"}),
    Case(
        "a bad name of a client",
        ApiKey.API_VERSIONS,
        {"client_software_name": "-", "client_software_version": "1"},
        {"error_code": 42},
        since=3,
    ),
    Case("a broker that is not there", ApiKey.UNREGISTER_BROKER, {"broker_id": 99}, {"error_code": 102}),
    Case(
        "a voter of another cluster",
        ApiKey.ADD_RAFT_VOTER,
        {"cluster_id": "other", "voter_id": 99, "timeout_ms": 100, "voter_directory_id": UNKNOWN_ID},
        {"error_code": 104},
    ),
    Case(
        "a voter of another cluster",
        ApiKey.REMOVE_RAFT_VOTER,
        {"cluster_id": "other", "voter_id": 99, "voter_directory_id": UNKNOWN_ID},
        {"error_code": 104},
    ),
    Case(
        "sizes of a topic",
        ApiKey.DESCRIBE_LOG_DIRS,
        {"topics": [{"topic": "twin-a", "partitions": [0, 1]}]},
        {"error_code": 0, "results.error_code": 0},
    ),
    Case(
        "a directory that is not there; an unknown partition",
        ApiKey.ALTER_REPLICA_LOG_DIRS,
        {
            "dirs": [
                {"path": "/no/such/dir", "topics": [{"name": "twin-a", "partitions": [0]}]},
            ]
        },
        {"results.partitions.error_code": 57},
    ),
)

TOPICS = (*_CREATE, *_PARTITIONS, *_CLUSTER, *_DELETE)

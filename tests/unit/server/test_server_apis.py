"""The rows of the APIs: each field is compared, for every API, with a second list that has its own source."""

from __future__ import annotations

from kcli.protocol.messages import create_partitions, create_topics, delete_topics
from kcli.protocol.wire import schema
from kcli.protocol.wire.api import API, ApiKey
from kcli.server.requests.apis import (
    APIS,
    FORWARDED,
    WAITING_BY_DESIGN,
    Api,
    Forwarding,
    served_on_broker,
    served_on_controller,
)

# The answers of these APIs can be large or late, and nothing else depends on the work on them.
CANCELLED_WITH_THEIR_CLIENT = """
    FETCH LIST_OFFSETS METADATA OFFSET_FOR_LEADER_EPOCH DESCRIBE_CONFIGS DESCRIBE_GROUPS CONSUMER_GROUP_DESCRIBE
    DESCRIBE_LOG_DIRS DESCRIBE_PRODUCERS DESCRIBE_TOPIC_PARTITIONS DESCRIBE_TRANSACTIONS DESCRIBE_USER_SCRAM_CREDENTIALS
    LIST_CONFIG_RESOURCES LIST_GROUPS LIST_TRANSACTIONS
"""
# The APIs that are `forwardable` in Kafka's ApiKeys.
FORWARDABLE = """
    CREATE_TOPICS DELETE_TOPICS CREATE_ACLS DELETE_ACLS ALTER_CONFIGS CREATE_PARTITIONS CREATE_DELEGATION_TOKEN
    RENEW_DELEGATION_TOKEN EXPIRE_DELEGATION_TOKEN ELECT_LEADERS INCREMENTAL_ALTER_CONFIGS
    ALTER_PARTITION_REASSIGNMENTS LIST_PARTITION_REASSIGNMENTS ALTER_CLIENT_QUOTAS ALTER_USER_SCRAM_CREDENTIALS
    DESCRIBE_QUORUM UPDATE_FEATURES UNREGISTER_BROKER ADD_RAFT_VOTER REMOVE_RAFT_VOTER
"""
# The forwardable APIs whose handlers need what only the broker knows: its own keys, or the client's connection.
HANDLED_ON_THE_BROKER_FIRST = """
    ALTER_CONFIGS INCREMENTAL_ALTER_CONFIGS CREATE_DELEGATION_TOKEN RENEW_DELEGATION_TOKEN EXPIRE_DELEGATION_TOKEN
"""
# The APIs that only nodes send, and whose answers Kafka sends "exempt from throttling".
BETWEEN_NODES = """
    WRITE_TXN_MARKERS ALTER_PARTITION BROKER_REGISTRATION BROKER_HEARTBEAT ALLOCATE_PRODUCER_IDS
    ASSIGN_REPLICAS_TO_DIRS CONTROLLER_REGISTRATION ENVELOPE VOTE BEGIN_QUORUM_EPOCH END_QUORUM_EPOCH FETCH_SNAPSHOT
    UPDATE_RAFT_VOTER
"""


def keys(names: str) -> set[ApiKey]:
    return {ApiKey[name] for name in names.split()}


def test_the_work_on_requests_that_only_read_ends_with_their_client() -> None:
    assert {key for key, api in APIS.items() if api.only_reads} == keys(CANCELLED_WITH_THEIR_CLIENT)


def test_the_forwarded_apis_are_those_of_kafka() -> None:
    assert set(FORWARDED) == keys(FORWARDABLE)
    after = {key for key, api in APIS.items() if api.forwarding is Forwarding.AFTER_HANDLER}
    assert after == keys(HANDLED_ON_THE_BROKER_FIRST)
    assert all(API[key].on_broker and API[key].on_controller for key in FORWARDED)


def test_only_requests_between_nodes_are_exempt_from_quotas() -> None:
    assert {key for key, api in APIS.items() if api.is_exempt_from_quotas} == keys(BETWEEN_NODES)


def test_the_versions_of_the_quota_of_mutations_are_those_of_kip_599() -> None:
    since = {key: api.mutation_errors_since for key, api in APIS.items() if api.mutation_errors_since}
    assert since == {ApiKey.CREATE_TOPICS: 6, ApiKey.DELETE_TOPICS: 5, ApiKey.CREATE_PARTITIONS: 3}
    # The dispatch reads the throttle time of a forwarded answer at this place.
    for message, key in (
        (create_topics.CreateTopicsResponse, ApiKey.CREATE_TOPICS),
        (delete_topics.DeleteTopicsResponse, ApiKey.DELETE_TOPICS),
        (create_partitions.CreatePartitionsResponse, ApiKey.CREATE_PARTITIONS),
    ):
        for version in API[key].versions:
            assert schema.fields(message, version)[0].name == "throttle_time_ms"


def test_a_trace_names_what_a_request_waits_for() -> None:
    named = {key.name: api.waits_for for key, api in APIS.items() if api.waits_for}
    assert named == {
        "PRODUCE": "replicas",
        "FETCH": "records",
        "JOIN_GROUP": "members",
        "SYNC_GROUP": "members",
    }
    assert keys("FETCH JOIN_GROUP SYNC_GROUP CONSUMER_GROUP_HEARTBEAT") == WAITING_BY_DESIGN


def test_only_the_fetch_of_a_controller_has_another_handler() -> None:
    others = {key: api for key, api in served_on_controller().items() if api != APIS[key]}
    assert list(others) == [ApiKey.FETCH]
    assert others[ApiKey.FETCH].handler == "kcli.server.handlers.fetch_metadata"
    assert all(api == APIS[key] for key, api in served_on_broker().items())


def test_every_field_of_a_row_is_compared_in_these_tests() -> None:
    """The field `access` is compared with Kafka's own log (test_server_access.py) and by test_rights_sweep.py."""
    assert set(Api.__slots__) == {
        "key",
        "access",
        "module",
        "only_reads",
        "forwarding",
        "is_exempt_from_quotas",
        "mutation_errors_since",
        "waits_for",
        "waits_by_design",
    }

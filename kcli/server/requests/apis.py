"""The APIs that a node serves: one row for each API, with everything that the steps around its handler must know.

The dispatch, the quotas, the forwarding to the controller, the metrics and the traces read these rows, and so do the
tools that explain a missing permission. The versions and the listeners of an API are facts of the protocol
(kcli.protocol.wire.api). ApiVersions lists the APIs that have a row.

A row is not in its handler's module, because handlers are imported late (docs/adr/0023).
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from enum import Enum

from kcli.protocol.wire.api import API, ApiKey
from kcli.server.requests.access import (
    ALTER_CLUSTER,
    ALTER_CONFIGS_CLUSTER,
    ALTER_CONFIGS_GROUP,
    ALTER_CONFIGS_TOPIC,
    ALTER_TOPIC,
    CLUSTER_ACTION,
    CREATE_CLUSTER,
    CREATE_TOKENS,
    CREATE_TOPIC,
    DELETE_CLUSTER,
    DELETE_GROUP,
    DELETE_TOPIC,
    DESCRIBE_CLUSTER,
    DESCRIBE_CONFIGS_CLUSTER,
    DESCRIBE_CONFIGS_GROUP,
    DESCRIBE_CONFIGS_TOPIC,
    DESCRIBE_DELEGATION_TOKEN,
    DESCRIBE_GROUP,
    DESCRIBE_TOKENS,
    DESCRIBE_TOPIC,
    DESCRIBE_TRANSACTIONAL_ID,
    IDEMPOTENT_WRITE,
    OPEN,
    READ_GROUP,
    READ_TOPIC,
    TWO_PHASE_COMMIT,
    WRITE_TOPIC,
    WRITE_TRANSACTIONAL_ID,
    Access,
    per_resource,
    whole_request,
)

HANDLERS = "kcli.server.handlers"


class Forwarding(Enum):
    """Whether a broker sends a request to the active controller in an Envelope (KIP-590)."""

    NONE = "none"
    WHOLE = "whole"
    """The broker forwards the frame without decoding it."""
    AFTER_HANDLER = "after handler"
    """The handler runs on the broker first, and sends a request of its own.

    The handlers of the two config APIs check the keys of this broker and change its log levels. Then they send the
    other resources to the controller. The handlers of delegation tokens run on the broker, because only the broker
    knows the security of the client's connection (KIP-48).
    """


@dataclass(frozen=True, slots=True)
class Api:
    """One API: the operations that a client needs, and what else is special about it."""

    key: ApiKey
    access: Access
    _: KW_ONLY
    module: str = ""
    """The module of the handler, if it is not the module with the name of the API."""
    only_reads: bool = False
    """If the client disconnects, the work on its request is cancelled. This work must not await a future that other
    requests also await, because a cancelled task cancels the future that it awaits."""
    forwarding: Forwarding = Forwarding.NONE
    is_exempt_from_quotas: bool = False
    """Requests between brokers are not throttled, because a throttled broker would delay the whole cluster."""
    mutation_errors_since: int | None = None
    """If the quota controller_mutation_rate limits the API (KIP-599), the first version whose clients know
    THROTTLING_QUOTA_EXCEEDED. Older clients are only delayed. The throttle time is the first field of the response."""
    waits_for: str = ""
    """What a request waits for, if a trace names it."""
    waits_by_design: bool = False
    """Whether a request waits on purpose, for records, for members, or for the end of an interval. For the list of slow
    requests, only its local time counts."""

    @property
    def handler(self) -> str:
        """The name of the module that handles the requests."""
        return f"{HANDLERS}.{self.module or API[self.key].module}"


_ROWS = (
    Api(ApiKey.PRODUCE, per_resource(WRITE_TOPIC, WRITE_TRANSACTIONAL_ID), waits_for="replicas"),
    Api(
        ApiKey.FETCH,
        per_resource(READ_TOPIC, CLUSTER_ACTION),
        only_reads=True,
        waits_for="records",
        waits_by_design=True,
    ),
    Api(ApiKey.LIST_OFFSETS, per_resource(DESCRIBE_TOPIC), only_reads=True),
    Api(
        ApiKey.METADATA,
        per_resource(DESCRIBE_TOPIC, CREATE_TOPIC, CREATE_CLUSTER, DESCRIBE_CLUSTER),
        only_reads=True,
    ),
    Api(ApiKey.OFFSET_COMMIT, per_resource(READ_GROUP, READ_TOPIC)),
    Api(ApiKey.OFFSET_FETCH, per_resource(DESCRIBE_GROUP, DESCRIBE_TOPIC)),
    Api(ApiKey.FIND_COORDINATOR, per_resource(DESCRIBE_GROUP, DESCRIBE_TRANSACTIONAL_ID, CLUSTER_ACTION)),
    Api(ApiKey.JOIN_GROUP, per_resource(READ_GROUP), waits_for="members", waits_by_design=True),
    Api(ApiKey.HEARTBEAT, per_resource(READ_GROUP)),
    Api(ApiKey.LEAVE_GROUP, per_resource(READ_GROUP)),
    Api(ApiKey.SYNC_GROUP, per_resource(READ_GROUP), waits_for="members", waits_by_design=True),
    Api(ApiKey.DESCRIBE_GROUPS, per_resource(DESCRIBE_GROUP), only_reads=True),
    Api(ApiKey.LIST_GROUPS, per_resource(DESCRIBE_CLUSTER, DESCRIBE_GROUP), only_reads=True),
    Api(ApiKey.SASL_HANDSHAKE, OPEN),
    Api(ApiKey.API_VERSIONS, OPEN),
    Api(
        ApiKey.CREATE_TOPICS,
        per_resource(CREATE_CLUSTER, CREATE_TOPIC, DESCRIBE_CONFIGS_TOPIC),
        forwarding=Forwarding.WHOLE,
        mutation_errors_since=6,
    ),
    Api(
        ApiKey.DELETE_TOPICS,
        per_resource(DELETE_TOPIC, DELETE_CLUSTER, DESCRIBE_TOPIC),
        forwarding=Forwarding.WHOLE,
        mutation_errors_since=5,
    ),
    Api(ApiKey.DELETE_RECORDS, per_resource(DELETE_TOPIC)),
    Api(
        ApiKey.INIT_PRODUCER_ID,
        per_resource(WRITE_TRANSACTIONAL_ID, TWO_PHASE_COMMIT, IDEMPOTENT_WRITE, WRITE_TOPIC),
    ),
    Api(ApiKey.OFFSET_FOR_LEADER_EPOCH, per_resource(CLUSTER_ACTION, DESCRIBE_TOPIC), only_reads=True),
    Api(ApiKey.ADD_PARTITIONS_TO_TXN, per_resource(WRITE_TRANSACTIONAL_ID, WRITE_TOPIC, CLUSTER_ACTION)),
    Api(ApiKey.ADD_OFFSETS_TO_TXN, per_resource(WRITE_TRANSACTIONAL_ID, READ_GROUP)),
    Api(ApiKey.END_TXN, per_resource(WRITE_TRANSACTIONAL_ID)),
    Api(ApiKey.WRITE_TXN_MARKERS, whole_request(ALTER_CLUSTER, CLUSTER_ACTION), is_exempt_from_quotas=True),
    Api(ApiKey.TXN_OFFSET_COMMIT, per_resource(WRITE_TRANSACTIONAL_ID, READ_GROUP, READ_TOPIC)),
    Api(ApiKey.DESCRIBE_ACLS, whole_request(DESCRIBE_CLUSTER, shows_request=True)),
    Api(ApiKey.CREATE_ACLS, whole_request(ALTER_CLUSTER, shows_request=True), forwarding=Forwarding.WHOLE),
    Api(ApiKey.DELETE_ACLS, whole_request(ALTER_CLUSTER, shows_request=True), forwarding=Forwarding.WHOLE),
    Api(
        ApiKey.DESCRIBE_CONFIGS,
        per_resource(DESCRIBE_CONFIGS_TOPIC, DESCRIBE_CONFIGS_GROUP, DESCRIBE_CONFIGS_CLUSTER),
        only_reads=True,
    ),
    Api(
        ApiKey.ALTER_CONFIGS,
        per_resource(ALTER_CONFIGS_TOPIC, ALTER_CONFIGS_GROUP, ALTER_CONFIGS_CLUSTER),
        forwarding=Forwarding.AFTER_HANDLER,
    ),
    Api(ApiKey.ALTER_REPLICA_LOG_DIRS, whole_request(ALTER_CLUSTER)),
    Api(ApiKey.DESCRIBE_LOG_DIRS, whole_request(DESCRIBE_CLUSTER), only_reads=True),
    Api(ApiKey.SASL_AUTHENTICATE, OPEN),
    Api(
        ApiKey.CREATE_PARTITIONS,
        per_resource(ALTER_TOPIC),
        forwarding=Forwarding.WHOLE,
        mutation_errors_since=3,
    ),
    Api(ApiKey.CREATE_DELEGATION_TOKEN, per_resource(CREATE_TOKENS), forwarding=Forwarding.AFTER_HANDLER),
    Api(ApiKey.RENEW_DELEGATION_TOKEN, OPEN, forwarding=Forwarding.AFTER_HANDLER),
    Api(ApiKey.EXPIRE_DELEGATION_TOKEN, OPEN, forwarding=Forwarding.AFTER_HANDLER),
    Api(ApiKey.DESCRIBE_DELEGATION_TOKEN, per_resource(DESCRIBE_DELEGATION_TOKEN, DESCRIBE_TOKENS)),
    Api(ApiKey.DELETE_GROUPS, per_resource(DELETE_GROUP)),
    Api(ApiKey.ELECT_LEADERS, whole_request(ALTER_CLUSTER, shows_request=True), forwarding=Forwarding.WHOLE),
    Api(
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
        per_resource(ALTER_CONFIGS_TOPIC, ALTER_CONFIGS_GROUP, ALTER_CONFIGS_CLUSTER, CLUSTER_ACTION),
        forwarding=Forwarding.AFTER_HANDLER,
    ),
    Api(
        ApiKey.ALTER_PARTITION_REASSIGNMENTS,
        whole_request(ALTER_CLUSTER, shows_request=True),
        forwarding=Forwarding.WHOLE,
    ),
    Api(
        ApiKey.LIST_PARTITION_REASSIGNMENTS,
        whole_request(DESCRIBE_CLUSTER, shows_request=True),
        forwarding=Forwarding.WHOLE,
    ),
    Api(ApiKey.OFFSET_DELETE, per_resource(DELETE_GROUP, READ_TOPIC)),
    Api(ApiKey.DESCRIBE_CLIENT_QUOTAS, whole_request(DESCRIBE_CONFIGS_CLUSTER)),
    Api(ApiKey.ALTER_CLIENT_QUOTAS, whole_request(ALTER_CONFIGS_CLUSTER), forwarding=Forwarding.WHOLE),
    Api(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, whole_request(DESCRIBE_CLUSTER), only_reads=True),
    Api(
        ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
        whole_request(ALTER_CLUSTER, shows_request=True),
        forwarding=Forwarding.WHOLE,
    ),
    Api(ApiKey.VOTE, whole_request(CLUSTER_ACTION), is_exempt_from_quotas=True),
    Api(ApiKey.BEGIN_QUORUM_EPOCH, whole_request(CLUSTER_ACTION), is_exempt_from_quotas=True),
    Api(ApiKey.END_QUORUM_EPOCH, whole_request(CLUSTER_ACTION), is_exempt_from_quotas=True),
    Api(ApiKey.DESCRIBE_QUORUM, whole_request(DESCRIBE_CLUSTER), forwarding=Forwarding.WHOLE),
    Api(ApiKey.ALTER_PARTITION, whole_request(CLUSTER_ACTION), is_exempt_from_quotas=True),
    Api(
        ApiKey.UPDATE_FEATURES, whole_request(ALTER_CLUSTER, shows_request=True), forwarding=Forwarding.WHOLE
    ),
    Api(ApiKey.ENVELOPE, whole_request(CLUSTER_ACTION), is_exempt_from_quotas=True),
    Api(ApiKey.FETCH_SNAPSHOT, whole_request(CLUSTER_ACTION), is_exempt_from_quotas=True),
    Api(ApiKey.DESCRIBE_CLUSTER, per_resource(ALTER_CLUSTER, DESCRIBE_CLUSTER)),
    Api(ApiKey.DESCRIBE_PRODUCERS, per_resource(READ_TOPIC), only_reads=True),
    Api(ApiKey.BROKER_REGISTRATION, whole_request(CLUSTER_ACTION), is_exempt_from_quotas=True),
    Api(ApiKey.BROKER_HEARTBEAT, whole_request(CLUSTER_ACTION), is_exempt_from_quotas=True),
    Api(
        ApiKey.UNREGISTER_BROKER,
        whole_request(ALTER_CLUSTER, shows_request=True),
        forwarding=Forwarding.WHOLE,
    ),
    Api(
        ApiKey.DESCRIBE_TRANSACTIONS, per_resource(DESCRIBE_TRANSACTIONAL_ID, DESCRIBE_TOPIC), only_reads=True
    ),
    Api(ApiKey.LIST_TRANSACTIONS, per_resource(DESCRIBE_TRANSACTIONAL_ID), only_reads=True),
    Api(ApiKey.ALLOCATE_PRODUCER_IDS, whole_request(CLUSTER_ACTION), is_exempt_from_quotas=True),
    Api(ApiKey.CONSUMER_GROUP_HEARTBEAT, per_resource(READ_GROUP, DESCRIBE_TOPIC), waits_by_design=True),
    Api(ApiKey.CONSUMER_GROUP_DESCRIBE, per_resource(DESCRIBE_GROUP, DESCRIBE_TOPIC), only_reads=True),
    Api(ApiKey.CONTROLLER_REGISTRATION, whole_request(CLUSTER_ACTION), is_exempt_from_quotas=True),
    Api(ApiKey.ASSIGN_REPLICAS_TO_DIRS, whole_request(CLUSTER_ACTION), is_exempt_from_quotas=True),
    Api(ApiKey.LIST_CONFIG_RESOURCES, whole_request(DESCRIBE_CONFIGS_CLUSTER), only_reads=True),
    Api(ApiKey.DESCRIBE_TOPIC_PARTITIONS, per_resource(DESCRIBE_TOPIC), only_reads=True),
    Api(ApiKey.ADD_RAFT_VOTER, whole_request(ALTER_CLUSTER), forwarding=Forwarding.WHOLE),
    Api(ApiKey.REMOVE_RAFT_VOTER, whole_request(ALTER_CLUSTER), forwarding=Forwarding.WHOLE),
    Api(ApiKey.UPDATE_RAFT_VOTER, whole_request(CLUSTER_ACTION), is_exempt_from_quotas=True),
)

APIS: dict[ApiKey, Api] = {api.key: api for api in _ROWS}
"""The APIs of a node, in the order of their keys."""

_FETCH_OF_METADATA = Api(
    ApiKey.FETCH,
    whole_request(CLUSTER_ACTION),
    module="fetch_metadata",
    only_reads=True,
    waits_by_design=True,
)
"""On a controller, Fetch replicates the metadata log to the other nodes."""

WAITING_BY_DESIGN = frozenset(api.key for api in _ROWS if api.waits_by_design)
FORWARDED = tuple(api.key for api in _ROWS if api.forwarding is not Forwarding.NONE)
"""The APIs that a controller accepts in an Envelope, in the order of their keys."""


def served_on_broker() -> dict[ApiKey, Api]:
    """Returns the APIs that the listeners of a broker serve."""
    return {key: api for key, api in APIS.items() if API[key].on_broker}


def served_on_controller() -> dict[ApiKey, Api]:
    """Returns the APIs that the listeners of a controller serve."""
    served = {**APIS, ApiKey.FETCH: _FETCH_OF_METADATA}
    return {key: api for key, api in served.items() if API[key].on_controller}

"""The table of the controller's APIs. Each row contains the function that makes the decision on a request of this API.

A caller passes a row to the controller. For a request that a broker forwarded in an Envelope (KIP-590), the controller
looks up the row by the API key. The function for a rare request is imported when the first such request arrives. So the
start of a node does not load this function.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

from kcli.controller import (
    brokers,
    config_requests,
    controllers,
    features,
    leadership,
    producer_ids,
    reassignments,
    replicas,
    topics,
)
from kcli.controller.controller import Controller
from kcli.controller.decision import Decision, DecisionSteps
from kcli.controller.settings import ControllerSettings
from kcli.controller.topics import Charge, no_charge
from kcli.protocol.wire.api import ApiKey
from kcli.security.principal import Principal

if TYPE_CHECKING:
    from kcli.protocol.messages.allocate_producer_ids import (
        AllocateProducerIdsRequest,
        AllocateProducerIdsResponse,
    )
    from kcli.protocol.messages.alter_client_quotas import AlterClientQuotasRequest, AlterClientQuotasResponse
    from kcli.protocol.messages.alter_configs import AlterConfigsRequest, AlterConfigsResponse
    from kcli.protocol.messages.alter_partition import AlterPartitionRequest, AlterPartitionResponse
    from kcli.protocol.messages.alter_partition_reassignments import (
        AlterPartitionReassignmentsRequest,
        AlterPartitionReassignmentsResponse,
    )
    from kcli.protocol.messages.alter_user_scram_credentials import (
        AlterUserScramCredentialsRequest,
        AlterUserScramCredentialsResponse,
    )
    from kcli.protocol.messages.assign_replicas_to_dirs import (
        AssignReplicasToDirsRequest,
        AssignReplicasToDirsResponse,
    )
    from kcli.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
    from kcli.protocol.messages.broker_registration import (
        BrokerRegistrationRequest,
        BrokerRegistrationResponse,
    )
    from kcli.protocol.messages.controller_registration import (
        ControllerRegistrationRequest,
        ControllerRegistrationResponse,
    )
    from kcli.protocol.messages.create_acls import CreateAclsRequest, CreateAclsResponse
    from kcli.protocol.messages.create_delegation_token import (
        CreateDelegationTokenRequest,
        CreateDelegationTokenResponse,
    )
    from kcli.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsResponse
    from kcli.protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
    from kcli.protocol.messages.delete_acls import DeleteAclsRequest, DeleteAclsResponse
    from kcli.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
    from kcli.protocol.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse
    from kcli.protocol.messages.expire_delegation_token import (
        ExpireDelegationTokenRequest,
        ExpireDelegationTokenResponse,
    )
    from kcli.protocol.messages.incremental_alter_configs import (
        IncrementalAlterConfigsRequest,
        IncrementalAlterConfigsResponse,
    )
    from kcli.protocol.messages.list_partition_reassignments import (
        ListPartitionReassignmentsRequest,
        ListPartitionReassignmentsResponse,
    )
    from kcli.protocol.messages.renew_delegation_token import (
        RenewDelegationTokenRequest,
        RenewDelegationTokenResponse,
    )
    from kcli.protocol.messages.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse
    from kcli.protocol.messages.update_features import UpdateFeaturesRequest, UpdateFeaturesResponse

Q = TypeVar("Q")
R = TypeVar("R")

NEWEST_VERSION = 0x7FFF
"""An API version above all other versions. A node uses this version for its own requests, because they may use every
field of a message."""


def _always(_topic: str) -> bool:
    return True


def _never(_address: str) -> bool:
    return False


@dataclass(frozen=True, slots=True)
class Client:
    """The client for which a broker sends a request. `host` is its IP address as text, `id` its client id."""

    principal: Principal
    host: str
    id: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerRequestContext:
    """The inputs of a decision besides the request. The defaults are the values for the node's own requests."""

    api_version: int = NEWEST_VERSION
    charge: Charge = no_charge
    """Counts partitions against the client's quota (KIP-599)."""
    describable: Callable[[str], bool] = _always
    """Returns True for a topic whose configuration the client may see in the response to CreateTopics."""
    resolvable: Callable[[str], bool] = _never
    """Returns True for an IP address or a host name with an IP address. AlterClientQuotas needs this function."""
    wall_ms: int = 0
    """The time in milliseconds since the Unix epoch, which delegation tokens need."""
    client: Client | None = None
    """The client whose permissions and quotas apply. None if the request is from the node itself."""


IDLE_LIMIT_MS = 600_000
"""The time limit of requests about ACLs, if connections.max.idle.ms sets no limit."""

OWN_REQUEST = ControllerRequestContext()


@dataclass(frozen=True, slots=True)
class ControllerApi(Generic[Q, R]):
    """One API of the controller.

    `decide(controller, request, context, now_ms)` is a pure function that returns a decision, or the steps of a
    decision (`DecisionSteps`). `now_ms` is the present time of the monotonic clock that measures the brokers' sessions.
    """

    key: ApiKey
    decide: Callable[[Controller, Q, ControllerRequestContext, int], Decision[R] | DecisionSteps[R]]
    timeout_ms: Callable[[Q, ControllerSettings], int] | None = None
    """The longest wait for the commit, in milliseconds. None if the API has no time limit. As in Kafka, a limit of 0
    fails the request before the decision."""
    arrived: Callable[[Controller, Q, int], None] | None = None
    """This function is called when a request arrives, before the request waits for other decisions. Its last argument
    is the present time."""
    moves_broker: bool = False
    """Whether the decision may move a broker in or out of the cluster, in several steps. Only one such decision runs at
    a time."""


def _idle_limit_ms(_request: object, settings: ControllerSettings) -> int:
    """The time limit of requests about ACLs: `connections.max.idle.ms`, as in Kafka."""
    limit_ms = settings.config.get("connections.max.idle.ms")
    return limit_ms if isinstance(limit_ms, int) and limit_ms > 0 else IDLE_LIMIT_MS


CREATE_TOPICS: ControllerApi[CreateTopicsRequest, CreateTopicsResponse] = ControllerApi(
    ApiKey.CREATE_TOPICS,
    lambda controller, request, context, _now_ms: topics.create_topics(
        controller.topic_context(), request, describable=context.describable, charge=context.charge
    ),
    lambda request, _settings: request.timeout_ms,
)
CREATE_PARTITIONS: ControllerApi[CreatePartitionsRequest, CreatePartitionsResponse] = ControllerApi(
    ApiKey.CREATE_PARTITIONS,
    lambda controller, request, context, _now_ms: topics.create_partitions(
        controller.topic_context, request, context.charge
    ),
    lambda request, _settings: request.timeout_ms,
)
DELETE_TOPICS: ControllerApi[DeleteTopicsRequest, DeleteTopicsResponse] = ControllerApi(
    ApiKey.DELETE_TOPICS,
    lambda controller, request, context, _now_ms: topics.delete_topics(
        lambda: controller.image, controller.settings, request, context.api_version, context.charge
    ),
    lambda request, _settings: request.timeout_ms,
)
INCREMENTAL_ALTER_CONFIGS: ControllerApi[IncrementalAlterConfigsRequest, IncrementalAlterConfigsResponse] = (
    ControllerApi(
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
        lambda controller, request, _context, _now_ms: config_requests.incremental(
            lambda: controller.image, controller.settings, request
        ),
    )
)
ALTER_CONFIGS: ControllerApi[AlterConfigsRequest, AlterConfigsResponse] = ControllerApi(
    ApiKey.ALTER_CONFIGS,
    lambda controller, request, _context, _now_ms: config_requests.replacing(
        lambda: controller.image, controller.settings, request
    ),
)
UPDATE_FEATURES: ControllerApi[UpdateFeaturesRequest, UpdateFeaturesResponse] = ControllerApi(
    ApiKey.UPDATE_FEATURES,
    lambda controller, request, _context, _now_ms: features.update_features(
        controller.image, controller.settings, request
    ),
)
ALTER_PARTITION_REASSIGNMENTS: ControllerApi[
    AlterPartitionReassignmentsRequest, AlterPartitionReassignmentsResponse
] = ControllerApi(
    ApiKey.ALTER_PARTITION_REASSIGNMENTS,
    lambda controller, request, _context, _now_ms: reassignments.alter_partition_reassignments(
        controller, request
    ),
    lambda request, _settings: request.timeout_ms,
)
LIST_PARTITION_REASSIGNMENTS: ControllerApi[
    ListPartitionReassignmentsRequest, ListPartitionReassignmentsResponse
] = ControllerApi(
    ApiKey.LIST_PARTITION_REASSIGNMENTS,
    lambda controller, request, _context, _now_ms: reassignments.list_partition_reassignments(
        controller, request
    ),
)
ELECT_LEADERS: ControllerApi[ElectLeadersRequest, ElectLeadersResponse] = ControllerApi(
    ApiKey.ELECT_LEADERS,
    lambda controller, request, _context, _now_ms: leadership.elect_leaders(controller, request),
    lambda request, _settings: request.timeout_ms,
)
UNREGISTER_BROKER: ControllerApi[UnregisterBrokerRequest, UnregisterBrokerResponse] = ControllerApi(
    ApiKey.UNREGISTER_BROKER,
    lambda controller, request, _context, _now_ms: brokers.unregister_broker(controller, request),
    moves_broker=True,
)
BROKER_REGISTRATION: ControllerApi[BrokerRegistrationRequest, BrokerRegistrationResponse] = ControllerApi(
    ApiKey.BROKER_REGISTRATION,
    lambda controller, request, _context, now_ms: brokers.register_broker(controller, request, now_ms),
    moves_broker=True,
)
CONTROLLER_REGISTRATION: ControllerApi[ControllerRegistrationRequest, ControllerRegistrationResponse] = (
    ControllerApi(
        ApiKey.CONTROLLER_REGISTRATION,
        lambda controller, request, _context, _now_ms: controllers.register_controller(
            controller.image, request
        ),
    )
)
BROKER_HEARTBEAT: ControllerApi[BrokerHeartbeatRequest, BrokerHeartbeatResponse] = ControllerApi(
    ApiKey.BROKER_HEARTBEAT,
    lambda controller, request, _context, _now_ms: brokers.heartbeat(controller, request),
    arrived=brokers.heard,
    moves_broker=True,
)
ALTER_PARTITION: ControllerApi[AlterPartitionRequest, AlterPartitionResponse] = ControllerApi(
    ApiKey.ALTER_PARTITION,
    lambda controller, request, _context, _now_ms: replicas.alter_partition(controller, request),
)
ASSIGN_REPLICAS_TO_DIRS: ControllerApi[AssignReplicasToDirsRequest, AssignReplicasToDirsResponse] = (
    ControllerApi(
        ApiKey.ASSIGN_REPLICAS_TO_DIRS,
        lambda controller, request, _context, _now_ms: replicas.assign_replicas_to_dirs(controller, request),
    )
)
ALLOCATE_PRODUCER_IDS: ControllerApi[AllocateProducerIdsRequest, AllocateProducerIdsResponse] = ControllerApi(
    ApiKey.ALLOCATE_PRODUCER_IDS,
    lambda controller, request, _context, _now_ms: producer_ids.allocate_producer_ids(controller, request),
)


def _alter_client_quotas(
    controller: Controller, request: AlterClientQuotasRequest, context: ControllerRequestContext, _now_ms: int
) -> DecisionSteps[AlterClientQuotasResponse]:
    from kcli.controller.client_quotas import alter_client_quotas

    return alter_client_quotas(lambda: controller.image, request, resolvable=context.resolvable)


def _alter_user_scram_credentials(
    controller: Controller,
    request: AlterUserScramCredentialsRequest,
    _context: ControllerRequestContext,
    _now_ms: int,
) -> DecisionSteps[AlterUserScramCredentialsResponse]:
    from kcli.controller.scram import alter_user_scram_credentials

    return alter_user_scram_credentials(lambda: controller.image, request)


def _create_acls(
    controller: Controller, request: CreateAclsRequest, _context: ControllerRequestContext, _now_ms: int
) -> DecisionSteps[CreateAclsResponse]:
    from kcli.controller.acls import create_acls

    return create_acls(controller, request)


def _delete_acls(
    controller: Controller, request: DeleteAclsRequest, _context: ControllerRequestContext, _now_ms: int
) -> DecisionSteps[DeleteAclsResponse]:
    from kcli.controller.acls import delete_acls

    return delete_acls(controller, request)


CREATE_ACLS: ControllerApi[CreateAclsRequest, CreateAclsResponse] = ControllerApi(
    ApiKey.CREATE_ACLS, _create_acls, _idle_limit_ms
)
DELETE_ACLS: ControllerApi[DeleteAclsRequest, DeleteAclsResponse] = ControllerApi(
    ApiKey.DELETE_ACLS, _delete_acls, _idle_limit_ms
)
ALTER_CLIENT_QUOTAS: ControllerApi[AlterClientQuotasRequest, AlterClientQuotasResponse] = ControllerApi(
    ApiKey.ALTER_CLIENT_QUOTAS, _alter_client_quotas
)
ALTER_USER_SCRAM_CREDENTIALS: ControllerApi[
    AlterUserScramCredentialsRequest, AlterUserScramCredentialsResponse
] = ControllerApi(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, _alter_user_scram_credentials)


def _create_delegation_token(
    controller: Controller,
    request: CreateDelegationTokenRequest,
    context: ControllerRequestContext,
    _now_ms: int,
) -> Decision[CreateDelegationTokenResponse]:
    from kcli.controller.tokens import create_delegation_token

    return create_delegation_token(controller, request, _requester(context), context.wall_ms)


def _renew_delegation_token(
    controller: Controller,
    request: RenewDelegationTokenRequest,
    context: ControllerRequestContext,
    _now_ms: int,
) -> Decision[RenewDelegationTokenResponse]:
    from kcli.controller.tokens import renew_delegation_token

    return renew_delegation_token(controller, request, _requester(context), context.wall_ms)


def _expire_delegation_token(
    controller: Controller,
    request: ExpireDelegationTokenRequest,
    context: ControllerRequestContext,
    _now_ms: int,
) -> Decision[ExpireDelegationTokenResponse]:
    from kcli.controller.tokens import expire_delegation_token

    return expire_delegation_token(controller, request, _requester(context), context.wall_ms)


def _requester(context: ControllerRequestContext) -> Principal:
    assert context.client is not None, "only clients ask for tokens"
    return context.client.principal


CREATE_DELEGATION_TOKEN: ControllerApi[CreateDelegationTokenRequest, CreateDelegationTokenResponse] = (
    ControllerApi(ApiKey.CREATE_DELEGATION_TOKEN, _create_delegation_token)
)
RENEW_DELEGATION_TOKEN: ControllerApi[RenewDelegationTokenRequest, RenewDelegationTokenResponse] = (
    ControllerApi(ApiKey.RENEW_DELEGATION_TOKEN, _renew_delegation_token)
)
EXPIRE_DELEGATION_TOKEN: ControllerApi[ExpireDelegationTokenRequest, ExpireDelegationTokenResponse] = (
    ControllerApi(ApiKey.EXPIRE_DELEGATION_TOKEN, _expire_delegation_token)
)

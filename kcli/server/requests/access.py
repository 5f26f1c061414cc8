"""Declares the operations that a client must be allowed to do before an API serves its request.

Each handler module has one constant ACCESS:

    ACCESS = whole_request(ALTER_CLUSTER)            without this operation, the whole request is refused
    ACCESS = per_resource(READ_GROUP, READ_TOPIC)    the handler checks each resource that the request names
    ACCESS = OPEN                                    no operation is needed

The dispatch checks the rules of whole requests. A handler checks the rules per resource with the permissions of the
client (rights.py).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from kcli.errors import ClusterAuthorizationException
from kcli.model.acl import AclOperation, ResourceType
from kcli.protocol.wire.api import API
from kcli.server.requests.context import RequestContext
from kcli.server.requests.rights import Need

Request = TypeVar("Request")
Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True)
class Access:
    """The rule of one API: the operations that a client needs to use the API.

    If the rule is for the whole request, the principal needs only one of these operations. If the rule is per resource,
    the content of the request decides which operations the client needs. When the broker refuses a client, the tools
    suggest an ACL with the first operation on each type of resource (`kcli/cli/missing_rights.py`).
    """

    needs: tuple[Need, ...]
    is_whole_request: bool = False
    shows_request: bool = False


def whole_request(*needs: Need, shows_request: bool = False) -> Access:
    """The rule that the principal needs one of these operations on the cluster. Without any of them the whole request
    is refused.

    If `shows_request` is True, the error message contains the request and the last operation, as in Kafka's answer for
    this API.
    """
    assert needs and all(need.resource_type is ResourceType.CLUSTER for need in needs)
    return Access(needs, is_whole_request=True, shows_request=shows_request)


def per_resource(*needs: Need) -> Access:
    """The rule that the client may need some or all of these operations, on the resources that the request contains."""
    return Access(needs)


OPEN = Access(())

READ_TOPIC = Need(AclOperation.READ, ResourceType.TOPIC)
WRITE_TOPIC = Need(AclOperation.WRITE, ResourceType.TOPIC)
CREATE_TOPIC = Need(AclOperation.CREATE, ResourceType.TOPIC)
DELETE_TOPIC = Need(AclOperation.DELETE, ResourceType.TOPIC)
ALTER_TOPIC = Need(AclOperation.ALTER, ResourceType.TOPIC)
DESCRIBE_TOPIC = Need(AclOperation.DESCRIBE, ResourceType.TOPIC)
DESCRIBE_CONFIGS_TOPIC = Need(AclOperation.DESCRIBE_CONFIGS, ResourceType.TOPIC)
ALTER_CONFIGS_TOPIC = Need(AclOperation.ALTER_CONFIGS, ResourceType.TOPIC)

READ_GROUP = Need(AclOperation.READ, ResourceType.GROUP)
DELETE_GROUP = Need(AclOperation.DELETE, ResourceType.GROUP)
DESCRIBE_GROUP = Need(AclOperation.DESCRIBE, ResourceType.GROUP)
DESCRIBE_CONFIGS_GROUP = Need(AclOperation.DESCRIBE_CONFIGS, ResourceType.GROUP)
ALTER_CONFIGS_GROUP = Need(AclOperation.ALTER_CONFIGS, ResourceType.GROUP)

DESCRIBE_CONFIGS = {
    ResourceType.TOPIC: DESCRIBE_CONFIGS_TOPIC,
    ResourceType.GROUP: DESCRIBE_CONFIGS_GROUP,
    ResourceType.CLUSTER: Need(AclOperation.DESCRIBE_CONFIGS, ResourceType.CLUSTER),
}
ALTER_CONFIGS = {
    ResourceType.TOPIC: ALTER_CONFIGS_TOPIC,
    ResourceType.GROUP: ALTER_CONFIGS_GROUP,
    ResourceType.CLUSTER: Need(AclOperation.ALTER_CONFIGS, ResourceType.CLUSTER),
}
"""The operations that a client needs to change configs, by the type of the resource. DESCRIBE_CONFIGS has the
operations that a client needs to read configs."""

CREATE_CLUSTER = Need(AclOperation.CREATE, ResourceType.CLUSTER)
DELETE_CLUSTER = Need(AclOperation.DELETE, ResourceType.CLUSTER)
ALTER_CLUSTER = Need(AclOperation.ALTER, ResourceType.CLUSTER)
DESCRIBE_CLUSTER = Need(AclOperation.DESCRIBE, ResourceType.CLUSTER)
CLUSTER_ACTION = Need(AclOperation.CLUSTER_ACTION, ResourceType.CLUSTER)
DESCRIBE_CONFIGS_CLUSTER = Need(AclOperation.DESCRIBE_CONFIGS, ResourceType.CLUSTER)
ALTER_CONFIGS_CLUSTER = Need(AclOperation.ALTER_CONFIGS, ResourceType.CLUSTER)
IDEMPOTENT_WRITE = Need(AclOperation.IDEMPOTENT_WRITE, ResourceType.CLUSTER)

WRITE_TRANSACTIONAL_ID = Need(AclOperation.WRITE, ResourceType.TRANSACTIONAL_ID)
DESCRIBE_TRANSACTIONAL_ID = Need(AclOperation.DESCRIBE, ResourceType.TRANSACTIONAL_ID)
TWO_PHASE_COMMIT = Need(AclOperation.TWO_PHASE_COMMIT, ResourceType.TRANSACTIONAL_ID)

DESCRIBE_DELEGATION_TOKEN = Need(AclOperation.DESCRIBE, ResourceType.DELEGATION_TOKEN)
CREATE_TOKENS = Need(AclOperation.CREATE_TOKENS, ResourceType.USER)
DESCRIBE_TOKENS = Need(AclOperation.DESCRIBE_TOKENS, ResourceType.USER)


def guarded(
    handle: Callable[[RequestContext[object], Request], Answer], access: Access
) -> Callable[[RequestContext[object], Request], Answer]:
    """Returns a handler that first checks the rule for the whole request. Returns `handle` if the API has no such
    rule."""
    if not access.is_whole_request:
        return handle

    def handle_if_allowed(context: RequestContext[object], request: Request) -> Answer:
        require_whole(context, access)
        return handle(context, request)

    return handle_if_allowed


def require_whole(context: RequestContext[object], access: Access) -> None:
    """Raises ClusterAuthorizationException if the rule for the whole request refuses the client."""
    try:
        context.rights.require(*access.needs)
    except ClusterAuthorizationException:
        if not access.shows_request:
            raise
        raise ClusterAuthorizationException(_refusal_text(context, access.needs[-1])) from None


def _refusal_text(context: RequestContext[object], need: Need) -> str:
    """The error message. Kafka's message contains the whole request as text. kcli's message contains only the parts of
    the request that help an operator.
    """
    about = (
        f"api={API[context.api_key].name}, version={context.api_version}, "
        f"principal={context.session.principal}, client={context.peer_host}, listener={context.listener}"
    )
    return f"Request Request({about}) needs {need.operation.name} permission."

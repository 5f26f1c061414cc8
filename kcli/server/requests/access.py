"""Declares the operations that a client must be allowed to do before an API serves its request.

The row of each API (apis.py) has one rule:

    whole_request(ALTER_CLUSTER)            without this operation, the whole request is refused
    per_resource(READ_GROUP, READ_TOPIC)    the handler checks each resource that the request names
    OPEN                                    no operation is needed

The dispatch checks the rules of whole requests (guard.py). A handler checks the rules per resource with the permissions
of the client (rights.py).
"""

from __future__ import annotations

from dataclasses import dataclass

from kcli.model.acl import AclOperation, ResourceType
from kcli.server.requests.rights import Need


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

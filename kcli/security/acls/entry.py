"""Converts ACLs to the texts that the audit log and the tools print, and sorts ACLs in Kafka's order."""

from __future__ import annotations

from enum import IntEnum

from kcli.metadata.image import AclEntry
from kcli.model.acl import AclOperation, AclPermissionType, PatternType, ResourceType

WILDCARD = "*"
"""The resource name in an ACL that applies to every resource, and the host in an ACL that applies to every host."""
WILDCARD_PRINCIPAL = "User:*"
"""The principal in an ACL that applies to every user, also to ANONYMOUS."""

RESOURCE_TYPE_NAMES = {
    ResourceType.UNKNOWN: "Unknown",
    ResourceType.ANY: "Any",
    ResourceType.TOPIC: "Topic",
    ResourceType.GROUP: "Group",
    ResourceType.CLUSTER: "Cluster",
    ResourceType.TRANSACTIONAL_ID: "TransactionalId",
    ResourceType.DELEGATION_TOKEN: "DelegationToken",
    ResourceType.USER: "User",
}
"""The names of resource types in the audit log."""


def acl_text(acl: AclEntry) -> str:
    """The ACL as Kafka's audit log shows it."""
    return (
        f"StandardAcl(resourceType={number_name(ResourceType, acl.resource_type)}, resourceName={acl.resource_name}, "
        f"patternType={number_name(PatternType, acl.pattern_type)}, principal={acl.principal}, host={acl.host}, "
        f"operation={number_name(AclOperation, acl.operation)}, "
        f"permissionType={number_name(AclPermissionType, acl.permission_type)})"
    )


def number_name(kind: type[IntEnum], number: int) -> str:
    """The name of a number in an enum such as ResourceType. UNKNOWN if this release does not define the number."""
    try:
        return kind(number).name
    except ValueError:
        return "UNKNOWN"


def scan_order(acl: AclEntry) -> tuple[int, int, str, str, int]:
    """The key that sorts the ACLs of one resource name in the order in which Kafka reads them."""
    return (acl.pattern_type, acl.operation, acl.principal, acl.host, acl.permission_type)

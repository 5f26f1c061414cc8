"""The rules of ACLs in their shortest form, as a model for tests of the index."""

from __future__ import annotations

from collections.abc import Collection

from kcli.metadata.image import AclEntry
from kcli.model.acl import AclOperation, AclPermissionType, PatternType

IMPLIES = {
    AclOperation.DESCRIBE: {AclOperation.READ, AclOperation.WRITE, AclOperation.DELETE, AclOperation.ALTER},
    AclOperation.DESCRIBE_CONFIGS: {AclOperation.ALTER_CONFIGS},
}


def on_resource(acl: AclEntry, resource_type: int, name: str) -> bool:
    if acl.resource_type != resource_type:
        return False
    if acl.pattern_type == PatternType.PREFIXED:
        return name.startswith(acl.resource_name)
    return acl.resource_name in (name, "*")


def for_client(acl: AclEntry, principal: str, host: str) -> bool:
    return acl.principal in (principal, "User:*") and acl.host in (host, "*")


def decide(
    acls: Collection[AclEntry],
    principal: str,
    host: str,
    operation: AclOperation,
    resource_type: int,
    name: str,
    default: bool = False,
) -> bool:
    """Whether the ACLs allow the operation."""
    here = [acl for acl in acls if on_resource(acl, resource_type, name)]
    if not here:
        return default
    mine = [acl for acl in here if for_client(acl, principal, host)]
    exact = {operation, AclOperation.ALL}
    if any(a.permission_type == AclPermissionType.DENY and a.operation in exact for a in mine):
        return False
    enough = exact | IMPLIES.get(operation, set())
    return any(a.permission_type == AclPermissionType.ALLOW and a.operation in enough for a in mine)


def decide_any(
    acls: Collection[AclEntry], principal: str, host: str, operation: AclOperation, resource_type: int
) -> bool:
    """Whether the ACLs allow the operation on some resource of the type (KIP-679)."""
    mine = [
        acl
        for acl in acls
        if acl.resource_type == resource_type
        and for_client(acl, principal, host)
        and acl.operation in (operation, AclOperation.ALL)
    ]
    denied = [acl for acl in mine if acl.permission_type == AclPermissionType.DENY]
    allowed = [acl for acl in mine if acl.permission_type == AclPermissionType.ALLOW]
    literal_denied = {acl.resource_name for acl in denied if acl.pattern_type == PatternType.LITERAL}
    prefix_denied = [acl.resource_name for acl in denied if acl.pattern_type == PatternType.PREFIXED]
    if "*" in literal_denied:
        return False
    if any(acl.pattern_type == PatternType.LITERAL and acl.resource_name == "*" for acl in allowed):
        return True
    return any(
        not any(acl.resource_name.startswith(prefix) for prefix in prefix_denied)
        and (acl.pattern_type == PatternType.PREFIXED or acl.resource_name not in literal_denied)
        for acl in allowed
    )

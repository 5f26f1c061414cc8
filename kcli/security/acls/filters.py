"""Filters of ACLs, as DescribeAcls and DeleteAcls take them."""

from __future__ import annotations

from dataclasses import dataclass

from kcli.metadata.image import AclEntry
from kcli.model.acl import AclOperation, AclPermissionType, PatternType, ResourceType
from kcli.security.acls.entry import WILDCARD

UNKNOWN = 0
"""The number of an unknown resource type, pattern type, operation or permission."""


@dataclass(frozen=True, slots=True)
class AclFilter:
    """A filter of ACLs. Types, operation and permission are numbers of Kafka's protocol. `None` matches every name,
    principal or host.

    With the pattern type MATCH, a name matches each pattern that covers a resource of this name.
    """

    resource_type: int = ResourceType.ANY
    resource_name: str | None = None
    pattern_type: int = PatternType.ANY
    principal: str | None = None
    host: str | None = None
    operation: int = AclOperation.ANY
    permission_type: int = AclPermissionType.ANY

    @property
    def has_unknown(self) -> bool:
        """Whether a type, the operation or the permission of the filter is UNKNOWN. Kafka's clients send no such
        filter.
        """
        return UNKNOWN in (self.resource_type, self.pattern_type, self.operation, self.permission_type)

    @property
    def exact_name(self) -> str | None:
        """The only resource name whose ACLs can match. None if the ACLs of several names can match."""
        return None if self.pattern_type == PatternType.MATCH else self.resource_name

    def matches(self, acl: AclEntry) -> bool:
        return (
            self.resource_type in (ResourceType.ANY, acl.resource_type)
            and self.principal in (None, acl.principal)
            and self.host in (None, acl.host)
            and self.operation in (AclOperation.ANY, acl.operation)
            and self.permission_type in (AclPermissionType.ANY, acl.permission_type)
            and self._matches_pattern(acl.resource_name, acl.pattern_type)
        )

    def _matches_pattern(self, name: str, pattern_type: int) -> bool:
        if self.pattern_type not in (PatternType.ANY, PatternType.MATCH, pattern_type):
            return False
        if self.resource_name is None:
            return True
        if self.pattern_type != PatternType.MATCH:
            return self.resource_name == name
        if pattern_type == PatternType.PREFIXED:
            return self.resource_name.startswith(name)
        return name in (self.resource_name, WILDCARD)

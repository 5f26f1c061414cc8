"""The rights of the client of one request.

A handler asks for the rights on each resource that its request names. Without an authorizer every right is given.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from kcli.errors import ClusterAuthorizationException
from kcli.model.acl import CLUSTER_NAME, AclOperation, ResourceType
from kcli.security.authorizer import Asker, Audit, Authorizer, Resource
from kcli.server.requests.operations import OPERATIONS


@dataclass(frozen=True, slots=True)
class Need:
    """An operation on a type of resource that a request needs."""

    operation: AclOperation
    resource_type: ResourceType


class Rights:
    """What one client may do."""

    __slots__ = ("_asker", "_authorizer")

    def __init__(self, authorizer: Authorizer, asker: Asker) -> None:
        self._authorizer = authorizer
        self._asker = asker

    @property
    def is_open(self) -> bool:
        """Whether the client may do everything, so that a handler can skip its checks."""
        return self._authorizer.is_open

    def allows(self, need: Need, name: str = CLUSTER_NAME, *, traced: bool = False, count: int = 1) -> bool:
        """Returns whether the client may do the operation on the resource with this name.

        `traced` is True for a check that only filters an answer. The audit log then has a denial only at level TRACE.
        `count` is described at `Authorizer.authorize`.
        """
        resource = Resource(need.resource_type, name)
        audit = Audit.FILTER if traced else Audit.FULL
        return self._authorizer.authorize(self._asker, need.operation, resource, audit=audit, count=count)

    def allowed(self, need: Need, names: Iterable[str], *, traced: bool = False) -> frozenset[str]:
        """Returns the names on which the client may do the operation. Checks each name once."""
        counts = Counter(names)
        if self.is_open:
            return frozenset(counts)
        return frozenset(
            name for name, count in counts.items() if self.allows(need, name, traced=traced, count=count)
        )

    def allows_some(self, need: Need) -> bool:
        """Returns whether the client may do the operation on at least one resource of the type (KIP-679)."""
        return self._authorizer.authorize_any(self._asker, need.operation, need.resource_type)

    def require(self, *needs: Need) -> None:
        """Raises ClusterAuthorizationException if the client may do none of these operations on the cluster."""
        if not any(self.allows(need) for need in needs):
            raise ClusterAuthorizationException

    def operations(self, resource_type: ResourceType, name: str = CLUSTER_NAME) -> int:
        """Returns the operations that the client may do on a resource, as the bits of KIP-430."""
        resource = Resource(resource_type, name)
        return sum(
            1 << operation
            for operation in OPERATIONS[resource_type]
            if self._authorizer.authorize(self._asker, operation, resource, audit=Audit.QUERY)
        )

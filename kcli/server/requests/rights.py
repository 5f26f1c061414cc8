"""The permissions ("rights") of the client of one request.

A handler checks the permissions on each resource that the request names. Without an authorizer, the client has every
permission.
"""

from __future__ import annotations

from collections.abc import Container, Iterable
from dataclasses import dataclass

from kcli.errors import (
    ClusterAuthorizationException,
    DelegationTokenAuthorizationException,
    GroupAuthorizationException,
    KafkaError,
    TopicAuthorizationException,
    TransactionalIdAuthorizationException,
)
from kcli.model.acl import CLUSTER_NAME, AclOperation, ResourceType
from kcli.model.pace import Pace
from kcli.security.authorizer import Asker, Audit, Authorizer, Resource
from kcli.server.requests.operations import ALL_OPERATIONS, OPERATIONS

COUNT_COST = 1
"""The cost to count a name, in microseconds."""
CHECK_COST = 10
"""The cost to check a name. A check takes 5 to 10 µs, and 30 µs if its refusal is logged."""

_REFUSALS: dict[ResourceType, type[KafkaError]] = {
    ResourceType.TOPIC: TopicAuthorizationException,
    ResourceType.GROUP: GroupAuthorizationException,
    ResourceType.CLUSTER: ClusterAuthorizationException,
    ResourceType.TRANSACTIONAL_ID: TransactionalIdAuthorizationException,
    ResourceType.DELEGATION_TOKEN: DelegationTokenAuthorizationException,
}


@dataclass(frozen=True, slots=True)
class Need:
    """An operation on a type of resource that a request needs."""

    operation: AclOperation
    resource_type: ResourceType


def refusal(resource_type: ResourceType) -> KafkaError:
    """The error for a client that may not do an operation on a resource of this type."""
    return _REFUSALS[resource_type]()


class EveryName(Container[str]):
    """A set that contains every name, for a client that has permissions on all resources."""

    __slots__ = ()

    def __contains__(self, name: object) -> bool:
        return True


EVERY_NAME = EveryName()


class Rights:
    """What one client may do."""

    __slots__ = ("_asker", "_authorizer")

    def __init__(self, authorizer: Authorizer, asker: Asker) -> None:
        self._authorizer = authorizer
        self._asker = asker

    @property
    def is_open(self) -> bool:
        """Whether the client may do everything, so that a handler can skip its checks."""
        return self._authorizer.is_open is True

    def permissions_key(self) -> object | None:
        """Returns a key for the present permissions of the client. If all checks of a handler have allowed the client's
        operations, the handler may skip the same checks while the key stays equal. The skipped checks would have the
        same result and would write no line to the audit log.

        Returns None if the handler must not skip checks.
        """
        version: object | None = getattr(self._authorizer, "decisions_version", None)
        return None if version is None else (version, self._asker.principal, self._asker.host)

    def allows(self, need: Need, name: str = CLUSTER_NAME, *, traced: bool = False, count: int = 1) -> bool:
        """Returns whether the client may do the operation on the resource with this name.

        `traced` is True for a check that only filters an answer. A denial is then logged only at level TRACE. See
        `Authorizer.authorize` for `count`.
        """
        resource = Resource(need.resource_type, name)
        audit = Audit.FILTER if traced else Audit.FULL
        # An operator's own authorizer may return a value of another type. Only True allows the operation.
        decision = self._authorizer.authorize(self._asker, need.operation, resource, audit=audit, count=count)
        return decision is True

    async def checked(
        self, need: Need, names: Iterable[str], pace: Pace, *, traced: bool = False
    ) -> Container[str]:
        """Returns the names on which the client may do the operation. Checks each name once."""
        counts: dict[str, int] = {}
        for name in names:
            await pace(COUNT_COST)
            counts[name] = counts.get(name, 0) + 1
        allowed = set()
        for name, count in counts.items():
            await pace(CHECK_COST)
            if self.allows(need, name, traced=traced, count=count):
                allowed.add(name)
        return allowed

    def allows_some(self, need: Need) -> bool:
        """Returns whether the client may do the operation on at least one resource of the type (KIP-679)."""
        decision = self._authorizer.authorize_any(self._asker, need.operation, need.resource_type)
        return decision is True

    def require(self, *needs: Need) -> None:
        """Raises ClusterAuthorizationException if the client may do none of these operations on the cluster.

        As in Kafka, if there are several operations, the audit log shows only the refusal of the last one.
        """
        *first, last = needs
        if not any(self.allows(need, traced=True) for need in first) and not self.allows(last):
            raise ClusterAuthorizationException

    def require_on(self, need: Need, name: str) -> None:
        """Raises the error for the type of resource if the client may not do the operation on the resource with this
        name."""
        if not self.is_open and not self.allows(need, name):
            raise refusal(need.resource_type)

    def operations(self, resource_type: ResourceType, name: str = CLUSTER_NAME) -> int:
        """Returns the operations that the client may do on a resource, as the bits of KIP-430."""
        if self.is_open:
            return ALL_OPERATIONS[resource_type]
        resource = Resource(resource_type, name)
        return sum(
            1 << operation
            for operation in OPERATIONS[resource_type]
            if self._authorizer.authorize(self._asker, operation, resource, audit=Audit.QUERY) is True
        )

"""The decision whether a principal may do an operation on a resource."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from kcli.model.acl import CLUSTER_NAME, AclOperation, ResourceType
from kcli.security.principal import Session


@dataclass(frozen=True, slots=True)
class Resource:
    """One resource by its type and name."""

    type: ResourceType
    name: str


CLUSTER = Resource(ResourceType.CLUSTER, CLUSTER_NAME)


class Authorizer(Protocol):
    """Decides on each request of a broker's clients."""

    def authorize(self, session: Session, host: str, operation: AclOperation, resource: Resource) -> bool:
        """Returns whether the session's principal, from the address `host`, may do this. ACLs name the address too."""


class AllowAll:
    """The authorizer of a broker without authorizer.class.name: every principal may do everything."""

    def authorize(self, session: Session, host: str, operation: AclOperation, resource: Resource) -> bool:
        return True


ALLOW_ALL = AllowAll()

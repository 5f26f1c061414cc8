"""The authorizer decides whether a principal may do an operation on a resource."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from kcli.model.acl import CLUSTER_NAME, AclOperation, ResourceType
from kcli.security.principal import Session


@dataclass(frozen=True, slots=True)
class Resource:
    """A resource that ACLs protect, such as a topic: its type and name."""

    type: ResourceType
    name: str


CLUSTER = Resource(ResourceType.CLUSTER, CLUSTER_NAME)


class Authorizer(Protocol):
    """Decides on each request of a broker's clients."""

    def authorize(self, session: Session, host: str, operation: AclOperation, resource: Resource) -> bool:
        """Returns whether the session's principal may do this operation. `host` is the client's IP address, because an
        ACL may be limited to an address."""


class AllowAll:
    """The authorizer of a broker without authorizer.class.name: every principal may do everything."""

    def authorize(self, session: Session, host: str, operation: AclOperation, resource: Resource) -> bool:
        return True


ALLOW_ALL = AllowAll()

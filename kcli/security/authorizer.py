"""The authorizer decides whether a principal may do an operation on a resource."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from kcli.model.acl import CLUSTER_NAME, AclOperation, ResourceType
from kcli.security.principal import Principal


@dataclass(frozen=True, slots=True)
class Resource:
    """A resource that ACLs protect, such as a topic: its type and name."""

    type: ResourceType
    name: str


CLUSTER = Resource(ResourceType.CLUSTER, CLUSTER_NAME)


@dataclass(frozen=True, slots=True)
class Asker:
    """The client that asks for a right.

    `host` is the IP address of the client as text, because an ACL may be limited to an address. `api` is the name of
    the API, such as Produce, which the audit log shows.
    """

    principal: Principal
    host: str
    api: str


class Authorizer(Protocol):
    """Decides on each request of a broker's clients."""

    @property
    def is_open(self) -> bool:
        """Whether every principal may do everything, so that a handler can skip its checks."""

    def authorize(
        self,
        asker: Asker,
        operation: AclOperation,
        resource: Resource,
        *,
        traced: bool = False,
        count: int = 1,
    ) -> bool:
        """Returns whether the asker's principal may do this operation.

        `traced` is True for a check that only filters an answer. The audit log has such a check only at level TRACE.
        `count` is the number of places in the request that name this resource.
        """

    def authorize_any(self, asker: Asker, operation: AclOperation, resource_type: ResourceType) -> bool:
        """Returns whether the asker's principal may do this operation on at least one resource of this type
        (KIP-679)."""


class AllowAll:
    """The authorizer of a broker without authorizer.class.name: every principal may do everything."""

    is_open = True

    def authorize(
        self,
        asker: Asker,
        operation: AclOperation,
        resource: Resource,
        *,
        traced: bool = False,
        count: int = 1,
    ) -> bool:
        return True

    def authorize_any(self, asker: Asker, operation: AclOperation, resource_type: ResourceType) -> bool:
        return True


ALLOW_ALL = AllowAll()

"""The authorizer decides whether a principal may do an operation on a resource."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import Protocol, runtime_checkable

from kcli.metadata.delta import MetadataDelta
from kcli.metadata.image import MetadataImage
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
    """The client whose permission is checked.

    `host` is the IP address of the client as text, because an ACL may be limited to an address. `api` is the name of
    the API for the audit log, such as Produce. `audited` limits how many lines the request can write to the audit log.
    """

    principal: Principal
    host: str
    api: str
    audited: AuditedLines | None = field(default=None, compare=False, repr=False)


AUDIT_LINES_MAX = 100
"""The most lines that one request can write to the audit log. A request can name millions of resources, and each line
has some hundred bytes. Usual requests name fewer than a hundred."""


@dataclass(slots=True)
class AuditedLines:
    """Counts the audit log lines of one request: the written lines, and the lines that were left out."""

    written: int = 0
    left_out: int = 0

    def admit(self) -> bool:
        """Counts a line. Returns whether the line may be written."""
        if self.written < AUDIT_LINES_MAX:
            self.written += 1
            return True
        self.left_out += 1
        return False


class Audit(Enum):
    """The purpose of a check, which decides the level of its line in the audit log."""

    FULL = "a request needs the right: an allowed check has level DEBUG, a denied check INFO"
    FILTER = "the check filters an answer, or another right is enough: a denied check has level TRACE"
    QUERY = "the check only fills authorizedOperations: every result has level TRACE"


class Authorizer(Protocol):
    """Decides whether clients of a broker may do the operations that they request.

    An authorizer may also have the attribute `decisions_version`, whose value changes whenever a decision may change.
    Fetch sessions check their partitions again only if the version has changed. A version of None means that every
    check must be made, because the audit log also shows allowed checks.
    """

    @property
    def is_open(self) -> bool:
        """Whether every principal may do everything, so that a handler can skip its checks."""

    def authorize(
        self,
        asker: Asker,
        operation: AclOperation,
        resource: Resource,
        *,
        audit: Audit = Audit.FULL,
        count: int = 1,
    ) -> bool:
        """Returns whether the asker's principal may do this operation.

        `count` is the number of times that the request names this resource. Raises UnknownServerException, as in Kafka,
        if the authorizer has not loaded its ACLs yet.
        """

    def authorize_any(self, asker: Asker, operation: AclOperation, resource_type: ResourceType) -> bool:
        """Returns whether the asker's principal may do this operation on at least one resource of this type
        (KIP-679). Raises the same error as `authorize`."""


@runtime_checkable
class FollowsMetadata(Protocol):
    """An authorizer that decides by the ACLs of the cluster. A node without such an authorizer refuses requests to list
    or change ACLs.
    """

    def metadata_changed(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """Applies a change of the metadata. Called after each commit of the metadata log. In the first call, `delta`
        has the whole metadata.
        """


class AllowAll:
    """The authorizer of a broker without authorizer.class.name: every principal may do everything."""

    is_open = True

    def authorize(
        self,
        asker: Asker,
        operation: AclOperation,
        resource: Resource,
        *,
        audit: Audit = Audit.FULL,
        count: int = 1,
    ) -> bool:
        return True

    def authorize_any(self, asker: Asker, operation: AclOperation, resource_type: ResourceType) -> bool:
        return True


ALLOW_ALL = AllowAll()

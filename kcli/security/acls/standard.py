"""Kafka's StandardAuthorizer, which decides by the ACLs in the cluster's metadata.

A super user may do everything. For other principals, the ACLs that match the resource decide. An ACL that denies always
takes precedence over ACLs that allow. If no ACL exists for the resource, allow.everyone.if.no.acl.found decides. If
ACLs exist for the resource, an operation that no ACL allows is denied.

The node passes each change of the metadata to `metadata_changed`. So a change of an ACL applies to every request after
the commit of the change.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Iterator
from dataclasses import dataclass

from kcli.errors import UnknownServerException
from kcli.metadata.delta import MetadataDelta
from kcli.metadata.image import AclEntry, MetadataImage
from kcli.model.acl import AclOperation, ResourceType
from kcli.security.acls.audit import AUDIT_LOG, TRACE, audit_line
from kcli.security.acls.entry import acl_text
from kcli.security.acls.index import AclIndex, Verdict
from kcli.security.acls.settings import AclSettings
from kcli.security.authorizer import Asker, Audit, Resource
from kcli.security.java_address import host_address

_log = logging.getLogger("kcli.server.StandardAuthorizer")

# Kafka asks for the right on a resource of this name first, so that super users pass whatever the ACLs are (KIP-679).
ANY_NAME = "hardcode"


@dataclass(frozen=True, slots=True)
class Decision:
    """The result of a check, and the rule that decided: an ACL, or the name of another rule, such as SuperUser."""

    is_allowed: bool
    rule: AclEntry | str

    @property
    def rule_text(self) -> str:
        """The rule as the audit log shows it."""
        return self.rule if isinstance(self.rule, str) else f"MatchingAcl(acl={acl_text(self.rule)})"


class StandardAuthorizer:
    """Decides by the ACLs of the metadata, and writes the audit log.

    The authorizer has no ACLs before the first call of `metadata_changed`. Until then, it allows only super users.
    """

    is_open = False

    def __init__(self, settings: AclSettings, node_id: int = 0) -> None:
        self._node_id = node_id
        self._super_users = settings.super_users
        self._default = settings.allow_everyone_if_no_acl_found
        self._index = AclIndex()
        self._is_loaded = False
        self._version = 0

    @property
    def decisions_version(self) -> int | None:
        """A number that grows with each change of an ACL. None while the audit log shows allowed checks, because each
        check must then write its line.
        """
        return None if AUDIT_LOG.isEnabledFor(logging.DEBUG) else self._version

    @property
    def is_loaded(self) -> bool:
        """Whether the authorizer has received the ACLs of the cluster."""
        return self._is_loaded

    def acls(self) -> Iterator[tuple[uuid.UUID, AclEntry]]:
        """The ACLs by which the authorizer decides, with their ids."""
        return self._index.entries()

    def metadata_changed(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """Applies a change of the ACLs."""
        for acl_id in delta.acls_changed:
            self._version += 1
            acl = image.acls.get(acl_id)
            if acl is None:
                self._index.remove(acl_id)
            else:
                self._index.add(acl_id, acl)
        if not self._is_loaded:
            self._is_loaded = True
            _log.info("[StandardAuthorizer %d] Initialized with %d acl(s).", self._node_id, len(self._index))

    def authorize(
        self,
        asker: Asker,
        operation: AclOperation,
        resource: Resource,
        *,
        audit: Audit = Audit.FULL,
        count: int = 1,
    ) -> bool:
        principal = f"{asker.principal.type}:{asker.principal.name}"
        if principal in self._super_users:
            is_allowed = True
        elif not self._is_loaded:
            # Kafka's AuthorizerNotReadyException has no error code of its own, so clients get this one.
            raise UnknownServerException
        else:
            verdict = self._index.decide(
                principal, host_address(asker.host), operation, resource.type, resource.name
            )
            is_allowed = verdict is Verdict.ALLOWED or (
                verdict is Verdict.NO_MATCH and self._is_open_to_all(resource)
            )
        if is_allowed:
            level = TRACE if audit is Audit.QUERY else logging.DEBUG
        else:
            level = logging.INFO if audit is Audit.FULL else TRACE
        if AUDIT_LOG.isEnabledFor(level) and (asker.audited is None or asker.audited.admit()):
            rule = self.explain(asker, operation, resource).rule_text
            AUDIT_LOG.log(level, audit_line(asker, operation, resource, count, is_allowed, rule))
        return is_allowed

    def explain(self, asker: Asker, operation: AclOperation, resource: Resource) -> Decision:
        """Returns the decision with its rule, and writes no line to the audit log."""
        principal = str(asker.principal)
        if principal in self._super_users:
            return Decision(True, "SuperUser")
        question = (principal, host_address(asker.host), operation, resource.type, resource.name)
        match self._index.decide(*question):
            case Verdict.NO_MATCH:
                is_allowed = self._is_open_to_all(resource)
                return Decision(is_allowed, "DefaultAllow" if is_allowed else "DefaultDeny")
            case verdict:
                acl = self._index.deciding(*question)
                assert acl is not None, "the same ACLs gave the verdict"
                return Decision(verdict is Verdict.ALLOWED, acl)

    def _is_open_to_all(self, resource: Resource) -> bool:
        """Whether no ACL names the resource, and resources without ACLs are open to every principal."""
        return self._default and not self._index.has_acls(resource.type, resource.name)

    def authorize_any(self, asker: Asker, operation: AclOperation, resource_type: ResourceType) -> bool:
        if self.authorize(asker, operation, Resource(resource_type, ANY_NAME), audit=Audit.FILTER, count=0):
            return True
        principal = str(asker.principal)
        return self._index.allows_any(principal, host_address(asker.host), operation, resource_type)

"""The audit log: one line for each check, as in Kafka's kafka-authorizer.log."""

from __future__ import annotations

import logging

from kcli.model.acl import AclOperation
from kcli.runtime import log_text
from kcli.runtime.log_text import one_line
from kcli.security.acls.entry import RESOURCE_TYPE_NAMES
from kcli.security.authorizer import Asker, Resource
from kcli.security.java_address import host_address

AUDIT_LOG = logging.getLogger("kcli.authorizer.logger")
"""The logger of the audit log. Clients read and change its level under Kafka's name, `kafka.authorizer.logger`
(KIP-412)."""

TRACE = logging.DEBUG - 5
"""Kafka's level TRACE, which Python does not have."""


def audit_line(
    asker: Asker, operation: AclOperation, resource: Resource, count: int, is_allowed: bool, rule: str
) -> str:
    """The line of the audit log for a check. `count` is the number of times that the request names the resource."""
    return one_line(
        f"Principal = {asker.principal} is {'Allowed' if is_allowed else 'Denied'} operation = {operation.name} "
        f"from host = {host_address(asker.host)} on resource = {RESOURCE_TYPE_NAMES[resource.type]}:LITERAL:"
        f"{log_text.name(resource.name)} for request = {asker.api} with resourceRefCount = {count} based on rule {rule}"
    )


def report_left_out(asker: Asker) -> None:
    """Writes to the audit log how many lines of a request were left out, if any (AUDIT_LINES_MAX). Call this function
    after the request.
    """
    audited = asker.audited
    if audited is not None and audited.left_out:
        AUDIT_LOG.info(
            "%d more checks of this request are not shown: Principal = %s from host = %s for request = %s",
            audited.left_out,
            asker.principal,
            host_address(asker.host),
            asker.api,
        )

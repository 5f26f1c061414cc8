"""The audit log: one line for each check, as in Kafka's kafka-authorizer.log."""

from __future__ import annotations

import logging

from kcli.model.acl import AclOperation
from kcli.security.acls.entry import RESOURCE_TYPE_NAMES
from kcli.security.authorizer import Asker, Resource
from kcli.security.java_address import host_address

AUDIT_LOG = logging.getLogger("kcli.authorizer.logger")
"""Clients see this logger under its name in Kafka, `kafka.authorizer.logger` (KIP-412)."""

TRACE = logging.DEBUG - 5
"""Kafka's level TRACE, which Python does not have."""

CONTROL_CHARACTERS = {code: f"\\x{code:02x}" for code in (*range(0x20), 0x7F)}
"""Control characters in names of clients are escaped, so that a name cannot forge a line of the log."""


def audit_line(
    asker: Asker, operation: AclOperation, resource: Resource, count: int, is_allowed: bool, rule: str
) -> str:
    """The text of a check. `count` is the number of places in the request that name the resource."""
    line = (
        f"Principal = {asker.principal} is {'Allowed' if is_allowed else 'Denied'} operation = {operation.name} "
        f"from host = {host_address(asker.host)} on resource = {RESOURCE_TYPE_NAMES[resource.type]}:LITERAL:"
        f"{resource.name} for request = {asker.api} with resourceRefCount = {count} based on rule {rule}"
    )
    return line if line.isprintable() else line.translate(CONTROL_CHARACTERS)

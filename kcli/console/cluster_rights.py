"""The permissions of the console's users for servers that do not know these users: Connect, and a schema registry.

Such a server only knows the login of the console. A user who may create a connector can read files and topics with the
rights of the worker. So the console asks the cluster: to see connectors and schemas, a user needs DESCRIBE_CONFIGS on
the cluster itself, and ALTER_CONFIGS to change them. Without an authorizer, all users have these permissions.
"""

from __future__ import annotations

from http import HTTPStatus

from kcli.console.calls import Call
from kcli.console.failures import ConsoleError
from kcli.model.acl import AclOperation

RIGHTS_SECONDS = 30.0
"""The time for which the permissions of a user are remembered."""


async def check_rights(call: Call, operation: AclOperation) -> None:
    """Raises HttpError if the user may not do this operation on the cluster."""
    operations = await call.connection.cache.get(
        ("cluster-rights",), RIGHTS_SECONDS, call.admin.authorized_operations
    )
    if operation not in operations.value:
        raise ConsoleError(
            HTTPStatus.FORBIDDEN,
            "CLUSTER_AUTHORIZATION_FAILED",
            f"your user needs the operations DESCRIBE and {operation.name} on the cluster",
        )

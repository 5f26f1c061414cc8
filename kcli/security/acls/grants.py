"""The command that gives a missing permission. `kcli acls --check` and `kcli doctor` show this command. Other tools
show it if the broker refuses a request because the permission is missing.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass

from kcli.model.acl import AclOperation, ResourceType
from kcli.model.command_words import quoted_option

TYPES = {
    "topic": ResourceType.TOPIC,
    "group": ResourceType.GROUP,
    "cluster": ResourceType.CLUSTER,
    "transactional-id": ResourceType.TRANSACTIONAL_ID,
    "delegation-token": ResourceType.DELEGATION_TOKEN,
    "user-principal": ResourceType.USER,
}
"""The resource type for each option of `kcli acls` that names a resource, such as --topic."""

_OPTIONS = {kind: name for name, kind in TYPES.items()}


@dataclass(frozen=True, slots=True)
class Right:
    """A permission: an operation on one resource, or on all resources whose names begin with `name`."""

    operation: AclOperation
    resource_type: ResourceType
    name: str
    is_prefix: bool = False

    def __str__(self) -> str:
        """The words that follow "may" or "may not" in a message, such as `Write topic orders`."""
        option = _OPTIONS[self.resource_type]
        resource = "the cluster" if option == "cluster" else f"{option} {self.name}{'*' * self.is_prefix}"
        return f"{spelt(self.operation)} {resource}"


def granting(principal: str, right: Right) -> str:
    """Returns the command that gives a permission to a principal such as `User:alice`."""
    option = _OPTIONS[right.resource_type]
    resource = "--cluster" if option == "cluster" else quoted_option(option, right.name)
    if right.is_prefix:
        resource += " --resource-pattern-type prefixed"
    who = shlex.quote(principal)
    return f"kcli acls --add --allow-principal {who} --operation {spelt(right.operation)} {resource}"


def spelt(operation: AclOperation) -> str:
    """The name of an operation as Kafka's tools spell it, such as `AlterConfigs`."""
    return "".join(part.capitalize() for part in operation.name.split("_"))

"""`kcli acls --check`: whether the ACLs of a cluster allow an operation, and which ACL decides.

The tool reads the ACLs and applies the same rules as a broker. The tool ignores super.users and
allow.everyone.if.no.acl.found, because these settings are only in the configuration files of brokers.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kcli.cli.output import Output
from kcli.cli.syntax.options import CommandError, UsageError
from kcli.cli.tools.acls.bindings import SUPPORTED, Pattern, grouped, operation_of, principal_of
from kcli.cli.tools.acls.options import AclsOptions
from kcli.model.acl import CLUSTER_NAME, AclOperation, PatternType, ResourceType
from kcli.security.acls.filters import AclFilter
from kcli.security.acls.grants import TYPES, Right, granting, spelt
from kcli.security.acls.index import AclIndex, Verdict
from kcli.security.java_address import host_address

if TYPE_CHECKING:
    from kcli.client.admin.admin import AdminClient

ANY_OTHER_HOST = ""
"""A host that no ACL names. So only ACLs for all hosts match it."""

DENIED_EXIT = 1


@dataclass(frozen=True, slots=True)
class Question:
    """The arguments of --check: a principal, an operation, a resource and a host."""

    principal: str
    operation: AclOperation
    resource_type: ResourceType
    resource_name: str
    host: str


@dataclass(frozen=True, slots=True)
class CheckRow:
    """The result of a check. `rule` is the ACL that decides, or None if no ACL matches."""

    allowed: bool
    principal: str
    operation: str
    resource_type: str
    resource_name: str
    host: str | None
    rule: str | None


async def check(options: AclsOptions, client: AdminClient, output: Output) -> int:
    """Prints the result of the check. Returns the exit code: 0 for yes, 1 for no."""
    question = parse(options)
    acl_filter = AclFilter(question.resource_type, question.resource_name, PatternType.MATCH)
    acls = await client.describe_acls(acl_filter)
    index = AclIndex()
    for number, known_acl in enumerate(acls):
        index.add(uuid.UUID(int=number), known_acl)
    arguments = (
        question.principal,
        question.host,
        question.operation,
        question.resource_type,
        question.resource_name,
    )
    verdict, acl = index.decide(*arguments), index.deciding(*arguments)
    rule = None
    if acl is not None:
        ((pattern, (entry,)),) = grouped([acl]).items()
        rule = f"{entry} on {pattern}"
    row = CheckRow(
        allowed=verdict is Verdict.ALLOWED,
        principal=question.principal,
        operation=question.operation.name,
        resource_type=question.resource_type.name,
        resource_name=question.resource_name,
        host=options.host,
        rule=rule,
    )
    output.row(row, _sentence(question, verdict, rule, has_acls=bool(acls)))
    if output.is_text and verdict is Verdict.NO_MATCH:
        output.warn(_hint(question, has_acls=bool(acls)))
    return 0 if row.allowed else DENIED_EXIT


def parse(options: AclsOptions) -> Question:
    """Reads `--check PRINCIPAL OPERATION RESOURCE`. Raises UsageError or CommandError."""
    if len(options.arguments) != 2:
        raise UsageError(
            "--check: expected an operation and a resource, such as: --check User:alice Write topic:orders"
        )
    operation_text, resource = options.arguments
    operation = operation_of(operation_text)
    kind, colon, name = resource.partition(":")
    resource_type = TYPES.get(kind)
    if resource_type is None:
        raise CommandError(f"--check: expected a resource of the type {', '.join(TYPES)}, found {resource}")
    if resource_type is ResourceType.CLUSTER:
        name = CLUSTER_NAME
    elif not colon or not name:
        raise CommandError(f"--check: expected {kind}:NAME, found {resource}")
    if operation not in SUPPORTED[resource_type]:
        names = ", ".join(spelt(allowed) for allowed in SUPPORTED[resource_type])
        raise CommandError(f"--check: expected an operation of {kind} ({names}), found {operation_text}")
    host = ANY_OTHER_HOST if options.host is None else host_address(options.host)
    return Question(principal_of(options.check or ""), operation, resource_type, name, host)


def _sentence(question: Question, verdict: Verdict, rule: str | None, *, has_acls: bool) -> str:
    resource = Pattern(question.resource_type, question.resource_name, PatternType.LITERAL)
    claim = f"{question.principal} may {spelt(question.operation)} on {resource}"
    match verdict:
        case Verdict.ALLOWED:
            return f"yes: {claim}\nallowed by {rule}"
        case Verdict.DENIED:
            return f"no: {claim}\ndenied by {rule}"
        case Verdict.NO_MATCH if has_acls:
            return f"no: {claim}\nthe resource has ACLs, but none of them matches"
        case Verdict.NO_MATCH:
            return f"no: {claim}\nthe resource has no ACLs"


def _hint(question: Question, *, has_acls: bool) -> str:
    right = Right(question.operation, question.resource_type, question.resource_name)
    hint = f"This command allows it: {granting(question.principal, right)}"
    if not has_acls:
        hint += "\nThe broker allows it now if its file has allow.everyone.if.no.acl.found=true."
    return f"{hint}\nThe broker allows it now if the principal is in super.users in its file."

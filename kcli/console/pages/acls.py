"""The ACLs: the list, and the actions that add and remove ACLs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import TypeVar

from kcli.console.answers import Outcome, Rows
from kcli.console.calls import Action, Call, bad_request
from kcli.console.routes import Change, Read
from kcli.errors import ErrorCode, KafkaError
from kcli.metadata.image import AclEntry
from kcli.model.acl import CLUSTER_NAME, AclOperation, AclPermissionType, PatternType, ResourceType
from kcli.model.command_words import option
from kcli.model.java_text import trim
from kcli.security.acls.entry import number_name
from kcli.security.acls.filters import AclFilter
from kcli.security.acls.grants import TYPES, spelt

EnumT = TypeVar("EnumT", bound=IntEnum)

NAME_MAX = 1000
"""The most characters of a principal, a host or a name. Kafka's own names are shorter."""
PRODUCER, CONSUMER = "producer", "consumer"
_READ_TOPIC = (AclOperation.READ, AclOperation.DESCRIBE)
_WRITE_TOPIC = (AclOperation.WRITE, AclOperation.DESCRIBE, AclOperation.CREATE)
_OPTIONS = {kind: name for name, kind in TYPES.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class AclRow:
    """An ACL with names in place of numbers."""

    principal: str
    permission: str
    operation: str
    resource_type: str
    name: str
    pattern: str
    host: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AclRows(Rows):
    """The rows. Without an authorizer, the cluster has no ACLs, and every client may do everything."""

    has_authorizer: bool


async def list_acls(call: Call) -> AclRows:
    """GET /acls: all ACLs."""

    async def load() -> list[AclRow] | None:
        try:
            return [_row(acl) for acl in await call.admin.describe_acls()]
        except KafkaError as error:
            if error.code is ErrorCode.SECURITY_DISABLED:
                return None
            raise

    acls = (await call.cached("acls", load)).value
    rows = call.listing().rows(
        acls or (),
        text=lambda row: (
            f"{row.principal} {row.permission} {row.operation} {row.resource_type} {row.name} {row.host}"
        ),
        columns={
            "principal": lambda row: (row.principal, row.resource_type, row.name, row.operation),
            "permission": lambda row: row.permission,
            "operation": lambda row: row.operation,
            "resource_type": lambda row: (row.resource_type, row.name),
            "name": lambda row: row.name,
            "host": lambda row: row.host,
        },
    )
    return AclRows(total=rows.total, rows=rows.rows, has_authorizer=acls is not None)


async def add_acls(action: Action) -> Outcome:
    """POST /acls {principal, permission, host, use or resource_type, name, pattern, operations, group}: adds ACLs.

    `use` is producer or consumer. It stands for the operations that such a client needs on the topic. For a consumer,
    it also stands for the operations on the group.
    """
    acls = _acls(action)
    action.target = f"ACLs of {acls[0].principal}"
    present = set(await action.admin.describe_acls(AclFilter(principal=acls[0].principal)))
    new = [acl for acl in acls if acl not in present]
    if not action.is_preview:
        _raise_first(await action.admin.create_acls(acls))
    verb = "Adds" if action.is_preview else "Added"
    count = len(acls) - len(new)
    return Outcome(
        command=action.command("acls", *_arguments(action, "--add", acls)),
        summary=f"{verb} {_count(len(new))}." + (f" {_count(count)} existed before." if count else ""),
        details=[_row(acl) for acl in acls],
    )


async def remove_acl(action: Action) -> Outcome:
    """POST /acls/remove {the fields of a row}: removes one ACL."""
    acl = AclEntry(
        _member(ResourceType, action.text("resource_type")),
        _named(action, "name"),
        _member(PatternType, action.text("pattern")),
        _named(action, "principal"),
        _named(action, "host"),
        _member(AclOperation, action.text("operation")),
        _member(AclPermissionType, action.text("permission")),
    )
    action.target = f"ACL of {acl.principal}"
    exact = AclFilter(
        acl.resource_type,
        acl.resource_name,
        acl.pattern_type,
        acl.principal,
        acl.host,
        acl.operation,
        acl.permission_type,
    )
    count = len(await action.admin.describe_acls(exact))
    if not action.is_preview:
        (removed,) = await action.admin.delete_acls([exact])
        if isinstance(removed, Exception):
            raise removed
        count = removed
    verb = "Removes" if action.is_preview else "Removed"
    return Outcome(
        command=action.command("acls", *_arguments(action, "--remove", [acl]), "--force"),
        summary=f"{verb} {_count(count)}.",
    )


def _acls(action: Action) -> list[AclEntry]:
    """The ACLs in the body of an action. Raises HttpError if a value is invalid."""
    principal, host = _named(action, "principal"), action.text("host", "*") or "*"
    kind, colon, name = principal.partition(":")
    if not kind or not colon or not name:
        raise bad_request("principal: expected type:name, such as User:alice")
    permission = _member(AclPermissionType, action.text("permission", AclPermissionType.ALLOW.name))
    pattern = _member(PatternType, action.text("pattern", PatternType.LITERAL.name))
    if pattern not in (PatternType.LITERAL, PatternType.PREFIXED):
        raise bad_request("pattern: expected LITERAL or PREFIXED")

    def of(resource: ResourceType, name: str, operations: Sequence[AclOperation]) -> list[AclEntry]:
        where = PatternType.LITERAL if resource is ResourceType.CLUSTER else pattern
        return [
            AclEntry(resource, name, where, principal, host, operation, permission)
            for operation in operations
        ]

    use = action.text("use", "")
    if use == PRODUCER:
        return of(ResourceType.TOPIC, _named(action, "name"), _WRITE_TOPIC)
    if use == CONSUMER:
        read = of(ResourceType.TOPIC, _named(action, "name"), _READ_TOPIC)
        return read + of(ResourceType.GROUP, _named(action, "group"), (AclOperation.READ,))
    resource = _member(ResourceType, action.text("resource_type"))
    operations = [_member(AclOperation, text) for text in action.texts("operations")]
    if not operations or resource in (ResourceType.ANY, ResourceType.UNKNOWN):
        raise bad_request("operations: expected at least one operation on a type of resource")
    name = CLUSTER_NAME if resource is ResourceType.CLUSTER else _named(action, "name")
    return of(resource, name, operations)


def _arguments(action: Action, verb: str, acls: Sequence[AclEntry]) -> list[str]:
    """The options of `kcli acls` for these ACLs. All ACLs must be of one principal."""
    first = acls[0]
    kind = "allow" if first.permission_type == AclPermissionType.ALLOW else "deny"
    words = [verb, *option(f"{kind}-principal", first.principal)]
    if first.host != "*":
        words += option(f"{kind}-host", first.host)
    use = action.text("use", "")
    if use:
        words.append(f"--{use}")
    else:
        words += [word for acl in acls for word in ("--operation", spelt(AclOperation(acl.operation)))]
    for resource, name in dict.fromkeys((acl.resource_type, acl.resource_name) for acl in acls):
        kind_of = _OPTIONS[ResourceType(resource)]
        words += ["--cluster"] if kind_of == "cluster" else option(kind_of, name)
    if first.pattern_type == PatternType.PREFIXED:
        words += ["--resource-pattern-type", "prefixed"]
    return words


def _row(acl: AclEntry) -> AclRow:
    return AclRow(
        principal=acl.principal,
        permission=number_name(AclPermissionType, acl.permission_type),
        operation=number_name(AclOperation, acl.operation),
        resource_type=number_name(ResourceType, acl.resource_type),
        name=acl.resource_name,
        pattern=number_name(PatternType, acl.pattern_type),
        host=acl.host,
    )


def _member(kind: type[EnumT], name: str) -> EnumT:
    try:
        return kind[name]
    except KeyError:
        shown = ", ".join(member.name for member in kind if member.name not in ("UNKNOWN", "ANY", "MATCH"))
        raise bad_request(f"{name[:40]!r}: expected one of {shown}") from None


def _named(action: Action, field: str) -> str:
    name = trim(action.text(field))
    if not name or len(name) > NAME_MAX:
        raise bad_request(f"{field}: expected 1 to {NAME_MAX} characters")
    return name


def _raise_first(errors: Sequence[Exception | None]) -> None:
    for error in errors:
        if error is not None:
            raise error


def _count(count: int) -> str:
    return f"{count} ACL" if count == 1 else f"{count} ACLs"


ROUTES = (
    Read("/acls", list_acls),
    Change("/acls", "add ACLs", add_acls),
    Change("/acls/remove", "remove ACL", remove_acl),
)

"""The ACLs that the options of kafka-acls describe: patterns of resources, and entries for them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import TypeVar

from kcli.cli.syntax.options import CommandError, UsageError
from kcli.cli.tools.acls.options import AclsOptions
from kcli.metadata.image import AclEntry
from kcli.model.acl import CLUSTER_NAME, AclOperation, AclPermissionType, PatternType, ResourceType
from kcli.model.java_text import trim
from kcli.security.acls.entry import WILDCARD, number_name
from kcli.security.acls.filters import AclFilter

Number = TypeVar("Number", bound=IntEnum)

SUPPORTED: Mapping[ResourceType, tuple[AclOperation, ...]] = {
    ResourceType.TOPIC: (
        AclOperation.READ,
        AclOperation.WRITE,
        AclOperation.CREATE,
        AclOperation.DESCRIBE,
        AclOperation.DELETE,
        AclOperation.ALTER,
        AclOperation.DESCRIBE_CONFIGS,
        AclOperation.ALTER_CONFIGS,
    ),
    ResourceType.GROUP: (
        AclOperation.READ,
        AclOperation.DESCRIBE,
        AclOperation.DELETE,
        AclOperation.DESCRIBE_CONFIGS,
        AclOperation.ALTER_CONFIGS,
    ),
    ResourceType.CLUSTER: (
        AclOperation.CREATE,
        AclOperation.CLUSTER_ACTION,
        AclOperation.DESCRIBE_CONFIGS,
        AclOperation.ALTER_CONFIGS,
        AclOperation.IDEMPOTENT_WRITE,
        AclOperation.ALTER,
        AclOperation.DESCRIBE,
    ),
    ResourceType.TRANSACTIONAL_ID: (
        AclOperation.DESCRIBE,
        AclOperation.WRITE,
        AclOperation.TWO_PHASE_COMMIT,
    ),
    ResourceType.DELEGATION_TOKEN: (AclOperation.DESCRIBE,),
    ResourceType.USER: (AclOperation.CREATE_TOKENS, AclOperation.DESCRIBE_TOKENS),
}
"""The operations that the tool accepts for each type of resource, besides ALL. Brokers accept every operation."""

PRODUCER_OPERATIONS = (AclOperation.WRITE, AclOperation.DESCRIBE, AclOperation.CREATE)
TRANSACTION_OPERATIONS = (AclOperation.WRITE, AclOperation.DESCRIBE)
CONSUMER_OPERATIONS = (AclOperation.READ, AclOperation.DESCRIBE)


@dataclass(frozen=True, slots=True)
class Pattern:
    """A resource pattern, or a filter of patterns. If the name is None, the filter matches every name."""

    resource_type: ResourceType
    name: str
    pattern_type: PatternType

    def __str__(self) -> str:
        """The text of Java's `ResourcePattern`."""
        return (
            f"ResourcePattern(resourceType={self.resource_type.name}, name={self.name}, "
            f"patternType={self.pattern_type.name})"
        )


@dataclass(frozen=True, slots=True)
class Entry:
    """One ACL of a pattern."""

    principal: str
    host: str
    operation: AclOperation
    permission: AclPermissionType

    def __str__(self) -> str:
        """The text of Java's `AccessControlEntry`."""
        return (
            f"(principal={self.principal}, host={self.host}, operation={self.operation.name}, "
            f"permissionType={self.permission.name})"
        )


CLUSTER = Pattern(ResourceType.CLUSTER, CLUSTER_NAME, PatternType.LITERAL)

Bindings = dict[Pattern, list[Entry]]
"""The entries of each pattern, in the order of the options. Kafka's tool has no fixed order."""


def wanted_bindings(options: AclsOptions) -> Bindings:
    """The ACLs to add, or the filters of the ACLs to remove.

    Raises UsageError and CommandError, with Kafka's messages.
    """
    bindings: Bindings = {}
    if not (options.producer or options.consumer):
        operations = [operation_of(text) for text in options.operation]
        _put(bindings, patterns_of(options, needed=True), _entries(options, operations))
    if options.producer:
        patterns = patterns_of(options, needed=True)
        _put(bindings, _of(patterns, ResourceType.TOPIC), _entries(options, PRODUCER_OPERATIONS))
        ids = _of(patterns, ResourceType.TRANSACTIONAL_ID)
        _put(bindings, ids, _entries(options, TRANSACTION_OPERATIONS))
        if options.idempotent:
            _put(bindings, [CLUSTER], _entries(options, [AclOperation.IDEMPOTENT_WRITE]))
    if options.consumer:
        patterns = patterns_of(options, needed=True)
        _put(bindings, _of(patterns, ResourceType.TOPIC), _entries(options, CONSUMER_OPERATIONS))
        _put(bindings, _of(patterns, ResourceType.GROUP), _entries(options, [AclOperation.READ]))
    _check_operations(bindings)
    return bindings


def patterns_of(options: AclsOptions, *, needed: bool = False) -> list[Pattern]:
    """The resources that the options name. If the options name no resource and `needed` is True, raises UsageError."""
    pattern_type = pattern_type_of(options.resource_pattern_type)
    patterns = [Pattern(ResourceType.TOPIC, trim(name), pattern_type) for name in options.topic]
    if pattern_type is PatternType.LITERAL and (options.cluster or options.idempotent):
        patterns.append(CLUSTER)
    for resource_type, names in (
        (ResourceType.GROUP, options.group),
        (ResourceType.TRANSACTIONAL_ID, options.transactional_id),
        (ResourceType.DELEGATION_TOKEN, options.delegation_token),
        (ResourceType.USER, options.user_principal),
    ):
        patterns += [Pattern(resource_type, trim(name), pattern_type) for name in names]
    if needed and not patterns:
        raise UsageError(
            "You must provide at least one resource: --topic <topic> or --cluster or --group <group> or "
            "--delegation-token <Delegation Token ID>"
        )
    return patterns


def pattern_type_of(text: str) -> PatternType:
    """The pattern type with this name. Raises CommandError with Kafka's message if no pattern type has this name."""
    for pattern_type in PatternType:
        if pattern_type is not PatternType.UNKNOWN and pattern_type.name == text.upper():
            return pattern_type
    raise CommandError(f"Cannot parse argument '{text}' of option resource-pattern-type")


def operation_of(text: str) -> AclOperation:
    """The operation with this name, such as `AlterConfigs`. UNKNOWN if no operation has this name."""
    name = trim(text).replace("_", "").upper()
    for operation in AclOperation:
        if operation.name.replace("_", "") == name:
            return operation
    return AclOperation.UNKNOWN


def principal_of(text: str) -> str:
    """Parses a principal `Type:name`. Raises CommandError with Kafka's message if the text has no type."""
    principal = trim(text)
    if ":" not in principal:
        raise CommandError(f"expected a string in format principalType:principalName but got {principal}")
    return principal


def pattern_filter(pattern: Pattern) -> AclFilter:
    """The filter of all ACLs of a pattern."""
    return AclFilter(pattern.resource_type, pattern.name, pattern.pattern_type)


def entry_filter(pattern: Pattern, entry: Entry) -> AclFilter:
    return AclFilter(
        pattern.resource_type,
        pattern.name,
        pattern.pattern_type,
        entry.principal,
        entry.host,
        entry.operation,
        entry.permission,
    )


def acl_entry(pattern: Pattern, entry: Entry) -> AclEntry:
    return AclEntry(
        pattern.resource_type,
        pattern.name,
        pattern.pattern_type,
        entry.principal,
        entry.host,
        entry.operation,
        entry.permission,
    )


def grouped(acls: Iterable[AclEntry]) -> Bindings:
    """The ACLs of a cluster by their patterns, in the order of the response."""
    bindings: Bindings = {}
    for acl in acls:
        pattern = Pattern(
            _known(ResourceType, acl.resource_type), acl.resource_name, _known(PatternType, acl.pattern_type)
        )
        operation = _known(AclOperation, acl.operation)
        permission = _known(AclPermissionType, acl.permission_type)
        bindings.setdefault(pattern, []).append(Entry(acl.principal, acl.host, operation, permission))
    return bindings


def _known(kind: type[Number], number: int) -> Number:
    """The enum member with this number, or UNKNOWN for a number that only newer releases have."""
    return kind[number_name(kind, number)]


def _put(bindings: Bindings, patterns: Iterable[Pattern], entries: Sequence[Entry]) -> None:
    for pattern in patterns:
        present = bindings.setdefault(pattern, [])
        present += [entry for entry in entries if entry not in present]


def _of(patterns: Iterable[Pattern], resource_type: ResourceType) -> list[Pattern]:
    return [pattern for pattern in patterns if pattern.resource_type is resource_type]


def _entries(options: AclsOptions, operations: Sequence[AclOperation]) -> list[Entry]:
    entries: dict[Entry, None] = {}
    if AclOperation.ANY in operations and (options.allow_principal or options.deny_principal):
        raise CommandError("operation must not be ANY")  # Java's words, before any check of the resource
    for principals, hosts, permission in (
        (options.allow_principal, options.allow_host, AclPermissionType.ALLOW),
        (options.deny_principal, options.deny_host, AclPermissionType.DENY),
    ):
        for text in principals:
            principal = principal_of(text)
            for host in hosts or (WILDCARD,):
                for operation in operations:
                    entries[Entry(principal, trim(host), operation, permission)] = None
    return list(entries)


def _check_operations(bindings: Bindings) -> None:
    for pattern, entries in bindings.items():
        supported = (*SUPPORTED[pattern.resource_type], AclOperation.ALL)
        if any(entry.operation not in supported for entry in entries):
            names = ", ".join(operation.name for operation in supported)
            raise UsageError(f"ResourceType {pattern.resource_type.name} only supports operations [{names}]")

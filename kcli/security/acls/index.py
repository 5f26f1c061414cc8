"""The index of ACLs. A check reads only the few ACLs that can match.

An ACL has a pattern: a resource type, a name, and LITERAL or PREFIXED. A resource with the name `orders` matches three
kinds of patterns: the literal `orders`, the literal `*`, and each prefix of `orders`. One dictionary contains the
literal names, and another contains the prefixes. To find prefixes, the index cuts the resource's name to each length
that a stored prefix has, and looks up the shortened name.

For each pattern, principal and host there is a cell. The cell has a bit for each allowed operation and for each denied
operation. So a check reads at most four cells per pattern: for the principal and for `User:*`, each with the host and
with `*`.

The prefixes are kept separately for each principal. So a check looks up only the lengths of its own principal's
prefixes, the longest first. All shorter matching prefixes are prefixes of the longest one, so the longest one
determines all others. The index stores the bits of all matching prefixes under the longest prefix, until an ACL of the
principal changes.
"""

from __future__ import annotations

import uuid
from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from enum import Enum
from typing import Generic, TypeVar

from kcli.metadata.image import AclEntry
from kcli.model.acl import AclOperation, AclPermissionType, PatternType
from kcli.security.acls.entry import WILDCARD, WILDCARD_PRINCIPAL, scan_order

EVERY_OPERATION = -1
"""The bits that an ACL for the operation ALL sets: the bits of every operation."""

_IMPLIED: dict[int, int] = {
    AclOperation.READ: 1 << AclOperation.DESCRIBE,
    AclOperation.WRITE: 1 << AclOperation.DESCRIBE,
    AclOperation.DELETE: 1 << AclOperation.DESCRIBE,
    AclOperation.ALTER: 1 << AclOperation.DESCRIBE,
    AclOperation.ALTER_CONFIGS: 1 << AclOperation.DESCRIBE_CONFIGS,
}
"""For each operation, the bit of another operation that an ACL also allows if it allows this one. An ACL that denies an
operation denies no other."""

KEPT_ANSWERS_MAX = 1000
"""The most results of `allows_any` that an index keeps until an ACL changes. It is also the limit of kept prefix bits
per principal. A result takes about 200 bytes."""

FEW_LENGTHS = 8
"""The most prefix lengths that a check tries one after another, in about 0.1 µs each. If there are more lengths, a
search in the sorted prefixes (about 3 µs) first excludes the lengths that are too long."""


# Numbers compare faster than enums, and an index is made of many thousands of ACLs at once.
_ALLOW, _PREFIXED = int(AclPermissionType.ALLOW), int(PatternType.PREFIXED)
_ALLOWED_BITS: dict[int, int] = {}


class Verdict(Enum):
    """The decision of the ACLs for one check."""

    ALLOWED = "an ACL allows the operation, and no ACL denies it"
    DENIED = "an ACL denies the operation"
    NO_MATCH = "no ACL is for this resource, principal, host and operation"


@dataclass(slots=True)
class _Cell:
    """The ACLs of one pattern, principal and host, and the bits of their operations."""

    entries: dict[uuid.UUID, AclEntry] = field(default_factory=dict)
    allowed: int = 0
    denied: int = 0

    def add(self, acl_id: uuid.UUID, acl: AclEntry) -> None:
        self.entries[acl_id] = acl
        if acl.permission_type == _ALLOW:
            self.allowed |= _ALLOWED_BITS.get(acl.operation) or allowed_bits(acl.operation)
        else:
            self.denied |= denied_bits(acl.operation)

    def remove(self, acl_id: uuid.UUID) -> None:
        """Removes an ACL. Then computes the bits of the cell again, because another ACL may set the same bits."""
        del self.entries[acl_id]
        self.allowed = self.denied = 0
        for other_id, other in list(self.entries.items()):
            self.add(other_id, other)


_Hosts = dict[str, _Cell]
_Principals = dict[str, _Hosts]
_Bits = tuple[int, int]  # the allowed and the denied operations
_NO_BITS: _Bits = (0, 0)
V = TypeVar("V")


class _Prefixes(Generic[V]):
    """A map from name prefixes to values, which finds the prefixes of a name."""

    __slots__ = ("_of_length", "_sorted", "_values", "lengths")

    def __init__(self) -> None:
        self.lengths: list[int] = []  # the lengths that prefixes have, sorted
        self._values: dict[str, V] = {}
        self._sorted: list[str] = []
        self._of_length: dict[int, int] = {}

    def get(self, prefix: str) -> V | None:
        return self._values.get(prefix)

    def __getitem__(self, prefix: str) -> V:
        return self._values[prefix]

    def items(self) -> Iterable[tuple[str, V]]:
        return self._values.items()

    def set(self, prefix: str, value: V) -> None:
        """Adds a new prefix."""
        self._values[prefix] = value
        insort(self._sorted, prefix)
        count = self._of_length.get(len(prefix), 0)
        self._of_length[len(prefix)] = count + 1
        if not count:
            self.lengths = sorted(self._of_length)

    def remove(self, prefix: str) -> None:
        del self._values[prefix]
        del self._sorted[bisect_left(self._sorted, prefix)]
        left = self._of_length[len(prefix)] = self._of_length[len(prefix)] - 1
        if not left:
            del self._of_length[len(prefix)]
            self.lengths = sorted(self._of_length)

    def __bool__(self) -> bool:
        return bool(self._values)

    def longest(self, name: str) -> str | None:
        """The longest stored prefix of the name."""
        lengths, values = self.lengths, self._values
        if len(lengths) > FEW_LENGTHS:
            lengths = lengths[: bisect_right(lengths, self._shared(name))]
        for length in reversed(lengths):
            # If the name is shorter, the slice is the whole name, which is its own prefix.
            if (prefix := name[:length]) in values:
                return prefix
        return None

    def _shared(self, name: str) -> int:
        """The number of first characters that the name shares with the last stored text that does not sort after it.
        Each stored prefix of the name is this stored text or a prefix of it. So no stored prefix of the name is longer
        than the returned number.
        """
        at = bisect_right(self._sorted, name)
        before = self._sorted[at - 1] if at else ""
        sizes = range(1, len(before) + 1)
        return bisect_left(sizes, True, key=lambda size: not name.startswith(before[:size]))

    def matching(self, name: str) -> Iterator[str]:
        """The stored prefixes of the name, the longest first."""
        for length in reversed(self.lengths):
            if length <= len(name) and (prefix := name[:length]) in self._values:
                yield prefix


@dataclass(slots=True)
class _OwnPrefixes:
    """The PREFIXED ACLs of one principal, and the bits that were computed from these ACLs."""

    hosts: _Prefixes[_Hosts] = field(default_factory=_Prefixes)
    answers: dict[tuple[str, str], _Bits] = field(default_factory=dict)

    def bits(self, name: str, host: str) -> _Bits:
        """The bits of the operations that the ACLs allow and deny for all prefixes of the name."""
        longest = self.hosts.longest(name)
        if longest is None:
            return _NO_BITS
        bits = self.answers.get((longest, host))
        if bits is None:
            if len(self.answers) >= KEPT_ANSWERS_MAX:
                self.answers.clear()
            bits = self.answers[longest, host] = self._computed(longest, host)
        return bits

    def _computed(self, longest: str, host: str) -> _Bits:
        allowed = denied = 0
        for prefix in self.hosts.matching(longest):
            hosts = self.hosts[prefix]
            for cell in (hosts.get(host), hosts.get(WILDCARD)):
                if cell is not None:
                    allowed, denied = allowed | cell.allowed, denied | cell.denied
        return allowed, denied


class _OfType:
    """The ACLs of one resource type."""

    __slots__ = ("literal", "of_principal", "prefixed")

    def __init__(self) -> None:
        self.literal: dict[str, _Principals] = {}
        self.prefixed: _Prefixes[_Principals] = _Prefixes()
        self.of_principal: dict[str, _OwnPrefixes] = {}

    def principals(self, acl: AclEntry) -> _Principals:
        """The principals that have ACLs with the pattern of `acl`. Adds the pattern if it is new."""
        patterns: dict[str, _Principals] | _Prefixes[_Principals] = self.literal
        if acl.pattern_type == _PREFIXED:
            patterns = self.prefixed
        principals = patterns.get(acl.resource_name)
        if principals is None:
            principals = {}
            if acl.pattern_type == _PREFIXED:
                self.prefixed.set(acl.resource_name, principals)
            else:
                self.literal[acl.resource_name] = principals
        return principals

    def hosts(self, acl: AclEntry) -> _Hosts:
        """The hosts in the ACLs with the pattern and the principal of `acl`. Adds the pattern and the principal if they
        are new.
        """
        principals = self.principals(acl)
        hosts = principals.get(acl.principal)
        if hosts is None:
            hosts = principals[acl.principal] = {}
            if acl.pattern_type == _PREFIXED:
                own = self.of_principal.setdefault(acl.principal, _OwnPrefixes())
                own.hosts.set(acl.resource_name, hosts)
        return hosts

    def changed(self, acl: AclEntry) -> None:
        """Drops the computed bits that depend on this ACL. Call this method each time before an ACL is added or
        removed.
        """
        if acl.pattern_type == _PREFIXED and (own := self.of_principal.get(acl.principal)) is not None:
            own.answers.clear()

    def hosts_ended(self, acl: AclEntry) -> None:
        """Removes the principal of an ACL from the ACL's pattern, because the last ACL of this principal was removed.
        If the pattern has no more principals, removes the pattern too.
        """
        principals = self.principals(acl)
        del principals[acl.principal]
        if acl.pattern_type == _PREFIXED:
            own = self.of_principal[acl.principal]
            own.hosts.remove(acl.resource_name)
            if not own.hosts:
                del self.of_principal[acl.principal]
            if not principals:
                self.prefixed.remove(acl.resource_name)
        elif not principals:
            del self.literal[acl.resource_name]

    def matching(self, name: str) -> list[_Principals]:
        """The entries of all patterns that match the name of a resource."""
        patterns = []
        if (own := self.literal.get(name)) is not None:
            patterns.append(own)
        patterns += map(self.prefixed.__getitem__, self.prefixed.matching(name))
        if name != WILDCARD and (wildcard := self.literal.get(WILDCARD)) is not None:
            patterns.append(wildcard)
        return patterns


class AclIndex:
    """The ACLs of a cluster, by resource type, pattern, principal and host."""

    def __init__(self) -> None:
        self._types: dict[int, _OfType] = {}
        self._by_id: dict[uuid.UUID, AclEntry] = {}
        self._any: dict[tuple[str, str, int, int], bool] = {}  # answers of `allows_any`

    def __len__(self) -> int:
        return len(self._by_id)

    def add(self, acl_id: uuid.UUID, acl: AclEntry) -> None:
        """Adds an ACL. If the id is known, the new ACL replaces the old one."""
        if self._by_id.setdefault(acl_id, acl) is not acl:
            self.remove(acl_id)
            self._by_id[acl_id] = acl
        if self._any:
            self._any.clear()
        of_type = self._types.get(acl.resource_type)
        if of_type is None:
            of_type = self._types[acl.resource_type] = _OfType()
        of_type.changed(acl)
        hosts = of_type.hosts(acl)
        cell = hosts.get(acl.host)
        if cell is None:
            cell = hosts[acl.host] = _Cell()
        cell.add(acl_id, acl)

    def remove(self, acl_id: uuid.UUID) -> None:
        """Removes an ACL. Does nothing if the id is unknown."""
        acl = self._by_id.pop(acl_id, None)
        if acl is None:
            return
        if self._any:
            self._any.clear()
        of_type = self._types[acl.resource_type]
        of_type.changed(acl)
        hosts = of_type.hosts(acl)
        cell = hosts[acl.host]
        cell.remove(acl_id)
        if not cell.entries:
            del hosts[acl.host]
            if not hosts:
                of_type.hosts_ended(acl)

    def decide(self, principal: str, host: str, operation: int, resource_type: int, name: str) -> Verdict:
        """Returns what the ACLs decide for one operation on one resource. `principal` has the form `User:name`."""
        of_type = self._types.get(resource_type)
        if of_type is None:
            return Verdict.NO_MATCH
        own, wildcard = of_type.literal.get(name), of_type.literal.get(WILDCARD)
        allowed = denied = 0
        for who in (principal, WILDCARD_PRINCIPAL):
            applying: list[_Hosts] = []
            if own is not None and (hosts := own.get(who)) is not None:
                applying.append(hosts)
            if wildcard is not None and (hosts := wildcard.get(who)) is not None:
                applying.append(hosts)
            for hosts in applying:
                if (cell := hosts.get(host)) is not None:
                    allowed, denied = allowed | cell.allowed, denied | cell.denied
                if (cell := hosts.get(WILDCARD)) is not None:
                    allowed, denied = allowed | cell.allowed, denied | cell.denied
            if (prefixes := of_type.of_principal.get(who)) is not None:
                bits = prefixes.bits(name, host)
                allowed, denied = allowed | bits[0], denied | bits[1]
        bit = 1 << operation
        if denied & bit:
            return Verdict.DENIED
        return Verdict.ALLOWED if allowed & bit else Verdict.NO_MATCH

    def has_acls(self, resource_type: int, name: str) -> bool:
        """Returns whether an ACL of any principal is for this resource."""
        of_type = self._types.get(resource_type)
        return of_type is not None and bool(of_type.matching(name))

    def deciding(
        self, principal: str, host: str, operation: int, resource_type: int, name: str
    ) -> AclEntry | None:
        """Returns the ACL that decides, as Kafka logs it. None if no ACL allows or denies the operation.

        Kafka reads the ACLs with the longest name first, and the ACLs for `*` last. The first ACL that denies decides.
        If no ACL denies, the last ACL that allows decides.
        """
        bit = 1 << operation
        allowing = None
        for acl in self._applying(principal, host, resource_type, name):
            if acl.permission_type != AclPermissionType.ALLOW:
                if denied_bits(acl.operation) & bit:
                    return acl
            elif allowed_bits(acl.operation) & bit:
                allowing = acl
        return allowing

    def _applying(self, principal: str, host: str, resource_type: int, name: str) -> list[AclEntry]:
        """The ACLs for the resource, principal and host, in Kafka's order."""
        of_type = self._types.get(resource_type)
        patterns = () if of_type is None else of_type.matching(name)
        applying = [
            acl
            for principals in patterns
            for cell in _cells(principals, principal, host)
            for acl in cell.entries.values()
        ]
        applying.sort(key=lambda acl: (_is_wildcard(acl), -len(acl.resource_name), *scan_order(acl)))
        return applying

    def allows_any(self, principal: str, host: str, operation: int, resource_type: int) -> bool:
        """Returns whether the ACLs allow the operation on at least one resource of the type (KIP-679).

        As in Kafka, only ACLs for exactly this operation or for ALL count, and implied operations do not count.
        """
        key = (principal, host, operation, resource_type)
        answer = self._any.get(key)
        if answer is None:
            if len(self._any) >= KEPT_ANSWERS_MAX:
                self._any.clear()
            answer = self._any[key] = self._allows_any(*key)
        return answer

    def _allows_any(self, principal: str, host: str, operation: int, resource_type: int) -> bool:
        of_type = self._types.get(resource_type)
        if of_type is None:
            return False
        literal = _permissions(of_type.literal.items(), principal, host, operation)
        prefixed = _permissions(of_type.prefixed.items(), principal, host, operation)
        of_all = literal.get(WILDCARD, _NOTHING)
        if of_all.denied or of_all.allowed:
            return not of_all.denied
        denied = {name for name, permissions in prefixed.items() if permissions.denied}
        lengths = sorted({len(name) for name in denied})
        return any(
            permissions.allowed and not permissions.denied and not _has_prefix(name, denied, lengths)
            for name, permissions in literal.items()
        ) or any(
            permissions.allowed and not _has_prefix(name, denied, lengths)
            for name, permissions in prefixed.items()
        )

    def entries(self) -> Iterator[tuple[uuid.UUID, AclEntry]]:
        """Every ACL with its id."""
        return iter(self._by_id.items())


def allowed_bits(operation: int) -> int:
    """The bits of the operations that an ACL with this operation allows."""
    return denied_bits(operation) | _IMPLIED.get(operation, 0)


def denied_bits(operation: int) -> int:
    """The bits of the operations that an ACL with this operation denies."""
    return EVERY_OPERATION if operation == AclOperation.ALL else 1 << max(operation, 0)


_ALLOWED_BITS |= {int(operation): allowed_bits(operation) for operation in AclOperation}


def _cells(principals: _Principals, principal: str, host: str) -> list[_Cell]:
    """The cells of one pattern that apply to the principal and the host."""
    cells = []
    for name in (principal, WILDCARD_PRINCIPAL):
        if (hosts := principals.get(name)) is not None:
            if (cell := hosts.get(host)) is not None:
                cells.append(cell)
            if (cell := hosts.get(WILDCARD)) is not None:
                cells.append(cell)
    return cells


@dataclass(frozen=True, slots=True)
class _Permissions:
    """Whether an ACL of a pattern allows one operation, and whether an ACL of the pattern denies it."""

    allowed: bool = False
    denied: bool = False


_NOTHING = _Permissions()


def _permissions(
    patterns: Iterable[tuple[str, _Principals]], principal: str, host: str, operation: int
) -> dict[str, _Permissions]:
    """The permissions of each resource name from ACLs for exactly this operation, or for ALL."""
    by_name = {}
    for name, principals in patterns:
        cells = _cells(principals, principal, host)
        if cells:
            permissions = {
                acl.permission_type == AclPermissionType.ALLOW
                for cell in cells
                for acl in cell.entries.values()
                if acl.operation in (operation, AclOperation.ALL)
            }
            by_name[name] = _Permissions(allowed=True in permissions, denied=False in permissions)
    return by_name


def _has_prefix(name: str, prefixes: set[str], lengths: list[int]) -> bool:
    """Whether the name begins with one of the prefixes. `lengths` are the lengths of the prefixes."""
    return any(name[:length] in prefixes for length in lengths)


def _is_wildcard(acl: AclEntry) -> bool:
    return acl.resource_name == WILDCARD and acl.pattern_type == PatternType.LITERAL

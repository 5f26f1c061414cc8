"""Decisions on CreateAcls and DeleteAcls: which ACLs are added to the metadata, and which are removed.

All ACLs of a request are one atomic batch. A request may have many ACLs or filters, so the work is done in steps.
Between two steps, the controller makes other decisions, which may change the ACLs. So the last step compares the ACLs
of the request with the newest metadata.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping, Sequence

from kcli.controller.controller import Controller
from kcli.controller.decision import MAX_RECORDS_PER_BATCH, DecisionSteps, decide
from kcli.errors import InvalidRequestException, KafkaError, PolicyViolationException
from kcli.metadata.image import AclEntry
from kcli.model.acl import CLUSTER_NAME, AclOperation, AclPermissionType, PatternType, ResourceType
from kcli.protocol.messages.create_acls import (
    AclCreation,
    AclCreationResult,
    CreateAclsRequest,
    CreateAclsResponse,
)
from kcli.protocol.messages.delete_acls import (
    DeleteAclsFilter,
    DeleteAclsFilterResult,
    DeleteAclsMatchingAcl,
    DeleteAclsRequest,
    DeleteAclsResponse,
)
from kcli.protocol.records.metadata import (
    AccessControlEntryRecord,
    MetadataRecord,
    RemoveAccessControlEntryRecord,
)
from kcli.security.acls.entry import number_name
from kcli.security.acls.filters import AclFilter

CREATIONS_PER_STEP = 200
"""The number of new ACLs that one step checks. The check of an ACL takes about 5 µs."""
COMPARISONS_PER_STEP = 2000
"""The number of comparisons in one step. A comparison of a filter with an ACL takes about 0.5 µs."""
MATCHES_MAX = 10 * MAX_RECORDS_PER_BATCH
"""The limit of the ACLs in the response to one DeleteAcls. An ACL counts once for each filter that matches it. Kafka
has no such limit. Without it, 10,000 filters that each match 10,000 ACLs would need several gigabytes."""


def create_acls(controller: Controller, request: CreateAclsRequest) -> DecisionSteps[CreateAclsResponse]:
    """Adds the valid ACLs. For an ACL that exists already, no record is written and the result is success, as in
    Kafka."""
    results = []
    entries: dict[AclEntry, None] = {}
    for number, creation in enumerate(request.creations, 1):
        try:
            check_creation(creation)
        except KafkaError as error:
            results.append(AclCreationResult(error_code=error.code, error_message=error.message))
        else:
            results.append(AclCreationResult())
            entries[_entry(creation)] = None
        if number % CREATIONS_PER_STEP == 0:
            yield ()
    names = {acl.resource_name for acl in entries}
    present = {acl for acl in controller.image.acls.values() if acl.resource_name in names}
    records: list[MetadataRecord] = [
        _record(controller.rng.uuid(), acl) for acl in entries if acl not in present
    ]
    return decide(records, CreateAclsResponse(results=tuple(results)))


def check_creation(creation: AclCreation) -> None:
    """Raises InvalidRequestException if the ACL is invalid."""
    if creation.resource_type == ResourceType.CLUSTER and creation.resource_name != CLUSTER_NAME:
        raise InvalidRequestException(f"The only valid name for the CLUSTER resource is {CLUSTER_NAME}")
    if not creation.resource_name:
        raise InvalidRequestException("Invalid empty resource name")
    resource_type = number_name(ResourceType, creation.resource_type)
    if resource_type in ("UNKNOWN", "ANY"):
        raise InvalidRequestException(f"Invalid resourceType {resource_type}")
    if creation.resource_pattern_type not in (PatternType.LITERAL, PatternType.PREFIXED):
        pattern_type = number_name(PatternType, creation.resource_pattern_type)
        raise InvalidRequestException(f"Invalid patternType {pattern_type}")
    operation = number_name(AclOperation, creation.operation)
    if operation in ("UNKNOWN", "ANY"):
        raise InvalidRequestException(f"Invalid operation {operation}")
    if creation.permission_type not in (AclPermissionType.ALLOW, AclPermissionType.DENY):
        permission = number_name(AclPermissionType, creation.permission_type)
        raise InvalidRequestException(f"Invalid permissionType {permission}")
    if ":" not in creation.principal:
        raise InvalidRequestException(
            f"Could not parse principal from `{creation.principal}` (no colon is present separating the "
            "principal type from the principal name)"
        )


def delete_acls(controller: Controller, request: DeleteAclsRequest) -> DecisionSteps[DeleteAclsResponse]:
    """Removes every ACL that one of the filters matches. The response lists the removed ACLs of each filter. If several
    filters match an ACL, the response has this ACL several times.
    """
    acls = controller.image.acls
    by_name: dict[str, list[uuid.UUID]] = {}
    for number, (acl_id, acl) in enumerate(acls.items(), 1):
        by_name.setdefault(acl.resource_name, []).append(acl_id)
        if number % COMPARISONS_PER_STEP == 0:
            yield ()
    removed: dict[uuid.UUID, None] = {}
    results = []
    done = matches = 0
    for pattern in request.filters:
        acl_filter = filter_of(pattern)
        unknown = _unknown_part(acl_filter)
        matching_acls = []
        for acl_id in () if unknown else _candidates(acl_filter, acls, by_name):
            if acl_filter.matches(acls[acl_id]):
                matching_acls.append(_matching(acls[acl_id]))
                removed[acl_id] = None
                matches += 1
                _check_size(len(removed), matches)
            if (done := done + 1) % COMPARISONS_PER_STEP == 0:
                yield ()
        if unknown is None:
            results.append(DeleteAclsFilterResult(error_message=None, matching_acls=tuple(matching_acls)))
        else:
            error = InvalidRequestException(unknown)
            results.append(DeleteAclsFilterResult(error_code=error.code, error_message=error.message))
        if (done := done + 1) % COMPARISONS_PER_STEP == 0:
            yield ()
    now = controller.image.acls
    records: list[MetadataRecord] = [
        RemoveAccessControlEntryRecord(id=acl_id) for acl_id in removed if acl_id in now
    ]
    return decide(records, DeleteAclsResponse(filter_results=tuple(results)))


def filter_of(pattern: DeleteAclsFilter) -> AclFilter:
    return AclFilter(
        pattern.resource_type_filter,
        pattern.resource_name_filter,
        pattern.pattern_type_filter,
        pattern.principal_filter,
        pattern.host_filter,
        pattern.operation,
        pattern.permission_type,
    )


def _candidates(
    acl_filter: AclFilter, acls: Mapping[uuid.UUID, AclEntry], by_name: Mapping[str, Sequence[uuid.UUID]]
) -> Iterator[uuid.UUID]:
    """The ACLs that the filter may match. If only one resource name can match, only the ACLs of this name are
    returned."""
    name = acl_filter.exact_name
    return iter(acls if name is None else by_name.get(name, ()))


def _unknown_part(acl_filter: AclFilter) -> str | None:
    """Kafka's error text if kcli does not know an element of the filter, else None."""
    resource_type = number_name(ResourceType, acl_filter.resource_type)
    pattern_type = number_name(PatternType, acl_filter.pattern_type)
    if "UNKNOWN" in (resource_type, pattern_type):
        return "Unknown patternFilter."
    operation = number_name(AclOperation, acl_filter.operation)
    permission = number_name(AclPermissionType, acl_filter.permission_type)
    if "UNKNOWN" in (operation, permission):
        return "Unknown entryFilter."
    return None


def _check_size(removed: int, matches: int) -> None:
    if removed > MAX_RECORDS_PER_BATCH:
        raise InvalidRequestException(
            f"Cannot remove more than {MAX_RECORDS_PER_BATCH} acls in a single delete operation."
        )
    if matches > MATCHES_MAX:
        raise PolicyViolationException(
            f"The filters match more than {MATCHES_MAX} ACLs in all. An ACL counts once for each filter."
        )


def _entry(creation: AclCreation) -> AclEntry:
    return AclEntry(
        creation.resource_type,
        creation.resource_name,
        creation.resource_pattern_type,
        creation.principal,
        creation.host,
        creation.operation,
        creation.permission_type,
    )


def _record(acl_id: uuid.UUID, acl: AclEntry) -> AccessControlEntryRecord:
    return AccessControlEntryRecord(
        id=acl_id,
        resource_type=acl.resource_type,
        resource_name=acl.resource_name,
        pattern_type=acl.pattern_type,
        principal=acl.principal,
        host=acl.host,
        operation=acl.operation,
        permission_type=acl.permission_type,
    )


def _matching(acl: AclEntry) -> DeleteAclsMatchingAcl:
    return DeleteAclsMatchingAcl(
        error_message=None,
        resource_type=acl.resource_type,
        resource_name=acl.resource_name,
        pattern_type=acl.pattern_type,
        principal=acl.principal,
        host=acl.host,
        operation=acl.operation,
        permission_type=acl.permission_type,
    )

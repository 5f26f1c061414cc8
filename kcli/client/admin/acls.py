"""Admin calls about ACLs (KIP-140, KIP-290)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, TypedDict

from kcli.client.client import Destination, error_of, raise_for
from kcli.errors import ErrorCode, KafkaError
from kcli.metadata.image import AclEntry
from kcli.protocol.wire.api import ApiKey
from kcli.security.acls.filters import AclFilter

if TYPE_CHECKING:
    from kcli.client.client import Client


async def describe_acls(client: Client, wanted: AclFilter | None = None) -> list[AclEntry]:
    """Returns the ACLs that the filter `wanted` matches. Without a filter, returns all ACLs."""
    from kcli.protocol.messages.describe_acls import DescribeAclsRequest

    request = DescribeAclsRequest(**_filter_fields(wanted or AclFilter()))

    async def attempt() -> list[AclEntry]:
        response = await client.send(request, ApiKey.DESCRIBE_ACLS)
        raise_for(response.error_code, response.error_message)
        return [
            AclEntry(
                resource.resource_type,
                resource.resource_name,
                resource.pattern_type,
                acl.principal,
                acl.host,
                acl.operation,
                acl.permission_type,
            )
            for resource in response.resources
            for acl in resource.acls
        ]

    return await client.call("describeAcls", attempt)


async def create_acls(client: Client, acls: Sequence[AclEntry]) -> list[KafkaError | None]:
    """Adds ACLs. Returns the error of each ACL, or None."""
    from kcli.protocol.messages.create_acls import AclCreation, CreateAclsRequest

    request = CreateAclsRequest(
        creations=tuple(
            AclCreation(
                resource_type=acl.resource_type,
                resource_name=acl.resource_name,
                resource_pattern_type=acl.pattern_type,
                principal=acl.principal,
                host=acl.host,
                operation=acl.operation,
                permission_type=acl.permission_type,
            )
            for acl in acls
        )
    )

    async def attempt() -> list[KafkaError | None]:
        response = await client.send(request, ApiKey.CREATE_ACLS, to=Destination.CONTROLLER)
        _raise_if_moved(response.results)
        return [error_of(result.error_code, result.error_message) for result in response.results]

    return await client.call("createAcls", attempt)


async def delete_acls(client: Client, filters: Sequence[AclFilter]) -> list[KafkaError | int]:
    """Removes the ACLs that match at least one of the filters. Returns for each filter the number of matching ACLs, or
    the error.
    """
    from kcli.protocol.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest

    request = DeleteAclsRequest(
        filters=tuple(DeleteAclsFilter(**_filter_fields(acl_filter)) for acl_filter in filters)
    )

    async def attempt() -> list[KafkaError | int]:
        response = await client.send(request, ApiKey.DELETE_ACLS, to=Destination.CONTROLLER)
        _raise_if_moved(response.filter_results)
        return [
            error_of(result.error_code, result.error_message) or len(result.matching_acls)
            for result in response.filter_results
        ]

    return await client.call("deleteAcls", attempt)


class _FilterFields(TypedDict):
    """The fields of a filter. They have the same names in DescribeAcls and DeleteAcls."""

    resource_type_filter: int
    resource_name_filter: str | None
    pattern_type_filter: int
    principal_filter: str | None
    host_filter: str | None
    operation: int
    permission_type: int


def _filter_fields(acl_filter: AclFilter) -> _FilterFields:
    return {
        "resource_type_filter": acl_filter.resource_type,
        "resource_name_filter": acl_filter.resource_name,
        "pattern_type_filter": acl_filter.pattern_type,
        "principal_filter": acl_filter.principal,
        "host_filter": acl_filter.host,
        "operation": acl_filter.operation,
        "permission_type": acl_filter.permission_type,
    }


def _raise_if_moved(results: Iterable[object]) -> None:
    """Raises NotControllerException if another controller is active now, so that the request is sent again."""
    for result in results:
        if getattr(result, "error_code", None) is ErrorCode.NOT_CONTROLLER:
            raise_for(ErrorCode.NOT_CONTROLLER, getattr(result, "error_message", None))

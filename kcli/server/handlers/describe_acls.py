"""DescribeAcls (key 29, versions 1-3): the ACLs that a filter matches, from the metadata of this node.

Controllers serve the API too (KIP-919).
"""

from __future__ import annotations

from dataclasses import dataclass

from kcli.errors import ProtocolError, SecurityDisabledException
from kcli.protocol.messages.describe_acls import (
    AclDescription,
    DescribeAclsRequest,
    DescribeAclsResource,
    DescribeAclsResponse,
)
from kcli.security.acls.filters import AclFilter
from kcli.security.authorizer import FollowsMetadata
from kcli.server.quorum.loader import MetadataLoader
from kcli.server.requests.context import RequestContext

ACL_COST = 1
"""The cost to compare an ACL with the filter, in microseconds."""


@dataclass(frozen=True, slots=True)
class Ports:
    loader: MetadataLoader


Context = RequestContext[Ports]


async def handle(context: Context, request: DescribeAclsRequest) -> DescribeAclsResponse:
    """Raises ProtocolError for a filter with an unknown element. As in Kafka, this error closes the connection."""
    acl_filter = AclFilter(
        request.resource_type_filter,
        request.resource_name_filter,
        request.pattern_type_filter,
        request.principal_filter,
        request.host_filter,
        request.operation,
        request.permission_type,
    )
    if acl_filter.has_unknown:
        raise ProtocolError("DescribeAclsRequest contains UNKNOWN elements")
    if not isinstance(context.authorizer, FollowsMetadata):
        raise SecurityDisabledException("No Authorizer is configured on the broker")
    by_pattern = await _matching(context, acl_filter)
    resources = []
    for (resource_type, name, pattern_type), acls in by_pattern.items():
        await context.pace(ACL_COST)
        resources.append(
            DescribeAclsResource(
                resource_type=resource_type, resource_name=name, pattern_type=pattern_type, acls=tuple(acls)
            )
        )
    return DescribeAclsResponse(resources=tuple(resources))


async def _matching(
    context: Context, acl_filter: AclFilter
) -> dict[tuple[int, str, int], list[AclDescription]]:
    """Returns the ACLs that the filter matches, by their pattern."""
    by_pattern: dict[tuple[int, str, int], list[AclDescription]] = {}
    for acl in context.ports.loader.image.acls.values():
        await context.pace(ACL_COST)
        if acl_filter.matches(acl):
            pattern = (acl.resource_type, acl.resource_name, acl.pattern_type)
            by_pattern.setdefault(pattern, []).append(
                AclDescription(
                    principal=acl.principal,
                    host=acl.host,
                    operation=acl.operation,
                    permission_type=acl.permission_type,
                )
            )
    return by_pattern

"""DescribeAcls (key 29, versions 1-3): the ACLs that a filter matches, from the metadata of this node.

Controllers serve the API too (KIP-919).
"""

from __future__ import annotations

from collections.abc import Awaitable

from kcli.errors import ProtocolError, SecurityDisabledException
from kcli.metadata.image import MetadataImage
from kcli.protocol.messages.describe_acls import (
    AclDescription,
    DescribeAclsRequest,
    DescribeAclsResource,
    DescribeAclsResponse,
)
from kcli.security.acls.filters import AclFilter
from kcli.security.authorizer import FollowsMetadata
from kcli.server.handlers.ports import NodeContext
from kcli.server.requests.turns import Steps, run_in_turns

PER_TURN = 1000
"""ACLs that are compared with the filter in one iteration of the event loop. An ACL takes about 1 µs."""


def handle(
    context: NodeContext, request: DescribeAclsRequest
) -> DescribeAclsResponse | Awaitable[DescribeAclsResponse]:
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
    return run_in_turns(_described(context.ports.metadata, acl_filter), PER_TURN)


def _described(image: MetadataImage, acl_filter: AclFilter) -> Steps[DescribeAclsResponse]:
    """Groups the ACLs by their pattern. Yields after each ACL."""
    found: dict[tuple[int, str, int], list[AclDescription]] = {}
    for acl in image.acls.values():
        if acl_filter.matches(acl):
            pattern = (acl.resource_type, acl.resource_name, acl.pattern_type)
            found.setdefault(pattern, []).append(
                AclDescription(
                    principal=acl.principal,
                    host=acl.host,
                    operation=acl.operation,
                    permission_type=acl.permission_type,
                )
            )
        yield
    resources = []
    for (resource_type, name, pattern_type), acls in found.items():
        resources.append(
            DescribeAclsResource(
                resource_type=resource_type, resource_name=name, pattern_type=pattern_type, acls=tuple(acls)
            )
        )
        yield
    return DescribeAclsResponse(resources=tuple(resources))

"""DescribeAcls (key 29, versions 1-3): refuses the filter, because no authorizer runs."""

from __future__ import annotations

from kcli.errors import ProtocolError, SecurityDisabledException
from kcli.protocol.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse
from kcli.server.handlers.ports import NodeContext
from kcli.server.requests.access import DESCRIBE_CLUSTER, whole_request

ACCESS = whole_request(DESCRIBE_CLUSTER)


UNKNOWN = 0
"""The pattern type, resource type, operation or permission that no filter may have."""


def handle(_context: NodeContext, request: DescribeAclsRequest) -> DescribeAclsResponse:
    """Raises ProtocolError for a filter with an unknown element. As in Kafka, this closes the connection."""
    elements = (
        request.pattern_type_filter,
        request.resource_type_filter,
        request.permission_type,
        request.operation,
    )
    if UNKNOWN in elements:
        raise ProtocolError("DescribeAclsRequest contains UNKNOWN elements")
    raise SecurityDisabledException("No Authorizer is configured on the broker")

"""DescribeAcls (key 29, versions 1-3): refuses the filter, because no authorizer runs."""

from __future__ import annotations

from kcli.errors import SecurityDisabledException
from kcli.protocol.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse
from kcli.server.handlers.ports import NodeContext
from kcli.server.requests.access import DESCRIBE_CLUSTER, whole_request

ACCESS = whole_request(DESCRIBE_CLUSTER)


def handle(_context: NodeContext, _request: DescribeAclsRequest) -> DescribeAclsResponse:
    raise SecurityDisabledException("No Authorizer is configured on the broker")

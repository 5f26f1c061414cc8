"""DeleteAcls (key 31, versions 1-3): refuses every filter, because no authorizer runs."""

from __future__ import annotations

from kcli.errors import KafkaError, SecurityDisabledException
from kcli.protocol.messages.delete_acls import DeleteAclsFilterResult, DeleteAclsRequest, DeleteAclsResponse
from kcli.server.handlers.ports import NodeContext
from kcli.server.requests.access import ALTER_CLUSTER, whole_request

ACCESS = whole_request(ALTER_CLUSTER)


def handle(_context: NodeContext, _request: DeleteAclsRequest) -> DeleteAclsResponse:
    raise SecurityDisabledException("No Authorizer is configured.")


def error_response(
    _context: NodeContext, request: DeleteAclsRequest, error: KafkaError
) -> DeleteAclsResponse:
    refused = DeleteAclsFilterResult(error_code=error.code, error_message=error.message)
    return DeleteAclsResponse(filter_results=(refused,) * len(request.filters))

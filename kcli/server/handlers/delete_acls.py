"""DeleteAcls (key 31, versions 1-3): no authorizer runs here, so each filter is refused."""

from __future__ import annotations

from kcli.errors import KafkaError, SecurityDisabledException
from kcli.protocol.messages.delete_acls import DeleteAclsFilterResult, DeleteAclsRequest, DeleteAclsResponse
from kcli.server.requests.access import ALTER_CLUSTER, whole_request
from kcli.server.requests.context import RequestContext

ACCESS = whole_request(ALTER_CLUSTER)


def handle(_context: RequestContext, _request: DeleteAclsRequest) -> DeleteAclsResponse:
    raise SecurityDisabledException("No Authorizer is configured.")


def error_response(
    _context: RequestContext, request: DeleteAclsRequest, error: KafkaError
) -> DeleteAclsResponse:
    refused = DeleteAclsFilterResult(error_code=error.code, error_message=error.message)
    return DeleteAclsResponse(filter_results=(refused,) * len(request.filters))

"""CreateAcls (key 30, versions 1-3): refuses every ACL, because no authorizer runs."""

from __future__ import annotations

from kcli.errors import KafkaError, SecurityDisabledException
from kcli.protocol.messages.create_acls import AclCreationResult, CreateAclsRequest, CreateAclsResponse
from kcli.server.handlers.ports import NodeContext
from kcli.server.requests.access import ALTER_CLUSTER, whole_request

ACCESS = whole_request(ALTER_CLUSTER)


def handle(_context: NodeContext, _request: CreateAclsRequest) -> CreateAclsResponse:
    raise SecurityDisabledException("No Authorizer is configured.")


def error_response(
    _context: NodeContext, request: CreateAclsRequest, error: KafkaError
) -> CreateAclsResponse:
    refused = AclCreationResult(error_code=error.code, error_message=error.message)
    return CreateAclsResponse(results=(refused,) * len(request.creations))

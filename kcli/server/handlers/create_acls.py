"""CreateAcls (key 30, versions 1-3): asks the controller to add ACLs. The rules are in controller/acls.py."""

from __future__ import annotations

from kcli.controller.api import CREATE_ACLS
from kcli.errors import KafkaError, ProtocolError
from kcli.protocol.messages.create_acls import (
    AclCreation,
    AclCreationResult,
    CreateAclsRequest,
    CreateAclsResponse,
)
from kcli.security.acls.filters import UNKNOWN
from kcli.server.handlers.shared.acl_requests import ask_about_acls
from kcli.server.handlers.shared.controller_requests import Ports
from kcli.server.requests.context import RequestContext

Context = RequestContext[Ports]


async def handle(context: Context, request: CreateAclsRequest) -> CreateAclsResponse:
    return await ask_about_acls(context, CREATE_ACLS, request, request.creations, _check_known)


async def error_response(
    _context: Context, request: CreateAclsRequest, error: KafkaError
) -> CreateAclsResponse:
    refused = AclCreationResult(error_code=error.code, error_message=error.message)
    return CreateAclsResponse(results=(refused,) * len(request.creations))


def _check_known(creation: AclCreation) -> None:
    elements = (
        creation.resource_pattern_type,
        creation.resource_type,
        creation.permission_type,
        creation.operation,
    )
    if UNKNOWN in elements:
        raise ProtocolError("CreatableAcls contain unknown elements")

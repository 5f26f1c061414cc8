"""DeleteAcls (key 31, versions 1-3): asks the controller to remove ACLs. The rules are in controller/acls.py."""

from __future__ import annotations

from kcli.controller.acls import filter_of
from kcli.controller.api import DELETE_ACLS
from kcli.errors import KafkaError, ProtocolError
from kcli.protocol.messages.delete_acls import (
    DeleteAclsFilter,
    DeleteAclsFilterResult,
    DeleteAclsRequest,
    DeleteAclsResponse,
)
from kcli.server.handlers.shared.acl_requests import ask_about_acls
from kcli.server.handlers.shared.controller_requests import Ports
from kcli.server.requests.context import RequestContext

Context = RequestContext[Ports]


async def handle(context: Context, request: DeleteAclsRequest) -> DeleteAclsResponse:
    return await ask_about_acls(context, DELETE_ACLS, request, request.filters, _check_known)


async def error_response(
    _context: Context, request: DeleteAclsRequest, error: KafkaError
) -> DeleteAclsResponse:
    refused = DeleteAclsFilterResult(error_code=error.code, error_message=error.message)
    return DeleteAclsResponse(filter_results=(refused,) * len(request.filters))


def _check_known(pattern: DeleteAclsFilter) -> None:
    if filter_of(pattern).has_unknown:
        raise ProtocolError("Filters contain UNKNOWN elements")

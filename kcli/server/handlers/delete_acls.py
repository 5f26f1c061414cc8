"""DeleteAcls (key 31, versions 1-3): asks the controller to remove ACLs. The rules are in controller/acls.py."""

from __future__ import annotations

from collections.abc import Awaitable

from kcli.controller.acls import filter_of
from kcli.controller.api import DELETE_ACLS
from kcli.errors import KafkaError, ProtocolError, SecurityDisabledException
from kcli.protocol.messages.delete_acls import (
    DeleteAclsFilter,
    DeleteAclsFilterResult,
    DeleteAclsRequest,
    DeleteAclsResponse,
)
from kcli.security.authorizer import FollowsMetadata
from kcli.server.handlers.ports import NodeContext
from kcli.server.handlers.shared.controller_requests import ask_controller
from kcli.server.requests.access import ALTER_CLUSTER, whole_request
from kcli.server.requests.answers import then
from kcli.server.requests.turns import in_turns

ACCESS = whole_request(ALTER_CLUSTER, shows_request=True)

PER_TURN = 1000
"""Elements of a request that are checked in one turn of the loop. A check takes about 1 µs."""


def handle(
    context: NodeContext, request: DeleteAclsRequest
) -> DeleteAclsResponse | Awaitable[DeleteAclsResponse]:
    """Raises ProtocolError for a filter with an unknown element. As in Kafka, this closes the connection."""
    checked = in_turns(request.filters, _check_known, PER_TURN)
    return then(checked, lambda _: _ask(context, request))


def _ask(context: NodeContext, request: DeleteAclsRequest) -> Awaitable[DeleteAclsResponse]:
    if not isinstance(context.authorizer, FollowsMetadata):
        raise SecurityDisabledException("No Authorizer is configured.")
    return ask_controller(context, DELETE_ACLS, request)


def error_response(
    _context: NodeContext, request: DeleteAclsRequest, error: KafkaError
) -> DeleteAclsResponse:
    refused = DeleteAclsFilterResult(error_code=error.code, error_message=error.message)
    return DeleteAclsResponse(filter_results=(refused,) * len(request.filters))


def _check_known(asked: DeleteAclsFilter) -> None:
    if filter_of(asked).has_unknown:
        raise ProtocolError("Filters contain UNKNOWN elements")

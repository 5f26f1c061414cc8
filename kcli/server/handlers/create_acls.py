"""CreateAcls (key 30, versions 1-3): asks the controller to add ACLs. The rules are in controller/acls.py."""

from __future__ import annotations

from collections.abc import Awaitable

from kcli.controller.api import CREATE_ACLS
from kcli.errors import KafkaError, ProtocolError, SecurityDisabledException
from kcli.protocol.messages.create_acls import (
    AclCreation,
    AclCreationResult,
    CreateAclsRequest,
    CreateAclsResponse,
)
from kcli.security.acls.filters import UNKNOWN
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
    context: NodeContext, request: CreateAclsRequest
) -> CreateAclsResponse | Awaitable[CreateAclsResponse]:
    """Raises ProtocolError for an ACL with an unknown element. As in Kafka, this closes the connection."""
    checked = in_turns(request.creations, _check_known, PER_TURN)
    return then(checked, lambda _: _ask(context, request))


def _ask(context: NodeContext, request: CreateAclsRequest) -> Awaitable[CreateAclsResponse]:
    if not isinstance(context.authorizer, FollowsMetadata):
        raise SecurityDisabledException("No Authorizer is configured.")
    return ask_controller(context, CREATE_ACLS, request)


def error_response(
    _context: NodeContext, request: CreateAclsRequest, error: KafkaError
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

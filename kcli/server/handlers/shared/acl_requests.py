"""Sends requests that add or remove ACLs to the controller."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from kcli.controller.api import ControllerApi
from kcli.errors import SecurityDisabledException
from kcli.security.authorizer import FollowsMetadata
from kcli.server.handlers.shared.controller_requests import Ports, ask_controller
from kcli.server.requests.context import RequestContext

Q = TypeVar("Q")
R = TypeVar("R")
Part = TypeVar("Part")

CHECK_COST = 1
"""The cost to check an element of a request, in microseconds."""


async def ask_about_acls(
    context: RequestContext[Ports],
    api: ControllerApi[Q, R],
    request: Q,
    parts: Sequence[Part],
    check: Callable[[Part], None],
) -> R:
    """Checks the elements of the request, and sends the request to the controller.

    `check` raises ProtocolError for an unknown element. As in Kafka, this error closes the connection, even if the node
    has no authorizer.
    """
    for part in parts:
        await context.pace(CHECK_COST)
        check(part)
    if not isinstance(context.authorizer, FollowsMetadata):
        raise SecurityDisabledException("No Authorizer is configured.")
    return await ask_controller(context, api, request)

"""Sends requests that add or remove ACLs to the controller."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from kcli.controller.api import ControllerApi
from kcli.errors import SecurityDisabledException
from kcli.security.authorizer import FollowsMetadata
from kcli.server.handlers.ports import NodeContext
from kcli.server.handlers.shared.controller_requests import ask_controller
from kcli.server.requests.answers import then
from kcli.server.requests.turns import in_turns

Q = TypeVar("Q")
R = TypeVar("R")
Part = TypeVar("Part")

PER_TURN = 1000
"""Elements of a request that are checked in one iteration of the event loop. A check takes about 1 µs."""


def ask_about_acls(
    context: NodeContext,
    api: ControllerApi[Q, R],
    request: Q,
    parts: Sequence[Part],
    check: Callable[[Part], None],
) -> R | Awaitable[R]:
    """Checks the elements of the request, and sends the request to the controller.

    `check` raises ProtocolError for an unknown element. As in Kafka, this error closes the connection, even if the node
    has no authorizer.
    """

    def ask(_checked: list[None]) -> Awaitable[R]:
        if not isinstance(context.authorizer, FollowsMetadata):
            raise SecurityDisabledException("No Authorizer is configured.")
        return ask_controller(context, api, request)

    return then(in_turns(parts, check, PER_TURN), ask)

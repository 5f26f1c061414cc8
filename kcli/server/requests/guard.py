"""Checks the rule for a whole request before its handler is called."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from kcli.errors import ClusterAuthorizationException
from kcli.protocol.wire.api import API
from kcli.server.requests.access import Access
from kcli.server.requests.context import RequestContext
from kcli.server.requests.rights import Need

Handle = Callable[[RequestContext[Any], Any], Coroutine[Any, Any, Any]]


def guarded(handle: Handle, access: Access) -> Handle:
    """Returns a handler that first checks the rule for the whole request. Returns `handle` if the API has no such
    rule."""
    if not access.is_whole_request:
        return handle

    async def handle_if_allowed(context: RequestContext[Any], request: Any) -> Any:
        require_whole(context, access)
        return await handle(context, request)

    return handle_if_allowed


def require_whole(context: RequestContext[object], access: Access) -> None:
    """Raises ClusterAuthorizationException if the rule for the whole request refuses the client."""
    try:
        context.rights.require(*access.needs)
    except ClusterAuthorizationException:
        if not access.shows_request:
            raise
        raise ClusterAuthorizationException(_refusal_text(context, access.needs[-1])) from None


def _refusal_text(context: RequestContext[object], need: Need) -> str:
    """The error message. Kafka's message contains the whole request as text. kcli's message contains only the parts of
    the request that help an operator.
    """
    about = (
        f"api={API[context.api_key].name}, version={context.api_version}, "
        f"principal={context.session.principal}, client={context.peer_host}, listener={context.listener}"
    )
    return f"Request Request({about}) needs {need.operation.name} permission."

"""What the handlers of all group APIs ask of a request before a coordinator sees it."""

from __future__ import annotations

from kcli.errors import InvalidGroupIdException
from kcli.server.context import RequestContext


def require_group_id(group_id: str) -> None:
    """Only offsets may be kept under the empty name, for old simple consumers."""
    if not group_id:
        raise InvalidGroupIdException


def client_host(context: RequestContext) -> str:
    """The client's address the way Java prints one, which is how tools have always shown members."""
    return f"/{context.peer_host}"

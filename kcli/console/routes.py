"""The declarations of the routes of a page. The paths are relative to /api/clusters/{cluster}."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from kcli.console.answers import File, Outcome
from kcli.console.calls import Action, Call
from kcli.http.events import EventStream

BODY_MAX_BYTES = 1024 * 1024
"""The longest body of an action, if its route has no other limit."""


@dataclass(frozen=True, slots=True)
class Read:
    """GET: returns a value that becomes JSON. The time of the request is limited.

    With `needs_cluster`, the request ends as soon as no server of the cluster answers.
    """

    path: str
    handler: Callable[[Call], Awaitable[object]]
    needs_cluster: bool = True


@dataclass(frozen=True, slots=True)
class Change:
    """POST: acts, or with {"preview": true} returns what would change. `name` is for the audit log."""

    path: str
    name: str
    handler: Callable[[Action], Awaitable[Outcome]]
    body_max_bytes: int = BODY_MAX_BYTES


@dataclass(frozen=True, slots=True)
class Feed:
    """GET: server-sent events, until the handler returns or the browser closes the page.

    With `needs_cluster`, the stream ends as soon as no server of the cluster answers.
    """

    path: str
    handler: Callable[[Call, EventStream], Awaitable[None]]
    needs_cluster: bool = True


@dataclass(frozen=True, slots=True)
class Download:
    """GET: a file that the browser saves."""

    path: str
    handler: Callable[[Call], Awaitable[File]]


Route = Read | Change | Feed | Download

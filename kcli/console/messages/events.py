"""The events of a stream to a page. The server sends them as server-sent events, with their data as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from kcli.console.messages.rows import Json


@dataclass(frozen=True, slots=True)
class Event:
    """An event with a name: message, progress, dropped, done or error."""

    name: str
    data: Mapping[str, Json] = field(default_factory=dict)

"""The answers of a coordinator's shard, in the form that its tests compare."""

from __future__ import annotations

from typing import Any


def answers(ready: Any) -> tuple[tuple[Any, Any], ...]:
    """The token and the response of each reply of a `Ready`."""
    return tuple((reply.token, reply.response) for reply in ready.replies)

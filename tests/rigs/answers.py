"""What a shard of a coordinator answers, as its tests look at it."""

from __future__ import annotations

from typing import Any


def answers(ready: Any) -> tuple[tuple[Any, Any], ...]:
    """(token, response) of each reply of a `Ready`."""
    return tuple((reply.token, reply.response) for reply in ready.replies)

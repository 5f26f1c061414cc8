"""Says in the log of a new connector that it continues where an earlier connector of its name stopped."""

from __future__ import annotations

import asyncio
import logging

from kcli.connect.model import Config
from kcli.connect.workers.worker import Engine

_log = logging.getLogger("kcli.connect.offsets")

OLD_OFFSETS_SECONDS = 2.0
"""The longest time that the creation of a connector waits for its old offsets."""


async def log_old_offsets(engine: Engine, name: str, config: Config) -> None:
    """Called before a connector is created. An error is no reason not to create it."""
    try:
        async with asyncio.timeout(OLD_OFFSETS_SECONDS):
            offsets = await engine.offsets(name, config)
    except Exception as error:
        _log.debug("[%s|worker] Whether there are old offsets is unknown: %s", name, error)
        return
    if offsets:
        _log.warning(
            "[%s|worker] An earlier connector with this name has left %d offsets. The new one continues there. "
            "To begin at the start, stop it and reset its offsets: kcli connect offsets %s --reset",
            name,
            len(offsets),
            name,
        )

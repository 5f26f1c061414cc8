"""Loads the code that clients need after the start of a node, so that no client waits for an import."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from kcli.runtime.turns import turns_given
from kcli.server.requests.dispatch import Dispatch, warm_up

# The pause between the imports of two handlers. An import takes 2 to 20 ms, so the imports use only a few percent of
# the event loop.
PAUSE_BETWEEN_IMPORTS_S = 0.25
# The most pauses between the imports of two handlers. Some nodes always serve a large request.
PAUSES_PER_IMPORT_MAX = 40


async def load_handlers(dispatches: Iterable[Dispatch]) -> None:
    """Loads the modules that the first client needs, and then slowly all other handlers."""
    await asyncio.get_running_loop().run_in_executor(None, warm_up)
    for dispatch in dispatches:
        for _ in dispatch.load_routes():
            await _pause_between_imports()


async def _pause_between_imports() -> None:
    """Waits until no large request has been served for a while. Otherwise the objects of an imported handler would lie
    in memory between the objects of the request. Python could then not give the memory of the request back."""
    for _ in range(PAUSES_PER_IMPORT_MAX):
        turns = turns_given()
        await asyncio.sleep(PAUSE_BETWEEN_IMPORTS_S)
        if turns_given() == turns:
            break

"""The answer to a request: the bytes, or a wait for them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from kcli.model.buffers import Buffer, Part

Answer = Buffer | list[Part] | None
"""A whole response frame, as one buffer or several parts. None if the client expects no answer (Produce with
acks=0)."""


class Waiting:
    """An answer that is not ready. `finish` converts the completed future to the answer, or to a second wait for the
    answer.

    `may_overlap` is True for a Produce request that has appended its records and waits only for their commit. In this
    case the next Produce request may already be served.

    `may_be_dropped` is True if the work has no effect except the answer. In this case the work ends if the client
    disconnects.
    """

    __slots__ = ("finish", "future", "may_be_dropped", "may_overlap")

    def __init__(
        self,
        future: asyncio.Future[object],
        finish: Callable[[asyncio.Future[object]], Answer | Waiting],
        *,
        may_overlap: bool = True,
        may_be_dropped: bool = False,
    ) -> None:
        self.future = future
        self.finish = finish
        self.may_overlap = may_overlap
        self.may_be_dropped = may_be_dropped

    def drop(self) -> None:
        """Ends the wait because the client has disconnected. If the work has an effect, its task still runs
        to the end.
        """
        if self.may_be_dropped or not isinstance(self.future, asyncio.Task):
            self.future.cancel()

"""How the rest of a node asks the controller: one interface, whether the controller is in this process or not."""

from __future__ import annotations

from typing import Protocol, TypeVar

from kcli.controller.api import OWN_REQUEST, ControllerApi, ControllerRequestContext

Q = TypeVar("Q")
R = TypeVar("R")


class ControllerChannel(Protocol):
    """The active controller, wherever it is."""

    async def send(
        self, api: ControllerApi[Q, R], request: Q, context: ControllerRequestContext = OWN_REQUEST
    ) -> R:
        """Answers when what the controller decided is committed.

        Raises KafkaError when the request is refused as a whole, NotControllerException when no controller is active.
        """
        ...

"""The interface to the active controller, whether it runs in this process or in another one."""

from __future__ import annotations

from typing import Protocol, TypeVar

from kcli.controller.api import OWN_REQUEST, ControllerApi, ControllerRequestContext

Q = TypeVar("Q")
R = TypeVar("R")


class ControllerChannel(Protocol):
    """Sends requests to the active controller, in this process or another."""

    async def send(
        self, api: ControllerApi[Q, R], request: Q, context: ControllerRequestContext = OWN_REQUEST
    ) -> R:
        """Returns the response when the controller's decision is committed.

        Raises KafkaError if the request is refused as a whole, and NotControllerException if no controller is active.
        """
        ...

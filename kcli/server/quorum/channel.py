"""The interface to the active controller, which runs in this process or in another one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol, TypeVar

from kcli.controller.api import OWN_REQUEST, ControllerApi, ControllerRequestContext
from kcli.errors import NotControllerException
from kcli.security.principal import Principal
from kcli.server.quorum.remote_controller import ApiRanges, RemoteController

ACTIVATION_PAUSE_S = 0.005
"""The interval at which a waiting request checks whether the controller of this node is active. A single node becomes
active within a few ms."""

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


class LocalController(ControllerChannel, Protocol):
    """The controller role of this node. `send` raises NotControllerException if this controller is not active."""

    @property
    def is_active(self) -> bool:
        """Whether this controller leads the quorum and takes requests."""
        ...


class NodeChannel:
    """The `ControllerChannel` of a broker. For each request, it finds the node of the active controller.

    If the controller of this node is active, this controller gets the request directly. If it is not active, the
    request goes over the network to the active controller. If no node is known to be the active controller, the request
    waits, because this node may become active itself.
    """

    def __init__(
        self, local: LocalController | None, remote: RemoteController, leads_elsewhere: Callable[[], bool]
    ) -> None:
        """`leads_elsewhere` returns whether the quorum has a leader on another node."""
        self._local = local
        self.remote = remote
        self._leads_elsewhere = leads_elsewhere

    @property
    def is_local(self) -> bool:
        """Whether the active controller runs in this process."""
        return self._local is not None and self._local.is_active

    async def send(
        self, api: ControllerApi[Q, R], request: Q, context: ControllerRequestContext = OWN_REQUEST
    ) -> R:
        """Returns the response of the active controller.

        Raises KafkaError if the request is refused, and TimeoutException if no active controller answers in time.
        """
        since = asyncio.get_running_loop().time()
        if self._local is not None and await self._becomes_local(self._local, since):
            try:
                return await self._local.send(api, request, context)
            except NotControllerException:
                pass  # the role has resigned, so another controller becomes active
        return await self.remote.send(api, request, context, since=since)

    async def _becomes_local(self, local: LocalController, since: float) -> bool:
        """Waits until an active controller is known, up to the time limit of a request. Returns whether it runs in this
        process."""
        while not local.is_active:
            if self._leads_elsewhere() or self.remote.is_expired(since):
                return False
            await asyncio.sleep(ACTIVATION_PAUSE_S)
        return True

    async def forward(self, frame: bytes, principal: Principal, host: str) -> bytes:
        """Sends the frame of a client in an Envelope (KIP-590). Returns the response frame. Raises KafkaError."""
        return await self.remote.forward(frame, principal, host)

    def versions(self) -> ApiRanges:
        """The API versions of the active controller. Empty if the controller runs in this process, or if no active
        controller is known.
        """
        return {} if self.is_local else self.remote.versions

    async def stop(self) -> None:
        """Cancels the requests without an answer, and closes the connection."""
        await self.remote.stop()

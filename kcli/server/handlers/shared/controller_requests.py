"""Sends requests of clients to the controller."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Protocol, TypeVar

from kcli.controller.api import Client, ControllerApi, ControllerRequestContext
from kcli.controller.topics import Charge, no_charge
from kcli.runtime.clock import Clock
from kcli.server.quorum.channel import ControllerChannel
from kcli.server.requests.apis import APIS
from kcli.server.requests.context import RequestContext

Q = TypeVar("Q")
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Ports:
    """The ports of a handler that only passes its request to the controller."""

    channel: ControllerChannel
    clock: Clock


class HasClock(Protocol):
    @property
    def clock(self) -> Clock: ...


class AsksController(HasClock, Protocol):
    """The ports that `ask_controller` uses. A handler with more ports than `Ports` has these too."""

    @property
    def channel(self) -> ControllerChannel: ...


async def ask_controller(context: RequestContext[AsksController], api: ControllerApi[Q, R], request: Q) -> R:
    """Sends a client's request to the controller. Raises KafkaError if the controller refuses the whole request."""
    return await context.ports.channel.send(api, request, controller_context(context))


def controller_context(context: RequestContext[HasClock]) -> ControllerRequestContext:
    """The context of a client's request, or of a request that the broker sends to the controller because of a client's
    request.
    """
    return ControllerRequestContext(
        api_version=context.api_version,
        charge=_charge(context),
        wall_ms=context.ports.clock.now_ms(),
        client=Client(context.session.principal, context.peer_host, context.client_id),
    )


def _charge(context: RequestContext[object]) -> Charge:
    """Returns the function that charges created and deleted partitions to the client's quota."""
    if context.throttle is None:
        return no_charge
    # If a request creates topics automatically, its client is only delayed.
    since = APIS[context.api_key].mutation_errors_since
    strict = since is not None and context.api_version >= since
    return partial(context.throttle.charge_partitions, strict=strict)

"""The registration of a broker: when it sends which request, as in Kafka's table of pauses."""

from __future__ import annotations

import asyncio
import itertools
import uuid
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from kcli.config.start_up import node_config
from kcli.controller.api import OWN_REQUEST, ControllerRequestContext
from kcli.errors import (
    DuplicateBrokerRegistrationException,
    InconsistentClusterIdException,
    KafkaError,
    StaleBrokerEpochException,
    TimeoutException,
)
from kcli.metadata.image import MetadataImage
from kcli.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from kcli.protocol.messages.broker_registration import BrokerRegistrationRequest, BrokerRegistrationResponse
from kcli.runtime.rng import SystemRng
from kcli.server.quorum.broker_lifecycle import BrokerLifecycle, BrokerState
from kcli.server.quorum.loader import MetadataLoader
from kcli.testing.sim.loop import SimLoop, simulate

EPOCH = 5
FENCED = BrokerHeartbeatResponse(is_caught_up=False, is_fenced=True)
CAUGHT_UP = BrokerHeartbeatResponse(is_caught_up=True, is_fenced=True)
UNFENCED = BrokerHeartbeatResponse(is_caught_up=True, is_fenced=False)
STOP = BrokerHeartbeatResponse(is_caught_up=True, is_fenced=True, should_shut_down=True)

Answer = KafkaError | BrokerHeartbeatResponse | BrokerRegistrationResponse


class ScriptedController:
    """Answers each request at once with the next answer of the script, and the last one for ever."""

    def __init__(self, *answers: Answer) -> None:
        self.answers = list(answers)
        self.asked: list[tuple[float, Any]] = []

    async def send(self, _api: Any, request: Any, _context: ControllerRequestContext = OWN_REQUEST) -> Any:
        self.asked.append((asyncio.get_running_loop().time(), request))
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, KafkaError):
            raise answer
        return answer

    @property
    def pauses(self) -> list[float]:
        """The seconds between two requests."""
        times = [at for at, _ in self.asked]
        return [round(after - before, 2) for before, after in itertools.pairwise(times)]


REGISTERED = BrokerRegistrationResponse(broker_epoch=EPOCH)


def lifecycle_of(controller: ScriptedController, **keys: str) -> BrokerLifecycle:
    config = node_config(
        {
            "process.roles": "broker",
            "node.id": "2",
            "listeners": "PLAINTEXT://broker:9092",
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.voters": "1@controller:9093",
            "log.dirs": "/data",
            **{name.replace("_", "."): value for name, value in keys.items()},
        }
    )
    loader = MetadataLoader(MetadataImage(cluster_id="cluster"))
    return BrokerLifecycle(
        controller,
        loader,
        config,
        SystemRng(1),
        cluster_id="cluster",
        directories=[uuid.UUID(int=1234)],
        previous_epoch=3,
    )


def on_loop(scenario: Callable[[], Awaitable[None]]) -> None:
    async def main(_loop: SimLoop) -> None:
        await scenario()

    simulate(1, main)


def test_it_hurries_until_it_has_caught_up_and_then_keeps_the_interval() -> None:
    async def scenario() -> None:
        controller = ScriptedController(REGISTERED, FENCED, FENCED, CAUGHT_UP, UNFENCED)
        lifecycle = lifecycle_of(controller)
        await lifecycle.start()
        assert (lifecycle.epoch, lifecycle.state) == (EPOCH, BrokerState.RECOVERY)
        assert controller.pauses == [0.0, 0.01, 0.01]
        await asyncio.sleep(1)
        assert len(controller.asked) == 4, "a broker that loads its logs does not hurry"
        await lifecycle.unfence()
        assert lifecycle.state is BrokerState.RUNNING
        await asyncio.sleep(5)
        assert controller.pauses[3:] == [1.0, 2.0, 2.0]
        first: BrokerRegistrationRequest = controller.asked[0][1]
        assert (first.previous_broker_epoch, first.log_dirs) == (3, (uuid.UUID(int=1234),))
        assert [request.want_fence for _, request in controller.asked[1:]] == [True] * 3 + [False] * 3
        await lifecycle.stop(clean=False)

    on_loop(scenario)


def test_a_registration_that_fails_is_repeated_after_the_interval() -> None:
    async def scenario() -> None:
        controller = ScriptedController(
            DuplicateBrokerRegistrationException(), TimeoutException(), REGISTERED, CAUGHT_UP
        )
        lifecycle = lifecycle_of(controller)
        await lifecycle.start()
        assert controller.pauses == [2.0, 2.0, 0.0]
        await lifecycle.stop(clean=False)

    on_loop(scenario)


def test_a_refusal_for_good_ends_the_start() -> None:
    async def scenario() -> None:
        with pytest.raises(InconsistentClusterIdException):
            await lifecycle_of(ScriptedController(InconsistentClusterIdException())).start()

    on_loop(scenario)


def test_without_a_controller_the_start_ends_at_its_limit() -> None:
    async def scenario() -> None:
        lifecycle = lifecycle_of(
            ScriptedController(TimeoutException()), initial_broker_registration_timeout_ms="30000"
        )
        began = asyncio.get_running_loop().time()
        with pytest.raises(TimeoutException, match="could not register with the controller in time"):
            await lifecycle.start()
        assert asyncio.get_running_loop().time() - began == pytest.approx(30)

    on_loop(scenario)


def test_a_heartbeat_that_fails_is_repeated_after_the_interval() -> None:
    async def scenario() -> None:
        controller = ScriptedController(
            REGISTERED,
            CAUGHT_UP,
            UNFENCED,
            TimeoutException(),
            StaleBrokerEpochException(),
            UNFENCED,
        )
        lifecycle = lifecycle_of(controller)
        await lifecycle.start()
        await lifecycle.unfence()
        await asyncio.sleep(6.5)
        assert controller.pauses[2:] == [2.0, 2.0, 2.0]
        # A broker that the controller does not know any more does not register again.
        assert isinstance(controller.asked[5][1], BrokerHeartbeatRequest)
        await lifecycle.stop(clean=False)

    on_loop(scenario)


def test_a_report_is_sent_without_a_pause() -> None:
    async def scenario() -> None:
        controller = ScriptedController(REGISTERED, CAUGHT_UP, UNFENCED)
        lifecycle = lifecycle_of(controller)
        await lifecycle.start()
        await lifecycle.unfence()
        await asyncio.sleep(0.5)
        lifecycle.send_soon()
        await asyncio.sleep(0.1)
        assert controller.pauses[2:] == [0.5]
        await lifecycle.stop(clean=False)

    on_loop(scenario)


def test_a_controlled_shutdown_asks_again_after_50_ms_and_then_at_the_interval() -> None:
    async def scenario() -> None:
        controller = ScriptedController(REGISTERED, CAUGHT_UP, UNFENCED, UNFENCED, UNFENCED, UNFENCED, STOP)
        lifecycle = lifecycle_of(controller)
        await lifecycle.start()
        await lifecycle.unfence()
        await lifecycle.stop()
        assert controller.pauses[3:] == [0.05, 2.0, 2.0]
        assert all(request.want_shut_down for _, request in controller.asked[3:])
        assert lifecycle.state is BrokerState.SHUTTING_DOWN

    on_loop(scenario)


def test_a_controlled_shutdown_without_a_controller_ends_after_five_minutes() -> None:
    async def scenario() -> None:
        controller = ScriptedController(REGISTERED, CAUGHT_UP, UNFENCED, TimeoutException())
        lifecycle = lifecycle_of(controller)
        await lifecycle.start()
        await lifecycle.unfence()
        began = asyncio.get_running_loop().time()
        await lifecycle.stop()
        assert asyncio.get_running_loop().time() - began == pytest.approx(300)

    on_loop(scenario)

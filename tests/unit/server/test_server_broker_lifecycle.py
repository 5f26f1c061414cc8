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
    BrokerIdNotRegisteredException,
    DuplicateBrokerRegistrationException,
    InconsistentClusterIdException,
    InvalidRegistrationException,
    KafkaError,
    StaleBrokerEpochException,
    StorageError,
    TimeoutException,
)
from kcli.metadata.image import MetadataImage
from kcli.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from kcli.protocol.messages.broker_registration import BrokerRegistrationRequest, BrokerRegistrationResponse
from kcli.runtime.rng import SystemRng
from kcli.server.quorum.broker_lifecycle import BrokerLifecycle, BrokerState
from kcli.server.quorum.loader import MetadataLoader
from simulation.runtime.loop import SimLoop, simulate

EPOCH = 5
FENCED = BrokerHeartbeatResponse(is_caught_up=False, is_fenced=True)
CAUGHT_UP = BrokerHeartbeatResponse(is_caught_up=True, is_fenced=True)
UNFENCED = BrokerHeartbeatResponse(is_caught_up=True, is_fenced=False)
STOP = BrokerHeartbeatResponse(is_caught_up=True, is_fenced=True, should_shut_down=True)

Answer = Exception | BrokerHeartbeatResponse | BrokerRegistrationResponse


class ScriptedController:
    """Answers each request after `delay_s` with the next answer of the script, and the last one for ever."""

    def __init__(self, *answers: Answer) -> None:
        self.answers = list(answers)
        self.asked: list[tuple[float, Any]] = []
        self.delay_s = 0.0

    async def send(self, _api: Any, request: Any, _context: ControllerRequestContext = OWN_REQUEST) -> Any:
        self.asked.append((asyncio.get_running_loop().time(), request))
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        await asyncio.sleep(self.delay_s)
        if isinstance(answer, Exception):
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


async def running(controller: ScriptedController, **keys: str) -> BrokerLifecycle:
    lifecycle = lifecycle_of(controller, **keys)
    await lifecycle.start()
    await lifecycle.unfence()
    return lifecycle


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
        await lifecycle.stop()

    on_loop(scenario)


@pytest.mark.parametrize(
    "error",
    [
        DuplicateBrokerRegistrationException(),
        InconsistentClusterIdException(),
        InvalidRegistrationException(),
        StorageError("the metadata log failed"),
    ],
)
def test_a_registration_that_fails_is_repeated_after_the_interval(error: Exception) -> None:
    async def scenario() -> None:
        controller = ScriptedController(error, TimeoutException(), REGISTERED, CAUGHT_UP)
        lifecycle = lifecycle_of(controller)
        await lifecycle.start()
        assert controller.pauses == [2.0, 2.0, 0.0]
        await lifecycle.stop()

    on_loop(scenario)


@pytest.mark.parametrize(
    "answer, reason",
    [
        (TimeoutException("no leader"), "no leader"),
        (
            DuplicateBrokerRegistrationException(),
            "another process is registered with this node.id",
        ),
    ],
)
def test_a_broker_that_is_not_registered_in_time_reports_the_last_error(
    answer: KafkaError, reason: str
) -> None:
    async def scenario() -> None:
        lifecycle = lifecycle_of(ScriptedController(answer), initial_broker_registration_timeout_ms="30000")
        began = asyncio.get_running_loop().time()
        with pytest.raises(
            TimeoutException, match=f"not register with the controller within 30000 ms: {reason}"
        ):
            await lifecycle.start()
        assert asyncio.get_running_loop().time() - began == pytest.approx(30)

    on_loop(scenario)


def test_a_heartbeat_that_fails_is_repeated_after_the_interval(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        controller = ScriptedController(
            REGISTERED,
            CAUGHT_UP,
            UNFENCED,
            TimeoutException(),
            StaleBrokerEpochException("the epoch is stale"),
            ValueError("a bug"),
            UNFENCED,
        )
        lifecycle = lifecycle_of(controller)
        await lifecycle.start()
        await lifecycle.unfence()
        await asyncio.sleep(8.5)
        assert controller.pauses[2:] == [2.0, 2.0, 2.0, 2.0]
        assert all(isinstance(each, BrokerHeartbeatRequest) for _, each in controller.asked[1:])
        await lifecycle.stop()

    on_loop(scenario)
    assert "A heartbeat failed: the epoch is stale" in caplog.messages
    assert [each.levelname for each in caplog.records].count("ERROR") == 1, "the bug has a traceback"


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
        await lifecycle.stop()

    on_loop(scenario)


class TestAControlledShutdown:
    def test_it_asks_again_after_50_ms_and_then_at_the_interval(self) -> None:
        async def scenario() -> None:
            controller = ScriptedController(
                REGISTERED, CAUGHT_UP, UNFENCED, UNFENCED, UNFENCED, UNFENCED, STOP
            )
            lifecycle = await running(controller)
            await lifecycle.leave()
            assert controller.pauses[3:] == [0.05, 2.0, 2.0]
            assert all(request.want_shut_down for _, request in controller.asked[3:])
            assert lifecycle.state is BrokerState.PENDING_CONTROLLED_SHUTDOWN
            await lifecycle.stop()
            assert lifecycle.state is BrokerState.SHUTTING_DOWN
            assert len(controller.asked) == 7, "the controller that let the broker stop gets no heartbeat"

        on_loop(scenario)

    def test_a_heartbeat_in_flight_is_answered_first_and_costs_no_pause(self) -> None:
        async def scenario() -> None:
            controller = ScriptedController(REGISTERED, CAUGHT_UP, UNFENCED, UNFENCED, UNFENCED, STOP)
            lifecycle = await running(controller)
            controller.delay_s = 0.5
            lifecycle.send_soon()
            await asyncio.sleep(0.1)
            await lifecycle.leave()
            assert [request.want_shut_down for _, request in controller.asked[3:]] == [False, True, True]
            assert controller.pauses[3:] == [0.5, 0.55]
            await lifecycle.stop()

        on_loop(scenario)

    def test_errors_are_no_reason_to_stop(self) -> None:
        async def scenario() -> None:
            controller = ScriptedController(REGISTERED, CAUGHT_UP, UNFENCED, TimeoutException(), STOP)
            lifecycle = await running(controller)
            await lifecycle.leave()
            assert controller.pauses[3:] == [2.0]
            await lifecycle.stop()

        on_loop(scenario)

    @pytest.mark.parametrize("error", [StaleBrokerEpochException(), BrokerIdNotRegisteredException()])
    def test_a_broker_that_the_controller_does_not_know_just_stops(self, error: KafkaError) -> None:
        async def scenario() -> None:
            lifecycle = await running(ScriptedController(REGISTERED, CAUGHT_UP, UNFENCED, error))
            async with asyncio.timeout(1):
                await lifecycle.leave()
            await lifecycle.stop()

        on_loop(scenario)

    def test_without_the_consent_of_the_controller_it_ends_after_five_minutes(self) -> None:
        async def scenario() -> None:
            lifecycle = await running(ScriptedController(REGISTERED, CAUGHT_UP, UNFENCED))
            began = asyncio.get_running_loop().time()
            await lifecycle.leave()
            assert asyncio.get_running_loop().time() - began == pytest.approx(300)
            await lifecycle.stop()

        on_loop(scenario)

    def test_without_a_controller_it_ends_after_a_session(self) -> None:
        async def scenario() -> None:
            lifecycle = await running(
                ScriptedController(REGISTERED, CAUGHT_UP, UNFENCED, TimeoutException()),
                broker_session_timeout_ms="9000",
            )
            began = asyncio.get_running_loop().time()
            await lifecycle.leave()
            assert asyncio.get_running_loop().time() - began == pytest.approx(10)
            await lifecycle.stop()

        on_loop(scenario)

    def test_a_second_request_ends_the_wait_for_a_controller(self) -> None:
        async def scenario() -> None:
            lifecycle = await running(ScriptedController(REGISTERED, CAUGHT_UP, UNFENCED, TimeoutException()))
            loop = asyncio.get_running_loop()
            began = loop.time()
            loop.call_later(7, lifecycle.stop_waiting)
            await lifecycle.leave()
            assert loop.time() - began == pytest.approx(7)
            await lifecycle.stop()

        on_loop(scenario)

    def test_it_can_be_switched_off(self) -> None:
        async def scenario() -> None:
            controller = ScriptedController(REGISTERED, CAUGHT_UP, UNFENCED)
            lifecycle = await running(controller, controlled_shutdown_enable="false")
            await lifecycle.leave()
            await lifecycle.stop()
            assert not any(request.want_shut_down for _, request in controller.asked[1:])

        on_loop(scenario)

"""Requests to an active controller in another process, on a simulated network."""

from __future__ import annotations

import asyncio
import random
import uuid
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from kcli.client.connection import Connection
from kcli.config.start_up import node_config
from kcli.controller.api import (
    ALLOCATE_PRODUCER_IDS,
    ALTER_CONFIGS,
    BROKER_HEARTBEAT,
    BROKER_REGISTRATION,
    CONTROLLER_REGISTRATION,
    CREATE_TOPICS,
    Client,
    ControllerRequestContext,
)
from kcli.errors import (
    ErrorCode,
    NotControllerException,
    StaleBrokerEpochException,
    TimeoutException,
    UnknownServerException,
    UnsupportedVersionException,
)
from kcli.model.addresses import Address
from kcli.model.configs import ConfigResourceType
from kcli.protocol.messages import allocate_producer_ids as ap
from kcli.protocol.messages import alter_configs as ac
from kcli.protocol.messages import broker_heartbeat as hb
from kcli.protocol.messages import broker_registration as br
from kcli.protocol.messages import controller_registration as cr
from kcli.protocol.messages import create_topics as ct
from kcli.protocol.messages import envelope as en
from kcli.protocol.wire import codec
from kcli.protocol.wire.api import ApiKey
from kcli.runtime.rng import SystemRng
from kcli.security.principal import ANONYMOUS, Principal
from kcli.security.principal_bytes import encode_principal
from kcli.server.formatting.format import FormatRequest, Machine, format_directories
from kcli.server.quorum.channel import NodeChannel
from kcli.server.quorum.controller_role import ControllerRole
from kcli.server.quorum.remote_controller import RemoteController
from simulation.runtime.loop import SimLoop, simulate
from simulation.runtime.network import SimNetwork
from simulation.world.cluster import SimNode

CLUSTER = "Z29sZGVuLWNsdXN0ZXItMQ"
CONTROLLER, BROKER = 7, 2
ADDRESS = Address(f"node-{CONTROLLER}", 9093)
TIMEOUT_S = 30.0
SMALL_LIMIT = 100_000
LOCALHOST = bytes((127, 0, 0, 1))


@dataclass
class Rig:
    """A controller on its own machine, and the ways to it from a broker's machine."""

    network: SimNetwork
    node: SimNode
    found: list[Address | None] = field(default_factory=lambda: [ADDRESS])
    """The address that the broker's quorum names; the last one stays."""

    def find(self) -> Address | None:
        return self.found.pop(0) if len(self.found) > 1 else self.found[0]

    def remote(self, limit_s: float | None = TIMEOUT_S) -> RemoteController:
        return RemoteController(
            self.network.host("broker"),
            self.find,
            client_id=str(BROKER),
            limit_s=limit_s,
            socket_timeout_s=TIMEOUT_S,
        )


def on_rig(scenario: Callable[[Rig], Awaitable[None]]) -> None:
    async def main(loop: SimLoop) -> None:
        network = SimNetwork(loop, random.Random(5))
        listener = {
            "process.roles": "controller",
            "listeners": f"CONTROLLER://node-{CONTROLLER}:9093",
            "socket.request.max.bytes": str(SMALL_LIMIT),
        }
        node = SimNode(network, random.Random(3), CONTROLLER, listener)
        seams = Machine(node.disk, node.clock, SystemRng(1))
        format_directories(
            node_config(node.properties), FormatRequest(cluster_id=CLUSTER), seams, lambda _line: None
        )
        await node.start()
        await scenario(Rig(network, node))

    simulate(1, main)


def registration(**changes: Any) -> br.BrokerRegistrationRequest:
    asked: dict[str, Any] = {
        "broker_id": BROKER,
        "cluster_id": CLUSTER,
        "incarnation_id": uuid.UUID(int=77),
        "listeners": (br.Listener(name="PLAINTEXT", host="broker", port=9092),),
        "features": (
            br.Feature(name="metadata.version", min_supported_version=7, max_supported_version=29),
            *(
                br.Feature(name=name, min_supported_version=0, max_supported_version=2)
                for name in ("group.version", "transaction.version", "eligible.leader.replicas.version")
            ),
        ),
        "log_dirs": (uuid.UUID(int=1234),),
    }
    return br.BrokerRegistrationRequest(**{**asked, **changes})


def heartbeat(epoch: int, offset: int = 1 << 40) -> hb.BrokerHeartbeatRequest:
    return hb.BrokerHeartbeatRequest(broker_id=BROKER, broker_epoch=epoch, current_metadata_offset=offset)


def new_topic(name: str) -> ct.CreateTopicsRequest:
    topic = ct.CreatableTopic(name=name, num_partitions=1, replication_factor=1)
    return ct.CreateTopicsRequest(topics=(topic,), timeout_ms=10_000)


async def registered(remote: RemoteController) -> int:
    """The epoch of an unfenced broker."""
    epoch = (await remote.send(BROKER_REGISTRATION, registration())).broker_epoch
    assert not (await remote.send(BROKER_HEARTBEAT, heartbeat(epoch))).is_fenced
    return epoch


class TestOwnRequests:
    def test_a_broker_registers_and_is_unfenced(self) -> None:
        async def scenario(rig: Rig) -> None:
            remote = rig.remote()
            answer = await remote.send(BROKER_REGISTRATION, registration())
            early = await remote.send(BROKER_HEARTBEAT, heartbeat(answer.broker_epoch, offset=0))
            assert (early.is_caught_up, early.is_fenced) == (False, True)
            late = await remote.send(BROKER_HEARTBEAT, heartbeat(answer.broker_epoch))
            assert (late.is_caught_up, late.is_fenced) == (True, False)
            assert rig.node.running is not None
            assert rig.node.running.metadata.brokers[BROKER].epoch == answer.broker_epoch
            await remote.stop()

        on_rig(scenario)

    def test_an_error_at_the_top_is_raised(self) -> None:
        async def scenario(rig: Rig) -> None:
            remote = rig.remote()
            with pytest.raises(StaleBrokerEpochException):
                await remote.send(BROKER_HEARTBEAT, heartbeat(0))
            epoch = await registered(remote)
            with pytest.raises(StaleBrokerEpochException):
                await remote.send(
                    ALLOCATE_PRODUCER_IDS,
                    ap.AllocateProducerIdsRequest(broker_id=BROKER, broker_epoch=epoch + 1),
                )
            await remote.stop()

        on_rig(scenario)

    def test_blocks_of_producer_ids_never_overlap(self) -> None:
        async def scenario(rig: Rig) -> None:
            remote = rig.remote()
            epoch = await registered(remote)
            request = ap.AllocateProducerIdsRequest(broker_id=BROKER, broker_epoch=epoch)
            blocks = await asyncio.gather(*(remote.send(ALLOCATE_PRODUCER_IDS, request) for _ in range(3)))
            assert [(each.producer_id_start, each.producer_id_len) for each in blocks] == [
                (0, 1000),
                (1000, 1000),
                (2000, 1000),
            ]
            await remote.stop()

        on_rig(scenario)

    def test_a_controller_registers_its_endpoints_and_features(self) -> None:
        async def scenario(rig: Rig) -> None:
            remote = rig.remote()
            await remote.send(
                CONTROLLER_REGISTRATION,
                cr.ControllerRegistrationRequest(
                    controller_id=8,
                    incarnation_id=uuid.UUID(int=5),
                    listeners=(cr.Listener(name="CONTROLLER", host="node-8", port=9093),),
                    features=(cr.Feature(name="kraft.version", max_supported_version=1),),
                ),
            )
            assert rig.node.running is not None
            known = rig.node.running.metadata.controllers[8]
            assert (known.endpoints["CONTROLLER"].host, known.features["kraft.version"].max_version) == (
                "node-8",
                1,
            )
            await remote.stop()

        on_rig(scenario)


class TestTheQueue:
    def test_without_a_controller_a_request_ends_at_its_limit(self) -> None:
        async def scenario(rig: Rig) -> None:
            rig.found = [None]
            remote = rig.remote(limit_s=2.0)
            began = rig.network.loop.time()
            with pytest.raises(TimeoutException):
                await remote.send(BROKER_HEARTBEAT, heartbeat(1))
            assert 2.0 <= rig.network.loop.time() - began < 2.2
            await remote.stop()

        on_rig(scenario)

    def test_the_wait_for_the_own_role_counts_against_the_limit(self) -> None:
        class NeverActive:
            is_active = False

            async def send(self, *_: object) -> Any:
                raise AssertionError("the role never became active")

        async def scenario(rig: Rig) -> None:
            rig.found = [None]
            remote = rig.remote(limit_s=2.0)
            channel = NodeChannel(NeverActive(), remote, lambda: False)
            began = rig.network.loop.time()
            with pytest.raises(TimeoutException):
                await channel.send(BROKER_HEARTBEAT, heartbeat(1))
            assert 2.0 <= rig.network.loop.time() - began < 2.2
            await remote.stop()

        on_rig(scenario)

    def test_a_request_waits_until_the_quorum_names_a_controller(self) -> None:
        async def scenario(rig: Rig) -> None:
            rig.found = [None] * 20 + [ADDRESS]
            remote = rig.remote()
            began = rig.network.loop.time()
            assert await registered(remote) > 0
            assert 2.0 <= rig.network.loop.time() - began < 4.0
            await remote.stop()

        on_rig(scenario)

    def test_a_request_survives_the_death_of_the_controller(self, caplog: pytest.LogCaptureFixture) -> None:
        caplog.set_level("INFO", "kcli.server.NodeToControllerChannelManager")

        async def scenario(rig: Rig) -> None:
            remote = rig.remote()
            epoch = await registered(remote)
            rig.node.kill()
            asking = asyncio.ensure_future(remote.send(BROKER_HEARTBEAT, heartbeat(epoch)))
            await asyncio.sleep(5)
            assert not asking.done()
            await rig.node.start()
            assert not (await asking).is_fenced
            await remote.stop()

        on_rig(scenario)
        refused = f"The controller at {ADDRESS} does not answer: [Errno 111] no server listens on {ADDRESS}"
        assert caplog.messages.count(refused) == 1, "not a line for each attempt"

    def test_a_request_goes_to_the_new_controller_although_the_old_one_still_answers(self) -> None:
        async def scenario(rig: Rig) -> None:
            remote = rig.remote()
            await registered(remote)
            rig.found = [Address("elsewhere", 9093)]  # no node listens there
            asking = asyncio.ensure_future(remote.send(BROKER_HEARTBEAT, heartbeat(1)))
            await asyncio.sleep(5)
            assert not asking.done()
            await remote.stop()

        on_rig(scenario)

    def test_a_request_whose_caller_has_gone_does_not_hold_up_the_others(self) -> None:
        async def scenario(rig: Rig) -> None:
            rig.found = [None] * 20 + [ADDRESS]
            remote = rig.remote(limit_s=None)
            gone = asyncio.ensure_future(remote.send(BROKER_REGISTRATION, registration()))
            asking = asyncio.ensure_future(
                remote.send(BROKER_REGISTRATION, registration(incarnation_id=uuid.UUID(int=78)))
            )
            await asyncio.sleep(1)
            gone.cancel()
            assert (await asking).broker_epoch > 0
            assert rig.node.running is not None
            assert rig.node.running.metadata.brokers[BROKER].incarnation_id == uuid.UUID(int=78)
            await remote.stop()

        on_rig(scenario)

    def test_the_frame_of_a_client_that_has_gone_is_dropped_at_once(self) -> None:
        async def scenario(rig: Rig) -> None:
            rig.found = [None]
            remote = rig.remote()
            asking = [
                asyncio.ensure_future(remote.forward(bytes(100), ANONYMOUS, "127.0.0.1")) for _ in range(3)
            ]
            await asyncio.sleep(1)
            asking[0].cancel()
            asking[2].cancel()
            await asyncio.sleep(0)
            assert len(remote._queue) == 1
            await remote.stop()

        on_rig(scenario)

    def test_a_request_that_the_controller_cannot_take_lets_others_pass_until_its_limit(self) -> None:
        async def scenario(rig: Rig) -> None:
            remote = rig.remote(limit_s=5.0)
            too_large = bytes(SMALL_LIMIT + 100_000)
            began = rig.network.loop.time()
            refused = asyncio.ensure_future(remote.forward(too_large, ANONYMOUS, "127.0.0.1"))
            for _ in range(3):
                assert (await remote.send(BROKER_REGISTRATION, registration())).broker_epoch > 0
            assert rig.network.loop.time() - began < 1
            with pytest.raises(TimeoutException, match="No active controller answered ENVELOPE within 5 s"):
                await refused
            await remote.stop()

        on_rig(scenario)

    def test_stop_cancels_what_waits(self) -> None:
        async def scenario(rig: Rig) -> None:
            rig.found = [None]
            remote = rig.remote()
            asking = asyncio.ensure_future(remote.send(BROKER_HEARTBEAT, heartbeat(1)))
            await asyncio.sleep(1)
            await remote.stop()
            with pytest.raises(asyncio.CancelledError):
                await asking

        on_rig(scenario)

    def test_a_request_to_a_node_that_is_not_active_is_sent_again(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        refused: list[str] = []
        decided = ControllerRole.send

        async def not_active_at_first(role: ControllerRole, api: Any, request: Any, context: Any) -> Any:
            if not refused:
                refused.append(api.key.name)
                raise NotControllerException
            return await decided(role, api, request, context)

        monkeypatch.setattr(ControllerRole, "send", not_active_at_first)

        async def scenario(rig: Rig) -> None:
            remote = rig.remote()
            assert await registered(remote) > 0
            await remote.stop()

        on_rig(scenario)
        assert refused == ["BROKER_REGISTRATION"]


class TestForwarding:
    def test_the_response_is_for_the_client_to_the_byte(self) -> None:
        async def scenario(rig: Rig) -> None:
            remote = rig.remote()
            await registered(remote)
            frame = codec.encode_request(new_topic("t"), ApiKey.CREATE_TOPICS, 5, 4711, "app")[4:]
            answer = await remote.forward(frame, ANONYMOUS, "127.0.0.1")
            correlation_id, response = codec.decode_response(ApiKey.CREATE_TOPICS, 5, answer)
            assert correlation_id == 4711
            assert [(topic.name, topic.error_code) for topic in response.topics] == [("t", ErrorCode.NONE)]
            again = await remote.forward(frame, ANONYMOUS, "::1")
            (topic,) = codec.decode_response(ApiKey.CREATE_TOPICS, 5, again)[1].topics
            assert topic.error_code is ErrorCode.TOPIC_ALREADY_EXISTS
            await remote.stop()

        on_rig(scenario)

    def test_a_request_that_a_broker_makes_for_a_client_is_decided(self) -> None:
        async def scenario(rig: Rig) -> None:
            remote = rig.remote()
            await registered(remote)
            for_client = ControllerRequestContext(client=Client(Principal("User", "a"), "10.0.0.1", "app"))
            (topic,) = (await remote.send(CREATE_TOPICS, new_topic("t"), for_client)).topics
            assert topic.error_code is ErrorCode.NONE
            changed = ac.AlterConfigsRequest(
                resources=(
                    ac.AlterConfigsResource(
                        resource_type=ConfigResourceType.BROKER,
                        resource_name=str(BROKER),
                        configs=(ac.AlterableConfig(name="log.cleaner.threads", value="2"),),
                    ),
                )
            )
            (result,) = (await remote.send(ALTER_CONFIGS, changed, for_client)).responses
            assert result.error_code is ErrorCode.NONE, "the broker has checked that it is its own resource"
            await remote.stop()

        on_rig(scenario)

    def test_a_request_that_the_controller_cannot_read_is_an_unsupported_version(self) -> None:
        async def scenario(rig: Rig) -> None:
            remote = rig.remote()
            frame = codec.encode_request(new_topic("t"), ApiKey.CREATE_TOPICS, 5, 1, "app")[4:]
            for broken in (b"", frame[:3], frame[:-1], frame[:2] + b"\x00\x63" + frame[4:]):
                with pytest.raises(UnsupportedVersionException):
                    await remote.forward(broken, ANONYMOUS, "127.0.0.1")
            await remote.stop()

        on_rig(scenario)

    def test_another_refusal_is_no_fault_of_the_client(self) -> None:
        async def scenario(rig: Rig) -> None:
            remote = rig.remote()
            frame = codec.encode_request(heartbeat(1), ApiKey.BROKER_HEARTBEAT, 1, 1, "app")[4:]
            with pytest.raises(UnknownServerException):
                await remote.forward(frame, ANONYMOUS, "127.0.0.1")
            await remote.stop()

        on_rig(scenario)

    def test_the_codes_of_a_refused_envelope(self) -> None:
        async def scenario(rig: Rig) -> None:
            connection = await Connection.open(rig.network.host("broker"), ADDRESS, "2", TIMEOUT_S)
            allowed = codec.encode_request(new_topic("t"), ApiKey.CREATE_TOPICS, 5, 1, "app")[4:]
            own = codec.encode_request(heartbeat(1), ApiKey.BROKER_HEARTBEAT, 1, 1, "app")[4:]
            principal = encode_principal(ANONYMOUS)
            expected = [
                (allowed, b"\x00", LOCALHOST, ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE),
                (allowed, principal, b"\x7f", ErrorCode.INVALID_REQUEST),
                (b"\x00", principal, LOCALHOST, ErrorCode.UNSUPPORTED_VERSION),
                (own, principal, LOCALHOST, ErrorCode.INVALID_REQUEST),
                (allowed[:-1], principal, LOCALHOST, ErrorCode.UNSUPPORTED_VERSION),
                (allowed, principal, LOCALHOST, ErrorCode.NONE),
            ]
            for frame, sender, host, code in expected:
                request = en.EnvelopeRequest(
                    request_data=frame, request_principal=sender, client_host_address=host
                )
                answer = await connection.request(request, ApiKey.ENVELOPE, version=0, timeout=TIMEOUT_S)
                assert answer.error_code is code
                assert (answer.response_data is None) == (code is not ErrorCode.NONE)

        on_rig(scenario)

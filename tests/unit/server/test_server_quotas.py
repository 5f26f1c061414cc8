"""Whose quota a client has, with whom it shares it, and how requests and connections are held back."""

from __future__ import annotations

import asyncio
import contextlib
from collections import defaultdict
from dataclasses import dataclass
from typing import Any
from unittest.mock import Mock

import pytest

from kcli.errors import ErrorCode, ThrottlingQuotaExceededException
from kcli.metadata.delta import MetadataDelta
from kcli.metadata.image import MetadataImage
from kcli.protocol.messages.alter_partition import AlterPartitionRequest
from kcli.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
)
from kcli.protocol.messages.fetch import FetchRequest
from kcli.protocol.messages.metadata import MetadataResponse
from kcli.protocol.records.metadata import ClientQuotaRecord, QuotaEntity
from kcli.protocol.wire import codec
from kcli.protocol.wire.api import ApiKey
from kcli.runtime.network import SystemNetwork
from kcli.runtime.turns import continued
from kcli.security.principal import ANONYMOUS_SESSION, Principal
from kcli.server.beans.quota_beans import _newest
from kcli.server.handlers import alter_partition_reassignments
from kcli.server.metrics.metrics import Metrics
from kcli.server.network import rates
from kcli.server.network.connection import Connection
from kcli.server.network.connection_quota import ConnectionQuota
from kcli.server.network.listener import SocketServer
from kcli.server.network.listener_settings import ConnectionLimits, ListenerSettings
from kcli.server.network.rates import SampledRate, Windows
from kcli.server.requests.apis import APIS, served_on_controller
from kcli.server.requests.dispatch import Dispatch
from kcli.server.requests.forwarding import ForwardedCaller
from kcli.server.requests.quotas import CLIENT_ID_MAX_CHARS, ClientQuotas, Limits, RequestThrottle
from rigs.loops import PATIENCE_S
from rigs.quorum import broker_config

USER, CLIENT = "user", "client-id"


@dataclass
class Clock:
    now: float = 100.0

    def now_ms(self) -> Any:
        return int(self.now * 1000)

    def monotonic(self) -> float:
        return self.now


def entity(**names: Any) -> tuple[Any, ...]:
    """user=…, client=…; None is the default."""
    kinds = {"user": USER, "client": CLIENT}
    return tuple(sorted((kinds[kind], name) for kind, name in names.items()))


class Rig:
    def __init__(self) -> None:
        self.clock = Clock()
        self.quotas = ClientQuotas(broker_config(), self.clock)
        self.image = MetadataImage(cluster_id="c")
        self.muted = []

    def set(self, who: tuple[Any, ...], **values: Any) -> None:
        """As the metadata log says it; a value of None removes."""
        delta = MetadataDelta(self.image)
        parts = tuple(QuotaEntity(entity_type=kind, entity_name=name) for kind, name in who)
        for key, value in values.items():
            delta.replay(ClientQuotaRecord(entity=parts, key=key, value=value or 0.0, remove=value is None))
        self.image = delta.apply(offset=self.image.offset + 1, epoch=1, timestamp_ms=0)
        self.quotas.apply(delta, self.image)

    def throttle(self, client_id: str | None = "c", size_bytes: int = 0, user: str = "u") -> RequestThrottle:
        return self.quotas.throttle(Principal("User", user), client_id, size_bytes, self.muted.append)

    def settle(self, key: ApiKey = ApiKey.PRODUCE, **of: Any) -> int:
        response = self.throttle(**of).charge(APIS[key], MetadataResponse())
        return response.throttle_time_ms


@pytest.fixture
def rig() -> Rig:
    return Rig()


# From the most telling to the least.
LEVELS = [
    (entity(user="u", client="c"), ("u", "c")),
    (entity(user="u", client=None), ("u", "c")),
    (entity(user="u"), ("u", "")),
    (entity(user=None, client="c"), ("u", "c")),
    (entity(user=None, client=None), ("u", "c")),
    (entity(user=None), ("u", "")),
    (entity(client="c"), ("", "c")),
    (entity(client=None), ("", "c")),
]


def test_the_most_telling_entity_decides() -> None:
    limits = Limits("producer_byte_rate", lambda: SampledRate(Windows(11, 1)))
    for number, (who, _) in enumerate(LEVELS):
        limits.set(who, {"producer_byte_rate": float(number + 1)})
    limits.set(entity(user="u", client="other"), {"producer_byte_rate": 99.0})
    meters = []
    for number, (who, sharing) in enumerate(LEVELS):
        found = limits.of(("u", "c"), 0.0)
        assert found is not None
        assert found.limit == number + 1
        assert limits._meters[sharing] is found
        meters.append(found)
        # Another key of the same entity is no limit on this one.
        limits.set(who, {"consumer_byte_rate": 5.0})
    assert limits.of(("u", "c"), 0.0) is None
    assert limits.of(("u", "other"), 0.0) is not None


def test_clients_share_a_meter_where_their_limit_counts_them_together(rig: Rig) -> None:
    rig.set(entity(user="u"), producer_byte_rate=100)
    assert rig.settle(client_id="a", size_bytes=1_000) == 0
    assert rig.settle(client_id="b", size_bytes=1_000) == 10_000
    assert rig.muted == [10.0]
    rig.set(entity(user="u"), producer_byte_rate=None)
    rig.set(entity(user=None, client=None), producer_byte_rate=100)
    for client_id, user in (("a", "u"), ("b", "u"), ("a", "v"), (None, "u")):
        assert rig.settle(client_id=client_id, user=user, size_bytes=1_000) == 0


def test_a_changed_limit_keeps_what_was_counted(rig: Rig) -> None:
    rig.set(entity(client="c"), producer_byte_rate=100)
    assert rig.settle(size_bytes=1_000) == 0
    rig.set(entity(client="c"), producer_byte_rate=50)
    assert rig.settle() == 10_000
    rig.set(entity(client="c"), producer_byte_rate=1_000)
    assert rig.settle() == 0


def test_there_is_nothing_to_do_without_quotas(rig: Rig) -> None:
    assert not rig.quotas.is_active
    rig.set(entity(client="c"), producer_byte_rate=100)
    assert rig.quotas.is_active
    rig.set(entity(client="c"), producer_byte_rate=None)
    assert not rig.quotas.is_active
    rig.set((("ip", "1.2.3.4"),), connection_creation_rate=1)
    assert not rig.quotas.is_active


def test_quotas_of_the_loaded_image_apply_from_the_start(rig: Rig) -> None:
    rig.set(entity(client="c"), producer_byte_rate=100)
    again = ClientQuotas(broker_config(), rig.clock)
    again.load(rig.image)
    assert again.is_active
    assert again.produced.by_entity == {entity(client="c"): 100}


def test_meters_of_clients_that_are_gone_are_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kcli.server.requests.quotas.METERS_MAX", 10)
    limits = Limits("producer_byte_rate", lambda: SampledRate(Windows(11, 1)))
    limits.set(entity(client=None), {"producer_byte_rate": 1.0})
    for number in range(1_000):
        metered = limits.of(("u", f"client-{number}"), float(number))
        assert metered is not None
        metered.meter.record(1, float(number))
        assert len(limits._meters) <= 30
    assert rates.METERS_MAX > 1_000


def test_clients_whose_long_ids_begin_alike_share_a_meter(rig: Rig) -> None:
    rig.set(entity(client=None), producer_byte_rate=100)
    longest = "x" * CLIENT_ID_MAX_CHARS
    assert rig.settle(client_id=longest, size_bytes=1_000) == 0
    assert rig.settle(client_id=longest + "y" * 30_000, size_bytes=1_000) > 0
    assert max(len(client_id) for _, client_id in rig.quotas.produced._by_client) == CLIENT_ID_MAX_CHARS


def test_only_the_clients_of_the_newest_requests_have_beans(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kcli.server.beans.quota_beans.CLIENTS_MAX", 3)
    limits = Limits("producer_byte_rate", lambda: SampledRate(Windows(11, 1)))
    limits.set(entity(client=None), {"producer_byte_rate": 1.0})
    for number in range(10):
        limits.of(("u", f"client-{number}"), float(number))
    newest = [client_id for (_, client_id), _ in _newest(limits, 10.0)]
    assert newest == ["client-9", "client-8", "client-7"]


def test_a_fetch_gets_no_more_than_its_quota_allows(rig: Rig) -> None:
    rig.set(entity(client="c"), consumer_byte_rate=100)
    asked = FetchRequest(max_bytes=50_000, min_bytes=2_000, max_wait_ms=500)
    limited = rig.throttle().limit_fetch(asked)
    assert (limited.max_bytes, limited.min_bytes, limited.max_wait_ms) == (1_000, 1_000, 500)
    assert rig.throttle("other").limit_fetch(asked) is asked
    small = FetchRequest(max_bytes=1_000, min_bytes=1)
    assert rig.throttle().limit_fetch(small) is small


def test_a_fetch_that_is_refused_is_not_counted(rig: Rig) -> None:
    rig.set(entity(client="c"), consumer_byte_rate=100)
    assert not rig.throttle().refuses_fetch(1_000)
    for _ in range(3):
        refused = rig.throttle()
        assert refused.refuses_fetch(500)
        assert refused.throttle_ms == 5_000
    assert rig.settle(ApiKey.FETCH) == 0
    rig.clock.now += 11
    assert not rig.throttle().refuses_fetch(1_000)


def test_the_wait_of_a_forwarded_request_does_not_count(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """The controller commits the change that a client of a broker asks for, and works on other requests meanwhile."""
    rig.set(entity(client="c"), request_percentage=1)
    key = ApiKey.ALTER_PARTITION_REASSIGNMENTS

    async def handle(*_: object) -> AlterPartitionReassignmentsResponse:
        rig.clock.now += 0.01
        await asyncio.sleep(0)
        return AlterPartitionReassignmentsResponse()

    async def main() -> Any:
        dispatch = Dispatch(
            defaultdict(Mock), served_on_controller(), quotas=rig.quotas, metrics=Metrics(rig.clock)
        )
        frame = codec.encode_request(AlterPartitionReassignmentsRequest(), key, 0, 7, "c")[4:]
        caller = ForwardedCaller("CONTROLLER", "127.0.0.1", ANONYMOUS_SESSION)
        serving = asyncio.ensure_future(dispatch.serve_forwarded(frame, caller))
        asyncio.get_running_loop().call_soon(advance)
        return codec.decode_response(key, 0, await serving)[1]

    def advance() -> None:
        rig.clock.now += 3

    monkeypatch.setattr(alter_partition_reassignments, "handle", handle)
    assert asyncio.run(main()).throttle_time_ms == 0


def test_time_counts_while_the_event_loop_works_and_not_while_it_waits(rig: Rig) -> None:
    rig.set(entity(client="c"), request_percentage=1)
    throttle = rig.throttle()

    async def handler() -> MetadataResponse:
        rig.clock.now += 0.15
        await asyncio.sleep(0)
        with pytest.raises(ValueError, match="told"):
            await failing()
        rig.clock.now += 0.05
        return MetadataResponse()

    async def failing() -> None:
        await asyncio.sleep(0)
        raise ValueError("told")

    async def main() -> MetadataResponse:
        work = handler()
        first = work.send(None)
        throttle.pause()
        task = asyncio.ensure_future(continued(work, first, (throttle,)))
        rig.clock.now += 3  # others
        return await task

    response = asyncio.run(main())
    # 20 % over ten seconds is 2 %: twice as much as allowed, and at most a window.
    assert throttle.charge(APIS[ApiKey.METADATA], response).throttle_time_ms == 1_000
    rig.clock.now += 0.3
    throttle.finish()
    metered = rig.quotas.time.of(("u", "c"), rig.clock.now)
    assert metered.meter.per_second(rig.clock.now) * 10.3 == pytest.approx(50, rel=0.1)


def test_brokers_do_not_wait_for_each_other(rig: Rig) -> None:
    rig.set(entity(client="c"), request_percentage=0.001, consumer_byte_rate=1)
    throttle = rig.throttle()
    rig.clock.now += 5
    assert throttle.charge(APIS[ApiKey.WRITE_TXN_MARKERS], MetadataResponse()).throttle_time_ms == 0
    follower = rig.throttle()
    follower.exempt()
    rig.clock.now += 5
    assert follower.charge(APIS[ApiKey.FETCH], MetadataResponse()).throttle_time_ms == 0
    assert rig.muted == []


def test_a_client_without_the_rights_of_a_broker_pays(rig: Rig) -> None:
    rig.set(entity(user="u"), request_percentage=1.0)
    for key in (ApiKey.WRITE_TXN_MARKERS, ApiKey.FETCH):
        throttle = rig.throttle()
        throttle.exempt()
        throttle.refuse()
        rig.clock.now += 1
        assert throttle.charge(APIS[key], MetadataResponse()).throttle_time_ms > 0


def test_a_refused_request_of_brokers_is_charged_by_the_dispatch(rig: Rig) -> None:
    rig.set(entity(client="c"), request_percentage=1)

    def deny(*_: object, **__: object) -> bool:
        rig.clock.now += 1
        return False

    authorizer: Any = Mock(is_open=False, authorize=deny)
    dispatch = Dispatch(
        defaultdict(Mock),
        served_on_controller(),
        quotas=rig.quotas,
        metrics=Metrics(rig.clock),
        authorizer=authorizer,
    )
    key = ApiKey.ALTER_PARTITION
    frame = codec.encode_request(AlterPartitionRequest(), key, 3, 7, "c")[4:]
    answer: Any = dispatch(ForwardedCaller("CONTROLLER", "127.0.0.1", ANONYMOUS_SESSION), memoryview(frame))
    response = codec.decode_response(key, 3, bytes(answer)[4:])[1]
    assert response.error_code is ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    assert response.throttle_time_ms > 0


def test_a_produce_without_an_answer_pays_for_its_bytes_alone(rig: Rig) -> None:
    rig.set(entity(client="c"), request_percentage=0.001, producer_byte_rate=100)
    throttle = rig.throttle(size_bytes=1_000)
    rig.clock.now += 5
    assert throttle.charge(APIS[ApiKey.PRODUCE], None) is None
    assert rig.muted == []
    assert rig.throttle(size_bytes=1_000).charge(APIS[ApiKey.PRODUCE], None) is None
    assert len(rig.muted) == 1


def test_partitions_are_charged_to_the_user(rig: Rig) -> None:
    rig.set(entity(user="u"), controller_mutation_rate=0.5)
    first = rig.throttle()
    first.charge_partitions(8, strict=True)  # 5.5 are there
    assert first.throttle_ms == 0
    refused = rig.throttle("another client of the same user")
    with pytest.raises(ThrottlingQuotaExceededException):
        refused.charge_partitions(1, strict=True)
    assert refused.throttle_ms == 5_000
    waits = rig.throttle()
    waits.charge_partitions(1, strict=False)
    assert waits.throttle_ms == 7_000
    rig.throttle(user="v").charge_partitions(100, strict=True)


@pytest.mark.parametrize("limit", [1e-9, 5e-324])
def test_no_time_is_longer_than_a_message_can_say(rig: Rig, limit: float) -> None:
    rig.set(entity(user="u"), controller_mutation_rate=limit)
    rig.throttle().charge_partitions(100, strict=True)
    refused = rig.throttle()
    with pytest.raises(ThrottlingQuotaExceededException):
        refused.charge_partitions(1, strict=True)
    assert refused.throttle_ms == 2**31 - 1


def test_an_address_connects_no_faster_than_it_may() -> None:
    clock = Clock()
    quota = ConnectionQuota(Windows(11, 1.0), clock)
    assert quota.throttle_seconds("::1") == 0
    quota.set("0:0:0:0:0:0:0:1", 1)
    quota.set(None, 2)
    assert [quota.throttle_seconds("::1") for _ in range(12)] == [0] * 10 + [1.0] * 2
    assert [quota.throttle_seconds("1.2.3.4") for _ in range(21)] == [0] * 20 + [pytest.approx(0.5)]
    clock.now += 11
    assert quota.throttle_seconds("::1") == 0
    quota.set("::1", None)
    assert all(quota.throttle_seconds("::1") == 0 for _ in range(15))
    quota.set(None, None)
    assert all(quota.throttle_seconds("1.2.3.4") == 0 for _ in range(50))


def test_a_host_counts_for_the_address_that_it_has() -> None:
    async def main() -> None:
        quota = ConnectionQuota(Windows(11, 1.0), Clock())

        async def set_host(name: str, limit: int) -> None:
            quota.set(name, limit)
            await asyncio.gather(*quota._resolving)

        await set_host("localhost", 1)
        assert quota._limits == {"127.0.0.1": 1}
        await set_host("localhost", None)
        assert quota._limits == {}

    asyncio.run(main())


def test_a_connection_too_many_is_held_and_then_closed() -> None:
    """Real sockets; the third connection gets no answer, and its end after the time that the quota says."""

    async def main() -> None:
        served = []

        def serve(_connection: Connection, frame: memoryview) -> bytes:
            served.append(bytes(frame))
            return b"\0\0\0\1!"

        waits = iter([0.0, 0.0, 0.1])
        loop = asyncio.get_running_loop()
        sockets = SocketServer(
            SystemNetwork(),
            limits=ConnectionLimits(),
            request_size_max_bytes=100,
            idle_max_seconds=None,
            protected_listener=None,
            now=loop.time,
            throttle_seconds=lambda _host: next(waits),
        )
        listener = await sockets.listen(ListenerSettings("PLAINTEXT", "127.0.0.1", 0), serve)
        try:
            ends = []
            for number in range(3):
                began = loop.time()
                reader, writer = await asyncio.open_connection("127.0.0.1", listener.port)
                writer.write(b"\0\0\0\1%d" % number)
                ends.append((reader, writer, began))
                if number < 2:
                    assert await asyncio.wait_for(reader.readexactly(5), PATIENCE_S) == b"\0\0\0\1!"
            reader, _, began = ends[2]
            # A reset, as it was not read what the client had sent.
            with contextlib.suppress(ConnectionResetError):
                assert await asyncio.wait_for(reader.read(), PATIENCE_S) == b""
            assert loop.time() - began >= 0.09
            assert served == [b"0", b"1"]
            assert len(sockets.connections) == 2
        finally:
            for _, writer, _ in ends:
                writer.close()
            await sockets.close()

    asyncio.run(main())


def test_a_muted_connection_takes_up_nothing_until_its_time_is_over() -> None:
    """Real sockets: what was sent at once, and what is sent meanwhile, waits; a shorter time does not end a longer."""

    async def main() -> None:
        loop = asyncio.get_running_loop()
        times = []

        def serve(connection: Connection, frame: memoryview) -> bytes:
            times.append((loop.time(), bytes(frame)))
            if frame == b"1":
                connection.mute(0.15)
                connection.mute(0.05)
            return b"\0\0\0\1" + bytes(frame)

        sockets = SocketServer(
            SystemNetwork(),
            limits=ConnectionLimits(),
            request_size_max_bytes=100,
            idle_max_seconds=None,
            protected_listener=None,
            now=loop.time,
        )
        listener = await sockets.listen(ListenerSettings("PLAINTEXT", "127.0.0.1", 0), serve)
        reader, writer = await asyncio.open_connection("127.0.0.1", listener.port)
        try:
            writer.write(b"\0\0\0\x011" + b"\0\0\0\x012")
            # The answer itself does not wait.
            assert await asyncio.wait_for(reader.readexactly(5), PATIENCE_S) == b"\0\0\0\x011"
            assert [frame for _, frame in times] == [b"1"]
            writer.write(b"\0\0\0\x013")
            assert await asyncio.wait_for(reader.readexactly(10), PATIENCE_S) == b"\0\0\0\x012\0\0\0\x013"
            assert [frame for _, frame in times] == [b"1", b"2", b"3"]
            assert times[1][0] - times[0][0] >= 0.14
            writer.write(b"\0\0\0\x011")
            await asyncio.wait_for(reader.readexactly(5), PATIENCE_S)
        finally:
            # A client that goes while it is muted leaves no timer behind.
            writer.close()
            await sockets.close()
        assert not sockets.connections

    asyncio.run(main())


def test_a_muted_client_that_is_silent_for_too_long_is_gone() -> None:
    """The client may be gone while it is muted, and its quota may be a byte a second."""

    async def main() -> None:
        now = 0.0

        def serve(connection: Connection, frame: memoryview) -> bytes:
            connection.mute(10_000_000)
            return b"\0\0\0\1" + bytes(frame)

        sockets = SocketServer(
            SystemNetwork(),
            limits=ConnectionLimits(),
            request_size_max_bytes=100,
            idle_max_seconds=600,
            protected_listener=None,
            now=lambda: now,
        )
        listener = await sockets.listen(ListenerSettings("PLAINTEXT", "127.0.0.1", 0), serve)
        reader, writer = await asyncio.open_connection("127.0.0.1", listener.port)
        try:
            writer.write(b"\0\0\0\x011" + b"\0\0\0\x012")
            assert await asyncio.wait_for(reader.readexactly(5), PATIENCE_S) == b"\0\0\0\x011"
            now = 599.0
            assert sockets.close_idle() == 0
            now = 601.0
            assert sockets.close_idle() == 1
            assert await asyncio.wait_for(reader.read(), PATIENCE_S) == b""
        finally:
            writer.close()
            await sockets.close()

    asyncio.run(main())


def test_a_throttled_client_is_in_the_queue_of_the_quota_that_it_exceeds_most(rig: Rig) -> None:
    rig.set(entity(client="c"), producer_byte_rate=100, consumer_byte_rate=100)
    assert rig.settle(size_bytes=2_000) == 10_000
    quotas, now = rig.quotas, rig.clock.now
    queues = [each.delays for each in (quotas.produced, quotas.fetched, quotas.time, quotas.mutations)]
    assert [each.count(now + 9.9) for each in queues] == [1, 0, 0, 0]
    assert queues[0].count(now + 10) == 0

"""The figures that Kafka lacks, from a node with known records."""

from __future__ import annotations

import asyncio
import re
from itertools import chain
from pathlib import Path

from kcli.errors import ErrorCode
from kcli.http import client
from kcli.model.addresses import Address
from kcli.server.beans.broker_beans import broker_beans
from kcli.server.beans.exposition.own_names import OWN_ATTRIBUTES
from kcli.server.beans.own_beans import own_beans
from rigs.certificates import Certificates
from rigs.data_path import batch
from rigs.node import RunningNode, connect, create, running, send
from rigs.tls import LISTENERS


async def scraped(node: RunningNode) -> dict[str, float]:
    """The value of each line."""
    assert node.metrics_endpoint is not None
    address = Address("127.0.0.1", node.metrics_endpoint.port)
    text = (await client.get(address, "/metrics", body_max_bytes=10_000_000)).body.decode()
    lines = [line.rpartition(" ") for line in text.splitlines() if not line.startswith("#")]
    return {name: float(value) for name, _, value in lines}


def described_names() -> set[str]:
    """The names of kcli's own metrics in docs/monitoring.md."""
    page = (Path(__file__).parents[2] / "docs" / "monitoring.md").read_text(encoding="utf-8")
    return set(re.findall(r"`(kcli_\w+)`", page))


def test_each_own_metric_of_a_node_is_described(tmp_path: Path) -> None:
    async def story() -> None:
        async with running(tmp_path, kcli_metrics_listener="127.0.0.1:0") as node:
            await create(await connect(node), "orders")
            names = {line.partition("{")[0] for line in await scraped(node) if line.startswith("kcli_")}
            own = {re.sub("_(bucket|count|sum)$", "", name) for name in names}
            assert len(own) > 10
            assert own - described_names() == set()

    asyncio.run(story())


def test_each_own_name_of_a_lag_is_described() -> None:
    own = {sensor.name for sensors in OWN_ATTRIBUTES.values() for sensor in sensors}
    assert {name for name in own if name.startswith("kcli_")} - described_names() == set()


def test_the_gauges_of_kafka_exporter_and_kminion(tmp_path: Path) -> None:
    async def story() -> None:
        async with running(tmp_path, kcli_metrics_listener="127.0.0.1:0") as node:
            wire = await connect(node)
            await create(wire, "orders", 2)
            sent = await send(wire, "orders", batch(b"a", b"b", b"c"))
            assert sent.error_code is ErrorCode.NONE
            found = await scraped(node)
            own = 'topic="orders",partition="0"'
            assert found["kafka_brokers"] == 1
            assert found[f'kafka_broker_info{{id="1",address="127.0.0.1:{node.port()}"}}'] == 1
            assert found['kafka_topic_partitions{topic="orders"}'] == 2
            for name, value in (
                ("current_offset", 3),
                ("oldest_offset", 0),
                ("leader", 1),
                ("leader_is_preferred", 1),
                ("replicas", 1),
                ("in_sync_replica", 1),
                ("under_replicated_partition", 0),
            ):
                assert found[f"kafka_topic_partition_{name}{{{own}}}"] == value
            kminion = '{topic_name="orders",partition_id="0"}'
            assert found[f"kminion_kafka_topic_partition_high_water_mark{kminion}"] == 3
            assert found['kcli_topic_size_bytes{topic="orders"}'] > 50
            directory = f'{{directory="{tmp_path}"}}'
            usable = found[f"kcli_log_dir_usable_bytes{directory}"]
            assert 0 < usable <= found[f"kcli_log_dir_total_bytes{directory}"]

    asyncio.run(story())


def test_requests_and_appends_count_in_histograms(tmp_path: Path) -> None:
    async def story() -> None:
        async with running(tmp_path, kcli_metrics_listener="127.0.0.1:0") as node:
            wire = await connect(node)
            await create(wire, "orders")
            before = await scraped(node)
            for _ in range(3):
                await send(wire, "orders", batch(b"a"))
            after = await scraped(node)

            def grown(name: str) -> float:
                return after[name] - before.get(name, 0)

            for name in ("kcli_request_duration_seconds", "kcli_request_local_duration_seconds"):
                assert grown(f'{name}_count{{api="Produce"}}') == 3
                assert grown(f'{name}_bucket{{api="Produce",le="+Inf"}}') == 3
                assert 0 < grown(f'{name}_sum{{api="Produce"}}') < 30
            assert after['kcli_request_slow_total{api="Produce"}'] == 0
            assert grown("kcli_disk_append_seconds_count") >= 3
            assert after["kcli_event_loop_delay_seconds_count"] >= 0

    asyncio.run(story())


def test_topics_may_come_while_beans_are_made(tmp_path: Path) -> None:
    async def story() -> None:
        async with running(tmp_path, kcli_metrics_listener="127.0.0.1:0") as node:
            wire = await connect(node)
            await create(wire, "first", 20)
            endpoint = node.metrics_endpoint
            assert endpoint is not None
            beans = chain(broker_beans(endpoint._sources), own_beans(endpoint._own))
            for number, _ in enumerate(beans):
                if number % 20 == 0 and number < 2_000:
                    await create(wire, f"topic-{number}")

    asyncio.run(story())


def test_a_traced_request_is_the_exemplar_of_its_bucket(tmp_path: Path) -> None:
    async def story() -> None:
        async with running(tmp_path, kcli_metrics_listener="127.0.0.1:0") as node:
            await create(await connect(node), "orders")
            node.listeners.metrics.exemplars.note(
                "CreateTopics", 0.2, "4bf92f3577b34da6a3ce929d0e0e4736", 5_000
            )
            assert node.metrics_endpoint is not None
            reader, writer = await asyncio.open_connection("127.0.0.1", node.metrics_endpoint.port)
            writer.write(
                b"GET /metrics HTTP/1.0\r\nAccept: application/openmetrics-text;version=1.0.0\r\n\r\n"
            )
            lines = (await reader.read()).decode().splitlines()
            writer.close()
            (traced,) = [line for line in lines if "trace_id" in line]
            assert traced.startswith('kcli_request_duration_seconds_bucket{api="CreateTopics",le="0.25"} ')
            assert traced.endswith(' # {trace_id="4bf92f3577b34da6a3ce929d0e0e4736"} 0.2 5.000')

    asyncio.run(story())


def test_the_end_of_a_certificate_is_a_time(tmp_path: Path, certificates: Certificates) -> None:
    settings = {f"listener.name.ssl.{name}": value for name, value in certificates.broker_config().items()}
    settings |= LISTENERS

    async def story() -> None:
        async with running(
            tmp_path, kcli_metrics_listener="127.0.0.1:0", inter_broker_listener_name="PLAINTEXT", **settings
        ) as node:
            found = await scraped(node)
            (end,) = [
                value
                for name, value in found.items()
                if name.startswith('kcli_certificate_expiry_timestamp_seconds{listener="SSL",subject=')
            ]
            assert end == certificates.server.certificate.not_valid_after_utc.timestamp()

    asyncio.run(story())

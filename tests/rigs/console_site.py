"""A node and a console for it, on an event loop in a thread, so that a test can drive a browser in its own thread.

`site` is one node. `large_site` is two brokers, with everything that a page of the console can show.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar
from unittest.mock import patch

from kcli.client.admin.admin import AdminClient
from kcli.client.admin.groups import CommittedOffset
from kcli.client.admin.quotas import ScramUpsertion
from kcli.client.config import ClientConfig
from kcli.client.diagnosis.checkup.gather import Looks
from kcli.console.console import Console
from kcli.console.pages import overview
from kcli.console.settings import ClusterSettings, ConsoleSettings
from kcli.http.connect_rest import ConnectRest
from kcli.local_cluster.ports import free_ports
from kcli.metadata.image import AclEntry
from kcli.model.acl import AclOperation, AclPermissionType, PatternType, ResourceType
from kcli.model.addresses import Address
from kcli.model.topic_partition import TopicPartition
from kcli.protocol.batches.batch import Record
from kcli.protocol.batches.compression import Codec
from kcli.runtime.clock import SystemClock
from kcli.runtime.disk import SystemDisk
from kcli.runtime.network import SystemNetwork
from kcli.runtime.rng import SystemRng
from kcli.security.mechanisms.scram import MECHANISMS
from kcli.server.formatting.format import FormatRequest, Machine, format_directories
from rigs.collector import Received, collector
from rigs.connect_rest import ConnectApi, config_key, connect_api, validation
from rigs.console_topics import create, produce, record
from rigs.node import RunningNode, config_of, running
from rigs.sasl import SASL_LISTENER
from rigs.schema_registry import MemoryRegistry, memory_registry
from rigs.spark_jobs import BATCH_MS, checkpoint, spark_server

T = TypeVar("T")

SCRIPT = "<img src=x onerror=alert(1)><script>alert(2)</script>"
"""A text that would run as a script if a page took it for HTML."""

SINK = "org.example.LakeSink"
"""The plugin of the worker of Kafka Connect."""

HOSTILE_BYTES = 10_000_000
TRACE = "0af7651916cd43dd8448eb211c80319c"
"""The trace of the record in the topic `traced`."""

BASE_PATH = "/kafka"
"""The large site is behind this path, as behind a proxy."""

SETTINGS = {
    "message_max_bytes": "20000000",
    "transaction_state_log_num_partitions": "1",
    "transaction_state_log_replication_factor": "1",
    "transaction_state_log_min_isr": "1",
    # A producer may then write records of a transaction that no coordinator knows, which hangs.
    "transaction_partition_verification_enable": "false",
    "authorizer_class_name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super_users": "User:ANONYMOUS;User:alice",
    "kcli_metrics_listener": "127.0.0.1:0",
}


class Site:
    """A running node and a console. The methods may be called from the thread of the test."""

    def __init__(self, loop: asyncio.AbstractEventLoop, directory: Path) -> None:
        self.directory = directory
        self.address = ""
        self.read_only_address = ""
        self.given_address = ""
        self.port = 0
        self._controller_port, self._gone_port = free_ports(2)
        self._loop = loop
        self._stack = contextlib.AsyncExitStack()
        self._node_stack = contextlib.AsyncExitStack()
        self._node: RunningNode | None = None
        self._client: AdminClient | None = None
        self.connect = ConnectApi()
        self.registry = MemoryRegistry()

    def run(self, work: Coroutine[Any, Any, T], seconds: float = 60) -> T:
        """Runs a coroutine on the loop of the node."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(seconds)

    @property
    def client(self) -> AdminClient:
        assert self._client is not None
        return self._client

    @property
    def node(self) -> RunningNode:
        assert self._node is not None
        return self._node

    async def open(self) -> None:
        """Starts the node and the console."""
        await self.open_node()
        self.address = await self._console(self._main())

    async def open_large(self) -> None:
        """Starts two brokers, and a console with everything. A second console only reads."""
        await self.open_node()
        await self._open_second()
        traces = self._stack.enter_context(collector())
        traces.spans += _spans()
        spark = self._stack.enter_context(spark_server(_APPLICATIONS))
        assert self.node.metrics_endpoint is not None
        self.connect = self._stack.enter_context(connect_api())
        _add_connectors(self.connect)
        main = replace(
            self._main(),
            metrics=(Address("127.0.0.1", self.node.metrics_endpoint.port),),
            traces=traces.url,
            spark_urls=(spark,),
            spark_checkpoints=(
                str(checkpoint(self.directory / "query", {"orders": {"0": 5, "1": 6, "2": 7}})),
            ),
        )
        self.registry = self._stack.enter_context(memory_registry())
        _add_schemas(self.registry)
        main = replace(main, connect=(ConnectRest.at(self.connect.url),), schema_registry=self.registry.url)
        secured = {
            "bootstrap.servers": f"127.0.0.1:{self.node.port('SASL')}",
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
        }
        gone = {"bootstrap.servers": f"127.0.0.1:{self._gone_port}", "default.api.timeout.ms": "1500"}
        others = (
            ClusterSettings(name="secured", properties=secured),
            ClusterSettings(name="gone", properties=gone),
        )
        given = ClusterSettings(name="given", properties=secured | {"sasl.jaas.config": _ALICE})
        self.address = await self._console(main, *others, base_path=BASE_PATH)
        self.read_only_address = await self._console(main, is_read_only=True)
        self.given_address = await self._console(given)

    def _main(self) -> ClusterSettings:
        return ClusterSettings(name="main", properties={"bootstrap.servers": f"127.0.0.1:{self.port}"})

    async def _console(self, *clusters: ClusterSettings, **settings: Any) -> str:
        console = Console(
            ConsoleSettings(clusters=clusters, port=0, **settings), SystemNetwork(), SystemClock()
        )
        address = await console.start()
        self._stack.push_async_callback(console.stop)
        return address

    def console_of(self, servers: str) -> str:
        """Starts a further console, for another cluster. Returns its address."""
        return self.run(
            self._console(ClusterSettings(name="main", properties={"bootstrap.servers": servers}))
        )

    async def open_node(self) -> None:
        """Starts the node, after `close_node` on the same port."""
        listeners = f"PLAINTEXT://127.0.0.1:{self.port},SASL://127.0.0.1:0,CONTROLLER://127.0.0.1:{self._controller_port}"
        quorum = {"controller_quorum_bootstrap_servers": f"127.0.0.1:{self._controller_port}"}
        overrides = SASL_LISTENER | SETTINGS | quorum | {"listeners": listeners}
        self._node = await self._node_stack.enter_async_context(running(self.directory / "1", **overrides))
        self.port = self._node.port()
        config = ClientConfig(servers=(Address("127.0.0.1", self.port),), default_api_timeout_ms=20_000)
        self._client = AdminClient(config)
        self._node_stack.push_async_callback(self._client.close)

    async def _open_second(self) -> None:
        """Starts a second broker of the same cluster."""
        settings = (
            SASL_LISTENER
            | SETTINGS
            | {
                "process_roles": "broker",
                "node_id": "2",
                "listeners": "PLAINTEXT://127.0.0.1:0,SASL://127.0.0.1:0",
                "controller_quorum_bootstrap_servers": f"127.0.0.1:{self._controller_port}",
            }
        )
        config = config_of(self.directory / "2", **settings)
        machine = Machine(SystemDisk(), SystemClock(), SystemRng(2))
        format_directories(
            config, FormatRequest(cluster_id=self.node.metadata.cluster_id), machine, lambda _text: None
        )
        second = running(self.directory / "2", **settings)
        await self._node_stack.enter_async_context(second)

    async def bring_back(self) -> None:
        """Lets the port of the cluster `gone` lead to the first broker."""

        async def passed_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            there, back = await asyncio.open_connection("127.0.0.1", self.port)
            await asyncio.gather(_copied(reader, back), _copied(there, writer))

        server = await asyncio.start_server(passed_on, "127.0.0.1", self._gone_port)
        self._stack.callback(server.close)

    async def close_node(self) -> None:
        """Stops the node. The console continues."""
        await self._node_stack.aclose()

    async def close(self) -> None:
        await self._stack.aclose()
        await self.close_node()

    def topic(self, name: str, partitions: int = 1, **configs: str) -> None:
        """Creates a topic."""
        self.run(create(self.client, name, partitions, **configs))

    def send(self, topic: str, *records: Record, partition: int = 0, codec: Codec = Codec.NONE) -> None:
        """Writes records as one batch."""
        self.run(produce(self.client, topic, records, partition, codec))

    def fill(self) -> None:
        """Makes the topics that most tests look at."""
        self.topic("orders", 3)
        for partition in range(3):
            values = [b'{"order": {"id": %d, "amount": %d.5}}' % (n, n) for n in range(partition, 60, 3)]
            self.send(
                "orders", *(record(n, value=value) for n, value in enumerate(values)), partition=partition
            )
        self.topic("traced")
        self.send("traced", record(0, headers=(("traceparent", f"00-{TRACE}-{'a' * 16}-01".encode()),)))
        self.topic("hostile", 1, max_message_bytes="20000000")
        text = SCRIPT.encode()
        headers = ((SCRIPT, text), ("x", None))
        self.send("hostile", record(0, key=text, value=text, headers=headers))
        self.send("hostile", record(1, value=b'{"html": "%s"}' % text.replace(b'"', b"")))
        self.send("hostile", record(2, value=b"\xff\xfe" * 40), record(3, value=None), record(4, value=b""))
        self.send("hostile", record(5, key=b"large", value=b"<b>" + b"x" * HOSTILE_BYTES))
        self.run(self._fill_names())

    async def _fill_names(self) -> None:
        """Makes a group, an ACL, a user and a quota whose names are scripts."""
        committed = {TopicPartition("orders", partition): CommittedOffset(offset=5) for partition in range(3)}
        for group in (SCRIPT, "billing"):
            await self.client.alter_group_offsets(group, committed)
        acl = AclEntry(
            resource_type=ResourceType.GROUP,
            resource_name=SCRIPT,
            pattern_type=PatternType.LITERAL,
            principal=f"User:{SCRIPT}",
            host="*",
            operation=AclOperation.READ,
            permission_type=AclPermissionType.ALLOW,
        )
        await self.client.create_acls([acl])
        mechanism = MECHANISMS["SCRAM-SHA-256"]
        credential = ScramUpsertion(user=SCRIPT, mechanism=mechanism, iterations=4096, password=b"x")
        await self.client.alter_user_scram_credentials([credential])
        await self.client.alter_client_quotas([({"user": SCRIPT}, {"producer_byte_rate": 1000.0})])


_APPLICATIONS = {
    "/api/v1/applications": [
        {
            "id": "app-1",
            "name": "word-count",
            "attempts": [
                {"startTimeEpoch": BATCH_MS, "sparkUser": "ann", "endTimeEpoch": -1, "completed": False}
            ],
        }
    ],
    "/api/v1/applications/app-1/jobs": [{"status": "RUNNING"}, {"status": "FAILED"}],
}


_ALICE = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="alice" password="a=b,c";'


async def _copied(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.closing(writer):
        while part := await reader.read(65536):
            writer.write(part)


def _add_connectors(api: ConnectApi) -> None:
    """A sink with a task that has failed, and a connector with a hostile name. Its plugin has two keys."""
    trace = f"ConnectException: Exiting WorkerSinkTask due to unrecoverable exception.\nCaused by: {SCRIPT}"
    config = {"connector.class": SINK, "topics": "orders", "name": "lake", "password": "s3cret"}
    api.has("lake", "RUNNING", "FAILED", trace=trace, config=config)
    api.has(SCRIPT, connector="STOPPED")
    api.plugins([SINK])
    api.answers |= {
        "GET /connectors/lake/config": (200, config),
        "GET /connectors/lake/topics": (200, {"lake": {"topics": ["orders"]}}),
        "GET /connectors/lake/offsets": (
            200,
            {"offsets": [{"partition": {"kafka_partition": 0}, "offset": {"n": 7}}]},
        ),
        f"PUT /connector-plugins/{SINK}/config/validate": (
            200,
            validation(
                config_key("topics"), config_key("password", "PASSWORD"), config_key("fast", "BOOLEAN")
            ),
        ),
        "PUT /connectors/lake/config": (200, {}),
        "PUT /connectors/new/config": (201, {}),
        "GET /connectors/new": api.answers["GET /connectors/lake"],
        "GET /connectors/new/status": api.answers["GET /connectors/lake/status"],
        "PUT /connectors/lake/pause": (202, None),
        "PUT /connectors/lake/resume": (202, None),
        "PUT /connectors/lake/stop": (204, None),
        "POST /connectors/lake/restart": (202, None),
        "DELETE /connectors/lake/offsets": (200, {"message": "done"}),
        "DELETE /connectors/lake": (204, None),
    }


def _spans() -> list[Received]:
    """The trace of the record in the topic `traced`: sent in 5 ms, 2 ms of them in the broker."""
    place = {
        "messaging.operation.name": "send",
        "messaging.destination.name": "traced",
        "messaging.destination.partition.id": "0",
        "messaging.kafka.offset": 0,
    }

    def span(name: str, span_id: str, parent: str, times: tuple[int, int], **more: Any) -> Received:
        return Received(name, 1, TRACE, span_id, parent, *times, more.get("place", {}), [], "shop", False)

    return [
        span("send traced", "a" * 16, "", (0, 5_000_000), place=place),
        span("kafka.Produce", "b" * 16, "a" * 16, (1_000_000, 3_000_000)),
    ]


@contextlib.contextmanager
def site(directory: Path) -> Iterator[Site]:
    """A node and a console until the end of the block."""
    with _site(directory, Site.open) as found:
        yield found


@contextlib.contextmanager
def large_site(directory: Path) -> Iterator[Site]:
    """Two brokers and their consoles until the end of the block."""
    # Groups are looked at twice without a long pause, because no group of these tests rebalances without end.
    with patch.object(overview, "LOOKS", Looks(2, 0.1)), _site(directory, Site.open_large) as found:
        found.fill()
        yield found


@contextlib.contextmanager
def _site(directory: Path, start: Callable[[Site], Coroutine[Any, Any, None]]) -> Iterator[Site]:
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    found = Site(loop, directory)
    try:
        found.run(start(found))
        yield found
    finally:
        found.run(found.close())
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


def _add_schemas(registry: MemoryRegistry) -> None:
    """Subjects with two versions, with references, and with a text that would run as a script."""
    field = '{"name":"id","type":"int"}'
    registry.put("orders-value", f'{{"type":"record","name":"Order","fields":[{field}]}}')
    more = field + ',{"name":"note","type":"string","default":""}'
    registry.put("orders-value", f'{{"type":"record","name":"Order","fields":[{more}]}}')
    uses = [{"name": "Order", "subject": "orders-value", "version": 1}]
    registry.put("lists/value", '{"type":"array","items":"Order"}', references=uses)
    registry.put(SCRIPT, f'{{"type":"object","title":"{SCRIPT}"}}', "JSON")

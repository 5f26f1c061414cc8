"""A node and a console for it, on an event loop in a thread, so that a test can drive a browser in its own thread."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Coroutine, Iterator
from pathlib import Path
from typing import Any, TypeVar

from kcli.client.admin.admin import AdminClient
from kcli.client.admin.groups import CommittedOffset
from kcli.client.admin.quotas import ScramUpsertion
from kcli.client.config import ClientConfig
from kcli.console.console import Console
from kcli.console.settings import ClusterSettings, ConsoleSettings
from kcli.metadata.image import AclEntry
from kcli.model.acl import AclOperation, AclPermissionType, PatternType, ResourceType
from kcli.model.addresses import Address
from kcli.model.topic_partition import TopicPartition
from kcli.protocol.batches.batch import Record
from kcli.protocol.batches.compression import Codec
from kcli.runtime.clock import SystemClock
from kcli.runtime.network import SystemNetwork
from kcli.security.mechanisms.scram import MECHANISMS
from rigs.console_topics import create, produce, record
from rigs.node import RunningNode, running

T = TypeVar("T")

SCRIPT = "<img src=x onerror=alert(1)><script>alert(2)</script>"
"""A text that would run as a script if a page took it for HTML."""

HOSTILE_BYTES = 10_000_000
SETTINGS = {
    "message_max_bytes": "20000000",
    "transaction_state_log_num_partitions": "1",
    "transaction_state_log_replication_factor": "1",
    "transaction_state_log_min_isr": "1",
    "authorizer_class_name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super_users": "User:ANONYMOUS",
}


class Site:
    """A running node and a console. The methods may be called from the thread of the test."""

    def __init__(self, loop: asyncio.AbstractEventLoop, directory: Path) -> None:
        self.directory = directory
        self.address = ""
        self.port = 0
        self._loop = loop
        self._stack = contextlib.AsyncExitStack()
        self._node_stack = contextlib.AsyncExitStack()
        self._node: RunningNode | None = None
        self._client: AdminClient | None = None

    def run(self, work: Coroutine[Any, Any, T], seconds: float = 60) -> T:
        """Runs a coroutine on the loop of the node."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(seconds)

    @property
    def client(self) -> AdminClient:
        assert self._client is not None
        return self._client

    async def open(self, **settings: Any) -> None:
        """Starts the node and the console."""
        await self.open_node()
        servers = f"127.0.0.1:{self.port}"
        cluster = ClusterSettings(name="main", properties={"bootstrap.servers": servers})
        console = Console(
            ConsoleSettings(clusters=(cluster,), port=0, **settings), SystemNetwork(), SystemClock()
        )
        self.address = (await console.start()).partition("?")[0]
        self._stack.push_async_callback(console.stop)

    async def open_node(self) -> None:
        """Starts the node, after `close_node` on the same port."""
        listeners = f"PLAINTEXT://127.0.0.1:{self.port},CONTROLLER://127.0.0.1:0"
        overrides = SETTINGS | {"listeners": listeners}
        self._node = await self._node_stack.enter_async_context(running(self.directory, **overrides))
        self.port = self._node.port()
        config = ClientConfig(servers=(Address("127.0.0.1", self.port),), default_api_timeout_ms=20_000)
        self._client = AdminClient(config)
        self._node_stack.push_async_callback(self._client.close)

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


@contextlib.contextmanager
def site(directory: Path, **settings: Any) -> Iterator[Site]:
    """A node and a console until the end of the block."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    found = Site(loop, directory)
    try:
        found.run(found.open(**settings))
        yield found
    finally:
        found.run(found.close())
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()

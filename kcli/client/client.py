"""The client: selects the server of a request, and sends the request again after errors.

A call is tried again on every retriable error until `default.api.timeout.ms` is over, as Kafka's admin client does. The
client uses the servers of the bootstrap list until a metadata response lists the servers of the cluster. The client
keeps one connection per address.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Self, TypeVar

from kcli.client.config import ClientConfig
from kcli.client.connection import Connection, WrongPeer
from kcli.client.pool import Backoff, Pool
from kcli.errors import (
    ErrorCode,
    IllegalSaslStateException,
    KafkaError,
    NetworkException,
    ProtocolError,
    SaslAuthenticationException,
    SslAuthenticationException,
    TimeoutException,
    UnsupportedSaslMechanismException,
    error_for,
)
from kcli.model.addresses import Address
from kcli.model.request_values import VERSION_MAX, CoordinatorType
from kcli.model.topic_partition import TopicPartition, missing_partition
from kcli.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from kcli.protocol.wire.api import ApiKey
from kcli.protocol.wire.codec import Message
from kcli.runtime.network import Network, SystemNetwork

_log = logging.getLogger("kcli.client")
_waits = logging.getLogger("kcli.client.waits")

T = TypeVar("T")

CONNECTION_IDLE_S = 300.0
"""The time after which an unused connection may be closed: the default of connections.max.idle.ms of Kafka's admin
client."""
WAIT_NOTICE_S = 2.0
"""A client logs once if a call takes longer than this. Users then want to know the reason."""
MISSING_PARTITION_S = 1.0
"""The time in which a new partition must appear in the metadata. A missing partition is then an error."""
ENDPOINT_BROKERS, ENDPOINT_CONTROLLERS = 1, 2


@dataclass(frozen=True, slots=True)
class Node:
    """A server of the cluster."""

    id: int
    host: str
    port: int
    rack: str | None = None
    is_fenced: bool = False

    def __str__(self) -> str:
        fenced = "true" if self.is_fenced else "false"
        rack = "null" if self.rack is None else self.rack
        return f"{self.host}:{self.port} (id: {self.id} rack: {rack} isFenced: {fenced})"


class Destination:
    """The target of a request that may go to any server, or must go to the controller."""

    ANY: Destination
    CONTROLLER: Destination


Destination.ANY, Destination.CONTROLLER = Destination(), Destination()


class _NoNode(KafkaError):
    """Raised if no server is known or reachable. The message is the reason.

    If `is_final` is True, the port does not use the protocol of the client, so another attempt cannot succeed.
    """

    retriable = True

    def __init__(self, message: str, *, is_final: bool = False) -> None:
        super().__init__(message)
        self.is_final = is_final


@dataclass(slots=True)
class _Known:
    """The contents of the last metadata response."""

    nodes: dict[int, Node] = field(default_factory=dict)
    controller_id: int = -1


class Client:
    """The connections to a cluster. It is an async context manager. Every request goes through `send`."""

    def __init__(
        self,
        config: ClientConfig,
        network: Network | None = None,
        *,
        on_answer: Callable[[ApiKey, Message, Message], None] | None = None,
        waits_for_partitions: bool = True,
    ) -> None:
        """`on_answer` is called with each request and its answer.

        If `waits_for_partitions` is True, a call waits until its time limit for a partition that does not exist, as in
        Kafka. If it is False, such a call fails after MISSING_PARTITION_S.
        """
        self.config = config
        self._on_answer = on_answer
        self._network: Network = network or SystemNetwork()
        self._pool = Pool(
            self._open, request_timeout_s=config.request_timeout_ms / 1000, idle_s=CONNECTION_IDLE_S
        )
        self._known = _Known()
        self.coordinators: dict[tuple[CoordinatorType, str], Node] = {}
        """The coordinators that `kcli.client.coordinator` has found."""
        # The addresses whose failure was already logged, and the line that names the mistake in the settings.
        self._explained: dict[Address, str] = {}
        self._explaining = asyncio.Lock()
        self._sent = 0
        self._waits_for_partitions = waits_for_partitions
        self._missing: dict[TopicPartition, float] = {}
        self._has_logged_wait = False
        self._last_failure = ""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Closes every connection."""
        self._pool.close()
        await asyncio.sleep(0)  # gives the transports a turn to close

    async def send(
        self,
        message: Message,
        key: ApiKey,
        *,
        to: int | Destination = Destination.ANY,
        timeout_ms: int | None = None,
        at_least: int = 0,
        at_most: int = VERSION_MAX,
    ) -> Message:
        """Sends one request once, in the newest version up to `at_most` that both sides support. Returns the response.

        Raises a retriable KafkaError if no server accepted or answered the request. Raises UnsupportedVersionException
        if this version is below `at_least`.
        """
        if (
            to is Destination.ANY
            and self.config.servers_are_controllers
            and key is not ApiKey.DESCRIBE_CLUSTER
        ):
            to = Destination.CONTROLLER  # only the active controller answers for the cluster (KIP-919)
        connection = await self._connection(to)
        version = connection.version_for(key, at_least=at_least, at_most=at_most)
        timeout = (timeout_ms or self.config.request_timeout_ms) / 1000
        self._sent += 1
        try:
            answer = await connection.request(message, key, version=version, timeout=timeout)
        except NetworkException as error:
            if connection.is_proven:
                raise
            # The server closed the connection at the first request, as a listener with SASL does without a login.
            self._sent -= 1
            hint = await self._warn(connection.address, error)
            raise _NoNode(error.message, is_final=bool(hint)) from error
        except TimeoutError:
            connection.close()
            raise TimeoutException(
                f"{connection.address} did not answer {key.name} in {timeout:g} s"
            ) from None
        if self._on_answer is not None:
            self._on_answer(key, message, answer)
        return answer

    async def call(self, name: str, attempt: Callable[[], Awaitable[T]]) -> T:
        """Calls `attempt` until it succeeds or its error is final.

        Raises TimeoutException after default.api.timeout.ms.
        """
        notice = asyncio.get_running_loop().call_later(WAIT_NOTICE_S, self._log_wait, name)
        try:
            return await self._attempts(name, attempt)
        finally:
            notice.cancel()

    def _log_wait(self, name: str) -> None:
        """Logs what a slow call waits for: once, because the next calls of a command often wait for the same reason."""
        if self._has_logged_wait:
            return
        self._has_logged_wait = True
        servers = ",".join(map(str, self.config.servers))
        doctor = "" if self.config.servers_are_controllers else f" --bootstrap-server {servers}"
        _waits.info(
            "Waiting for an answer of %s to %s (%s). The call gives up after %g s. To find the cause, run: "
            "kcli doctor%s",
            servers,
            name,
            self._last_failure or "no answer yet",
            self.config.default_api_timeout_ms / 1000,
            doctor,
        )

    async def _attempts(self, name: str, attempt: Callable[[], Awaitable[T]]) -> T:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self.config.default_api_timeout_ms / 1000
        backoff = Backoff(self.config.retry_backoff_ms / 1000, self.config.retry_backoff_max_ms / 1000)
        pause_s = backoff.first_s
        tries = 0
        last: Exception | None = None
        while True:
            sent = self._sent
            try:
                async with asyncio.timeout_at(deadline):
                    return await attempt()
            except TimeoutError:
                tries += last is None and self._sent > sent
            except KafkaError as error:
                if not error.retriable:
                    raise
                last, self._last_failure = error, str(error)
                if isinstance(error, _NoNode):
                    if error.is_final:
                        raise _timed_out(name, tries, last) from error
                else:
                    tries += 1
                if cluster_has_moved(error):
                    self._known = _Known()
            if loop.time() + pause_s >= deadline:
                raise _timed_out(name, tries, last) from last
            await asyncio.sleep(pause_s)
            pause_s = backoff.after(pause_s)

    async def nodes(self) -> list[Node]:
        """Requests metadata, and returns the brokers (or controllers) of the cluster."""
        await self._refresh()
        return list(self._known.nodes.values())

    async def metadata(self, topics: Iterable[str] | None = ()) -> MetadataResponse:
        """Requests and returns the metadata of `topics`. None means all topics. Stores the brokers of the response."""
        names = None if topics is None else tuple(MetadataRequestTopic(name=topic) for topic in topics)
        request = MetadataRequest(topics=names, allow_auto_topic_creation=False)
        response = await self.send(request, ApiKey.METADATA)
        assert isinstance(response, MetadataResponse)
        raise_for(response.error_code)
        nodes = {
            broker.node_id: Node(broker.node_id, broker.host, broker.port, broker.rack)
            for broker in response.brokers
        }
        self._known = _Known(nodes, response.controller_id)
        return response

    async def leaders(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Returns the leader of each partition. Raises a retriable error if a partition has no leader."""
        partitions = list(partitions)
        response = await self.metadata(sorted({topic for topic, _ in partitions}))
        topics = {topic.name: topic for topic in response.topics}
        return {
            partition: self.partition_of(topics[partition.topic], partition).leader_id
            for partition in partitions
        }

    def partition_of(
        self, topic: MetadataResponseTopic, partition: TopicPartition
    ) -> MetadataResponsePartition:
        """Returns the metadata of a partition that has a leader. Raises a retriable error if it has none, and the error
        of the topic."""
        denied = topic.error_code is ErrorCode.TOPIC_AUTHORIZATION_FAILED
        raise_for(topic.error_code, _DENIED_TOPIC.format(*partition) if denied else None)
        entry = next(
            (candidate for candidate in topic.partitions if candidate.partition_index == partition.partition),
            None,
        )
        if entry is None:
            raise self.missing_partition(partition, len(topic.partitions))
        if entry.leader_id < 0:
            raise error_for(ErrorCode.LEADER_NOT_AVAILABLE)
        return entry

    def missing_partition(self, partition: TopicPartition, count: int) -> KafkaError:
        """Returns the error for a partition that an existing topic with `count` partitions does not have.

        A broker may not know a new partition yet. So the error is retriable at first, or always if the client waits for
        partitions.
        """
        now = asyncio.get_running_loop().time()
        since = self._missing.setdefault(partition, now)
        if self._waits_for_partitions or now - since < MISSING_PARTITION_S:
            return error_for(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        error = error_for(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, missing_partition(partition, count))
        error.retriable = False
        return error

    def add_node(self, node: Node) -> None:
        """Adds a server that a coordinator look-up has returned. The entry of a metadata response takes precedence."""
        self._known.nodes.setdefault(node.id, node)

    async def speaks(self, key: ApiKey) -> bool:
        """Whether the servers support an API."""
        return key in (await self._connection(Destination.ANY)).versions

    async def connection_to(self, node: Node) -> Connection:
        """Returns an open connection to one node."""
        return await self._to_address(Address(node.host, node.port))

    def disconnect(self, node: Node) -> None:
        """Closes the connection to one node. The next request opens a new one."""
        self._pool.disconnect(Address(node.host, node.port))

    async def _connection(self, to: int | Destination) -> Connection:
        if to is Destination.ANY:
            return await self._to_any()
        if to is Destination.CONTROLLER:
            if self._known.controller_id not in self._known.nodes:
                await self._refresh()
            to = self._known.controller_id
        assert isinstance(to, int)
        if to not in self._known.nodes:
            await self._refresh()
        node = self._known.nodes.get(to)
        if node is None:
            raise _NoNode(f"node {to} is not in the cluster's metadata")
        return await self.connection_to(node)

    async def _to_any(self) -> Connection:
        """Returns an open connection. Without an open connection, connects to the first server that answers."""
        if (connection := self._pool.any_open()) is not None:
            return connection
        own = [Address(node.host, node.port) for node in self._known.nodes.values()]
        addresses = [*own, *(server for server in self.config.servers if server not in own)]
        last: KafkaError | ProtocolError | None = None
        for address in addresses:
            try:
                return await self._to_address(address)
            except (_NoNode, ProtocolError) as error:
                last = error
            except WrongPeer as error:
                if len(addresses) > 1:
                    await self._warn(address, error)
                # Another attempt may reach a server that is down now, so its error takes precedence.
                last = last or error
        assert last is not None
        raise last

    async def _to_address(self, address: Address) -> Connection:
        try:
            return await self._pool.connection(address)
        except (OSError, NetworkException) as error:  # a TimeoutError is an OSError
            hint = await self._warn(address, error)
            raise _NoNode(f"no connection to {address}: {error}", is_final=bool(hint)) from error
        except AUTHENTICATION_ERRORS as error:
            await self._report(address, error)
            raise

    async def _open(self, address: Address) -> Connection:
        timeout = self.config.connection_setup_timeout_ms / 1000
        return await Connection.open(
            self._network, address, self.config.client_id, timeout, self.config.security
        )

    async def _warn(self, address: Address, error: Exception) -> str:
        """Logs a failed connection, only once for each address. Returns a line that names the wrong setting, or an
        empty text.
        """
        async with self._explaining:
            if address not in self._explained:
                hint = await self._explanation(address, error) if isinstance(error, NetworkException) else ""
                self._explained[address] = hint
                reason = hint or getattr(error, "strerror", None) or str(error) or "no answer in time"
                _log.warning(
                    "Connection to %s could not be established (%s). Node may not be available.",
                    address,
                    reason,
                )
            return self._explained[address]

    async def _report(self, address: Address, error: KafkaError) -> None:
        """Logs why a login or a TLS handshake failed, as Kafka's clients do. Adds a line with the mistake in the
        settings.
        """
        async with self._explaining:
            if address not in self._explained:
                hint = self._explained[address] = await self._explanation(address, error)
                _log.error(
                    "Connection to %s failed authentication due to: %s%s",
                    address,
                    error.message,
                    f": {hint}" if hint else "",
                )

    async def _explanation(self, address: Address, error: Exception) -> str:
        if not isinstance(self._network, SystemNetwork):
            return ""  # a simulated server cannot be asked through a socket
        from kcli.client.explain import explain

        return await asyncio.to_thread(explain, address, self.config.security, error)

    async def _refresh(self) -> None:
        if not self.config.servers_are_controllers:
            await self.metadata()
            return
        from kcli.protocol.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse

        request = DescribeClusterRequest(endpoint_type=ENDPOINT_CONTROLLERS)
        response = await self.send(request, ApiKey.DESCRIBE_CLUSTER)
        assert isinstance(response, DescribeClusterResponse)
        raise_for(response.error_code, response.error_message)
        nodes = {
            broker.broker_id: Node(broker.broker_id, broker.host, broker.port, broker.rack)
            for broker in response.brokers
        }
        self._known = _Known(nodes, response.controller_id)


AUTHENTICATION_ERRORS = (
    SaslAuthenticationException,
    SslAuthenticationException,
    IllegalSaslStateException,
    UnsupportedSaslMechanismException,
)
"""The errors of a login or of a TLS handshake. Another attempt cannot succeed."""

_MOVED = (ErrorCode.NOT_CONTROLLER, ErrorCode.NOT_LEADER_OR_FOLLOWER)


def raise_for(code: ErrorCode, message: str | None = None) -> None:
    """Raises the exception for an error code other than NONE."""
    if code is not ErrorCode.NONE:
        raise error_for(code, message)


def error_of(code: ErrorCode, message: str | None = None) -> KafkaError | None:
    """Returns the exception for an error code, or None for the code NONE."""
    return None if code is ErrorCode.NONE else error_for(code, message)


_DENIED_TOPIC = "Failed to fetch metadata for partition {}-{} due to topic authorization failure"
"""The message of Java's client if the client has no permission to read the metadata of a topic."""


def cluster_has_moved(error: Exception) -> bool:
    """Whether an error shows that the client's metadata is out of date."""
    return isinstance(error, NetworkException | _NoNode) or getattr(error, "code", None) in _MOVED


def _timed_out(name: str, tries: int, last: Exception | None) -> TimeoutException:
    """Returns the error with Java's text. If `tries` is 0, no server was known and no request was sent."""
    if tries == 0:
        return TimeoutException(f"Timed out waiting for a node assignment. Call: {name}")
    why = f" Last: {last}" if last is not None else ""
    return TimeoutException(f"Call(callName={name}, tries={tries}) timed out after {tries} attempt(s).{why}")


@contextlib.contextmanager
def looking_up() -> Iterator[None]:
    """Converts retriable errors inside `with` to `_NoNode`. If the request for a server's address fails with such an
    error, the server is unknown.
    """
    try:
        yield
    except KafkaError as error:
        if not error.retriable or isinstance(error, _NoNode):
            raise
        raise _NoNode(error.message) from error

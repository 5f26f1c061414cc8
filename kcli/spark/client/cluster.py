"""A small blocking client of a Kafka cluster, for Spark's driver and its executors.

A task reads one partition from one broker, one batch after another. So a blocking socket with one unanswered request is
enough, and no event loop is needed.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from kcli.client.coordinator import coordinators_in, find_request
from kcli.errors import (
    ErrorCode,
    KafkaError,
    KcliError,
    UnknownTopicOrPartitionException,
    error_for,
)
from kcli.model.addresses import Address, read_server
from kcli.model.java_text import trim
from kcli.model.offset_at import OffsetAt
from kcli.model.request_values import READ_UNCOMMITTED, CoordinatorType
from kcli.model.topic_partition import TopicPartition
from kcli.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from kcli.protocol.messages.init_producer_id import InitProducerIdRequest
from kcli.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kcli.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from kcli.security.client import ClientSecurity
from kcli.spark.client.calls import (
    CREATE_TOPICS,
    FIND_COORDINATOR,
    INIT_PRODUCER_ID,
    LIST_OFFSETS,
    METADATA,
    AnswerT,
    Call,
    RequestT,
)
from kcli.spark.client.connection import Connection

NO_TRANSACTION_TIMEOUT = 0x7FFF_FFFF
"""The transaction time-out that an idempotent producer without transactions sends."""

BOOTSTRAP_SECONDS = 5.0
"""The seconds after which the search for a reachable broker ends. The time is short, so that the client soon reports a
wrong address."""

FIRST_BACKOFF_SECONDS = 0.1
LAST_BACKOFF_SECONDS = 1.0
"""The first and the longest pause between attempts, as retry.backoff.ms and retry.backoff.max.ms of Kafka's clients."""

UNKNOWN_TOPIC_SECONDS = 3.0
"""The seconds during which the client repeats the look-up of an unknown topic, because a broker may learn of a new
topic late."""


class UnreachableError(KcliError):
    """Raised if no broker answers in time."""


@dataclass(frozen=True, slots=True)
class ClientSettings:
    """The bootstrap servers of a cluster, and the settings of requests to it."""

    bootstrap_servers: str
    client_id: str = "kcli-spark"
    isolation_level: int = READ_UNCOMMITTED
    request_timeout_ms: int = 30_000
    api_timeout_ms: int = 60_000
    max_partition_fetch_bytes: int = 8 << 20
    """The most bytes of one Fetch answer. The value is larger than the consumer's default (1 MiB), because a task reads
    one partition with one request at a time."""
    security: ClientSecurity | None = None


class Cluster:
    """The metadata, leaders and connections of one cluster.

    Each task creates its own `Cluster`, because Spark cannot pickle connections.
    """

    def __init__(self, settings: ClientSettings) -> None:
        self.settings = settings
        self._bootstrap = parse_servers(settings.bootstrap_servers)
        self._nodes: dict[int, Address] = {}
        self._connections: dict[int, Connection] = {}
        self._any: Connection | None = None
        self._leaders: dict[TopicPartition, int] = {}
        self._coordinators: dict[tuple[int, str], int] = {}

    def __enter__(self) -> Cluster:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        """Closes all connections. The next request opens new connections."""
        for connection in (*self._connections.values(), *([self._any] if self._any else [])):
            connection.close()
        self._connections.clear()
        self._any = None

    def ping(self) -> None:
        """Gets an answer of any broker. Raises OSError or UnreachableError if no broker answers."""
        self._on_any(METADATA, MetadataRequest(topics=(), allow_auto_topic_creation=False))

    def topic_names(self) -> list[str]:
        """Returns the names of all topics that are not internal."""
        answer = self._on_any(METADATA, MetadataRequest(topics=None, allow_auto_topic_creation=False))
        return sorted(topic.name for topic in answer.topics if not topic.is_internal and topic.name)

    def partitions(self, topics: Iterable[str], *, create: bool = False) -> list[TopicPartition]:
        """Returns the partitions of `topics`, and remembers their leaders.

        If `create` is True and auto.create.topics.enable is set, the broker creates missing topics.
        """
        names = sorted(set(topics))
        if not names:
            return []
        partitions: list[TopicPartition] = []

        def attempt() -> None:
            partitions.clear()
            partitions.extend(self._refresh(names, create))

        self.retried(attempt, "metadata")
        return sorted(partitions)

    def topic_id(self, topic: str) -> uuid.UUID | None:
        """Returns the id of a topic, or None if the broker is older than Apache Kafka 2.8.

        A topic that is deleted and created again has a new id.
        """
        ids: list[uuid.UUID | None] = []

        def attempt() -> None:
            ids.extend(metadata.topic_id for metadata in self._metadata([topic]).topics)

        self.retried(attempt, "metadata")
        return ids[-1]

    def create_topic(
        self, topic: str, partitions: int, configs: Mapping[str, str], *, validate_only: bool = False
    ) -> None:
        """Creates a topic if it is missing. With `validate_only`, only checks whether this would succeed.

        If `partitions` is -1, the number of partitions is the broker's num.partitions.
        """
        new_topic = CreatableTopic(
            name=topic,
            num_partitions=partitions,
            replication_factor=-1,
            configs=tuple(CreatableTopicConfig(name=name, value=value) for name, value in configs.items()),
        )
        request = CreateTopicsRequest(
            topics=(new_topic,), timeout_ms=self.settings.request_timeout_ms, validate_only=validate_only
        )

        def attempt() -> None:
            (made,) = self._on_any(CREATE_TOPICS, request).topics
            if made.error_code not in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
                raise error_for(
                    made.error_code, f"creating topic {topic}: {made.error_message or made.error_code.name}"
                )

        self.retried(attempt, f"creating topic {topic}")

    def list_offsets(
        self, timestamps: Mapping[TopicPartition, int], isolation_level: int | None = None
    ) -> dict[TopicPartition, OffsetAt]:
        """Returns the first offset at or after each timestamp.

        EARLIEST selects the first offset of the log. LATEST selects the end of the log.
        """
        level = self.settings.isolation_level if isolation_level is None else isolation_level
        offsets: dict[TopicPartition, OffsetAt] = {}

        def attempt() -> None:
            missing = [partition for partition in timestamps if partition not in offsets]
            for node, parts in self.by_leader(missing).items():
                self._list_on(node, {part: timestamps[part] for part in parts}, level, offsets)

        self.retried(attempt, "offsets", {part.topic for part in timestamps})
        return offsets

    def _list_on(
        self,
        node: int,
        timestamps: dict[TopicPartition, int],
        level: int,
        offsets: dict[TopicPartition, OffsetAt],
    ) -> None:
        by_topic: dict[str, list[ListOffsetsPartition]] = {}
        for part, timestamp in timestamps.items():
            by_topic.setdefault(part.topic, []).append(
                ListOffsetsPartition(partition_index=part.partition, timestamp=timestamp)
            )
        topics = tuple(
            ListOffsetsTopic(name=name, partitions=tuple(partitions)) for name, partitions in by_topic.items()
        )
        request = ListOffsetsRequest(
            replica_id=-1,
            isolation_level=level,
            topics=topics,
            timeout_ms=self.settings.request_timeout_ms,
        )
        answer = self.connection(node).request(LIST_OFFSETS, request)
        errors = []
        for topic in answer.topics:
            for partition in topic.partitions:
                part = TopicPartition(topic.name, partition.partition_index)
                if partition.error_code:
                    errors.append(
                        error_for(partition.error_code, f"offsets of {part}: {partition.error_code.name}")
                    )
                else:
                    offsets[part] = OffsetAt(
                        offset=partition.offset,
                        timestamp=partition.timestamp,
                        leader_epoch=partition.leader_epoch,
                    )
        if errors:
            raise errors[0]

    def init_producer_id(
        self, transactional_id: str | None = None, timeout_ms: int = NO_TRANSACTION_TIMEOUT
    ) -> tuple[int, int]:
        """Returns the id and epoch of an idempotent producer.

        If a transactional id is given, the coordinator increases the epoch.
        """
        result: list[tuple[int, int]] = []
        request = InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=timeout_ms)

        def attempt() -> None:
            if transactional_id is None:
                answer = self._on_any(INIT_PRODUCER_ID, request)
            else:
                node = self.coordinator(CoordinatorType.TRANSACTION, transactional_id)
                answer = self.connection(node).request(INIT_PRODUCER_ID, request)
            if answer.error_code:
                name = transactional_id or "an idempotent producer"
                raise error_for(answer.error_code, f"a producer id for {name}: {answer.error_code.name}")
            result.append((answer.producer_id, answer.producer_epoch))

        self.retried(attempt, "a producer id")
        return result[-1]

    def coordinator(self, kind: CoordinatorType, name: str) -> int:
        """Returns the id of the broker that coordinates a group or a transactional id.

        If the coordinator is not known yet, sends FindCoordinator to a broker.
        """
        if self._coordinators.get((kind, name)) not in self._nodes:
            answer = self._on_any(FIND_COORDINATOR, find_request([name], kind))
            node = coordinators_in(answer, [name], kind)[name]
            if isinstance(node, KafkaError):
                raise error_for(node.code, f"the coordinator of {name}: {node.code.name}")
            self._nodes[node.id] = Address(node.host, node.port)
            self._coordinators[kind, name] = node.id
        return self._coordinators[kind, name]

    def leader(self, part: TopicPartition) -> int:
        """Returns the id of the broker that leads a partition. Requests metadata if the leader is not known yet."""
        return next(iter(self.by_leader([part])))

    def forget(self, part: TopicPartition) -> None:
        """Drops the known leader of a partition, so that the next call of `leader` requests metadata again."""
        self._leaders.pop(part, None)

    def connection(self, node: int) -> Connection:
        """Returns the connection to a broker. Opens it if it does not exist."""
        if node not in self._connections:
            self._connections[node] = self._connect(*self._nodes[node])
        return self._connections[node]

    def drop(self, node: int) -> None:
        """Closes the connection to a broker after a failure. The next call of `connection` opens a new one."""
        connection = self._connections.pop(node, None)
        if connection is not None:
            connection.close()

    def _connect(self, host: str, port: int) -> Connection:
        settings = self.settings
        return Connection(
            host, port, settings.client_id, settings.request_timeout_ms / 1000, settings.security
        )

    def by_leader(self, parts: Iterable[TopicPartition]) -> dict[int, list[TopicPartition]]:
        """Groups partitions by the id of their leader. Requests metadata if a leader is not known yet."""
        parts = list(parts)
        unknown = {part.topic for part in parts if part not in self._leaders}
        if unknown:
            self._refresh(sorted(unknown))
        by_leader: dict[int, list[TopicPartition]] = {}
        for part in parts:
            if part not in self._leaders:
                raise error_for(ErrorCode.LEADER_NOT_AVAILABLE, f"{part} does not exist or has no leader")
            by_leader.setdefault(self._leaders[part], []).append(part)
        return by_leader

    def _refresh(self, topics: list[str], create: bool = False) -> list[TopicPartition]:
        partitions = []
        for topic in self._metadata(topics, create).topics:
            assert topic.name is not None, "topics were asked for by name"
            for partition in topic.partitions:
                part = TopicPartition(topic.name, partition.partition_index)
                partitions.append(part)
                if partition.leader_id in self._nodes:
                    self._leaders[part] = partition.leader_id
                else:
                    self._leaders.pop(part, None)
        return partitions

    def _metadata(self, topics: list[str], create: bool = False) -> MetadataResponse:
        """Requests the metadata of topics. If a topic in the answer has an error, raises the first such error."""
        request = MetadataRequest(
            topics=tuple(MetadataRequestTopic(name=name) for name in topics), allow_auto_topic_creation=create
        )
        answer = self._on_any(METADATA, request)
        self._nodes = {broker.node_id: Address(broker.host, broker.port) for broker in answer.brokers}
        for topic in answer.topics:
            if topic.error_code:
                raise error_for(topic.error_code, _topic_error(topic.name or "", topic.error_code))
        return answer

    def _on_any(self, call: Call[RequestT, AnswerT], message: RequestT) -> AnswerT:
        """Sends a request to any broker. If the connection fails, sends it to another broker."""
        if self._any is not None:
            try:
                return self._any.request(call, message)
            except OSError:
                self._any.close()
                self._any = None
        self._any = self._first_reachable()
        return self._any.request(call, message)

    def _first_reachable(self) -> Connection:
        deadline = time.monotonic() + BOOTSTRAP_SECONDS
        backoff = FIRST_BACKOFF_SECONDS
        while True:
            failures = []
            for host, port in dict.fromkeys((*self._bootstrap, *self._nodes.values())):
                try:
                    return self._connect(host, port)
                except OSError as error:
                    failures.append(f"{host}:{port}: {error}")
            if time.monotonic() + backoff > deadline:
                said = f"no broker can be reached ({'; '.join(failures)})"
                # If the cluster has answered before, it may be restarting, and the caller tries again. If it has never
                # answered, the address is probably wrong.
                raise ConnectionError(said) if self._nodes else UnreachableError(said)
            time.sleep(backoff)
            backoff = min(2 * backoff, LAST_BACKOFF_SECONDS)

    def retried(
        self,
        attempt: Callable[[], None],
        what: str,
        topics: Iterable[str] = (),
        timeout_ms: int | None = None,
    ) -> None:
        """Calls `attempt` until it succeeds or raises a final error, for up to `timeout_ms` (default:
        api_timeout_ms).
        """
        retry = Retry(self.settings.api_timeout_ms if timeout_ms is None else timeout_ms, what)
        names = set(topics)
        while True:
            try:
                return attempt()
            except (OSError, KafkaError) as error:
                retry.after(error)
                self._coordinators.clear()
                for part in [place for place in self._leaders if place.topic in names]:
                    self.forget(part)
                if isinstance(error, OSError):
                    for node in list(self._connections):
                        self.drop(node)


class Retry:
    """Waits between attempts with exponential back-off, until a deadline. Errors that are not retriable are raised
    immediately.
    """

    def __init__(self, timeout_ms: int, what: str) -> None:
        self._timeout_ms, self._what = timeout_ms, what
        self.succeeded()

    def succeeded(self) -> None:
        """Resets the deadline and the back-off after a successful attempt."""
        self._began = time.monotonic()
        self._deadline = self._began + self._timeout_ms / 1000
        self._backoff = FIRST_BACKOFF_SECONDS

    def after(self, error: OSError | KafkaError) -> None:
        """Sleeps before the next attempt. Raises `error` if it is not retriable, or UnreachableError if the deadline
        would pass during the sleep."""
        if isinstance(error, KafkaError) and not error.retriable:
            raise error
        unknown = isinstance(error, UnknownTopicOrPartitionException)
        if unknown and time.monotonic() > self._began + UNKNOWN_TOPIC_SECONDS:
            raise error
        if time.monotonic() + self._backoff > self._deadline:
            raise UnreachableError(f"gave up on {self._what} after {self._timeout_ms} ms: {error}") from error
        time.sleep(self._backoff)
        self._backoff = min(2 * self._backoff, LAST_BACKOFF_SECONDS)


def _topic_error(name: str, code: ErrorCode) -> str:
    if code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        return f"topic {name} does not exist"
    return f"topic {name}: {code.name}"


def parse_servers(text: str) -> list[Address]:
    """Parses a list of servers such as `host:port,[::1]:port`. Raises ValueError with the invalid part."""
    servers = []
    for part in filter(None, (trim(entry) for entry in text.split(","))):
        address = read_server(part)
        if address is None:
            raise ValueError(f"Invalid url in bootstrap.servers: {part} (expected host:port)")
        servers.append(address)
    if not servers:
        raise ValueError("No bootstrap urls given in bootstrap.servers (expected host:port,…)")
    return servers

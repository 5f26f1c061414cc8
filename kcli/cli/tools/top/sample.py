"""Takes the samples of `kcli top`: the state of a cluster at one moment.

If a request fails, only its own values are missing. A topic without a leader has no rate, a broker without a metrics
endpoint has no bytes, and an unreachable broker has its error.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from kcli.client.admin.admin import AdminClient
from kcli.client.admin.groups import CommittedOffset, GroupListing
from kcli.client.admin.lag import Lag, lag_seconds
from kcli.client.client import Node
from kcli.errors import KafkaError, ProtocolError
from kcli.http.broker_metrics import (
    ANYBODY,
    BeanValues,
    MetricsAccess,
    MetricsUnavailable,
    Value,
    fetch_beans,
    fetch_slow_requests,
)
from kcli.model.addresses import Address, read_address
from kcli.model.configs import ConfigResource, ConfigResourceType
from kcli.model.ids import NO_LEADER
from kcli.model.java_text import natural, trim
from kcli.model.offset_at import OffsetAt
from kcli.model.request_values import OffsetSpec
from kcli.model.topic_partition import TopicPartition

T = TypeVar("T")

METRICS_LISTENER = "kcli.metrics.listener"
# The most groups that are shown, because the offsets of each group are requested for each update.
GROUPS_MAX = 1000
# The most partitions whose lag is computed in seconds: the partitions with the largest lag. For each partition, a batch
# is read.
TIMED_PARTITIONS_MAX = 500

# The longest wait for the requests of one part of the display.
ASK_MAX_SECONDS = 5.0

_LOOPBACK = ("127.0.0.1", "localhost", "::1")
_QUERIES = (
    "kafka.server:type=BrokerTopicMetrics,*",
    "kafka.network:type=RequestMetrics,name=RequestsPerSec,*",
    "kafka.server:type=socket-server-metrics,*",
    "kafka.server:type=app-info",
    "kcli:type=Process",
)


@dataclass(frozen=True, slots=True)
class Partition:
    """A partition as the cluster's metadata describes it."""

    leader: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]

    @property
    def problem(self) -> str:
        """The worst problem of the partition, or "" if the partition has no problem."""
        if self.leader == NO_LEADER:
            return "no leader"
        if len(self.isr) < len(self.replicas):
            return "under-replicated"
        return ""


@dataclass(frozen=True, slots=True)
class BrokerSample:
    """The metrics of one broker, or `why_not`, the reason why there are none."""

    node: Node
    why_not: str = ""
    beans: tuple[BeanValues, ...] = ()
    slow: tuple[Mapping[str, Value], ...] = ()


@dataclass(slots=True)
class GroupSample:
    """A group's committed offsets, or `error`, the reason why they are not known."""

    listing: GroupListing
    committed: dict[TopicPartition, int] = field(default_factory=dict)
    error: str = ""
    ages: dict[TopicPartition, Lag] = field(default_factory=dict)


@dataclass(slots=True)
class Sample:
    """The cluster at one moment. `at` is in seconds of a monotonic clock."""

    at: float
    time_ms: int
    cluster_id: str
    controller: int
    partitions: dict[TopicPartition, Partition]
    ends: dict[TopicPartition, int]
    groups: list[GroupSample]
    brokers: list[BrokerSample]
    errors: list[str]
    """One line for each failed request."""


@dataclass(frozen=True, slots=True)
class Filters:
    """The topics and groups to show, metrics endpoints for brokers that do not report theirs, and how to read the
    endpoints."""

    topic: Callable[[str], bool]
    group: Callable[[str], bool]
    metrics: tuple[Address, ...]
    access: MetricsAccess = ANYBODY


class Sampler:
    """Takes samples over the connections of one client."""

    def __init__(self, client: AdminClient, filters: Filters) -> None:
        self._client = client
        self._filters = filters
        self._endpoints: dict[int, Address | str] = {}

    async def take(self) -> Sample:
        """Takes a sample. Raises KafkaError or ProtocolError if the cluster's metadata cannot be read."""
        errors: list[str] = []
        metadata, controller = await asyncio.gather(
            self._client.call("metadata", lambda: self._client.metadata(None)),
            self._client.active_controller(),
        )
        nodes = [Node(broker.node_id, broker.host, broker.port, broker.rack) for broker in metadata.brokers]
        partitions = {
            TopicPartition(topic.name or "", partition.partition_index): Partition(
                partition.leader_id, partition.replica_nodes, partition.isr_nodes
            )
            for topic in metadata.topics
            for partition in topic.partitions
            if self._filters.topic(topic.name or "")
        }
        sample = Sample(
            at=time.monotonic(),
            time_ms=time.time_ns() // 1_000_000,
            cluster_id=metadata.cluster_id or "",
            controller=controller,
            partitions=partitions,
            ends={},
            groups=[],
            brokers=[],
            errors=errors,
        )
        ends, groups, brokers = await asyncio.gather(
            self._ends(partitions, errors), self._groups(errors), self._brokers(nodes)
        )
        # The time is taken after the offsets have arrived, so that slow requests do not make the rates too high.
        sample.at = time.monotonic()
        sample.ends, sample.groups, sample.brokers = ends, groups, brokers
        await self._ages(sample)
        return sample

    async def _ends(
        self, partitions: Mapping[TopicPartition, Partition], errors: list[str]
    ) -> dict[TopicPartition, int]:
        led = [key for key, partition in partitions.items() if partition.leader != NO_LEADER]
        if not led:
            return {}
        listing = self._client.list_offsets(dict.fromkeys(led, OffsetSpec.LATEST), wait_for_leaders=False)
        offsets = await _or_nothing(listing, {}, "end offsets", errors)
        failed = [answer for answer in offsets.values() if isinstance(answer, KafkaError)]
        if failed:
            errors.append(f"end offsets of {len(failed)} partitions: {failed[0].message}")
        return {key: answer.offset for key, answer in offsets.items() if isinstance(answer, OffsetAt)}

    async def _groups(self, errors: list[str]) -> list[GroupSample]:
        listed = await _or_nothing(self._client.list_groups(), [], "groups", errors)
        groups = [group for group in listed if self._filters.group(group.group_id)]
        if len(groups) > GROUPS_MAX:
            errors.append(f"{len(groups)} groups: the first {GROUPS_MAX} are shown (--group chooses)")
        shown = groups[:GROUPS_MAX]
        offsets_of_groups = self._client.list_all_offsets(group.group_id for group in shown)
        offsets = await _or_nothing(offsets_of_groups, {}, "offsets of groups", errors)
        return [_group_sample(listing, offsets.get(listing.group_id, {})) for listing in shown]

    async def _ages(self, sample: Sample) -> None:
        """Finds the age of the first unread record of each lagging partition, in every group."""
        lagging = sorted(
            (
                (-(sample.ends[key] - offset), key, index)
                for index, group in enumerate(sample.groups)
                for key, offset in group.committed.items()
                if sample.ends.get(key, 0) > offset
            )
        )[:TIMED_PARTITIONS_MAX]
        # A request can have only one offset for a partition. If groups have different offsets, several requests are
        # sent.
        rounds: list[dict[TopicPartition, tuple[int, int]]] = []
        for _, key, index in lagging:
            free = next((batch for batch in rounds if key not in batch), None)
            if free is None:
                free = {}
                rounds.append(free)
            free[key] = (index, sample.groups[index].committed[key])
        try:
            async with asyncio.timeout(ASK_MAX_SECONDS):
                for batch in rounds:
                    ages = await lag_seconds(
                        self._client, {key: offset for key, (_, offset) in batch.items()}, sample.time_ms
                    )
                    for key, age in ages.items():
                        sample.groups[batch[key][0]].ages[key] = age
        except TimeoutError:
            sample.errors.append(f"lag in seconds: no answer in {ASK_MAX_SECONDS:g} s")

    async def _brokers(self, nodes: list[Node]) -> list[BrokerSample]:
        if self._filters.metrics:
            # The bean app-info of an endpoint has the id of its node.
            return list(await asyncio.gather(*map(self._named, self._filters.metrics)))
        return list(await asyncio.gather(*map(self._of_broker, sorted(nodes, key=lambda node: node.id))))

    async def _named(self, address: Address) -> BrokerSample:
        sample = await self._ask(Node(NO_LEADER, address.host, address.port), address, (*_QUERIES, _APP_INFO))
        ids = [bean.properties.get("id", "") for bean in sample.beans if bean.type == "app-info"]
        node_id = next((number for id_ in ids if (number := natural(id_)) is not None), NO_LEADER)
        return BrokerSample(
            Node(node_id, address.host, address.port), sample.why_not, sample.beans, sample.slow
        )

    async def _of_broker(self, node: Node) -> BrokerSample:
        endpoint = self._endpoints.get(node.id)
        if endpoint is None:
            endpoint = await self._endpoint_of(node)
            if isinstance(endpoint, Address) or endpoint == NOT_SET:
                self._endpoints[node.id] = endpoint
        if isinstance(endpoint, str):
            return BrokerSample(node, why_not=endpoint)
        return await self._ask(node, endpoint, _QUERIES)

    async def _endpoint_of(self, node: Node) -> Address | str:
        """Returns the metrics endpoint that the broker reports, or the reason why it is not known."""
        resource = ConfigResource(ConfigResourceType.BROKER, str(node.id))
        try:
            config = (await self._client.describe_configs([resource]))[resource]
        except (KafkaError, ProtocolError) as error:
            return _words(error)
        if isinstance(config, KafkaError):
            return _words(config)
        text = next((entry.value for entry in config if entry.name == METRICS_LISTENER), None)
        return endpoint_address(text, node.host) if text else NOT_SET

    async def _ask(self, node: Node, endpoint: Address, queries: tuple[str, ...]) -> BrokerSample:
        try:
            async with asyncio.timeout(ASK_MAX_SECONDS):
                beans = await fetch_beans(endpoint, queries, self._filters.access)
                slow = await fetch_slow_requests(endpoint, self._filters.access)
        except MetricsUnavailable as error:
            return BrokerSample(node, why_not=f"{endpoint}: {error}")
        except TimeoutError:
            return BrokerSample(node, why_not=f"{endpoint} did not answer in {ASK_MAX_SECONDS:g} s")
        return BrokerSample(node, beans=tuple(beans), slow=tuple(slow))


NOT_SET = f"{METRICS_LISTENER} is not set"
_APP_INFO = "kafka.server:type=app-info,*"


def endpoint_address(listener: str, broker_host: str) -> Address | str:
    """Returns the address of a broker's metrics listener, or the reason why this machine cannot reach it."""
    address = read_address(trim(listener))
    if address is None or address.port == 0:
        return f"its metrics port is not known ({METRICS_LISTENER}={listener}): name it with --metrics"
    if address.host in ("", "0.0.0.0", "::"):
        return Address(broker_host, address.port)
    if address.host in _LOOPBACK and broker_host not in _LOOPBACK:
        return f"its metrics are served to its own machine only ({METRICS_LISTENER}={listener})"
    return address


def _group_sample(
    listing: GroupListing, offsets: Mapping[TopicPartition, CommittedOffset | KafkaError | None] | KafkaError
) -> GroupSample:
    if isinstance(offsets, KafkaError):
        return GroupSample(listing, error=_words(offsets))
    committed = {key: offset.offset for key, offset in offsets.items() if isinstance(offset, CommittedOffset)}
    return GroupSample(listing, committed)


async def _or_nothing(awaitable: Awaitable[T], nothing: T, what: str, errors: list[str]) -> T:
    try:
        return await awaitable
    except (KafkaError, ProtocolError) as error:
        errors.append(f"{what}: {_words(error)}")
        return nothing


def _words(error: Exception) -> str:
    return str(error) or type(error).__name__


# --- figures of a sample


def counts_by_topic(brokers: Iterable[BrokerSample], name: str) -> dict[str, float]:
    """Returns a count of BrokerTopicMetrics for each topic, summed over all brokers with metrics."""
    counts: dict[str, float] = {}
    for broker in brokers:
        for bean in broker.beans:
            if bean.type == "BrokerTopicMetrics" and bean.properties["name"] == name:
                topic = bean.properties.get("topic")
                if topic:
                    counts[topic] = counts.get(topic, 0.0) + float(bean.attributes["Count"])
    return counts


def request_count(broker: BrokerSample) -> float:
    """Returns the number of requests of a broker. A Fetch request is in two beans but counts once."""
    return sum(
        float(bean.attributes["Count"])
        for bean in broker.beans
        if bean.type == "RequestMetrics"
        and bean.properties["request"] not in ("FetchConsumer", "FetchFollower")
    )


def figure(broker: BrokerSample, type_: str, attribute: str) -> float | None:
    """Returns the sum of an attribute over the broker's beans of a type. Returns None if no bean has the attribute."""
    values = [
        float(bean.attributes[attribute])
        for bean in broker.beans
        if bean.type == type_ and attribute in bean.attributes
    ]
    return sum(values) if values else None

"""Reads the figures for the check-up that only the metrics endpoints of brokers have."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

from kcli.client.client import Node
from kcli.client.diagnosis.checkup.gather import MetricsSource
from kcli.client.diagnosis.checkup.snapshot import ClientSoftware, Metrics
from kcli.http.broker_metrics import ANYBODY, BeanValues, MetricsAccess, MetricsUnavailable, fetch_beans
from kcli.model.addresses import Address
from kcli.model.java_text import natural, parse_int
from kcli.model.topic_partition import TopicPartition

ASK_MAX_SECONDS = 10.0
_QUERIES = (
    "kafka.server:type=socket-server-metrics,*",
    "kafka.log:type=Log,name=NumLogSegments,*",
    "kafka.server:type=app-info,*",
)


def named_metrics(endpoints: Sequence[Address], access: MetricsAccess = ANYBODY) -> MetricsSource:
    """Returns a function that reads the figures from these endpoints. The answer of an endpoint has the id of its
    broker."""

    async def read(nodes: tuple[Node, ...]) -> Metrics:
        answers = await asyncio.gather(*(figures(endpoint, access) for endpoint in endpoints))
        beans = {_broker(answer): answer for answer in answers if not isinstance(answer, str)}
        failures = [answer for answer in answers if isinstance(answer, str)]
        reason = failures[0] if failures else "its endpoint was not named"
        return metrics_of(beans, {node.id: reason for node in nodes if node.id not in beans})

    return read


async def figures(address: Address, access: MetricsAccess) -> Sequence[BeanValues] | str:
    """Returns the beans of a broker that the check-up needs, or the reason why they are unknown."""
    try:
        async with asyncio.timeout(ASK_MAX_SECONDS):
            return await fetch_beans(address, _QUERIES, access)
    except (MetricsUnavailable, TimeoutError) as error:
        return f"{address}: {error or 'no answer'}"


def metrics_of(beans: Mapping[int, Sequence[BeanValues]], without: Mapping[int, str]) -> Metrics:
    """Returns the figures in the beans of brokers."""
    return Metrics(
        tuple(software for broker, of in beans.items() for software in _software(broker, of)),
        {key: count for of in beans.values() for key, count in _segments(of)},
        without,
    )


def _broker(beans: Sequence[BeanValues]) -> int:
    """The id of the broker that sent these beans, or -1. The bean app-info has this id."""
    ids = [bean.properties.get("id", "") for bean in beans if bean.type == "app-info"]
    return next((broker_id for text in ids if (broker_id := natural(text)) is not None), -1)


def _software(broker: int, beans: Sequence[BeanValues]) -> list[ClientSoftware]:
    return [
        ClientSoftware(
            broker,
            bean.properties["clientSoftwareName"],
            bean.properties.get("clientSoftwareVersion", ""),
            int(bean.attributes.get("connections", 0)),
        )
        for bean in beans
        if bean.type == "socket-server-metrics" and "clientSoftwareName" in bean.properties
    ]


def _segments(beans: Sequence[BeanValues]) -> list[tuple[TopicPartition, int]]:
    return [
        (
            TopicPartition(bean.properties["topic"], parse_int(bean.properties["partition"])),
            int(bean.attributes["Value"]),
        )
        for bean in beans
        if bean.properties.get("name") == "NumLogSegments" and "topic" in bean.properties
    ]

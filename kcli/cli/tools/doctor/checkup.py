"""kcli doctor --check-up: checks a whole cluster, and prints what an operator should change."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from kcli.cli.broker_metrics import BeanValues, MetricsAccess, MetricsUnavailable, fetch_beans
from kcli.cli.output import Output
from kcli.cli.syntax.options import CommandError
from kcli.cli.tools.top.sample import METRICS_LISTENER, NOT_SET, endpoint_address
from kcli.client.admin.admin import AdminClient
from kcli.client.client import Node
from kcli.client.config import ClientConfig, ClientConfigError, parse_addresses
from kcli.client.diagnosis.checkup.finding import CheckupFinding, Severity
from kcli.client.diagnosis.checkup.gather import Looks, gather
from kcli.client.diagnosis.checkup.rules import RULES, check_up
from kcli.client.diagnosis.checkup.snapshot import ClientSoftware, Metrics
from kcli.errors import KafkaError
from kcli.model.addresses import Address
from kcli.model.configs import ConfigResource, ConfigResourceType
from kcli.model.topic_partition import TopicPartition
from kcli.runtime.log_text import one_line

SEVERITY_WIDTH = max(len(each) for each in Severity)
ASK_MAX_SECONDS = 10.0
_QUERIES = (
    "kafka.server:type=socket-server-metrics,*",
    "kafka.log:type=Log,name=NumLogSegments,*",
    "kafka.server:type=app-info,*",
)


@dataclass(frozen=True, slots=True)
class CheckupWishes:
    """The options of the check-up: how many samples of groups to take and at which interval, and how to read metrics
    endpoints."""

    looks: Looks
    endpoints: tuple[Address, ...]
    access: MetricsAccess


def metrics_endpoints(text: str | None) -> tuple[Address, ...]:
    """The endpoints of --metrics. Raises CommandError if an endpoint is invalid."""
    if text is None:
        return ()
    try:
        return parse_addresses(text, "--metrics")
    except ClientConfigError as error:
        raise CommandError(str(error)) from None


async def print_checkup(config: ClientConfig, wishes: CheckupWishes, output: Output) -> bool:
    """Prints a line for each finding. Returns whether at least one finding is critical."""
    async with AdminClient(config) as admin:
        source = BrokerMetrics(admin, wishes.endpoints, wishes.access)
        snapshot = await gather(admin, looks=wishes.looks, metrics=source.read)
    findings = check_up(snapshot, ",".join(map(str, config.servers)))
    for finding in findings:
        output.row(finding, _line)
    output.say(_summary(findings))
    return any(each.severity is Severity.CRITICAL for each in findings)


def _line(finding: CheckupFinding) -> str:
    indent = " " * (SEVERITY_WIDTH + 2)
    lines = [f"{finding.severity:<{SEVERITY_WIDTH}}  {finding.check}: {finding.subject}: {finding.text}"]
    lines += [f"{indent}   {each}" for each in finding.evidence]
    if finding.command:
        lines.append(f"{indent}-> {finding.command}")
    return "\n".join(map(one_line, lines))


def _summary(findings: Sequence[CheckupFinding]) -> str:
    counts = {each: sum(finding.severity is each for finding in findings) for each in Severity}
    shown = ", ".join(f"{count} {severity}" for severity, count in counts.items() if count)
    return f"{len(RULES)} checks: {shown or 'no problem found'}"


class BrokerMetrics:
    """Reads the figures of brokers from their metrics endpoints."""

    def __init__(self, admin: AdminClient, endpoints: Sequence[Address], access: MetricsAccess) -> None:
        self._admin = admin
        self._endpoints = endpoints
        self._access = access

    async def read(self, nodes: tuple[Node, ...]) -> Metrics:
        """Returns the figures of all brokers with an endpoint, and the reasons for the others."""
        if self._endpoints:
            found = await asyncio.gather(*map(self._named, self._endpoints))
            beans = dict(found)
            without = {node.id: "its endpoint was not named" for node in nodes if node.id not in beans}
        else:
            answers = await asyncio.gather(*map(self._of_broker, nodes))
            beans = {
                node.id: each for node, each in zip(nodes, answers, strict=True) if not isinstance(each, str)
            }
            without = {
                node.id: each for node, each in zip(nodes, answers, strict=True) if isinstance(each, str)
            }
        return Metrics(
            tuple(each for broker, of in beans.items() for each in _software(broker, of)),
            {key: count for of in beans.values() for key, count in _segments(of)},
            without,
        )

    async def _named(self, address: Address) -> tuple[int, list[BeanValues]]:
        """Returns the node of an endpoint, and its beans. The bean app-info has the id of the node."""
        found = await self._ask(address)
        if isinstance(found, str):
            return -1, []
        ids = [each.properties.get("id", "") for each in found if each.type == "app-info"]
        return next((int(each) for each in ids if each.isdecimal()), -1), found

    async def _of_broker(self, node: Node) -> list[BeanValues] | str:
        resource = ConfigResource(ConfigResourceType.BROKER, str(node.id))
        try:
            entries = (await self._admin.describe_configs([resource]))[resource]
        except KafkaError as error:
            return error.message
        if isinstance(entries, KafkaError):
            return entries.message
        listener = next((each.value for each in entries if each.name == METRICS_LISTENER), None)
        if not listener:
            return f"{NOT_SET}; name an endpoint with --metrics"
        address = endpoint_address(listener, node.host)
        return address if isinstance(address, str) else await self._ask(address)

    async def _ask(self, address: Address) -> list[BeanValues] | str:
        try:
            async with asyncio.timeout(ASK_MAX_SECONDS):
                return await fetch_beans(address, _QUERIES, self._access)
        except (MetricsUnavailable, TimeoutError) as error:
            return f"{address}: {error or 'no answer'}"


def _software(broker: int, beans: list[BeanValues]) -> list[ClientSoftware]:
    return [
        ClientSoftware(
            broker,
            each.properties["clientSoftwareName"],
            each.properties.get("clientSoftwareVersion", ""),
            int(each.attributes.get("connections", 0)),
        )
        for each in beans
        if each.type == "socket-server-metrics" and "clientSoftwareName" in each.properties
    ]


def _segments(beans: list[BeanValues]) -> list[tuple[TopicPartition, int]]:
    return [
        (
            TopicPartition(each.properties["topic"], int(each.properties["partition"])),
            int(each.attributes["Value"]),
        )
        for each in beans
        if each.properties.get("name") == "NumLogSegments" and "topic" in each.properties
    ]

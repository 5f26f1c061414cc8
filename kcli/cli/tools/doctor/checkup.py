"""kcli doctor --check-up: checks a whole cluster, and prints what an operator should change."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from kcli.cli.output import Output
from kcli.cli.syntax.options import CommandError
from kcli.cli.tools.top.sample import METRICS_LISTENER, NOT_SET, endpoint_address
from kcli.client.admin.admin import AdminClient
from kcli.client.client import Node
from kcli.client.config import ClientConfig, ClientConfigError, parse_addresses
from kcli.client.diagnosis.checkup.finding import CheckupFinding, Severity
from kcli.client.diagnosis.checkup.gather import Looks, gather
from kcli.client.diagnosis.checkup.rules import RULES, check_up
from kcli.client.diagnosis.checkup.snapshot import Metrics
from kcli.errors import KafkaError
from kcli.http.broker_metrics import BeanValues, MetricsAccess
from kcli.http.checkup_metrics import figures, metrics_of, named_metrics
from kcli.model.addresses import Address
from kcli.model.configs import ConfigResource, ConfigResourceType
from kcli.runtime.log_text import one_line

SEVERITY_WIDTH = max(len(severity) for severity in Severity)


@dataclass(frozen=True, slots=True)
class CheckupWishes:
    """The options of the check-up: how many samples of groups to take and at which interval, and how to read metrics
    endpoints."""

    looks: Looks
    endpoints: tuple[Address, ...]
    access: MetricsAccess
    config_file: str | None = None
    """The file of --command-config, for the commands in the findings."""


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
        if wishes.endpoints:
            source = named_metrics(wishes.endpoints, wishes.access)
        else:
            source = BrokerMetrics(admin, wishes.access).read
        snapshot = await gather(admin, looks=wishes.looks, metrics=source)
    findings = check_up(snapshot, ",".join(map(str, config.servers)), wishes.config_file)
    for finding in findings:
        output.row(finding, _line)
    output.say(_summary(findings))
    return any(finding.severity is Severity.CRITICAL for finding in findings)


def _line(finding: CheckupFinding) -> str:
    indent = " " * (SEVERITY_WIDTH + 2)
    lines = [f"{finding.severity:<{SEVERITY_WIDTH}}  {finding.check}: {finding.subject}: {finding.text}"]
    lines += [f"{indent}   {line}" for line in finding.evidence]
    if finding.command:
        lines.append(f"{indent}-> {finding.command}")
    return "\n".join(map(one_line, lines))


def _summary(findings: Sequence[CheckupFinding]) -> str:
    counts = {severity: sum(finding.severity is severity for finding in findings) for severity in Severity}
    shown = ", ".join(f"{count} {severity}" for severity, count in counts.items() if count)
    return f"{len(RULES)} checks: {shown or 'no problem found'}"


class BrokerMetrics:
    """Reads the figures of brokers from the metrics endpoints that are set in the brokers' configs."""

    def __init__(self, admin: AdminClient, access: MetricsAccess) -> None:
        self._admin = admin
        self._access = access

    async def read(self, nodes: tuple[Node, ...]) -> Metrics:
        """Returns the figures of the brokers, and for each broker without figures the reason."""
        answers = await asyncio.gather(*map(self._of_broker, nodes))
        by_broker = {node.id: answer for node, answer in zip(nodes, answers, strict=True)}
        return metrics_of(
            {broker: answer for broker, answer in by_broker.items() if not isinstance(answer, str)},
            {broker: answer for broker, answer in by_broker.items() if isinstance(answer, str)},
        )

    async def _of_broker(self, node: Node) -> Sequence[BeanValues] | str:
        resource = ConfigResource(ConfigResourceType.BROKER, str(node.id))
        try:
            entries = (await self._admin.describe_configs([resource]))[resource]
        except KafkaError as error:
            return error.message
        if isinstance(entries, KafkaError):
            return entries.message
        listener = next((entry.value for entry in entries if entry.name == METRICS_LISTENER), None)
        if not listener:
            return f"{NOT_SET}; name an endpoint with --metrics"
        address = endpoint_address(listener, node.host)
        return address if isinstance(address, str) else await figures(address, self._access)

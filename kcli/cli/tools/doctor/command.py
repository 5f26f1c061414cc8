"""kcli doctor: tests each step, from the name of a server to a record that is written and read. Stops at a step that
fails."""

from __future__ import annotations

from collections.abc import AsyncIterable
from dataclasses import dataclass
from datetime import UTC, datetime

from kcli.cli.client_properties import load_properties
from kcli.cli.connect import ClusterOptions, admin_config
from kcli.cli.metrics_access import metrics_access
from kcli.cli.output import Output
from kcli.cli.own_principal import own_principal
from kcli.cli.syntax.options import Command, CommandError, Kind, UsageError, flag, option, require
from kcli.cli.tools.doctor.checkup import CheckupWishes, metrics_endpoints, print_checkup
from kcli.client.config import ClientConfig
from kcli.client.diagnosis.checkup.gather import Looks
from kcli.client.diagnosis.doctor import Wishes, diagnose
from kcli.client.diagnosis.finding import Finding, Status
from kcli.command.examples import INTERRUPTED, Example
from kcli.runtime.log_text import one_line

STATUS_WIDTH = max(len(status) for status in Status)
STEP_WIDTH = len("certificate")


@dataclass(frozen=True, slots=True, kw_only=True)
class DoctorOptions(ClusterOptions):
    topic: str | None = option("A topic to check: its leaders, and your permissions on it.", metavar="topic")
    group: str | None = option("A group. Checks whether you may join it.", metavar="group")
    write: bool = flag("Write one record to the topic of --topic, and read the record again.")
    check_up: bool = flag(
        "Check the whole cluster: replicas, leaders, disks, controllers, configs, groups, transactions and clients. "
        "Each finding has a severity, the facts that prove the problem, and a command that repairs it or shows more."
    )
    looks: int = option(
        "With --check-up: how many times the command reads the states of the groups. A group that rebalances each "
        "time is reported.",
        Kind.INTEGER,
        default=3,
        metavar="count",
    )
    interval: float = option(
        "With --check-up: the seconds between two reads of the states of the groups.",
        Kind.DOUBLE,
        default=2.0,
        metavar="seconds",
    )
    metrics: str | None = option(
        "The metrics endpoints for --check-up, as host:port,host:port. Default: the endpoints that the brokers report.",
        metavar="endpoints",
    )
    metrics_config: str | None = option(
        "A properties file with the user and the password for the metrics endpoints, as for kcli top.",
        metavar="file",
    )
    connect: str | None = option(
        "The URL of a worker of Kafka Connect, such as http://localhost:8083, which may have user:password@ before the "
        "host. Checks this worker and all connectors of its group, in place of brokers.",
        metavar="URL",
    )


async def run(options: DoctorOptions, output: Output) -> None:
    """Prints a line for each step. Raises CommandError with exit code 1 if a step fails."""
    if options.connect is not None:
        await _check_connect(options, options.connect, output)
        return
    require(options, "bootstrap-server")
    if options.write and options.topic is None:
        raise UsageError("--write needs --topic: the topic to which the record is written")
    config = admin_config(options)
    if options.check_up:
        await _check_up(options, config, output)
        return
    wishes = Wishes(
        topics=() if options.topic is None else (options.topic,),
        groups=() if options.group is None else (options.group,),
        writes=options.write,
    )
    now = datetime.now(UTC)
    await _report(diagnose(config, wishes, principal=own_principal(config), now=now), output)


async def _check_connect(options: DoctorOptions, url: str, output: Output) -> None:
    """Checks a worker of Kafka Connect. Raises CommandError with exit code 1 if a step fails or a connector failed."""
    from kcli.cli.tools.doctor.connect import examine_worker
    from kcli.http.connect_rest import ConnectRest, InvalidUrl

    if options.bootstrap_server or options.check_up or options.topic or options.group or options.write:
        raise UsageError(
            "--connect checks a worker: --bootstrap-server, --check-up, --topic, --group and --write are not allowed"
        )
    try:
        rest = ConnectRest.at(url)
    except InvalidUrl as error:
        raise UsageError(f"--connect {error}") from None
    await _report(examine_worker(rest), output)


async def _report(findings: AsyncIterable[Finding], output: Output) -> None:
    """Prints a line for each finding. Raises CommandError with exit code 1 if one of them is wrong."""
    problems = 0
    async for finding in findings:
        output.row(finding, _line)
        problems += finding.is_wrong
    if problems:
        raise CommandError("")


async def _check_up(options: DoctorOptions, config: ClientConfig, output: Output) -> None:
    """Checks the whole cluster. Raises CommandError with exit code 1 if a finding is critical."""
    if options.topic or options.group or options.write:
        raise UsageError(
            "--check-up checks all topics and groups: --topic, --group and --write are not allowed"
        )
    if options.looks < 1 or options.interval < 0:
        raise UsageError("--looks must be positive, and --interval must not be negative")
    wishes = CheckupWishes(
        Looks(options.looks, options.interval),
        metrics_endpoints(options.metrics),
        metrics_access(load_properties(options.metrics_config)),
        options.command_config,
    )
    if await print_checkup(config, wishes, output):
        raise CommandError("")


def _line(finding: Finding) -> str:
    text = (
        f"{finding.status:<{STATUS_WIDTH}}  {finding.step:<{STEP_WIDTH}}  {finding.subject}: {finding.text}"
    )
    advice = f"{'':{STATUS_WIDTH}}  {'':{STEP_WIDTH}}  -> {finding.advice}"
    return "\n".join(map(one_line, (text, advice) if finding.advice else (text,)))


command = Command(
    name="doctor",
    description="This tool finds out why a client cannot use a cluster, and what to change. It also checks a worker of "
    "Kafka Connect.",
    options=DoctorOptions,
    run=run,
    examples=(
        Example(
            "Check the connections from this machine to every broker:",
            "kcli doctor --bootstrap-server localhost:9092",
        ),
        Example(
            "Check the connections to a secured cluster:",
            "kcli doctor --bootstrap-server h:9093 --command-config client.properties",
        ),
        Example(
            "Check a whole cluster:",
            "kcli doctor --bootstrap-server localhost:9092 --check-up",
        ),
        Example(
            "Check a topic, write one record to it and read the record again:",
            "kcli doctor --bootstrap-server localhost:9092 --topic orders --write",
        ),
        Example(
            "Check a worker of Kafka Connect and its connectors:",
            "kcli doctor --connect http://localhost:8083",
        ),
    ),
    exit_status=(
        (0, "No step failed, and no finding is critical. There may be warnings."),
        (1, "A step or a connector failed, a finding is critical, or the options are invalid."),
        INTERRUPTED,
    ),
)

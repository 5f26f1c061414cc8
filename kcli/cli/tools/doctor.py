"""kcli doctor: walks from the name of a server to a record that was written and read, and stops at what is wrong."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

from kcli.cli.connect import ClusterOptions, admin_config
from kcli.cli.output import Output
from kcli.cli.own_principal import own_principal
from kcli.cli.syntax.examples import INTERRUPTED, Example
from kcli.cli.syntax.options import Command, CommandError, UsageError, flag, option, require
from kcli.client.diagnosis.doctor import Wishes, diagnose
from kcli.client.diagnosis.finding import Finding, Status

STATUS_WIDTH = max(len(status) for status in Status)
STEP_WIDTH = len("certificate")


@dataclass(frozen=True, slots=True, kw_only=True)
class DoctorOptions(ClusterOptions):
    topic: str | None = option("A topic to look at: its leaders, and the rights on it.", metavar="topic")
    group: str | None = option("A group to look at: the right to join it.", metavar="group")
    write: bool = flag("Write one record to the topic and read it back. Needs --topic.")


async def run(options: DoctorOptions, output: Output) -> None:
    """Prints a line for each step. Raises CommandError with exit code 1 if a step is wrong."""
    require(options, "bootstrap-server")
    if options.write and options.topic is None:
        raise UsageError("--write needs --topic: the topic to which the record is written")
    config = admin_config(options)
    wishes = Wishes(
        topics=() if options.topic is None else (options.topic,),
        groups=() if options.group is None else (options.group,),
        writes=options.write,
    )
    problems = 0
    now = datetime.now(UTC)
    async for finding in diagnose(config, wishes, principal=own_principal(config), now=now):
        output.row(finding, _line)
        problems += finding.is_wrong
    if problems:
        raise CommandError("")


def _line(finding: Finding) -> str:
    text = (
        f"{finding.status:<{STATUS_WIDTH}}  {finding.step:<{STEP_WIDTH}}  {finding.subject}: {finding.text}"
    )
    return f"{text}\n{'':{STATUS_WIDTH}}  {'':{STEP_WIDTH}}  -> {finding.advice}" if finding.advice else text


command = Command(
    name="doctor",
    description="This tool finds out why a client cannot use a cluster, and names the change that mends it.",
    options=DoctorOptions,
    run=run,
    examples=(
        Example(
            "Look at the way from this machine to every broker:",
            "kcli doctor --bootstrap-server localhost:9092",
        ),
        Example(
            "Look at the way to a secured cluster:",
            "kcli doctor --bootstrap-server h:9093 --command-config client.properties",
        ),
        Example(
            "Look at a topic, write one record to it and read it back:",
            "kcli doctor --bootstrap-server localhost:9092 --topic orders --write",
        ),
    ),
    exit_status=(
        (0, "No step is wrong. There may be warnings."),
        (1, "A step is wrong, or the options are invalid."),
        INTERRUPTED,
    ),
)

"""kcli doctor: walks from the name of a server to a record that was written and read, and stops at what is wrong."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

from kcli.cli.connect import ClusterOptions, admin_config
from kcli.cli.output import Output
from kcli.cli.syntax.examples import INTERRUPTED, Example
from kcli.cli.syntax.options import Command, CommandError, UsageError, flag, option, require
from kcli.client.config import ClientConfig
from kcli.client.diagnosis.doctor import Wishes, diagnose
from kcli.client.diagnosis.finding import Finding, Status
from kcli.config.definition import ConfigError
from kcli.security.client import ClientSecurity
from kcli.security.principal import ANONYMOUS
from kcli.security.tls.contexts import ClientTls
from kcli.security.tls.distinguished_name import subject_text

STATUS_WIDTH = max(len(status) for status in Status)
UNKNOWN_PRINCIPAL = "User:<your name>"
"""The name in ACLs of a client whose settings do not show its name, such as a token of another program."""
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
    async for finding in diagnose(config, wishes, principal=_principal(config), now=now):
        output.row(finding, _line)
        problems += finding.is_wrong
    if problems:
        raise CommandError("")


def _principal(config: ClientConfig) -> str:
    """The name of the client in ACLs, as far as its settings show it."""
    security = config.security or ClientSecurity()
    if security.sasl is not None:
        return f"User:{security.sasl.username}"
    if security.tls is None:
        return str(ANONYMOUS)
    return _principal_of_certificate(security.tls)


def _principal_of_certificate(tls: ClientTls) -> str:
    """The principal that a broker without mapping rules makes from the client's certificate."""
    from cryptography.hazmat.primitives.serialization import Encoding

    from kcli.security.tls.stores import load_key_store

    try:
        keys = load_key_store(tls.stores)
    except ConfigError:
        return UNKNOWN_PRINCIPAL  # the walk names the mistake
    if keys is None:
        return str(ANONYMOUS)
    return f"User:{subject_text(keys.entries[0].chain[0].public_bytes(Encoding.DER))}"


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

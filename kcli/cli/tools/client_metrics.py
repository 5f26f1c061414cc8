"""kafka-client-metrics: subscriptions to the metrics of clients (KIP-714)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kcli.cli.connect import ClusterOptions, admin
from kcli.cli.output import Output, warn
from kcli.cli.syntax.options import Command, CommandError, Kind, UsageError, flag, forbid, option, separated
from kcli.client.admin.configs import AlterConfig, ConfigEntry
from kcli.command.examples import USUAL, Example
from kcli.errors import KafkaError
from kcli.model.configs import ConfigOperation, ConfigResource, ConfigResourceType

if TYPE_CHECKING:
    from kcli.client.admin.admin import AdminClient

ACTIONS = ("alter", "delete", "describe", "list")


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientMetricsOptions(ClusterOptions):
    alter: bool = flag("Change or create a subscription.")
    delete: bool = flag("Delete a subscription.")
    describe: bool = flag("Show all subscriptions. With --name, show only this subscription.")
    list: bool = flag("List the subscriptions.")
    name: str | None = option("The name of the subscription.", metavar="name")
    generate_name: bool = flag("With --alter: create a subscription with a random name.")
    interval: str | None = option(
        "Milliseconds between two reports of a client. An empty value means the default.",
        metavar="push interval",
    )
    metrics: tuple[str, ...] = option(
        "The prefixes of the metrics that clients report, separated by commas. An empty value means no "
        "metrics.",
        metavar="a,b",
        repeatable=True,
    )
    match: tuple[str, ...] = option(
        "The clients, as key=regex pairs separated by commas. An empty value means all clients. Keys: "
        "client_id, client_instance_id, client_software_name, client_software_version, "
        "client_source_address, client_source_port.",
        metavar="k1=v1,k2=v2",
        repeatable=True,
    )
    dry_run: bool = flag("With --alter or --delete: check the request, but change nothing.")


@dataclass(frozen=True, slots=True)
class SubscriptionName:
    """The name of an existing subscription."""

    name: str


@dataclass(frozen=True, slots=True)
class Subscription:
    """A subscription and its settings."""

    name: str
    configs: dict[str, str | None]


@dataclass(frozen=True, slots=True)
class SubscriptionChange:
    """A subscription that was altered or deleted."""

    name: str
    action: str
    dry_run: bool


async def run(options: ClientMetricsOptions, output: Output) -> None:
    """Performs the action that the options select."""
    action = _action(options)
    try:
        async with admin(options) as client:
            match action:
                case "alter":
                    await _alter(options, client, output)
                case "delete":
                    await _delete(options, client, output)
                case "describe":
                    await _describe(options, client, output)
                case _:
                    await _list(client, output)
    except KafkaError as error:
        output.say(f"Error while executing client metrics command : {error.message}")
        raise CommandError("" if output.is_text else error.message) from error


def _action(options: ClientMetricsOptions) -> str:
    chosen = [action for action in ACTIONS if options.has(action)]
    if len(chosen) != 1:
        raise UsageError("Command must include exactly one action: --alter, --delete, --describe or --list.")
    if not options.has("bootstrap-server"):
        raise UsageError("--bootstrap-server must be specified.")
    settings = ("generate-name", "interval", "match", "metrics")
    forbid(options, "delete", *settings)
    forbid(options, "describe", *settings)
    forbid(options, "list", "name", *settings)
    if options.alter:
        if options.has("name") == options.generate_name:
            raise CommandError("One of --name or --generate-name must be specified with --alter.")
        _check_interval(options.interval)
    if options.delete and not options.has("name"):
        raise CommandError("A client metrics resource name must be specified with --delete.")
    return chosen[0]


def _check_interval(text: str | None) -> None:
    if not text:
        return
    try:
        Kind.INTEGER.convert(text)
    except ValueError:
        raise CommandError("Invalid interval value. Enter an integer, or leave empty to reset.") from None


async def _alter(options: ClientMetricsOptions, client: AdminClient, output: Output) -> None:
    from kcli.model.uuids import uuid_to_text
    from kcli.runtime.rng import SystemRng

    name = options.name if options.name is not None else uuid_to_text(SystemRng().uuid())
    settings = {"interval.ms": options.interval} | {
        key: ",".join(separated(values))
        for key, values in (("metrics", options.metrics), ("match", options.match))
        if values
    }
    changes = [
        AlterConfig(name=key, value=value, op=ConfigOperation.SET if value else ConfigOperation.DELETE)
        for key, value in settings.items()
        if value is not None
    ]
    await _change(options, client, name, changes)
    _changed(output, SubscriptionChange(name, "alter", options.dry_run))


async def _delete(options: ClientMetricsOptions, client: AdminClient, output: Output) -> None:
    assert options.name is not None
    entries = await _entries(client, options.name)
    changes = [AlterConfig(name=entry.name, value=None, op=ConfigOperation.DELETE) for entry in entries]
    await _change(options, client, options.name, changes)
    _changed(output, SubscriptionChange(options.name, "delete", options.dry_run))


async def _change(
    options: ClientMetricsOptions, client: AdminClient, name: str, changes: list[AlterConfig]
) -> None:
    resource = _resource(name)
    results = await client.incremental_alter_configs({resource: changes}, validate_only=options.dry_run)
    error = results[resource]
    if error is not None:
        raise error


async def _describe(options: ClientMetricsOptions, client: AdminClient, output: Output) -> None:
    names = await _names(client)
    if options.name is not None:
        if options.name not in names:
            text = f"The client metric resource {options.name} doesn't exist and doesn't have dynamic config."
            if output.is_text:
                output.say(text)
            else:
                warn(text)
            return
        names = [options.name]
    for name in names:
        entries = await _entries(client, name)
        row = Subscription(name, {entry.name: entry.value for entry in entries})
        output.row(row, _described)


async def _list(client: AdminClient, output: Output) -> None:
    names = await _names(client)
    output.say("\n".join(names))
    if not output.is_text:
        output.rows([SubscriptionName(name) for name in names], lambda row: row.name)


async def _names(client: AdminClient) -> list[str]:
    resources = await client.list_config_resources([ConfigResourceType.CLIENT_METRICS])
    return sorted(resource.name for resource in resources)


async def _entries(client: AdminClient, name: str) -> list[ConfigEntry]:
    """Returns the settings of a subscription, sorted by name."""
    resource = _resource(name)
    config = (await client.describe_configs([resource]))[resource]
    if isinstance(config, KafkaError):
        raise config
    return sorted(config, key=lambda entry: entry.name)


def _resource(name: str) -> ConfigResource:
    return ConfigResource(ConfigResourceType.CLIENT_METRICS, name)


def _changed(output: Output, row: SubscriptionChange) -> None:
    done = {"alter": ("Altered", "Would alter"), "delete": ("Deleted", "Would delete")}[row.action][
        row.dry_run
    ]
    output.row(row, f"{done} client metrics config for {row.name}.")


def _described(row: Subscription) -> str:
    lines = [f"  {name}={'null' if value is None else value}" for name, value in row.configs.items()]
    return "\n".join([f"Client metrics configs for {row.name} are:", *lines])


command = Command(
    name="client-metrics",
    description="This tool helps to manipulate and describe client metrics configurations.",
    options=ClientMetricsOptions,
    run=run,
    examples=(
        Example(
            "Ask all Java producers for their metrics once a minute:",
            "kcli client-metrics --bootstrap-server localhost:9092 --alter \\\n"
            "  --name producers --metrics org.apache.kafka.producer. --interval 60000 \\\n"
            "  --match client_software_name=apache-kafka-java",
        ),
        Example(
            "Show the subscriptions:",
            "kcli client-metrics --bootstrap-server localhost:9092 --describe",
        ),
    ),
    exit_status=USUAL,
)

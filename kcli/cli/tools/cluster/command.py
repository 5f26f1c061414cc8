"""kafka-cluster: shows the cluster's id and endpoints, and unregisters brokers. Our own sub-commands are in `local`."""

from __future__ import annotations

from dataclasses import dataclass, replace

from kcli.cli.connect import ClusterOptions, admin
from kcli.cli.output import Output, java_text
from kcli.cli.syntax.options import Command, CommandError, Exclusive, Family, Kind, Subcommand, flag, option
from kcli.cli.tools.cluster.local import LOCAL_SUBCOMMANDS
from kcli.client.admin.admin import AdminClient
from kcli.client.admin.cluster import ClusterDescription
from kcli.client.client import Node
from kcli.command.examples import USUAL, Example
from kcli.errors import BrokerIdNotRegisteredException, ErrorCode, KafkaError

_ONE_CLUSTER = (Exclusive(names=("bootstrap-server", "bootstrap-controller"), required=True),)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterIdOptions(ClusterOptions):
    bootstrap_server: str | None = option(
        "The brokers to connect to first, as host:port,host:port.", short="b"
    )
    bootstrap_controller: str | None = option(
        "The controllers to connect to first, as host:port,host:port.", short="C"
    )
    config: str | None = option("A properties file with settings of the admin client.", short="c")
    command_config: str | None = option("The same as --config.")


@dataclass(frozen=True, slots=True, kw_only=True)
class UnregisterOptions(ClusterIdOptions):
    id: int = option("The id of the broker to unregister.", Kind.INTEGER, short="i", required=True)
    dry_run: bool = flag("Only check whether the broker is registered.")


@dataclass(frozen=True, slots=True, kw_only=True)
class ListEndpointsOptions(ClusterIdOptions):
    include_fenced_brokers: bool = flag("Include fenced brokers, which are registered but not in service.")


@dataclass(frozen=True, slots=True)
class ClusterIdRow:
    """The cluster's id."""

    cluster_id: str


@dataclass(frozen=True, slots=True)
class EndpointRow:
    """The address of a node."""

    id: int
    host: str
    port: int
    rack: str | None
    state: str | None
    endpoint_type: str


@dataclass(frozen=True, slots=True)
class UnregisteredRow:
    """A broker that was unregistered."""

    broker: int
    dry_run: bool


def _admin(options: ClusterIdOptions) -> AdminClient:
    options = replace(options, command_config=options.command_config or options.config)
    return admin(options, bootstrap_controller=options.bootstrap_controller)


async def cluster_id(options: ClusterIdOptions, output: Output) -> None:
    """Runs `cluster-id`."""
    async with _admin(options) as client:
        answer = await _told(client)
    output.row(ClusterIdRow(answer.cluster_id), f"Cluster ID: {answer.cluster_id}")


async def unregister(options: UnregisterOptions, output: Output) -> None:
    """Runs `unregister`."""
    async with _admin(options) as client:
        try:
            if options.dry_run:
                nodes = (await client.describe_cluster(include_fenced=True)).nodes
                if options.id not in [node.id for node in nodes]:
                    raise BrokerIdNotRegisteredException(
                        f"Broker ID {options.id} is not currently registered"
                    )
            else:
                await client.unregister_broker(options.id)
        except KafkaError as error:
            if error.code is ErrorCode.UNSUPPORTED_VERSION:
                raise CommandError(
                    "The target cluster does not support the broker unregistration API."
                ) from error
            raise CommandError(java_text(error)) from error
    text = f"Broker {options.id} is no longer registered."
    if options.dry_run:
        text = f"Broker {options.id} would no longer be registered."
    output.row(UnregisteredRow(options.id, options.dry_run), text)


async def list_endpoints(options: ListEndpointsOptions, output: Output) -> None:
    """Runs `list-endpoints`."""
    controllers = options.bootstrap_controller is not None
    if controllers and options.include_fenced_brokers:
        raise CommandError(
            "The option --include-fenced-brokers is only supported with --bootstrap-server option"
        )
    async with _admin(options) as client:
        nodes = (await _told(client, include_fenced=options.include_fenced_brokers)).nodes
    rows = [_row(node, controllers) for node in nodes]
    host = max((len(row.host) for row in rows), default=0)
    rack = max((len(row.rack) for row in rows if row.rack is not None), default=0) or 10
    output.say(
        _line("ID", "HOST", "PORT", "RACK", None if controllers else "STATE", "ENDPOINT_TYPE", host, rack)
    )
    output.rows(
        rows,
        lambda row: _line(
            str(row.id), row.host, str(row.port), row.rack or "null", row.state, row.endpoint_type, host, rack
        ),
    )


async def _told(client: AdminClient, *, include_fenced: bool = False) -> ClusterDescription:
    try:
        return await client.describe_cluster(include_fenced=include_fenced)
    except KafkaError as error:
        raise CommandError(java_text(error)) from error


def _row(node: Node, controller: bool) -> EndpointRow:
    state = None if controller else "fenced" if node.is_fenced else "unfenced"
    return EndpointRow(
        node.id, node.host, node.port, node.rack, state, "controller" if controller else "broker"
    )


def _line(
    id: str, host: str, port: str, rack: str, state: str | None, kind: str, host_width: int, rack_width: int
) -> str:
    columns = [f"{id:<10}", f"{host:<{host_width}}", f"{port:<10}", f"{rack:<{rack_width}}"]
    if state is not None:
        columns.append(f"{state:<10}")
    return " ".join([*columns, f"{kind:<15}"])


command = Command(
    name="cluster",
    description="The Kafka cluster tool.",
    family=Family.ARGPARSE4J,
    prog="kafka-cluster",
    subcommands=(
        Subcommand(
            name="cluster-id",
            help="Show the id of a cluster.",
            options=ClusterIdOptions,
            run=cluster_id,
            exclusive=_ONE_CLUSTER,
        ),
        Subcommand(
            name="unregister",
            help="Unregister a broker.",
            options=UnregisterOptions,
            run=unregister,
            exclusive=_ONE_CLUSTER,
        ),
        Subcommand(
            name="list-endpoints",
            help="Show the addresses of the nodes of a cluster.",
            options=ListEndpointsOptions,
            run=list_endpoints,
            exclusive=_ONE_CLUSTER,
        ),
        *LOCAL_SUBCOMMANDS,
    ),
    examples=(
        Example(
            "Print the id of the cluster:",
            "kcli cluster cluster-id --bootstrap-server localhost:9092",
        ),
        Example(
            "List the addresses of the brokers:",
            "kcli cluster list-endpoints --bootstrap-server localhost:9092",
        ),
        Example(
            "Start a cluster of three nodes, show their state, and stop them:",
            "kcli cluster up --nodes 3 --dir cluster --daemon\n"
            "kcli cluster status --dir cluster\n"
            "kcli cluster down --dir cluster",
            is_kafkas=False,
        ),
    ),
    exit_status=USUAL,
)

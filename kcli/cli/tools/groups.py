"""kafka-groups: lists the groups of all types (KIP-1043)."""

from __future__ import annotations

from dataclasses import dataclass

from kcli.cli.connect import ClusterOptions, admin
from kcli.cli.output import Output
from kcli.cli.syntax.options import Command, CommandError, UsageError, flag, option
from kcli.client.admin.groups import CLASSIC, CONSUMER, CONSUMER_PROTOCOL_TYPES
from kcli.command.examples import USUAL, Example
from kcli.errors import KafkaError

SHARE, STREAMS = "Share", "Streams"
TYPES = (CLASSIC, CONSUMER, SHARE, STREAMS)
WIDTH_MIN = 20
_KINDS = ("consumer", "share", "streams")


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupsOptions(ClusterOptions):
    bootstrap_server: str | None = option(
        "The brokers to connect to first, as host:port,host:port.",
        metavar="server to connect to",
        required=True,
    )
    list: bool = flag("List the groups.")
    group_type: str | None = option(
        "List only groups of this type: classic, consumer, share or streams.", metavar="type"
    )
    protocol: str | None = option("List only groups of this protocol type.", metavar="protocol")
    consumer: bool = flag("List only consumer groups, including classic groups and groups without members.")
    share: bool = flag("List only share groups.")
    streams: bool = flag("List only streams groups.")


@dataclass(frozen=True, slots=True)
class GroupRow:
    """A group of any type."""

    group: str
    type: str
    protocol: str


async def run(options: GroupsOptions, output: Output) -> None:
    group_type = _checked(options)
    try:
        async with admin(options) as client:
            listed = await client.list_groups()
    except KafkaError as error:
        output.say(f"Error while executing groups command : {error.message}")
        raise CommandError("" if output.is_text else error.message) from error
    # Brokers write group types in small letters, clients with a capital first letter.
    named = [GroupRow(group.group_id, group.type.capitalize(), group.protocol) for group in listed]
    rows = [row for row in named if _wanted(options, group_type, row)]
    cells = [cell for row in rows for cell in (row.group, row.type, row.protocol)]
    width = max([WIDTH_MIN, *map(len, cells)])

    def line(*columns: str) -> str:
        return "".join(f"{column:<{width}} " for column in columns)

    # As in Kafka's output, the rows end with a space, and the header does not.
    output.say(line("GROUP", "TYPE", "PROTOCOL")[:-1])
    output.rows(rows, lambda row: line(row.group, row.type, row.protocol))


def _checked(options: GroupsOptions) -> str | None:
    """Checks the options, and returns the type of groups to list."""
    if not options.list:
        raise UsageError("Command must include exactly one action: --list.")
    filters = ("group-type", "protocol")
    for kind in _KINDS:
        others = [name for name in (*_KINDS, *filters) if name != kind and options.has(name)]
        if options.has(kind) and others:
            raise UsageError(f'Option "[{kind}]" can\'t be used with option "[{others[0]}]"')
    if options.group_type is None:
        return None
    for name in TYPES:
        if name.lower() == options.group_type.lower():
            return name
    raise CommandError("--group-type must be a valid group type.")


def _wanted(options: GroupsOptions, group_type: str | None, group: GroupRow) -> bool:
    if options.consumer:
        return group.protocol in CONSUMER_PROTOCOL_TYPES or group.type == CONSUMER
    if options.share:
        return group.type == SHARE
    if options.streams:
        return group.type == STREAMS
    return group_type in (None, group.type) and options.protocol in (None, group.protocol)


command = Command(
    name="groups",
    description="This tool helps to list groups of all types.",
    options=GroupsOptions,
    run=run,
    examples=(
        Example(
            "List the groups of every type:",
            "kcli groups --bootstrap-server localhost:9092 --list",
        ),
        Example(
            "List share groups, one JSON object per line:",
            "kcli groups --bootstrap-server localhost:9092 --list --share --output json",
        ),
    ),
    exit_status=USUAL,
)

"""Lists groups (kafka-consumer-groups --list), and finds the groups for the other actions."""

from __future__ import annotations

from dataclasses import dataclass

from kcli.cli.output import Output, java_text
from kcli.cli.syntax.options import UsageError, java_split
from kcli.cli.tools.consumer_groups.failures import ExecutionError
from kcli.cli.tools.consumer_groups.options import ConsumerGroupsOptions
from kcli.client.admin.admin import AdminClient
from kcli.client.admin.groups import CONSUMER_PROTOCOL_TYPES, GroupListing
from kcli.client.client import AUTHENTICATION_ERRORS
from kcli.errors import KafkaError
from kcli.model.java_order import map_order, string_hash
from kcli.model.java_text import trim

STATES = (
    "Stable",
    "CompletingRebalance",
    "PreparingRebalance",
    "Assigning",
    "Empty",
    "Reconciling",
    "Dead",
)
INACTIVE = ("Empty", "Dead")
TYPES = {"consumer": "Consumer", "classic": "Classic"}


@dataclass(frozen=True, slots=True)
class ListRow:
    """One line of --list."""

    group: str
    type: str
    state: str


async def chosen_groups(options: ConsumerGroupsOptions, client: AdminClient) -> list[str]:
    """Returns the groups that the options name, or all consumer groups."""
    if not options.all_groups:
        return list(options.group)
    return [group.group_id for group in await _consumer_groups(client)]


async def _consumer_groups(
    client: AdminClient, states: tuple[str, ...] = (), types: tuple[str, ...] = ()
) -> list[GroupListing]:
    """Lists the groups that keep offsets for consumers, in the order of Java's hash map.

    Share groups and streams groups are left out.
    """
    try:
        listed = await client.list_groups(states=states, types=types)
    except AUTHENTICATION_ERRORS as error:
        # Java's client cannot list the brokers without a login. The client has logged the reason.
        raise ExecutionError(
            "java.util.concurrent.ExecutionException: org.apache.kafka.common.KafkaException: "
            "Failed to find brokers to send ListGroups"
        ) from error
    except KafkaError as error:
        raise ExecutionError(f"java.util.concurrent.ExecutionException: {java_text(error)}") from error
    by_id = {
        group.group_id: group
        for group in listed
        if group.protocol in CONSUMER_PROTOCOL_TYPES and group.type.lower() in ("", *TYPES)
    }
    return [by_id[group_id] for group_id in map_order(by_id, string_hash)]


async def list_groups(options: ConsumerGroupsOptions, client: AdminClient, output: Output) -> None:
    """Prints the consumer groups, with their types and states if the options ask for them."""
    states = _filter(options.state, STATES, "Invalid state list '{}'. Valid states are: {}")
    types = _filter(options.type, tuple(TYPES.values()), "Invalid types list '{}'. Valid types are: {}")
    groups = await _consumer_groups(client, states, tuple(name.lower() for name in types))
    rows = [
        ListRow(group.group_id, TYPES.get(group.type.lower(), group.type), group.state) for group in groups
    ]
    shows_type, shows_state = options.has("type"), options.has("state")
    if not shows_type and not shows_state:
        output.rows(rows, lambda row: row.group)
        return
    width = max([15, *(len(row.group) for row in rows)]) + 10

    def line(row: ListRow) -> str:
        cells = [f"{row.group:<{width}}"]
        cells += [f"{row.type:<20}"] if shows_type else []
        cells += [f"{row.state:<20}"] if shows_state else []
        return " ".join(cells)

    output.say(line(ListRow("GROUP", "TYPE", "STATE")))
    output.rows(rows, line)


def _filter(text: str | None, known: tuple[str, ...], complaint: str) -> tuple[str, ...]:
    """Returns the names of a comma-separated list in Kafka's spelling. Raises UsageError for an unknown name."""
    if not text:
        return ()
    spelling = {name.lower(): name for name in known}
    names = [trim(name).lower() for name in java_split(text)]
    if any(name not in spelling for name in names):
        raise UsageError(complaint.format(text, ", ".join(known)))
    return tuple(spelling[name] for name in dict.fromkeys(names))

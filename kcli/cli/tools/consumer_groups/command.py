"""kafka-consumer-groups: list, describe and delete consumer groups, reset and delete their offsets.

What goes wrong after the command line was understood is told on stdout as `Error: …`, and the exit code is 0, as
Kafka's own tool has it. The actions live beside this module; here is the command line.
"""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from kcli.cli.connect import ClusterOptions, admin
from kcli.cli.java.order import map_order, string_hash
from kcli.cli.output import Output, java_text, warn
from kcli.cli.syntax.jopt import let_through
from kcli.cli.syntax.options import (
    Command,
    CommandError,
    Kind,
    OnParseError,
    ParseError,
    UsageError,
    flag,
    forbid,
    java_split,
    option,
    require,
)
from kcli.cli.watch import DEFAULT_SECONDS, check_interval, watch
from kcli.client.admin.admin import AdminClient
from kcli.client.admin.groups import GroupListing
from kcli.errors import KafkaError

ACTIONS = ("list", "describe", "delete", "reset-offsets", "delete-offsets", "validate-regex")
SCENARIOS = (
    "to-offset",
    "to-current",
    "to-datetime",
    "from-file",
    "by-duration",
    "to-earliest",
    "to-latest",
    "shift-by",
)
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
CONSUMER_PROTOCOLS = ("", "consumer")
DEFAULT_TIMEOUT_MS = 30_000

DRY_RUN_WARNING = (
    "WARN: No action will be performed as the --execute option is missing. In a future major release, the default "
    "behavior of this command will be to prompt the user before executing the reset rather than doing a dry run. "
    "You should add the --dry-run option explicitly if you are scripting this command and want to keep the current "
    "default behavior without prompting."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupsOptions(ClusterOptions):
    list: bool = flag("List the consumer groups.")
    describe: bool = flag("Describe groups: their offsets and lag (or --members, --state).")
    delete: bool = flag("Delete groups without members, with all their offsets.")
    reset_offsets: bool = flag(
        "Move the offsets of an inactive group; a dry run unless --execute is given. Needs a scope (--all-topics or "
        "--topic) and one scenario."
    )
    delete_offsets: bool = flag("Delete the offsets of a group for the topics given.")
    validate_regex: str | None = option(
        "Say whether a regular expression is one that brokers take (RE2).", metavar="regex"
    )
    group: tuple[str, ...] = option("A group to act on.", metavar="consumer group", repeatable=True)
    all_groups: bool = flag("Act on all groups.")
    topic: tuple[str, ...] = option(
        "A topic to act on, or some of its partitions as topic:0,1,2.", metavar="topic", repeatable=True
    )
    all_topics: bool = flag("Reset the offsets of every topic the group has some for.")
    members: bool = flag("Describe the members.")
    offsets: bool = flag("Describe the offsets (what --describe does by default).")
    verbose: bool = flag("Describe more.")
    state: str | None = option(
        "With --describe: the state. With --list: show the states, and only groups in those named.",
        metavar="states",
        optional_argument=True,
        bare_value="",
    )
    type: str | None = option(
        "With --list: show the types, and only groups of those named (classic, consumer).",
        metavar="types",
        optional_argument=True,
        bare_value="",
    )
    timeout: int | None = option(
        "How long a call to the cluster may take in all.",
        Kind.LONG,
        metavar="timeout (ms)",
        default=DEFAULT_TIMEOUT_MS,
    )
    dry_run: bool = flag("Show what --reset-offsets, --delete or --delete-offsets would do.")
    execute: bool = flag("Do what --reset-offsets shows.")
    export: bool = flag("Print the new offsets as CSV, which --from-file takes.")
    to_offset: str | None = option("Reset to this offset.", metavar="Long: offset")
    shift_by: str | None = option(
        "Reset to this far from the committed offset; may be negative.", metavar="Long"
    )
    to_datetime: str | None = option(
        "Reset to the first record since a moment, YYYY-MM-DDTHH:mm:ss.sss[Z|±hh[:mm]].", metavar="datetime"
    )
    by_duration: str | None = option(
        "Reset to the first record since a while ago, as an ISO 8601 duration: PnDTnHnMnS.",
        metavar="duration",
    )
    to_earliest: bool = flag("Reset to the first offset.")
    to_latest: bool = flag("Reset to the end.")
    to_current: bool = flag("Reset to the committed offset.")
    from_file: str | None = option("Reset to the offsets of a CSV file.", metavar="path to CSV file")
    lag_seconds: bool = flag(
        "With --describe: the age of the first record that the group has not consumed yet. --output json and --watch "
        "have it without being asked."
    )
    watch: float | None = option(
        "With --describe: again and again, every so many seconds (2), until Ctrl-C.",
        Kind.DOUBLE,
        metavar="seconds",
        optional_argument=True,
        bare_value=DEFAULT_SECONDS,
    )
    yes: bool = flag("With --delete: do not ask, as happens away from a terminal.")

    @property
    def only_group(self) -> str | None:
        """The group, where exactly one is named: its CSV lines leave it out."""
        return self.group[0] if len(self.group) == 1 else None


@dataclass(frozen=True, slots=True)
class ListRow:
    """One line of --list."""

    group: str
    type: str
    state: str


Action = Callable[[ConsumerGroupsOptions, AdminClient, Output], Awaitable[None]]


class ExecutionError(Exception):
    """What went wrong, in the words of Java's exception."""


async def run(options: ConsumerGroupsOptions, output: Output) -> None:
    """Check the options as Kafka does, then do the one action."""
    _check(options)
    if options.validate_regex is not None:
        from kcli.cli.tools.consumer_groups.regex import verdict

        output.say(verdict(options.validate_regex))
        return
    try:
        client = admin(options)
    except CommandError as error:
        _tell_no_client(output, error)
        return
    async with client:
        if options.watch is None:
            await _act(options, client, output)
        else:
            await watch(options.watch, functools.partial(_act, options, client), output.format)


async def _act(options: ConsumerGroupsOptions, client: AdminClient, output: Output) -> None:
    """Do it once; what goes wrong is told."""
    try:
        await _action(options)(options, client, output)
    except ExecutionError as error:
        failed(output, f"Executing consumer group command failed due to {error}")
    except KafkaError as error:
        execution_failed(output, error)


def _tell_no_client(output: Output, error: CommandError) -> None:
    """Kafka's tool makes its client where all failures are told; the reason it hides goes to stderr."""
    if isinstance(error.__cause__, FileNotFoundError):
        reason = f"java.nio.file.NoSuchFileException: {error}"
    else:
        reason = "Failed to create new KafkaAdminClient"
        warn(str(error))
    failed(output, f"Executing consumer group command failed due to {reason}")


def execution_failed(output: Output, error: KafkaError) -> None:
    """Kafka's words for whatever a broker or the way to it refused."""
    failed(output, f"Executing consumer group command failed due to {java_text(error)}")


def failed(output: Output, message: str) -> None:
    """Kafka's way to tell an error: on stdout, after an empty line."""
    if output.is_text:
        output.say(f"\nError: {message}")
    else:
        warn(f"Error: {message}")


def _action(options: ConsumerGroupsOptions) -> Action:
    from kcli.cli.tools.consumer_groups import (
        delete as consumer_groups_delete,
    )
    from kcli.cli.tools.consumer_groups import (
        describe as consumer_groups_describe,
    )
    from kcli.cli.tools.consumer_groups import (
        reset as consumer_groups_reset,
    )

    if options.list:
        return _list
    if options.describe:
        return consumer_groups_describe.describe
    if options.delete:
        return consumer_groups_delete.delete_groups
    if options.reset_offsets:
        return consumer_groups_reset.reset
    return consumer_groups_delete.delete_offsets


def _check(options: ConsumerGroupsOptions) -> None:
    _check_availability(options)
    check_interval(options.watch)
    if not options.has("validate-regex"):
        require(options, "bootstrap-server")
    if options.describe:
        _check_describe(options)
        forbid(options, "lag-seconds", "members", "state")
    if options.delete:
        _require_groups(options, "delete")
        if options.topic:
            raise UsageError(
                "The consumer does not support topic-specific offset deletion from a consumer group."
            )
    if options.delete_offsets and not (options.group and options.topic):
        raise UsageError("Option [delete-offsets] takes the following options: [topic], [group]")
    if options.reset_offsets:
        _check_reset(options)
    elif options.dry_run and (options.delete or options.delete_offsets):
        warn(
            "WARN: With --dry-run nothing is deleted here; Kafka's own tool takes no notice of it and deletes."
        )
    forbid(options, "group", "all-groups", "list")
    forbid(options, "topic", "list", "describe")
    if sum(options.has(action) for action in ACTIONS) != 1:
        shown = ", ".join(f"--{action}" for action in ACTIONS)
        raise UsageError(f"Command must include exactly one action: {shown}")


def _check_availability(options: ConsumerGroupsOptions) -> None:
    """joptsimple's own conditions; Kafka lets its exception end the program."""
    misplaced = [
        name for name in ("members", "offsets", "verbose") if options.has(name) and not options.describe
    ]
    if options.has("state") and not (options.describe or options.list):
        misplaced.append("state")
    if options.has("type") and not options.list:
        misplaced.append("type")
    misplaced += [name for name in ("lag-seconds", "watch") if options.has(name) and not options.describe]
    if misplaced:
        shown = ", ".join(misplaced)
        raise CommandError(
            'Exception in thread "main" joptsimple.UnavailableOptionException: '
            f"Option(s) [{shown}] are unavailable given other options on the command line"
        )


def _check_describe(options: ConsumerGroupsOptions) -> None:
    _require_groups(options, "describe")
    if sum(options.has(name) for name in ("members", "offsets", "state")) > 1:
        raise UsageError(
            "Option [describe] takes at most one of these options: [members], [offsets], [state]"
        )
    if options.state:
        raise UsageError("Option [describe] does not take a value for [state]")


def _check_reset(options: ConsumerGroupsOptions) -> None:
    if not (options.dry_run or options.execute):
        warn(DRY_RUN_WARNING)
    if options.dry_run and options.execute:
        raise UsageError("Option [reset-offsets] only accepts one of [execute] and [dry-run]")
    _require_groups(options, "reset-offsets")
    for scenario in (
        "to-offset",
        "to-datetime",
        "by-duration",
        "to-earliest",
        "to-latest",
        "to-current",
        "shift-by",
    ):
        forbid(options, scenario, *(other for other in SCENARIOS if other != scenario))


def _require_groups(options: ConsumerGroupsOptions, action: str) -> None:
    if not (options.group or options.all_groups):
        raise UsageError(f"Option [{action}] takes one of these options: [all-groups], [group]")


# The groups to act on


async def chosen_groups(options: ConsumerGroupsOptions, client: AdminClient) -> list[str]:
    """The groups named, or all consumer groups."""
    if not options.all_groups:
        return list(options.group)
    return [group.group_id for group in await _consumer_groups(client)]


async def _consumer_groups(
    client: AdminClient, states: tuple[str, ...] = (), types: tuple[str, ...] = ()
) -> list[GroupListing]:
    """Those that keep offsets for consumers, in the order of Java's table; share and streams groups are not."""
    try:
        listed = await client.list_groups(states=states, types=types)
    except KafkaError as error:
        raise ExecutionError(f"java.util.concurrent.ExecutionException: {java_text(error)}") from error
    by_id = {
        group.group_id: group
        for group in listed
        if group.protocol in CONSUMER_PROTOCOLS and group.type.lower() in ("", *TYPES)
    }
    return [by_id[group_id] for group_id in map_order(by_id, string_hash)]


async def _list(options: ConsumerGroupsOptions, client: AdminClient, output: Output) -> None:
    states = _filter(options.state, STATES, "Invalid state list '{}'. Valid states are: {}")
    types = _filter(options.type, tuple(TYPES.values()), "Invalid types list '{}'. Valid types are: {}")
    groups = await _consumer_groups(client, states, tuple(name.lower() for name in types))
    rows = [ListRow(each.group_id, TYPES.get(each.type.lower(), each.type), each.state) for each in groups]
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
    """The names of a comma list, in Kafka's spelling. Raises UsageError for one that is not known."""
    if not text:
        return ()
    spelling = {name.lower(): name for name in known}
    wanted = [name.strip().lower() for name in java_split(text)]
    if any(name not in spelling for name in wanted):
        raise UsageError(complaint.format(text, ", ".join(known)))
    return tuple(spelling[name] for name in dict.fromkeys(wanted))


def _parse_failed(error: ParseError) -> int:
    """What is found out late is a failure like any other."""
    if not error.is_late:
        return let_through(error)
    failed(Output(), f"Executing consumer group command failed due to {error}")
    return 0


command = Command(
    name="consumer-groups",
    description="This tool helps to list all consumer groups, describe a consumer group, delete consumer group info, "
    "or reset consumer group offsets.",
    options=ConsumerGroupsOptions,
    run=run,
    on_parse_error=OnParseError.MESSAGE,
    parse_failed=_parse_failed,
)

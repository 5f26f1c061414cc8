"""The options of kafka-consumer-groups, and the rules that say which options may be combined."""

from __future__ import annotations

from dataclasses import dataclass

from kcli.cli.connect import ClusterOptions
from kcli.cli.output import warn
from kcli.cli.syntax.options import CommandError, Kind, UsageError, flag, forbid, option, require
from kcli.cli.watch import DEFAULT_SECONDS, check_interval

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
    describe: bool = flag(
        "Describe the offsets and lag of groups. With --members or --state, describe the members or the "
        "states of the groups."
    )
    delete: bool = flag("Delete groups that have no members, and all offsets of these groups.")
    reset_offsets: bool = flag(
        "Reset the offsets of a group that has no active members. Without --execute, the new offsets are "
        "only shown. Needs the topics (--all-topics or --topic) and the new position (for example "
        "--to-earliest)."
    )
    delete_offsets: bool = flag("Delete the offsets of a group for the topics in --topic.")
    validate_regex: str | None = option(
        "Check whether brokers accept a regular expression (RE2).", metavar="regex"
    )
    group: tuple[str, ...] = option("The id of a group.", metavar="consumer group", repeatable=True)
    all_groups: bool = flag("Use all groups.")
    topic: tuple[str, ...] = option(
        "A topic for --reset-offsets or --delete-offsets. Write topic:0,1,2 to use only these partitions.",
        metavar="topic",
        repeatable=True,
    )
    all_topics: bool = flag("Reset the offsets of all topics for which the group has committed offsets.")
    members: bool = flag("Describe the members.")
    offsets: bool = flag("Describe the offsets (the default of --describe).")
    verbose: bool = flag("With --describe: show more columns.")
    state: str | None = option(
        "With --describe or --list: show the state of each group. With --list and an argument, only groups "
        "in these states are listed.",
        metavar="states",
        optional_argument=True,
        bare_value="",
    )
    type: str | None = option(
        "With --list: show the type of each group. With an argument, only groups of these types (classic, "
        "consumer) are listed.",
        metavar="types",
        optional_argument=True,
        bare_value="",
    )
    timeout: int | None = option(
        "The time limit for a call to the cluster, including retries, in milliseconds.",
        Kind.LONG,
        metavar="timeout (ms)",
        default=DEFAULT_TIMEOUT_MS,
    )
    dry_run: bool = flag(
        "Print what --reset-offsets, --delete or --delete-offsets would do, but change nothing."
    )
    execute: bool = flag("Apply the changes that --reset-offsets shows.")
    export: bool = flag("Print the new offsets as CSV, which --from-file can read.")
    to_offset: str | None = option("Reset to this offset.", metavar="Long: offset")
    shift_by: str | None = option(
        "Reset to the committed offset plus this number, which may be negative.", metavar="Long"
    )
    to_datetime: str | None = option(
        "Reset to the first record at or after a time, YYYY-MM-DDTHH:mm:ss.sss[Z|±hh[:mm]].",
        metavar="datetime",
    )
    by_duration: str | None = option(
        "Reset to the first record that is not older than this duration (ISO 8601: PnDTnHnMnS).",
        metavar="duration",
    )
    to_earliest: bool = flag("Reset to the first offset.")
    to_latest: bool = flag("Reset to the end.")
    to_current: bool = flag("Reset to the committed offset.")
    from_file: str | None = option("Reset to the offsets of a CSV file.", metavar="path to CSV file")
    lag_seconds: bool = flag(
        "With --describe: also show the age of the first record that the group has not consumed. --output "
        "json and --watch always show this age."
    )
    watch: float | None = option(
        "With --describe: repeat at this interval in seconds (default 2), until Ctrl-C. Also show the state of each "
        "partition (OK, WARN, STOP, REWIND), the time until its lag is zero, and the reason for this state. With "
        "--members or --state, show the lag and the worst state of each member or group.",
        Kind.DOUBLE,
        metavar="seconds",
        optional_argument=True,
        bare_value=DEFAULT_SECONDS,
    )
    yes: bool = flag(
        "With --delete: do not ask before deleting. The command asks only if it runs on a terminal."
    )

    @property
    def only_group(self) -> str | None:
        """The group, if exactly one is named. In this case CSV lines have no column for the group."""
        return self.group[0] if len(self.group) == 1 else None


def check(options: ConsumerGroupsOptions) -> None:
    """Raises UsageError or CommandError for options that Kafka refuses, in Kafka's order and with Kafka's messages."""
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
    """Checks the conditions that joptsimple itself checks. In Kafka, the exception of joptsimple ends the program."""
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

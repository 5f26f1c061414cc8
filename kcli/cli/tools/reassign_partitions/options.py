"""The options of kafka-reassign-partitions, and the rules about their combination."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kcli.cli.connect import ClusterOptions
from kcli.cli.syntax.options import Kind, UsageError, flag, option, require
from kcli.cli.watch import DEFAULT_SECONDS, check_interval

KAFKA_ACTIONS = ("generate", "execute", "verify", "cancel", "list")
ACTIONS = (*KAFKA_ACTIONS, "balance", "decommission", "undo")
REQUIRED: Mapping[str, tuple[str, ...]] = {
    "generate": ("topics-to-move-json-file", "broker-list"),
    "execute": ("reassignment-json-file",),
    "verify": ("reassignment-json-file",),
    "cancel": ("reassignment-json-file",),
    "list": (),
    "balance": (),
    "decommission": (),
    "undo": (),
}
PERMITTED: Mapping[str, tuple[str, ...]] = {
    "generate": ("bootstrap-server", "disable-rack-aware"),
    "execute": (
        "bootstrap-server",
        "additional",
        "throttle",
        "replica-alter-log-dirs-throttle",
        "timeout",
        "disallow-replication-factor-change",
        "dry-run",
    ),
    "verify": ("bootstrap-server", "preserve-throttles", "watch"),
    "cancel": ("bootstrap-server", "bootstrap-controller", "preserve-throttles", "timeout", "dry-run"),
    "list": ("bootstrap-server", "bootstrap-controller"),
    "balance": (
        "bootstrap-server",
        "topics",
        "replication-factor",
        "disable-rack-aware",
        "throttle",
        "dry-run",
        "yes",
    ),
    "decommission": (
        "bootstrap-server",
        "replication-factor",
        "disable-rack-aware",
        "throttle",
        "dry-run",
        "yes",
    ),
    "undo": ("bootstrap-server", "throttle", "dry-run", "yes"),
}
ALWAYS_PERMITTED = frozenset({"command-config", "output"})
MOVE_TIMEOUT_MS = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ReassignOptions(ClusterOptions):
    bootstrap_controller: str | None = option(
        "With --cancel or --list: the controllers to connect to first, as host:port,host:port.",
        metavar="bootstrap controller to connect to",
    )
    generate: bool = flag("Propose an assignment of the topics' partitions to the brokers. Nothing is moved.")
    execute: bool = flag("Start the moves in the file of --reassignment-json-file.")
    verify: bool = flag(
        "Report the progress of the moves in the file of --reassignment-json-file. When all moves are done, remove the "
        "throttles."
    )
    cancel: bool = flag("Cancel the moves in the file of --reassignment-json-file.")
    list_: bool = flag("List the partitions that are being moved.", name="list")
    balance: bool = flag(
        "Spread replicas, leaders and bytes evenly over the brokers with few moves, and keep the replicas of a "
        "partition in different racks. Moves are made in batches. No batch starts while a partition is below "
        "min.insync.replicas. If the command is interrupted, run it again to continue."
    )
    decommission: str | None = option(
        "The ids of brokers, separated by commas. Move all replicas away from these brokers, and balance the other "
        "brokers.",
        metavar="brokers",
    )
    undo: str | None = option(
        "Move the partitions back to the replicas in this undo file. --balance, --decommission and --undo write such "
        "a file. --execute also accepts an undo file.",
        metavar="undo file path",
    )
    topics: str | None = option(
        "With --balance: a regular expression for topic names. Only the topics that match are balanced. The other "
        "topics are ignored. A comma separates alternatives, as in orders,payments.*.",
        metavar="topics",
    )
    replication_factor: int | None = option(
        "With --balance or --decommission: the new number of replicas of each partition.",
        Kind.INTEGER,
        metavar="replicas",
    )
    yes: bool = flag(
        "With --balance, --decommission or --undo: do not ask before moving. The command asks only if it runs on a "
        "terminal."
    )
    topics_to_move_json_file: str | None = option(
        'A JSON file for --generate: {"topics": [{"topic": "foo"}], "version": 1}.',
        metavar="topics to reassign json file path",
    )
    broker_list: str | None = option(
        "With --generate: the ids of the brokers that may get replicas, separated by commas.",
        metavar="brokerlist",
    )
    reassignment_json_file: str | None = option(
        'A JSON file with the moves: {"partitions": [{"topic": "foo", "partition": 1, "replicas": [1, 2], '
        '"log_dirs": ["any", "/data"]}], "version": 1}. log_dirs is optional.',
        metavar="manual assignment json file path",
    )
    disable_rack_aware: bool = flag("Ignore the racks of the brokers.")
    additional: bool = flag("Start even if other moves are in progress.")
    throttle: int | None = option(
        "The maximum rate of moves between brokers, in bytes per second. The default of --balance, --decommission and "
        "--undo is 50 MB/s, or 3 times the write rate of the busiest broker if that rate is higher. These actions "
        "always remove the throttle at the end.",
        Kind.LONG,
        metavar="throttle",
    )
    replica_alter_log_dirs_throttle: int | None = option(
        "The maximum rate of moves between the log directories of a broker, in bytes per second.",
        Kind.LONG,
        metavar="replicaAlterLogDirsThrottle",
    )
    timeout: int | None = option(
        "How long to wait until moves between log directories begin, in milliseconds.",
        Kind.LONG,
        metavar="timeout",
        default=MOVE_TIMEOUT_MS,
    )
    preserve_throttles: bool = flag("Do not change or remove throttles.")
    disallow_replication_factor_change: bool = flag("Refuse moves that change the number of replicas.")
    watch: float | None = option(
        "With --verify: repeat at this interval in seconds (default 2), until all moves are done or Ctrl-C.",
        Kind.DOUBLE,
        metavar="seconds",
        optional_argument=True,
        bare_value=DEFAULT_SECONDS,
    )
    dry_run: bool = flag("Check the request and print its effect, but change nothing.")


def checked(options: ReassignOptions) -> str:
    """Checks the options, and returns the action. Raises UsageError if they are invalid."""
    chosen = [action for action in ACTIONS if options.has(action)]
    if len(chosen) != 1:
        # Kafka's message does not have the actions that only kcli has.
        offered = KAFKA_ACTIONS if set(chosen) <= set(KAFKA_ACTIONS) else ACTIONS
        raise UsageError(
            f"Command must include exactly one action: {', '.join(f'--{action}' for action in offered)}"
        )
    (action,) = chosen
    server, controller = options.has("bootstrap-server"), options.has("bootstrap-controller")
    if server and controller:
        raise UsageError("Please don't specify both --bootstrap-server and --bootstrap-controller")
    if not server and not controller:
        raise UsageError("Please specify either --bootstrap-server or --bootstrap-controller")
    require(options, *REQUIRED[action])
    permitted = {action, *REQUIRED[action], *PERMITTED[action], *ALWAYS_PERMITTED}
    for name in sorted(options.given - permitted):
        raise UsageError(f'Option "[{name}]" can\'t be used with action "[{action}]"')
    check_interval(options.watch)
    for name, value in (("throttle", options.throttle), ("replication-factor", options.replication_factor)):
        if action not in KAFKA_ACTIONS and value is not None and value < 1:
            raise UsageError(f"--{name} {value}: expected a positive number")
    return action

"""What the built-in jobs share on their command line: parsing, the configuration file, topics, modes.

Precedence is flag, then configuration file, then default. A file says `bootstrap.servers=…` for every job, or
`export.format=…` for one; options are spelt with dots for dashes.
"""

from __future__ import annotations

import argparse
import importlib.util
import sys
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, closing
from typing import TYPE_CHECKING, NoReturn

from kcli.config.properties import load
from kcli.errors import KcliError
from kcli.spark.cluster import Cluster
from kcli.spark.offsets import OffsetRange, batch_ranges
from kcli.spark.options import SourceOptions, sink_options, source_options
from kcli.spark.submit import JOBS

if TYPE_CHECKING:
    from kcli.spark.log_directory import LogDirectories

MODES = ("batch", "available-now", "continuous")
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
ALIASES = {"bootstrap.servers": "bootstrap.server"}
"""Kafka's own spelling in files, and its spelling on command lines."""

SHARED_KEYS = frozenset(
    {
        "trigger.interval",
        "compression.type",
        "max.offsets.per.trigger",
        "on.bad.record",
        "dead.letter.topic",
        "read.committed",
    }
)
"""Keys that may stand for all jobs in a file; a job that has no such option passes over them without a word."""


STREAM_OPTIONS = (
    "--max-offsets-per-trigger",
    "--max-files-per-trigger",
    "--max-rows-per-trigger",
    "--output-mode",
    "--at-least-once",
)
"""What says nothing to a batch."""


class JobError(KcliError):
    """The job cannot be done as asked: one line for the user."""


class JobParser(argparse.ArgumentParser):
    """Wrong words end with exit code 1, as in every kcli command, and without abbreviations of options."""

    def __init__(self, job: str, description: str) -> None:
        super().__init__(
            prog=f"kcli spark-submit [SPARK OPTIONS] {job}", description=description, allow_abbrev=False
        )
        self.job = job

    def error(self, message: str) -> NoReturn:
        self.print_usage(sys.stderr)
        self.exit(1, f"{self.job}: {message}\n")

    def parse(self, argv: Sequence[str]) -> argparse.Namespace:
        """Parse, with the options of `--config` before those of the command line."""
        path = _config_path(argv)
        words = self._words_of(path, argv) if path is not None else []
        options = self.parse_args([*words, *argv])
        options.given = {word.partition("=")[0] for word in argv}
        return options

    def checked(
        self, argv: Sequence[str], check: Callable[[argparse.Namespace], object]
    ) -> argparse.Namespace:
        """Parse, and `check` what argparse cannot say; exits with code 1 where that raises."""
        options = self.parse(argv)
        try:
            check(options)
        except (OSError, ValueError, JobError) as error:
            self.error(str(error))
        return options

    def _words_of(self, path: str, argv: Sequence[str]) -> list[str]:
        """The file's options as words, but for those that one of `argv` takes the place of."""
        try:
            properties = load(path)
        except (OSError, ValueError) as error:
            self.error(f"--config {path}: {error}")
        known = {word: action for action in self._actions for word in action.option_strings}
        given = {known.get(word.partition("=")[0]) for word in argv}
        replaced = [
            each
            for group in self._mutually_exclusive_groups
            for each in group._group_actions
            if given & {*group._group_actions}
        ]
        words: list[str] = []
        for key, value in properties.items():
            job, _, rest = key.partition(".")
            if job in JOBS and job != self.job:
                continue
            name = rest if job == self.job else key
            action = known.get("--" + ALIASES.get(name, name).replace(".", "-"))
            if action is None:
                if key not in SHARED_KEYS:
                    print(f"{self.job}: {path}: {key} is not an option of this job", file=sys.stderr)
            elif action in replaced:
                continue
            elif action.nargs != 0:
                words += [action.option_strings[0], value]
            elif value.lower() == "true":
                words.append(action.option_strings[0])
            elif value.lower() != "false":
                self.error(f"--config {path}: {key} is {value!r}; expected true or false")
        return words


def _config_path(argv: Sequence[str]) -> str | None:
    for nth, word in enumerate(argv):
        if word == "--config" and nth + 1 < len(argv):
            return argv[nth + 1]
        if word.startswith("--config="):
            return word.partition("=")[2]
    return None


def add_common(parser: JobParser, *, offline: bool = False) -> None:
    """The options of every job. `offline`: it can also read log directories, without a broker."""
    if not offline:
        parser.add_argument("--bootstrap-server", required=True, metavar="HOST:PORT", help="The cluster.")
    else:
        where = parser.add_mutually_exclusive_group(required=True)
        where.add_argument("--bootstrap-server", metavar="HOST:PORT", help="The cluster.")
        where.add_argument(
            "--log-dir",
            metavar="DIR[,DIR]",
            help="Read the log directories of a broker, live or copied, and no cluster.",
        )
    parser.add_argument(
        "--command-config",
        metavar="FILE",
        help="Client properties for its connections (security, time-outs).",
    )
    parser.add_argument(
        "--config", metavar="FILE", help="Defaults for these options (config/pipeline.properties)."
    )
    parser.add_argument("--dry-run", action="store_true", help="Show what would be done; starts no Spark.")
    parser.add_argument(
        "--output", choices=("text", "json"), default="text", help="Of the summary (default: text)."
    )
    parser.add_argument(
        "--progress-interval",
        type=float,
        default=5.0,
        metavar="SECONDS",
        help="Time between lines of progress on stderr; 0: none (default: 5).",
    )


def add_mode(parser: JobParser) -> None:
    """Of the jobs that can also be a stream."""
    parser.add_argument(
        "--mode",
        choices=MODES,
        default="batch",
        help="batch: once; available-now: what is new since the last run, in micro-batches; continuous: until stopped.",
    )
    parser.add_argument("--checkpoint", metavar="DIR", help="Where a stream remembers how far it got.")
    parser.add_argument(
        "--trigger-interval",
        metavar="TEXT",
        default="1 second",
        help="Time between the micro-batches of --mode continuous (default: 1 second).",
    )


def refuse_idle(options: argparse.Namespace, idle: Iterable[str], use: str) -> None:
    """An option of the command line that would do nothing is refused; a file of defaults may serve other runs."""
    for option in idle:
        if option in options.given:
            raise JobError(f"{option} is for {use}; here it would do nothing")


def check_mode(options: argparse.Namespace) -> None:
    if options.mode == "batch":
        refuse_idle(options, STREAM_OPTIONS, "--mode available-now or continuous")
    if options.mode != "continuous":
        refuse_idle(options, ["--trigger-interval"], "--mode continuous")
    if options.mode == "batch" and options.checkpoint is not None:
        raise JobError("--checkpoint is for --mode available-now or continuous")
    if options.mode != "batch" and options.checkpoint is None:
        raise JobError(f"--mode {options.mode} needs --checkpoint")


def add_source(parser: JobParser, *, topics_required: bool = True) -> None:
    """Of the jobs that read topics: which, and from where to where."""
    what = parser.add_mutually_exclusive_group(required=topics_required)
    what.add_argument("--topic", metavar="NAME[,NAME]", help="The topics to read.")
    what.add_argument("--topic-pattern", metavar="REGEX", help="All topics whose whole name matches.")
    add_range(parser)


def add_range(parser: JobParser) -> None:
    parser.add_argument(
        "--starting-offsets",
        default="earliest",
        metavar="TEXT",
        help='earliest, latest or {"topic":{"0":23}}.',
    )
    parser.add_argument("--ending-offsets", metavar="TEXT", help="latest (default) or JSON; batch only.")
    parser.add_argument("--starting-timestamp", metavar="MS", help="From the first record as late as this.")
    parser.add_argument(
        "--ending-timestamp", metavar="MS", help="Up to the first record as late as this; batch only."
    )
    parser.add_argument("--max-offsets-per-trigger", metavar="N", help="The size of a micro-batch.")
    parser.add_argument("--min-partitions", metavar="N", help="At least so many tasks.")
    parser.add_argument("--read-committed", action="store_true", help="Leave out aborted transactions.")
    parser.add_argument(
        "--ignore-data-loss", action="store_true", help="Go on where records were deleted unread."
    )


def add_sink(parser: JobParser) -> None:
    """Of the jobs that write to a topic."""
    parser.add_argument(
        "--compression-type", choices=CODECS, default="none", help="Of the batches written (default: none)."
    )
    parser.add_argument(
        "--at-least-once",
        action="store_true",
        help="A stream writes without transactions: seen at once, but what Spark runs again is written again.",
    )


def client_options(options: argparse.Namespace) -> dict[str, str]:
    """The cluster of the job, as source and sink take it."""
    if getattr(options, "log_dir", None) is not None:
        if options.command_config is not None:
            raise JobError("--command-config is for connections to a cluster, and --log-dir needs none")
        return {"path": options.log_dir}
    return cluster_options(options.bootstrap_server, options.command_config, "--command-config")


def cluster_options(servers: str, path: str | None, name: str) -> dict[str, str]:
    found = {}
    if path is not None:
        try:
            found = {f"kafka.{key}": value for key, value in load(path).items()}
        except (OSError, ValueError) as error:
            raise JobError(f"{name} {path}: {error}") from None
    return found | {"kafka.bootstrap.servers": servers}


def reader_options(
    options: argparse.Namespace, *, topic: str | None = None, include_headers: bool = False
) -> dict[str, str]:
    """As the data source takes them; `topic` goes before the option of that name."""
    wanted = {
        "subscribe": topic or options.topic,
        "subscribePattern": None if topic else getattr(options, "topic_pattern", None),
        "startingOffsets": None if options.starting_timestamp else options.starting_offsets,
        "startingTimestamp": options.starting_timestamp,
        "startingOffsetsByTimestampStrategy": "latest" if options.starting_timestamp else None,
        "endingOffsets": options.ending_offsets,
        "endingTimestamp": options.ending_timestamp,
        "maxOffsetsPerTrigger": options.max_offsets_per_trigger,
        "minPartitions": options.min_partitions,
        "kafka.isolation.level": "read_committed" if options.read_committed else None,
        "failOnDataLoss": "false" if options.ignore_data_loss else None,
        "includeHeaders": "true" if include_headers else None,
    }
    return client_options(options) | {name: value for name, value in wanted.items() if value is not None}


def writer_options(options: argparse.Namespace, topic: str | None) -> dict[str, str]:
    """As the sink takes them; without a topic rows name their own."""
    return client_options(options) | sink_settings(options, topic)


def sink_settings(options: argparse.Namespace, topic: str | None) -> dict[str, str]:
    """What the sink takes besides its cluster."""
    found = {"kafka.compression.type": options.compression_type}
    if options.at_least_once:
        found["kcli.transactional"] = "false"
    return found if topic is None else found | {"topic": topic}


def require(module: str, package: str) -> None:
    """JobError where a library that not every job needs is missing."""
    try:
        found = importlib.util.find_spec(module)
    except ModuleNotFoundError:  # of the package around it
        found = None
    if found is None:
        raise JobError(f"{module} is not installed: pip install '{package}'")


def opened_topics(options: SourceOptions) -> AbstractContextManager[Cluster | LogDirectories]:
    """Where the topics are, for the driver to ask. A cluster is asked without importing Spark: dry runs are quick."""
    if not options.log_directories:
        return Cluster(options.client)
    from kcli.spark.source import opened

    return closing(opened(options))


def planned(reading: dict[str, str], mode: str = "batch") -> list[OffsetRange]:
    """What is there to be read, as the topics are now."""
    wanted = source_options(reading, streaming=mode != "batch")
    with opened_topics(wanted) as topics:
        return batch_ranges(topics, wanted)


def planned_offsets(reading: dict[str, str]) -> int:
    return sum(map(len, planned(reading)))


def target_plan(writing: dict[str, str], topic: str) -> tuple[str, int | None]:
    """Of a topic that will be written: a line for the plan, and how many partitions it has."""
    with Cluster(sink_options(writing).client) as cluster:
        if topic not in cluster.topic_names():
            return f"topic {topic} does not exist: it is made where the broker allows that", None
        count = len(cluster.partitions([topic]))
    return f"topic {topic} has {count} partitions", count


def check_reader(options: dict[str, str], mode: str) -> None:
    """ValueError names the option that is wrong."""
    source_options(options, streaming=mode != "batch")


def check_writer(options: dict[str, str]) -> None:
    """ValueError names the option that is wrong."""
    sink_options(options)


def pairs(words: Sequence[str], name: str) -> dict[str, str]:
    """`key=value` words as a dictionary."""
    found = {}
    for word in words:
        key, equals, value = word.partition("=")
        if not equals or not key:
            raise JobError(f"{name} {word}: expected KEY=VALUE")
        found[key] = value
    return found


def names(text: str | None) -> list[str]:
    """A comma-separated list."""
    return [name.strip() for name in (text or "").split(",") if name.strip()]

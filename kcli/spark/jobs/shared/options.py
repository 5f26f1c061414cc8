"""The options that several jobs have, in groups. The options of a job inherit from the groups that it needs.

The dataclasses have no slots, because Python cannot combine the slots of several base classes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from kcli.command.options import CommonOptions, Exclusive, Kind, flag, option
from kcli.model.java_text import parse_int, trim
from kcli.spark.jobs.shared.errors import JobError

MODES = ("batch", "available-now", "continuous")
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")

STREAM_OPTIONS = (
    "max-offsets-per-trigger",
    "max-files-per-trigger",
    "max-rows-per-trigger",
    "output-mode",
    "at-least-once",
)
"""Options that have no effect on a batch job."""

ONE_CLUSTER = Exclusive(names=("bootstrap-server", "log-dir"), required=True)
ONE_SUBSCRIPTION = Exclusive(names=("topic", "topic-pattern"), required=True)


@dataclass(frozen=True, kw_only=True)
class JobOptions(CommonOptions):
    """The options of every job."""

    bootstrap_server: str | None = option(
        "The brokers to connect to first, as HOST:PORT,HOST:PORT.", metavar="HOST:PORT", required=True
    )
    command_config: str | None = option(
        "A properties file with client settings for connections to the cluster (security, time-outs).",
        metavar="FILE",
    )
    config: str | None = option(
        "A properties file with defaults for the options of the job. Example: config/pipeline.properties.",
        metavar="FILE",
    )
    dry_run: bool = flag("Print the plan of the job, but do not start Spark.")
    progress_interval: float = option(
        "The time between two lines of progress on stderr. 0 means no lines.",
        Kind.DOUBLE,
        metavar="SECONDS",
        default=5.0,
    )
    output: str = option(
        "The format of the summary: lines of text, one JSON object, or tab-separated values with a header "
        "line.",
        metavar="format",
        default="text",
        choices=("text", "json", "tsv"),
    )


@dataclass(frozen=True, kw_only=True)
class OfflineOptions(JobOptions):
    """The options of a job that can read the log directories of a broker instead of a cluster."""

    bootstrap_server: str | None = option(
        "The brokers to connect to first, as HOST:PORT,HOST:PORT.", metavar="HOST:PORT"
    )
    log_dir: str | None = option(
        "Read the log directories of a broker, or copies of them, instead of a cluster.", metavar="DIR[,DIR]"
    )


@dataclass(frozen=True, kw_only=True)
class ModeOptions(JobOptions):
    """The options of a job that runs as a batch or as a stream."""

    mode: str = option(
        'In mode "batch", the job reads once. In mode "available-now", the job reads the records since the '
        'last run, in micro-batches. In mode "continuous", the job reads until it is stopped.',
        choices=MODES,
        default="batch",
    )
    checkpoint: str | None = option("The directory in which a stream stores its progress.", metavar="DIR")
    trigger_interval: str = option(
        "The time between two micro-batches of --mode continuous.", metavar="TEXT", default="1 second"
    )

    @property
    def is_stream(self) -> bool:
        """Whether the job runs in micro-batches."""
        return self.mode != "batch"


@dataclass(frozen=True, kw_only=True)
class RangeOptions(JobOptions):
    """The options of a job that reads a range of topics."""

    starting_offsets: str = option(
        'The first offsets to read: earliest, latest or {"topic":{"0":23}}.',
        metavar="TEXT",
        default="earliest",
    )
    ending_offsets: str | None = option(
        "The offsets at which a batch job ends: latest (default), or JSON in the form of "
        "--starting-offsets. A stream cannot use this option.",
        metavar="TEXT",
    )
    starting_timestamp: str | None = option(
        "Start at the first record that has this time or a later time.", metavar="MS"
    )
    ending_timestamp: str | None = option(
        "End before the first record that has this time or a later time. A stream cannot use this option.",
        metavar="MS",
    )
    max_offsets_per_trigger: str | None = option(
        "The maximum size of a micro-batch, in offsets.", metavar="N"
    )
    min_partitions: str | None = option(
        "The minimum number of Spark tasks that read the topics.", metavar="N"
    )
    read_committed: bool = flag("Do not read the records of aborted transactions.")
    ignore_data_loss: bool = flag("Continue if records were deleted before they were read.")


@dataclass(frozen=True, kw_only=True)
class SubscriptionOptions(RangeOptions):
    """The options of a job that reads topics of the user's choice.

    Such a job also declares the exclusive group ONE_SUBSCRIPTION.
    """

    topic: str | None = option("The topics to read.", metavar="NAME[,NAME]")
    topic_pattern: str | None = option(
        "Read all topics whose whole name matches this regular expression.", metavar="REGEX"
    )


@dataclass(frozen=True, kw_only=True)
class SinkOptions(JobOptions):
    """The options of a job that writes to a topic."""

    compression_type: str = option(
        "The compression codec of the batches that the job writes.", choices=CODECS, default="none"
    )
    at_least_once: bool = flag(
        "Write a stream without transactions. Rows are visible immediately, but rows that Spark writes "
        "again are duplicates."
    )


def refuse_idle(options: JobOptions, idle: Iterable[str], use: str) -> None:
    """Raises JobError if the command line has an option of `idle`, because the option would have no effect.

    The file of defaults may contain such options.
    """
    for name in idle:
        if options.has(name):
            raise JobError(f"--{name} is for {use}; it has no effect here")


def check_mode(options: ModeOptions) -> None:
    """Raises JobError for an option that has no effect in the mode of the job, and for a missing option that the mode
    requires.
    """
    if not options.is_stream:
        refuse_idle(options, STREAM_OPTIONS, "--mode available-now or continuous")
    if options.mode != "continuous":
        refuse_idle(options, ["trigger-interval"], "--mode continuous")
    check_duration(options.trigger_interval, "--trigger-interval")
    if not options.is_stream and options.checkpoint is not None:
        raise JobError("--checkpoint is for --mode available-now or continuous")
    if options.is_stream and options.checkpoint is None:
        raise JobError(f"--mode {options.mode} needs --checkpoint")


_UNITS = "week|day|hour|minute|second|millisecond|microsecond"
_DURATION, _CALENDAR = (
    re.compile(rf"(?:interval\s+)?(?:\d+(?:\.\d{{1,9}})?\s*(?:{units})s?\s*)+", re.ASCII | re.IGNORECASE)
    for units in (_UNITS, f"{_UNITS}|month|year")
)


def check_duration(text: str, name: str, *, calendar: bool = False) -> None:
    """Raises JobError if Spark would refuse a duration such as `1 minute 30 seconds` when the stream starts.

    With `calendar`, months and years are valid too. Spark knows no abbreviations of units.
    """
    if not (_CALENDAR if calendar else _DURATION).fullmatch(trim(text)):
        raise JobError(f"{name} {text}: expected a duration such as '10 seconds' or '2 minutes'")


def positive(text: str | None, name: str) -> None:
    """Raises JobError if an argument is given and is not a positive number of 32 bits."""
    try:
        is_valid = text is None or parse_int(text) > 0
    except ValueError:
        is_valid = False
    if not is_valid:
        raise JobError(f"{name} {text}: expected a positive number")


def pairs(words: Sequence[str], name: str) -> dict[str, str]:
    """Parses arguments of the form `key=value`. Raises JobError for an invalid argument."""
    table = {}
    for word in words:
        key, equals, value = word.partition("=")
        if not equals or not key:
            raise JobError(f"{name} {word}: expected KEY=VALUE")
        table[key] = value
    return table


def names(text: str | None) -> list[str]:
    """Parses a comma-separated list."""
    return [trim(name) for name in (text or "").split(",") if trim(name)]

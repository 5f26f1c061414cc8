"""The options that jobs share, declared once; a job inherits the groups of options that it takes.

The dataclasses have no slots, because a job inherits from several of them, and Python cannot join their slots.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from kcli.command.options import CommonOptions, Exclusive, Kind, flag, option
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
"""Options that mean nothing to a batch."""

ONE_CLUSTER = Exclusive(names=("bootstrap-server", "log-dir"), required=True)
ONE_SUBSCRIPTION = Exclusive(names=("topic", "topic-pattern"), required=True)


@dataclass(frozen=True, kw_only=True)
class JobOptions(CommonOptions):
    """The options of every job."""

    bootstrap_server: str | None = option("The cluster.", metavar="HOST:PORT", required=True)
    command_config: str | None = option(
        "Client properties for connections to the cluster (security, time-outs).", metavar="FILE"
    )
    config: str | None = option("Defaults for these options (config/pipeline.properties).", metavar="FILE")
    dry_run: bool = flag("Show what would be done, and start no Spark.")
    progress_interval: float = option(
        "Time between lines of progress on stderr; 0 for none.", Kind.DOUBLE, metavar="SECONDS", default=5.0
    )
    output: str = option(
        "How the summary is written: lines of text, one JSON object, or tab-separated with a header.",
        metavar="format",
        default="text",
        choices=("text", "json", "tsv"),
    )


@dataclass(frozen=True, kw_only=True)
class OfflineOptions(JobOptions):
    """The options of a job that can also read the log directories of a broker."""

    bootstrap_server: str | None = option("The cluster.", metavar="HOST:PORT")
    log_dir: str | None = option(
        "Read the log directories of a broker, live or copied, and no cluster.", metavar="DIR[,DIR]"
    )


@dataclass(frozen=True, kw_only=True)
class ModeOptions(JobOptions):
    """The options of a job that can also be a stream."""

    mode: str = option(
        "batch: once; available-now: what is new since the last run, in micro-batches; continuous: until stopped.",
        choices=MODES,
        default="batch",
    )
    checkpoint: str | None = option("Where a stream remembers how far it got.", metavar="DIR")
    trigger_interval: str = option(
        "Time between the micro-batches of --mode continuous.", metavar="TEXT", default="1 second"
    )

    @property
    def is_stream(self) -> bool:
        """Whether the job runs in micro-batches."""
        return self.mode != "batch"


@dataclass(frozen=True, kw_only=True)
class RangeOptions(JobOptions):
    """The options of a job that reads topics: from where to where."""

    starting_offsets: str = option(
        'earliest, latest or {"topic":{"0":23}}.', metavar="TEXT", default="earliest"
    )
    ending_offsets: str | None = option("latest (default) or JSON; batch only.", metavar="TEXT")
    starting_timestamp: str | None = option(
        "From the first record that is not older than this time.", metavar="MS"
    )
    ending_timestamp: str | None = option(
        "Up to the first record that is not older than this time; batch only.", metavar="MS"
    )
    max_offsets_per_trigger: str | None = option("The size of a micro-batch.", metavar="N")
    min_partitions: str | None = option("The least number of tasks.", metavar="N")
    read_committed: bool = flag("Leave out aborted transactions.")
    ignore_data_loss: bool = flag("Go on if records were deleted before they were read.")


@dataclass(frozen=True, kw_only=True)
class SubscriptionOptions(RangeOptions):
    """The options of a job that reads topics: which ones. It also has the group ONE_SUBSCRIPTION."""

    topic: str | None = option("The topics to read.", metavar="NAME[,NAME]")
    topic_pattern: str | None = option("All topics whose whole name matches.", metavar="REGEX")


@dataclass(frozen=True, kw_only=True)
class SinkOptions(JobOptions):
    """The options of a job that writes to a topic."""

    compression_type: str = option("The codec of the batches written.", choices=CODECS, default="none")
    at_least_once: bool = flag(
        "A stream writes without transactions: rows are seen at once, but what Spark runs again is written again."
    )


def refuse_idle(options: JobOptions, idle: Iterable[str], use: str) -> None:
    """JobError names an option of the command line that would do nothing. A file of defaults may serve other runs."""
    for name in idle:
        if options.has(name):
            raise JobError(f"--{name} is for {use}; here it would do nothing")


def check_mode(options: ModeOptions) -> None:
    """JobError if options and mode do not fit."""
    if not options.is_stream:
        refuse_idle(options, STREAM_OPTIONS, "--mode available-now or continuous")
    if options.mode != "continuous":
        refuse_idle(options, ["trigger-interval"], "--mode continuous")
    if not options.is_stream and options.checkpoint is not None:
        raise JobError("--checkpoint is for --mode available-now or continuous")
    if options.is_stream and options.checkpoint is None:
        raise JobError(f"--mode {options.mode} needs --checkpoint")


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

"""kafka-dump-log: prints the contents of log segments, snapshots and indexes."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property

from kcli.cli.output import WRITE_FAILED, Output, java_name, warn
from kcli.cli.script_form import is_kafkas_script
from kcli.cli.syntax.jopt import let_through
from kcli.cli.syntax.options import Command, CommandError, CommonOptions, Kind, OnParseError, flag, option
from kcli.cli.tools.dump_log import decoders as decoders
from kcli.cli.tools.dump_log.batches import NO_LIMIT_BYTES, LogDump, dump_log
from kcli.cli.tools.dump_log.decoders import STRING_DECODER, Decoder, uncaught
from kcli.cli.tools.dump_log.indexes import (
    IndexFaults,
    dump_offset_index,
    dump_producer_snapshot,
    dump_time_index,
    dump_transaction_index,
    first_offset_of,
)
from kcli.command.examples import INTERRUPTED, Example
from kcli.errors import KafkaError, KcliError
from kcli.model.java_text import parse_long

MAX_MESSAGE_SIZE_BYTES = 5 * 1024 * 1024

_CHECKPOINT = re.compile(r"([0-9]{20})-([0-9]{10})\.checkpoint")
_BOOTSTRAP_CHECKPOINT = "bootstrap.checkpoint"


@dataclass(frozen=True, slots=True, kw_only=True)
class DumpLogOptions(CommonOptions):
    files: str = option(
        "The files to dump, separated by commas. Types: .log, .checkpoint, .index, .timeindex, .snapshot, "
        ".txnindex.",
        metavar="file1, file2, ...",
        required=True,
    )
    print_data_log: bool = flag("Also print the keys and values of records.")
    deep_iteration: bool = flag(
        "Print the records of each batch. Every option that prints data includes this option."
    )
    verify_index_only: bool = flag("Check indexes against the log without printing their entries.")
    index_sanity_check: bool = flag("Check the indexes as a broker does at its start. The log is not read.")
    max_message_size: int = option(
        "How many bytes of the log to read for each index entry.",
        Kind.INTEGER,
        default=MAX_MESSAGE_SIZE_BYTES,
        metavar="size",
    )
    max_bytes: int = option(
        "How many bytes of each log file to read, from its beginning.",
        Kind.INTEGER,
        default=NO_LIMIT_BYTES,
        metavar="size",
    )
    value_decoder_class: str = option(
        "The decoder of values: StringDecoder, IntegerDecoder, LongDecoder or DefaultDecoder of "
        "org.apache.kafka.tools.api.",
        default=STRING_DECODER,
        metavar="class",
        optional_argument=True,
        bare_value=STRING_DECODER,
    )
    key_decoder_class: str = option(
        "The decoder of keys. Every decoder of values can be used.",
        default=STRING_DECODER,
        metavar="class",
        optional_argument=True,
        bare_value=STRING_DECODER,
    )
    offsets_decoder: bool = flag("Print data as records of __consumer_offsets.")
    transaction_log_decoder: bool = flag("Print data as records of __transaction_state.")
    cluster_metadata_decoder: bool = flag("Print data as records of __cluster_metadata.")
    remote_log_metadata_decoder: bool = flag("Print data as records of __remote_log_metadata.")
    share_group_state_decoder: bool = flag("Print data as records of __share_group_state.")
    skip_record_metadata: bool = flag("Do not print offsets, times and sizes of records.")


# If several of these options are given, the first one of this table is used.
_DECODERS: dict[str, Callable[[], Decoder]] = {
    "offsets-decoder": decoders.offsets,
    "transaction-log-decoder": decoders.transaction_log,
    "cluster-metadata-decoder": decoders.cluster_metadata,
    "remote-log-metadata-decoder": decoders.remote_log_metadata,
    "share-group-state-decoder": decoders.share_group_state,
}
_DATA_OPTIONS = ("print-data-log", "key-decoder-class", "value-decoder-class", *_DECODERS)


def run(options: DumpLogOptions, output: Output) -> None:
    """Dumps every file, then reports inconsistencies."""
    dumper = Dumper(options, output)
    for path in options.files.split(","):
        dumper.dump(path)
    dumper.report_faults()


@dataclass
class Dumper:
    """One run over several files."""

    options: DumpLogOptions
    output: Output
    faults: IndexFaults = field(default_factory=IndexFaults)
    gaps: dict[str, list[tuple[int, int]]] = field(default_factory=dict)

    def dump(self, path: str) -> None:
        if os.path.isdir(path):
            raise CommandError(f"{path} is a directory: --files takes the files in it{_example(path)}")
        self.output.say(f"Dumping {path}")
        try:
            self._dump(path)
        except (FileNotFoundError, CommandError) as error:
            if not is_kafkas_script() and not os.path.exists(path):
                raise CommandError(f"{path}: no such file") from None
            if isinstance(error, CommandError):
                raise
            raise uncaught("java.nio.file.NoSuchFileException", str(error.filename)) from None
        except KafkaError as error:
            raise uncaught(java_name(error), error.message) from None
        except KcliError as error:
            raise uncaught("org.apache.kafka.common.errors.CorruptRecordException", str(error)) from None
        except OSError as error:
            if error.errno in WRITE_FAILED:
                raise  # writing to standard output failed, so the file is not the cause
            raise uncaught("java.io.IOException", f"{path}: {error.strerror}") from None

    def _dump(self, path: str) -> None:
        options = self.options
        match _suffix(path):
            case ".log" | ".checkpoint":
                self._dump_log(path)
            case ".index":
                dump_offset_index(
                    path,
                    self.output,
                    sanity_only=options.index_sanity_check,
                    verify_only=options.verify_index_only,
                    max_message_size=options.max_message_size,
                    faults=self.faults,
                )
            case ".timeindex":
                dump_time_index(
                    path,
                    self.output,
                    sanity_only=options.index_sanity_check,
                    verify_only=options.verify_index_only,
                    faults=self.faults,
                )
            case ".snapshot":
                dump_producer_snapshot(path, self.output)
            case ".txnindex":
                dump_transaction_index(path, self.output)
            case _:
                warn(f"Ignoring unknown file {path}")

    def _dump_log(self, path: str) -> None:
        how = self._how
        self.output.say(_title(path))
        gaps = dump_log(path, how)
        if gaps:
            self.gaps[os.path.abspath(path)] = gaps

    @cached_property
    def _how(self) -> LogDump:
        """The settings for the dump of a log.

        The settings are created when the first log is dumped, because a dump of indexes needs no valid decoder class.
        """
        is_data = any(self.options.has(name) for name in _DATA_OPTIONS)
        return LogDump(
            output=self.output,
            deep=self.options.deep_iteration or is_data,
            decoder=self._decoder(),
            skip_metadata=self.options.skip_record_metadata,
            max_bytes=self.options.max_bytes,
        )

    def _decoder(self) -> Decoder | None:
        for name, make in _DECODERS.items():
            if self.options.has(name):
                return make()
        plain = decoders.by_class_names(self.options.key_decoder_class, self.options.value_decoder_class)
        return plain if any(self.options.has(name) for name in _DATA_OPTIONS) else None

    def report_faults(self) -> None:
        self.faults.report()
        for path, gaps in self.gaps.items():
            warn(f"Non-consecutive offsets in {path}")
            for before, after in gaps:
                warn(f"  {before} is followed by {after}")


def _example(directory: str) -> str:
    logs = sorted(name for name in os.listdir(directory) if name.endswith(".log"))
    return f", as in --files {os.path.join(directory, logs[0])}" if logs else ""


def _suffix(path: str) -> str:
    name = os.path.basename(path)
    dot = name.rfind(".")
    if dot < 0:  # the error of Kafka 4.1 for a name without a dot
        length = len(name)
        raise uncaught(
            "java.lang.StringIndexOutOfBoundsException", f"begin -1, end {length}, length {length}"
        )
    return name[dot:]


def _title(path: str) -> str:
    name = os.path.basename(path)
    if name == _BOOTSTRAP_CHECKPOINT:
        return "KRaft bootstrap snapshot"
    if name.endswith(".checkpoint"):
        snapshot = _CHECKPOINT.fullmatch(name)
        if snapshot is not None:
            return f"Snapshot end offset: {parse_long(snapshot[1])}, epoch: {parse_long(snapshot[2])}"
    return f"Log starting offset: {first_offset_of(path)}"


command = Command(
    name="dump-log",
    description="This tool helps to parse a log file and dump its contents to the console, "
    "useful for debugging a seemingly corrupt log segment.",
    options=DumpLogOptions,
    run=run,
    on_parse_error=OnParseError.MESSAGE,
    parse_failed=let_through,
    examples=(
        Example(
            "Print the batches and records of a log segment:",
            "kcli dump-log --print-data-log \\\n  --files data/orders-0/00000000000000000000.log",
        ),
        Example(
            "Print the records of the metadata log:",
            "kcli dump-log --cluster-metadata-decoder \\\n"
            "  --files data/__cluster_metadata-0/00000000000000000000.log",
        ),
    ),
    exit_status=(
        (0, "Every file was read. Gaps and wrong index entries are reported on standard error."),
        (1, "A file could not be read or is corrupt, or the options are wrong."),
        INTERRUPTED,
    ),
)

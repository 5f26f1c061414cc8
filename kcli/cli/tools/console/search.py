"""`--by-time` and `--where` of the console consumer: reads a topic as the web console does, and ends.

The records of all partitions are sorted by their timestamps. The same code finds the records of the console's page, so
the command that the page shows prints the same records.
"""

from __future__ import annotations

import asyncio
import math
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kcli.cli.output import warn
from kcli.cli.syntax.options import CommandError, UsageError
from kcli.cli.tools.console import formatters
from kcli.cli.tools.console.positions import start_ms
from kcli.client.admin.admin import AdminClient
from kcli.client.config import ClientConfigError, client_config
from kcli.config.definition import ConfigError
from kcli.console.messages.decoding import Decoder
from kcli.console.messages.fetching import TopicFetcher
from kcli.console.messages.filters.errors import FilterSyntaxError
from kcli.console.messages.filters.record_filter import RecordFilter
from kcli.console.messages.matching import Selection
from kcli.console.messages.positions import Origin, Start, UnknownPartition
from kcli.console.messages.record import ReadRecord
from kcli.console.messages.registry import SchemaRegistry
from kcli.console.messages.rows import Decoders, Json
from kcli.console.messages.scan import Scan, ScanRequest
from kcli.console.messages.work import Workers
from kcli.errors import KafkaError
from kcli.model.java_text import parse_int, parse_long
from kcli.rdkafka.objects import ClientError

if TYPE_CHECKING:
    from kcli.cli.tools.console.consumer import ConsoleConsumerOptions

REGISTRY = "schema.registry.url"
"""The property of Confluent's serializers with the URL of the schema registry."""

NO_LIMIT = sys.maxsize

_CREATE_TIME, _APPEND_TIME = 1, 2  # librdkafka's rd_kafka_timestamp_type_t


@dataclass(frozen=True, slots=True)
class FoundMessage:
    """A record with the methods of librdkafka's message, for the formatters."""

    record: ReadRecord
    name: str

    def error(self) -> ClientError | None:
        return None

    def topic(self) -> str:
        return self.name

    def partition(self) -> int:
        return self.record.partition

    def offset(self) -> int:
        return self.record.offset

    def leader_epoch(self) -> int | None:
        return None

    def key(self) -> bytes | None:
        return self.record.key

    def value(self) -> bytes | None:
        return self.record.value

    def headers(self) -> list[tuple[str, bytes | None]] | None:
        return list(self.record.headers)

    def timestamp(self) -> tuple[int, int]:
        kind = _APPEND_TIME if self.record.is_append_time else _CREATE_TIME
        return kind, self.record.timestamp_ms

    def latency(self) -> float | None:
        return None

    def __len__(self) -> int:
        return len(self.record.value or b"")


def check_search(options: ConsoleConsumerOptions) -> None:
    """Raises UsageError if an option cannot be used with --by-time or --where, or if the filter is invalid."""
    for name in ("include", "group", "timeout-ms", "filter", "enable-systest-events"):
        if options.has(name):
            raise UsageError(f"--{name} cannot be used with --by-time, --where or --partitions.")
    if options.offset is not None and options.offset.lower() == "latest":
        raise UsageError(
            "--offset latest cannot be used with --by-time: no record is after the end of the topic."
        )
    if options.partition is not None and options.partitions is not None:
        raise UsageError("Options partition and partitions cannot be specified together.")
    record_filter(options)
    partitions_of(options)


def record_filter(options: ConsoleConsumerOptions) -> RecordFilter | None:
    """The filter of --where. Raises UsageError."""
    try:
        return RecordFilter(options.where) if options.where else None
    except FilterSyntaxError as error:
        raise UsageError(f"--where: {error}") from None


def partitions_of(options: ConsoleConsumerOptions) -> tuple[int, ...] | None:
    """The partitions of --partitions or --partition, or None for all."""
    if options.partitions is None:
        return None if options.partition is None else (options.partition,)
    try:
        return tuple(dict.fromkeys(parse_int(number) for number in options.partitions.split(",")))
    except ValueError:
        raise UsageError(
            f"--partitions {options.partitions}: expected numbers with commas, such as 0,3"
        ) from None


async def search(
    options: ConsoleConsumerOptions, properties: Mapping[str, str], show: formatters.Formatter
) -> int:
    """Prints the records, and returns how many. Raises CommandError if the topic or a partition cannot be read."""
    registry, workers = _registry(properties), Workers()
    try:
        config = client_config(properties, client_id="console-consumer")
        async with AdminClient(config) as client:
            fetcher = TopicFetcher(
                client,
                options.topic or "",
                read_committed=properties.get("isolation.level") == "read_committed",
            )
            selection = _selection(options, fetcher.topic, registry, show)
            return await _print(
                Scan(fetcher, _request(options, selection), workers), is_last=options.last is not None
            )
    except (ClientConfigError, UnknownPartition, KafkaError, formatters.FormatError) as error:
        raise CommandError(str(error) or type(error).__name__) from error
    finally:
        await workers.close()
        if registry is not None:
            await registry.close()


def _registry(properties: Mapping[str, str]) -> SchemaRegistry | None:
    url = properties.get(REGISTRY)
    try:
        return None if url is None else SchemaRegistry(url, properties)
    except ConfigError as error:
        raise CommandError(f"{REGISTRY}: {error}") from error


def _selection(
    options: ConsoleConsumerOptions, topic: str, registry: SchemaRegistry | None, show: formatters.Formatter
) -> Selection:
    def line(record: ReadRecord, _: Decoders) -> dict[str, Json]:
        # Latin-1 keeps each byte of a line that is not UTF-8.
        return {"line": show(FoundMessage(record, topic)).decode("latin-1")}

    schemas = None if registry is None else registry.find
    return Selection(
        decoders=Decoders(Decoder(schemas=schemas, is_key=True), Decoder(schemas=schemas)),
        record_filter=record_filter(options),
        limit=options.last or _most(options.max_messages),
        show=line,
    )


def _request(options: ConsoleConsumerOptions, selection: Selection) -> ScanRequest:
    """The request without the limits of a page."""
    return ScanRequest(
        start=_start(options),
        partitions=partitions_of(options),
        selection=selection,
        max_records=NO_LIMIT,
        max_bytes=NO_LIMIT,
        max_seconds=math.inf,
    )


def _most(max_messages: int | None) -> int:
    return NO_LIMIT if max_messages is None or max_messages < 0 else max_messages


def _start(options: ConsoleConsumerOptions) -> Start:
    from_ms = start_ms(options.from_time)
    if options.last is not None:
        return Start(Origin.LATEST)
    if from_ms is not None:
        return Start(Origin.TIME, from_ms)
    # consumer.py has checked that the offset is earliest, latest or a number.
    if options.offset is not None and options.offset.lower() != "earliest":
        return Start(Origin.OFFSET, parse_long(options.offset))
    return Start(Origin.EARLIEST)


async def _print(scan: Scan, *, is_last: bool) -> int:
    """Prints the lines of a scan. Raises CommandError at the end if a partition was not read.

    A scan for the last records finds the newest one first. They are printed as `tail` prints lines, the newest one at
    the end.
    """
    count, newest = 0, list[bytes]()
    async for event in scan.events():
        if event.name == "message":
            rows = event.data["rows"]
            assert isinstance(rows, list)
            lines = [str(row["line"]).encode("latin-1") for row in rows if isinstance(row, dict)]
            count += len(lines)
            if is_last:
                newest += lines
            else:
                await asyncio.to_thread(_write, b"".join(lines))
        elif event.name == "done":
            _write(b"".join(reversed(newest)))
            _report(event.data)
    return count


def _write(text: bytes) -> None:
    sys.stdout.buffer.write(text)
    sys.stdout.buffer.flush()


def _report(data: Mapping[str, Json]) -> None:
    unknown, errors = data.get("unknown"), data.get("errors")
    if unknown:
        warn(f"--where could not examine {unknown} records, because they are too large")
    if isinstance(errors, dict) and errors:
        shown = "; ".join(f"partition {partition}: {why}" for partition, why in errors.items())
        raise CommandError(f"Some partitions cannot be read: {shown}")

"""kcli trace: shows the timestamp and the headers of a record, and how long the record was in each part of its path."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime

from kcli.cli.client_properties import checked_login, load_properties
from kcli.cli.connect import ClusterOptions
from kcli.cli.coroutines import run_coroutine
from kcli.cli.output import Output
from kcli.cli.syntax.options import Command, CommandError, Kind, UsageError, option, require
from kcli.cli.tools.trace.record import read_record
from kcli.command.examples import FAILURE, INTERRUPTED, Example
from kcli.errors import KafkaError
from kcli.model.java_text import trim
from kcli.rdkafka import objects
from kcli.runtime.log_text import one_line
from kcli.tracing.journey import Step, steps
from kcli.tracing.other_contexts import trace_id_of
from kcli.tracing.stored import StoredSpan
from kcli.tracing.tree import Row, duration, rows

SHOWN_MAX_CHARS = 200
"""The longest part of a key or header that is printed."""

_NAME_WIDTH = 11
_TYPES = {1: "CreateTime", 2: "LogAppendTime"}  # librdkafka's rd_kafka_timestamp_type_t


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceOptions(ClusterOptions):
    topic: str | None = option("The topic of the record.", metavar="topic")
    partition: int | None = option(
        "The partition of the record. This option is not needed if the topic has only one partition.",
        Kind.INTEGER,
        metavar="partition",
    )
    offset: int | None = option("The offset of the record.", Kind.LONG, metavar="offset")
    traces: str | None = option(
        "The address of the trace store: http://HOST:16686 for Jaeger, http://HOST:3200 for Tempo. The address may "
        "contain a path, and USER:PASSWORD@ before the host.",
        metavar="url",
    )


@dataclass(frozen=True, slots=True)
class RecordRow:
    """A record. `trace_id` is None if no header has a trace."""

    topic: str
    partition: int
    offset: int
    timestamp: int | None
    timestamp_type: str
    key: str | None
    value_bytes: int | None
    headers: list[tuple[str, str | None]]
    trace_id: str | None = None
    trace_header: str | None = None


@dataclass(frozen=True, slots=True)
class SpanRow:
    """A span of the trace. `is_record` is True for spans whose attributes name this record."""

    depth: int
    name: str
    service: str
    start_us: int
    duration_us: int
    is_error: bool
    is_record: bool
    span_id: str
    parent_id: str
    attributes: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class StepRow:
    """A part of the path of the record, with its duration."""

    step: str
    service: str
    duration_us: int


def run(options: TraceOptions, output: Output) -> None:
    """Prints the record, then its trace. Raises CommandError if the record or the trace does not exist."""
    require(options, "bootstrap-server", "topic", "offset")
    assert options.topic is not None and options.offset is not None
    if options.offset < 0 or (options.partition is not None and options.partition < 0):
        raise UsageError("--offset and --partition must not be negative")
    properties = dict(load_properties(options.command_config, options.client_properties))
    properties["bootstrap.servers"] = options.bootstrap_server or ""
    try:
        message = read_record(checked_login(properties), options.topic, options.partition, options.offset)
    except KafkaError as error:
        raise CommandError(error.message) from error
    record = _record(message)
    output.row(record, _record_text)
    if record.trace_id is None:
        output.warn(
            "The record has no trace: it has no header traceparent, b3, X-B3-TraceId or uber-trace-id that is valid. "
            "The producer must write one of them (docs/tracing.md)."
        )
        return
    if options.traces is None:
        output.warn("To see the time of each step of the record, name the store of traces with --traces URL.")
        return
    _print_trace(record, _asked(options.traces, record.trace_id), output)


def _asked(url: str, trace_id: str) -> list[StoredSpan]:
    from kcli.http.trace_store import TraceNotFound, TraceStoreError, stored_trace

    try:
        return run_coroutine(stored_trace(url, trace_id))
    except TraceNotFound as error:
        raise CommandError(
            f"{error}. Its producer did not sample it, its spans are not exported yet, or the store has deleted them."
        ) from error
    except TraceStoreError as error:
        raise CommandError(str(error)) from error


def _print_trace(record: RecordRow, spans: list[StoredSpan], output: Output) -> None:
    place = (record.topic, record.partition, record.offset)
    tree = rows(spans)
    output.say("")
    output.say(f"{'start':>12}{'duration':>12}  span")
    for row in tree:
        is_record = row.span.is_about(*place)
        output.row(_span_row(row, is_record=is_record), _span_text(row, is_record=is_record))
    way = steps(spans, *place)
    if way:
        output.say("")
        output.say("The time of this record:")
        for step in way:
            output.row(StepRow(trim(step.name), step.where, step.duration_ns // 1000), _step_text(step))
    elif not any(row.span.is_about(*place) for row in tree):
        output.say("")
        output.say("No span names this record: it was sent in the same trace as other records.")


def _record(message: objects.Message) -> RecordRow:
    headers = message.headers() or []
    trace_id = trace_id_of(headers)
    kind, timestamp = message.timestamp()
    value = message.value()
    return RecordRow(
        message.topic(),
        message.partition(),
        message.offset(),
        timestamp if kind in _TYPES else None,
        _TYPES.get(kind, "NoTimestampType"),
        _shown(message.key()),
        None if value is None else len(value),
        [(one_line(name)[:SHOWN_MAX_CHARS], _shown(content)) for name, content in headers],
        None if trace_id is None else trace_id[1],
        None if trace_id is None else one_line(trace_id[0]),
    )


def _shown(data: bytes | None) -> str | None:
    """Returns bytes as text for a terminal. Characters that a terminal may obey are escaped."""
    if data is None:
        return None
    text = one_line(data[: 4 * SHOWN_MAX_CHARS].decode("utf-8", "backslashreplace"))
    return text if len(text) <= SHOWN_MAX_CHARS else f"{text[:SHOWN_MAX_CHARS]}…"


def _record_text(record: RecordRow) -> str:
    when = "none"
    if record.timestamp is not None:
        when = f"{_time(record.timestamp)} ({record.timestamp_type})"
    lines = [
        _line("record", f"{record.topic}-{record.partition}, offset {record.offset}"),
        _line("timestamp", when),
        _line("key", "null" if record.key is None else record.key),
        _line("value", "null" if record.value_bytes is None else f"{record.value_bytes} bytes"),
        *(_line("header", f"{name}: {'null' if value is None else value}") for name, value in record.headers),
    ]
    if record.trace_id is not None:
        lines.append(_line("trace", f"{record.trace_id} (header {record.trace_header})"))
    return "\n".join(lines)


def _line(name: str, text: str) -> str:
    return f"{name:<{_NAME_WIDTH}}{text}"


def _time(timestamp_ms: int) -> str:
    try:
        return f"{datetime.fromtimestamp(timestamp_ms / 1000, UTC):%Y-%m-%d %H:%M:%S.%f}"[:-3] + " UTC"
    except (ValueError, OverflowError, OSError):
        return f"{timestamp_ms} ms"


def _span_row(row: Row, *, is_record: bool) -> SpanRow:
    span = row.span
    return SpanRow(
        row.depth,
        span.name,
        span.service,
        row.after_ns // 1000,
        span.duration_ns // 1000,
        span.is_error,
        is_record,
        span.span_id,
        span.parent_id,
        dict(span.attributes),
    )


def _span_text(row: Row, *, is_record: bool) -> str:
    span = row.span
    service = f" [{one_line(span.service)}]" if span.service else ""
    error = span.attributes.get("error.type", "")
    marks = (f" ERROR {one_line(error)}".rstrip() if span.is_error else "") + (" *" if is_record else "")
    name = f"{'  ' * row.depth}{one_line(span.name)}{service}{marks}"
    return f"{'+' + duration(row.after_ns):>12}{duration(span.duration_ns):>12}  {name}"


def _step_text(step: Step) -> str:
    where = f" [{one_line(step.where)}]" if step.where else ""
    return f"{duration(step.duration_ns):>12}  {one_line(step.name)}{where}"


command = Command(
    name="trace",
    description="Show the timestamp and the headers of a record. With a store of traces, also show how long each step "
    "of its trace took.",
    options=TraceOptions,
    run=run,
    examples=(
        Example(
            "Show the headers of a record:",
            "kcli trace --bootstrap-server localhost:9092 --topic orders \\\n  --partition 0 --offset 5",
        ),
        Example(
            "Show the time of each step of a record, from the spans in Jaeger:",
            "kcli trace --bootstrap-server localhost:9092 --topic orders \\\n"
            "  --partition 0 --offset 5 --traces http://localhost:16686",
        ),
    ),
    exit_status=(
        (0, "The record was printed. With --traces, its trace was printed too, if the record has one."),
        FAILURE,
        INTERRUPTED,
    ),
)

"""Reads the parameters of requests for records from the URL, and makes the command line with the same effect."""

from __future__ import annotations

from http import HTTPStatus

from kcli.console.calls import Call, bad_request
from kcli.console.failures import ConsoleError
from kcli.console.messages.decoding import Decoder, Format
from kcli.console.messages.filters.record_filter import RecordFilter
from kcli.console.messages.limits import DEFAULT_ROWS, DOWNLOAD_RECORDS, MAX_ROWS
from kcli.console.messages.look_ups import LookUps
from kcli.console.messages.matching import Selection
from kcli.console.messages.positions import Origin, Start
from kcli.console.messages.rows import Decoders, Json
from kcli.console.pages.message_sharing import schemas_of
from kcli.model.command_words import option
from kcli.model.java_text import natural, trim

PARTITIONS_MAX = 10_000
"""The most partitions that a URL can name."""


def selection_of(call: Call, *, is_download: bool = False) -> Selection:
    """The filter, the formats and the number of records. Raises FilterSyntaxError and HttpError."""
    most = DOWNLOAD_RECORDS if is_download else MAX_ROWS
    limit = call.integer("limit", most if is_download else DEFAULT_ROWS, least=1, most=most)
    return Selection(decoders=decoders_of(call), record_filter=filter_of(call), limit=limit)


def filter_of(call: Call) -> RecordFilter | None:
    """The filter, or None if it is empty. Raises FilterSyntaxError."""
    text = trim(call.query("filter"))
    return RecordFilter(text) if text else None


def decoders_of(call: Call) -> Decoders:
    """The formats of keys and values."""
    registry = schemas_of(call)
    schemas = None if registry is None else LookUps(registry).find
    return Decoders(
        Decoder(_format(call, "key_format"), schemas, is_key=True),
        Decoder(_format(call, "value_format"), schemas),
    )


def start_of(call: Call, default: Origin = Origin.LATEST) -> Start:
    """The start of the list: the parameter `start`, with the offset or the milliseconds in `value`."""
    text = call.query("start", default)
    try:
        origin = Origin(text)
    except ValueError:
        raise bad_request(f"start: expected one of {', '.join(Origin)}") from None
    return Start(origin, call.integer("value", 0))


def partitions_of(call: Call) -> tuple[int, ...] | None:
    """The partitions in `partitions=0,3,5`, or None for all."""
    text = call.query("partitions")
    return tuple(_numbers(text, "partitions")) if text else None


def cursor_of(call: Call) -> dict[int, int] | None:
    """The cursor in `cursor=0:15,1:9`, or None."""
    text = call.query("cursor")
    if not text:
        return None
    pairs = [part.partition(":") for part in _parts(text, "cursor")]
    return {_number(partition, "cursor"): _number(offset, "cursor") for partition, _, offset in pairs}


def is_committed(call: Call) -> bool:
    """Whether records of open and aborted transactions are left out."""
    return call.query("committed") == "1"


def commands_of(call: Call) -> dict[str, Json]:
    """The command line that prints the records of the page. `shown` is the number of records that the page has from
    earlier answers of the same search."""
    start, partitions, text = start_of(call), partitions_of(call), trim(call.query("filter"))
    limit = call.integer("limit", DEFAULT_ROWS, least=1, most=MAX_ROWS) + call.integer("shown", 0)
    arguments = [*option("topic", call.part("topic")), "--by-time"]
    if partitions is not None:
        arguments += ["--partitions", ",".join(map(str, partitions))]
    match start.origin:
        case Origin.LATEST:
            arguments += ["--last", str(limit)]
        case Origin.TIME:
            arguments += ["--from-time", str(start.value)]
        case Origin.OFFSET:
            arguments += ["--offset", str(start.value)]
        case Origin.EARLIEST:
            arguments += ["--from-beginning"]
    if start.origin is not Origin.LATEST:
        arguments += ["--max-messages", str(limit)]
    if text:
        arguments += option("where", text)
    if is_committed(call):
        arguments += ["--isolation-level", "read_committed"]
    if text and (url := call.rules.settings.schema_registry) is not None:
        # The filter may need the fields of Avro or Protobuf. A URL with a password is not shown.
        shown = "URL" if "@" in url else url
        arguments += ["--command-property", f"schema.registry.url={shown}"]
    return {"command": call.command("console-consumer", *arguments, "--output", "json")}


def _format(call: Call, name: str) -> Format:
    try:
        return Format(call.query(name, Format.AUTO))
    except ValueError:
        raise bad_request(f"{name}: expected one of {', '.join(Format)}") from None


def _parts(text: str, name: str) -> list[str]:
    parts = text.split(",")
    if len(parts) > PARTITIONS_MAX:
        raise ConsoleError(HTTPStatus.BAD_REQUEST, "TOO_MANY_PARTITIONS", f"{name} has {len(parts)} parts")
    return parts


def _numbers(text: str, name: str) -> list[int]:
    return [_number(part, name) for part in _parts(text, name)]


def _number(text: str, name: str) -> int:
    number = natural(text)
    if number is None:
        raise bad_request(f"{name}: expected numbers, not {text[:40]!r}")
    return number

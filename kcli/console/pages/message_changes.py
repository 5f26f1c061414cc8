"""The actions on records: send, send again to another topic, delete up to an offset."""

from __future__ import annotations

import json
import shlex

from kcli.console.answers import Outcome
from kcli.console.calls import Action, bad_request
from kcli.console.messages.fetching import TopicFetcher
from kcli.console.messages.record import Headers, ReadRecord
from kcli.console.messages.rows import envelope
from kcli.console.messages.sending import MAX_SEND_BYTES, InvalidRecord, NewRecord, encoded, plan, send
from kcli.console.messages.single import read_one
from kcli.console.pages.message_sharing import refusals, workers_of
from kcli.console.routes import Change
from kcli.errors import KafkaError
from kcli.model.command_words import option
from kcli.model.java_text import INT_MAX, natural, parse_long
from kcli.model.topic_partition import TopicPartition

COMMAND_BYTES = 4_096
"""The longest record in a command line. For a longer record, the command line names a file."""

TIMESTAMP_MAX = 2**63 - 1
PARTITION_MAX = 2**31 - 1
END = -1
"""The offset that means the end of a partition (DeleteRecords)."""


async def send_record(action: Action) -> Outcome:
    """POST /topics/{topic}/messages/send {key, value, headers, partition, timestamp}: sends a new record.

    A key or value is {"format": "text", "json", "hex" or "null", "text": …}.
    """
    topic = action.part("topic")
    action.target = f"topic {topic}"
    with refusals():
        record = NewRecord(
            key=_bytes(action, "key"),
            value=_bytes(action, "value"),
            headers=_headers(action) or (),
            partition=_optional(action, "partition", PARTITION_MAX),
            timestamp_ms=_optional(action, "timestamp", TIMESTAMP_MAX),
        )
        return await _sent(action, topic, record, _producer_command(action, topic, record))


async def resend_record(action: Action) -> Outcome:
    """POST /topics/{topic}/messages/resend {partition, offset, target, …}: sends again a record that is in the topic.

    A key, a value or headers in the body replace this part of the record. Parts that the body does not have are copied
    unchanged.
    """
    topic, target = action.part("topic"), action.text("target")
    place = action.number("partition", most=PARTITION_MAX), action.number("offset")
    action.target = f"topic {target}, from {topic}-{place[0]} offset {place[1]}"
    with refusals():
        async with action.connection.client() as client:
            original = await read_one(TopicFetcher(client, topic), workers_of(action), *place)
        record = NewRecord(
            key=_bytes(action, "key") if "key" in action.body else original.key,
            value=_bytes(action, "value") if "value" in action.body else original.value,
            headers=_headers(action) if "headers" in action.body else original.headers,
            partition=_optional(action, "target_partition", PARTITION_MAX),
            timestamp_ms=original.timestamp_ms if action.flag("keep_timestamp") else None,
        )
        is_edited = any(name in action.body for name in ("key", "value", "headers"))
        command = (
            _producer_command(action, target, record)
            if is_edited
            else _copy_command(action, topic, target, original, record)
        )
        return await _sent(action, target, record, command)


async def _sent(action: Action, topic: str, record: NewRecord, command: str) -> Outcome:
    size = len(record.key or b"") + len(record.value or b"")
    what = "a tombstone" if record.value is None else f"a record with {size} bytes"
    if action.is_preview:
        partition = await plan(action.admin, topic, record)
        place = (
            "any partition" if record.partition is None and record.key is None else f"partition {partition}"
        )
        return Outcome(command=command, summary=f"This sends {what} to {place} of {topic}.")
    sent = await send(action.admin, topic, record)
    return Outcome(
        command=command,
        summary=f"Sent {what} to {topic}-{sent.partition} at offset {sent.offset}.",
        details=sent,
    )


async def delete_records(action: Action) -> Outcome:
    """POST /topics/{topic}/messages/delete {"before": {"0": "15", "1": "-1"}}: deletes records before offsets.

    The offset -1 means the end of the partition.
    """
    topic = action.part("topic")
    action.target = f"topic {topic}"
    before = _offsets(action)
    with refusals():
        fetcher = TopicFetcher(action.admin, topic)
        await fetcher.open()
        bounds, errors = await fetcher.bounds(sorted(before))
    for error in errors.values():
        raise error
    rows: list[dict[str, int]] = []
    for partition, span in sorted(bounds.items()):
        offset = span.end if before[partition] == END else before[partition]
        if offset > span.end:
            raise bad_request(f"{topic}-{partition} ends at offset {span.end}, so nothing is before {offset}")
        rows.append(
            {
                "partition": partition,
                "start": span.start,
                "end": span.end,
                "before": max(offset, span.start),
                "offsets": max(0, offset - span.start),
            }
        )
    total = sum(row["offsets"] for row in rows)
    if action.is_preview:
        summary = f"This deletes up to {total} records of {topic}. They cannot be restored."
        return Outcome(command=_delete_command(action, topic, rows), summary=summary, details=rows)
    results = await action.admin.delete_records(
        {TopicPartition(topic, row["partition"]): row["before"] for row in rows}
    )
    for result in results.values():
        if isinstance(result, KafkaError):
            raise result
    summary = f"Deleted up to {total} records of {topic}."
    return Outcome(command=_delete_command(action, topic, rows), summary=summary, details=rows)


def _bytes(action: Action, name: str) -> bytes | None:
    value = action.body.get(name)
    if value is None:
        return None
    if not isinstance(value, dict) or not isinstance(value.get("text", ""), str):
        raise bad_request(f'{name}: expected {{"format": …, "text": …}}')
    return encoded(value.get("text", ""), str(value.get("format", "text")), name)


def _headers(action: Action) -> Headers:
    pairs = action.body.get("headers", [])
    if not isinstance(pairs, list):
        raise bad_request("headers: expected a list of [name, value]")
    headers: list[tuple[str, bytes | None]] = []
    for pair in pairs:
        if not (isinstance(pair, list) and len(pair) == 2 and isinstance(pair[0], str)):
            raise bad_request("headers: expected pairs of a name and a value")
        if pair[1] is not None and not isinstance(pair[1], str):
            raise bad_request("headers: expected texts or null")
        headers.append((pair[0], encoded(pair[1], "text", "header")))
    if any("\ud800" <= character <= "\udfff" for name, _ in headers for character in name):
        raise InvalidRecord("the name of a header has half a surrogate pair")
    return tuple(headers)


def _optional(action: Action, name: str, most: int) -> int | None:
    return None if action.body.get(name) is None else action.number(name, most=most)


def _offsets(action: Action) -> dict[int, int]:
    settings = action.settings_of("before")
    if not settings:
        raise bad_request("before: expected an offset for at least one partition")
    offsets = {}
    for partition, offset in settings.items():
        text = offset or ""
        number = natural(partition)
        if number is None or number > INT_MAX:
            raise bad_request(f"before: {partition[:20]!r} is no partition")
        try:
            offsets[number] = parse_long(text)
        except ValueError:
            raise bad_request(f"before: {text[:20]!r} is no offset") from None
        if offsets[number] < END:
            raise bad_request(f"before: {text[:20]!r} is no offset")
    return offsets


def _producer_command(action: Action, topic: str, record: NewRecord) -> str:
    """The command line that sends a record."""
    fields = ReadRecord(
        partition=record.partition or 0,
        offset=0,
        timestamp_ms=record.timestamp_ms or 0,
        key=record.key,
        value=record.value,
        headers=record.headers,
    )
    document = json.loads(envelope(fields, topic))
    sent = {name: document[name] for name in ("key", "headers") if document[name] not in (None, [])}
    sent["value"] = document["value"]
    sent |= {} if record.partition is None else {"partition": record.partition}
    sent |= {} if record.timestamp_ms is None else {"timestamp": record.timestamp_ms}
    line = json.dumps(sent, ensure_ascii=False)
    arguments = [*option("topic", topic), "--input", "json"]
    arguments += [] if record.partition is None else ["--keep-partition"]
    command = action.command("console-producer", *arguments)
    if len(line) > COMMAND_BYTES:
        return f"{command} < record.json"
    return f"printf '%s\\n' {shlex.quote(line)} | {command}"


def _copy_command(action: Action, topic: str, target: str, source: ReadRecord, record: NewRecord) -> str:
    """The command line that copies a record from one topic to another. The names before the partition and the
    timestamp in a line of JSON are short, so `sed` changes only these numbers."""
    place = ["--partition", str(source.partition), "--offset", str(source.offset), "--max-messages", "1"]
    read = action.command("console-consumer", *option("topic", topic), *place, "--output", "json")
    edits = [] if record.timestamp_ms is not None else ['s/"timestamp": [0-9-]*, //']
    arguments = [*option("topic", target), "--input", "json"]
    if record.partition is not None:
        edits.append(f's/"partition": [0-9]*/"partition": {record.partition}/')
        arguments.append("--keep-partition")
    parts = [read, action.command("console-producer", *arguments)]
    if edits:
        parts.insert(1, shlex.join(["sed", *(word for edit in edits for word in ("-e", edit))]))
    return " | ".join(parts)


def _delete_command(action: Action, topic: str, rows: list[dict[str, int]]) -> str:
    partitions = [{"topic": topic, "partition": row["partition"], "offset": row["before"]} for row in rows]
    content = json.dumps({"partitions": partitions, "version": 1})
    command = action.command("delete-records", "--offset-json-file", "/dev/stdin", "--yes")
    return f"printf '%s' {shlex.quote(content)} | {command}"


CHANGES = (
    Change("/topics/{topic}/messages/send", "send record", send_record, body_max_bytes=MAX_SEND_BYTES * 2),
    Change(
        "/topics/{topic}/messages/resend",
        "send record again",
        resend_record,
        body_max_bytes=MAX_SEND_BYTES * 2,
    ),
    Change("/topics/{topic}/messages/delete", "delete records", delete_records),
)

"""Sends one record to a topic: a new record, or a copy of a record that was read."""

from __future__ import annotations

import binascii
import json
import random
import time
from dataclasses import dataclass

from kcli.client.admin.admin import AdminClient
from kcli.client.records.partitioner import partition_of
from kcli.client.records.records import Records, value_of
from kcli.console.messages.fetching import records_of, visible_topic
from kcli.console.messages.record import Headers
from kcli.errors import ErrorCode, KafkaError, KcliError, NetworkException, TimeoutException, error_for
from kcli.model.java_text import split_blanks
from kcli.model.topic_partition import TopicPartition
from kcli.protocol.batches.batch import Record, encode_batch
from kcli.protocol.messages.metadata import MetadataResponseTopic

MAX_SEND_BYTES = 16 << 20
"""The largest record that the console sends. The broker has its own limit (max.message.bytes)."""

MAX_HEADERS = 1_000


class InvalidRecord(KcliError):
    """Raised if a page sends a record that cannot be encoded. The message names the invalid part of the record."""


class MayBeWritten(KafkaError):
    """Raised if the broker did not answer, so that the record may or may not be in the topic."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewRecord:
    """A record to send. If `partition` is missing, the key selects the partition. If the timestamp is missing, the
    record gets the present time."""

    key: bytes | None = None
    value: bytes | None = None
    headers: Headers = ()
    partition: int | None = None
    timestamp_ms: int | None = None

    def check(self) -> None:
        """Raises InvalidRecord if the record is too large."""
        size = (
            len(self.key or b"")
            + len(self.value or b"")
            + sum(len(value or b"") for _, value in self.headers)
        )
        if size > MAX_SEND_BYTES:
            raise InvalidRecord(f"the record has {size} bytes; the console sends up to {MAX_SEND_BYTES}")
        if len(self.headers) > MAX_HEADERS:
            raise InvalidRecord(f"the record has {len(self.headers)} headers; the limit is {MAX_HEADERS}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """The partition and the offset of a sent record."""

    partition: int
    offset: int


def encoded(text: str | None, form: str, name: str) -> bytes | None:
    """The bytes of a key or value that a page sends. `form` is null, text, json or hex. Raises InvalidRecord."""
    if form == "null" or text is None:
        return None
    try:
        raw = text.encode()
    except UnicodeEncodeError:
        raise InvalidRecord(f"the {name} has half a surrogate pair") from None
    match form:
        case "text":
            return raw
        case "json":
            return _checked_json(raw, name)
        case "hex":
            return _from_hex(text, name)
        case _:
            raise InvalidRecord(f"the {name} has the format {form}: expected text, json, hex or null")


def _checked_json(raw: bytes, name: str) -> bytes:
    try:
        json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise InvalidRecord(f"the {name} is not JSON: {error}") from None
    return raw


def _from_hex(text: str, name: str) -> bytes:
    try:
        return binascii.unhexlify("".join(split_blanks(text)))
    except (ValueError, binascii.Error) as error:
        raise InvalidRecord(f"the {name} is not hexadecimal: {error}") from None


async def plan(client: AdminClient, topic: str, record: NewRecord) -> int:
    """Returns the partition to which a record would go. Raises InvalidRecord, or the KafkaError of the topic."""
    record.check()
    return _chosen(await visible_topic(client, topic), topic, record)


async def send(client: AdminClient, topic: str, record: NewRecord) -> Sent:
    """Sends a record with acks=all, and waits for its offset.

    The client sends the record again only if the broker refused it. Raises MayBeWritten if no answer arrived, because a
    second attempt could write the record twice.
    """
    record.check()
    partition = await plan(client, topic, record)
    stamp = time.time_ns() // 1_000_000 if record.timestamp_ms is None else record.timestamp_ms
    kafka_record = Record(timestamp_ms=stamp, key=record.key, value=record.value, headers=record.headers)
    batch = encode_batch([kafka_record])
    records, place = records_of(client), TopicPartition(topic, partition)
    return await client.call("produce", lambda: _attempt(client, records, place, batch))


async def _attempt(client: AdminClient, records: Records, place: TopicPartition, batch: bytes) -> Sent:
    # An error of this look-up does not mean that the record may be written.
    value_of((await records.leaders([place]))[place])
    results = await records.produce({place: batch}, timeout_ms=client.config.request_timeout_ms)
    answer = results[place]
    if isinstance(answer, KafkaError):
        if isinstance(answer, NetworkException | TimeoutException) or isinstance(
            answer.__cause__, NetworkException
        ):
            raise MayBeWritten(
                f"the record may be in {place.topic}, because no answer arrived: {answer}"
            ) from answer
        raise answer
    if answer.error_code in (ErrorCode.REQUEST_TIMED_OUT, ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND):
        raise MayBeWritten(f"the leader has the record, but not all replicas: {answer.error_code.name}")
    if answer.error_code is not ErrorCode.NONE:
        what = f": {answer.error_message}" if answer.error_message else ""
        raise error_for(answer.error_code, f"{place}: {answer.error_code.name}{what}")
    return Sent(partition=place.partition, offset=answer.base_offset)


def _chosen(metadata: MetadataResponseTopic, topic: str, record: NewRecord) -> int:
    numbers = sorted(partition.partition_index for partition in metadata.partitions)
    if record.partition is not None:
        if record.partition not in numbers:
            raise InvalidRecord(f"topic {topic} has no partition {record.partition}")
        return record.partition
    if record.key is None:
        return random.choice(numbers)
    return partition_of(record.key, len(numbers))

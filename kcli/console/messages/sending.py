"""Sends one record to a topic: a new record, or a copy of a record that was read."""

from __future__ import annotations

import binascii
import json
import random
import time
from dataclasses import dataclass

from kcli.client.admin.admin import AdminClient
from kcli.console.messages.fetching import UnknownTopic
from kcli.console.messages.partitioner import partition_of
from kcli.console.messages.record import Headers
from kcli.errors import ErrorCode, KafkaError, KcliError, NetworkException, TimeoutException, error_for
from kcli.model.java_text import split_blanks
from kcli.model.request_values import ACKS_ALL
from kcli.protocol.batches.batch import Record, encode_batch
from kcli.protocol.messages.metadata import MetadataResponseTopic
from kcli.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from kcli.protocol.wire.api import ApiKey

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
    return _chosen(await _topic(client, topic), topic, record)


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
    return await client.call("produce", lambda: _attempt(client, topic, partition, batch))


async def _attempt(client: AdminClient, topic: str, partition: int, batch: bytes) -> Sent:
    found = await _topic(client, topic)
    leader = next((each.leader_id for each in found.partitions if each.partition_index == partition), -1)
    if leader < 0:
        raise error_for(ErrorCode.LEADER_NOT_AVAILABLE, f"{topic}-{partition} has no leader")
    data = PartitionProduceData(index=partition, records=batch)
    request = ProduceRequest(
        acks=ACKS_ALL,
        timeout_ms=client.config.request_timeout_ms,
        topic_data=(TopicProduceData(topic_id=found.topic_id, name=topic, partition_data=(data,)),),
    )
    try:
        response = await client.send(request, ApiKey.PRODUCE, to=leader)
    except KafkaError as error:
        if isinstance(error, NetworkException | TimeoutException) or isinstance(
            error.__cause__, NetworkException
        ):
            raise MayBeWritten(f"the record may be in {topic}, because no answer arrived: {error}") from error
        raise
    assert isinstance(response, ProduceResponse)
    answer = response.responses[0].partition_responses[0]
    if answer.error_code in (ErrorCode.REQUEST_TIMED_OUT, ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND):
        raise MayBeWritten(f"the leader has the record, but not all replicas: {answer.error_code.name}")
    if answer.error_code is not ErrorCode.NONE:
        what = f": {answer.error_message}" if answer.error_message else ""
        raise error_for(answer.error_code, f"{topic}-{partition}: {answer.error_code.name}{what}")
    return Sent(partition=partition, offset=answer.base_offset)


async def _topic(client: AdminClient, topic: str) -> MetadataResponseTopic:
    response = await client.metadata([topic])
    found = next((each for each in response.topics if each.name == topic), None)
    if found is None or found.error_code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        raise UnknownTopic(f"topic {topic} does not exist, or you may not see it")
    if found.error_code is not ErrorCode.NONE:
        raise error_for(found.error_code, f"topic {topic}: {found.error_code.name}")
    return found


def _chosen(found: MetadataResponseTopic, topic: str, record: NewRecord) -> int:
    numbers = sorted(each.partition_index for each in found.partitions)
    if record.partition is not None:
        if record.partition not in numbers:
            raise InvalidRecord(f"topic {topic} has no partition {record.partition}")
        return record.partition
    if record.key is None:
        return random.choice(numbers)
    return partition_of(record.key, len(numbers))

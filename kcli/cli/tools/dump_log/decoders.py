"""Decoders of keys and values for dump-log: text, numbers, or the records of internal topics as JSON."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from kcli.cli.syntax.options import CommandError
from kcli.errors import KcliError
from kcli.model.request_values import CONSUMER_PROTOCOL_TYPE
from kcli.protocol.batches.batch import Record
from kcli.protocol.records import json_text
from kcli.protocol.records.schema import Json

if TYPE_CHECKING:
    from kcli.protocol.records.consumer_offsets import ConsumerOffsetsValue
    from kcli.protocol.records.coordinator import CoordinatorRecords

K = TypeVar("K")
V = TypeVar("V")

STRING_DECODER = "org.apache.kafka.tools.api.StringDecoder"


class Decoded(NamedTuple):
    """The texts after `key:` and `payload:`. If a text is None, its part is omitted."""

    key: str | None
    payload: str | None


Decoder = Callable[[Record], Decoded]


def uncaught(exception: str, message: str | None = None) -> CommandError:
    """Returns the error for an exception that ends Kafka's tool: the first line of the exception on stderr, and exit
    code 1."""
    return CommandError(f'Exception in thread "main" {exception}' + (f": {message}" if message else ""))


# Plain bytes -------------------------------------------------------------------------------------------------------


def by_class_names(key_class: str, value_class: str) -> Decoder:
    """Returns the decoder for the names of two classes.

    Raises Kafka's ClassNotFoundException for a class that Kafka does not ship.
    """
    decode_value = _bytes_decoder(value_class)
    decode_key = _bytes_decoder(key_class)

    def decode(record: Record) -> Decoded:
        return Decoded(
            None if record.key is None else decode_key(record.key),
            None if record.value is None else decode_value(record.value),
        )

    return decode


def _bytes_decoder(class_name: str) -> Callable[[bytes], str]:
    try:
        return _BYTES_DECODERS[class_name]
    except KeyError:
        raise uncaught("java.lang.ClassNotFoundException", class_name) from None


def _text(value: bytes) -> str:
    return value.decode("utf-8", "replace")


def _number(form: struct.Struct) -> Callable[[bytes], str]:
    def decode(value: bytes) -> str:
        if len(value) < form.size:
            raise uncaught("java.nio.BufferUnderflowException")
        return str(form.unpack_from(value)[0])

    return decode


_BYTES_DECODERS: dict[str, Callable[[bytes], str]] = {
    STRING_DECODER: _text,
    "org.apache.kafka.tools.api.IntegerDecoder": _number(struct.Struct(">i")),
    "org.apache.kafka.tools.api.LongDecoder": _number(struct.Struct(">q")),
    # Java would print the identity of the array, which is useless. So the bytes are printed in hexadecimal.
    "org.apache.kafka.tools.api.DefaultDecoder": bytes.hex,
}


# The topics of coordinators ------------------------------------------------------------------------------------------


def offsets() -> Decoder:
    from kcli.protocol.records.consumer_offsets import CONSUMER_OFFSETS

    return _coordinator(CONSUMER_OFFSETS, _open_embedded_protocol)


def transaction_log() -> Decoder:
    from kcli.protocol.records.transaction_state import TRANSACTION_STATE

    return _coordinator(TRANSACTION_STATE, _as_it_is)


def share_group_state() -> Decoder:
    from kcli.protocol.records.share_state import SHARE_STATE

    return _coordinator(SHARE_STATE, _as_it_is)


def _coordinator(records: CoordinatorRecords[K, V], finish: Callable[[V, dict[str, Json]], None]) -> Decoder:
    from kcli.protocol.records.coordinator import UnknownRecordTypeError

    def decode(record: Record) -> Decoded:
        if record.key is None:
            raise uncaught(
                "java.lang.RuntimeException",
                f"Failed to decode message at offset {record.offset} using offset topic decoder "
                "(message had a missing key)",
            )
        try:
            key = records.decode_key(record.key)
            payload = "<DELETE>"
            if record.value is not None:
                value, version = records.decode_value(key, record.value)
                payload = _value_text(records, value, version, finish)
        except UnknownRecordTypeError as error:
            return Decoded(
                f"Unknown record type {error.record_type} at offset {record.offset}, skipping.", None
            )
        except KcliError as error:
            return Decoded(f"Error at offset {record.offset}, skipping. {error}", None)
        node = records.key_to_json(key)
        node["type"] = str(node["type"])
        return Decoded(json_text.dumps(node), payload)

    return decode


def _value_text(
    records: CoordinatorRecords[K, V], value: V, version: int, finish: Callable[[V, dict[str, Json]], None]
) -> str:
    node = records.value_to_json(value, version)
    node["version"] = str(node["version"])
    finish(value, node)
    return json_text.dumps(node)


def _as_it_is(value: object, node: dict[str, Json]) -> None:
    pass


def _open_embedded_protocol(value: ConsumerOffsetsValue, node: dict[str, Json]) -> None:
    """Decodes the subscription and assignment bytes of members, if the group is a classic consumer group."""
    from kcli.protocol.records import consumer_protocol as embedded
    from kcli.protocol.records.consumer_offsets import GroupMetadataValue
    from kcli.protocol.records.schema import to_json

    if not isinstance(value, GroupMetadataValue) or value.protocol_type != CONSUMER_PROTOCOL_TYPE:
        return
    data = node["data"]
    assert isinstance(data, dict) and isinstance(data["members"], list)
    for member, shown in zip(value.members, data["members"], strict=True):
        assert isinstance(shown, dict)
        shown["subscription"] = to_json(*embedded.decode_subscription(member.subscription))
        shown["assignment"] = to_json(*embedded.decode_assignment(member.assignment))


# The metadata log ------------------------------------------------------------------------------------------------


def cluster_metadata() -> Decoder:
    from kcli.protocol.records import metadata

    def decode(record: Record) -> Decoded:
        try:
            decoded, version = metadata.decode_metadata_record(record.value or b"")
        except KcliError as error:
            return Decoded(None, f"Error at {record.offset}, skipping. {error}")
        return Decoded(None, json_text.dumps(metadata.metadata_record_to_json(decoded, version)))

    return decode


def remote_log_metadata() -> Decoder:
    from kcli.protocol.records import remote_log_metadata as remote

    def decode(record: Record) -> Decoded:
        try:
            return Decoded(None, remote.describe(remote.decode_remote_log_record(record.value or b"")[0]))
        except KcliError as error:
            return Decoded(None, f"Error at offset {record.offset}, skipping. {error}")

    return decode

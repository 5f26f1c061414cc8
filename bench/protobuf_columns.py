"""Measures decoding of Protobuf values to columns, in rows per second of one core, beside confluent-kafka.

    python bench/protobuf_columns.py [--rows 20000]

Prints a table, then one JSON line per figure. Each figure is the best CPU time of three runs.

A deserializer of confluent-kafka returns Protobuf messages, whose fields have not been read. So there are two figures
for it: messages, and rows as dicts, which a user needs for a table. The goal is GOAL times its rows as dicts.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from kcli.formats.protobuf.columns import ColumnDecoder
from kcli.formats.protobuf.language import parse
from kcli.formats.protobuf.messages import message_type

if TYPE_CHECKING:
    from google.protobuf.message import Message

GOAL = 5.0
ROUNDS = 3

PROTOBUF = """
syntax = "proto3";
package shop;
import "google/protobuf/timestamp.proto";
message Order {
  int64 id = 1; string customer = 2; double amount = 3; Status status = 4; google.protobuf.Timestamp at = 5;
  Address address = 6; repeated Line lines = 7; map<string, string> tags = 8; optional int32 discount = 9;
  bool paid = 10;
  enum Status { NEW = 0; PAID = 1; SENT = 2; }
  message Address { string street = 1; string city = 2; int32 zip = 3; }
  message Line { string sku = 1; int32 count = 2; double price = 3; }
}
message Flat { int64 id = 1; string customer = 2; double amount = 3; int32 count = 4; bool paid = 5; string city = 6; }
"""


def best(rows: int, work: Callable[[], object]) -> float:
    """Returns the highest rate in rows per CPU second."""
    rates = []
    for _ in range(ROUNDS):
        began = time.process_time()
        work()
        rates.append(rows / (time.process_time() - began))
    return max(rates)


def protobuf(rows: int) -> Iterator[tuple[str, float]]:
    """Yields the rates of flat and of nested Protobuf messages."""
    schema = parse(PROTOBUF, {}, is_new=True)
    flat, order = message_type(schema, "shop.Flat"), message_type(schema, "shop.Order")
    yield from _protobuf_rates("flat", flat, [_flat(flat, nth).SerializeToString() for nth in range(rows)])
    yield from _protobuf_rates(
        "nested", order, [_order(order, nth).SerializeToString() for nth in range(rows)]
    )


def _flat(message: type[Message], nth: int) -> Message:
    names = {"customer": f"customer-{nth % 1000}", "city": "Town"}
    return message(id=nth, amount=nth * 1.5, count=nth % 7, paid=nth % 2 == 0, **names)


def _order(message: type[Message], nth: int) -> Message:
    order: Any = message(
        id=nth, customer=f"customer-{nth % 1000}", amount=nth * 1.5, status=nth % 3, paid=nth % 2 == 0
    )
    order.at.seconds = 1_700_000_000 + nth
    order.address.street, order.address.city, order.address.zip = "Main street", "Town", nth % 99_999
    for line in range(nth % 4):
        order.lines.add(sku=f"sku-{line}", count=line, price=line * 2.5)
    if nth % 3 == 0:
        order.tags["a"] = "b"
    if nth % 5 == 0:
        order.discount = nth % 50
    made: Message = order
    return made


def _protobuf_rates(name: str, message: type[Message], payloads: list[bytes]) -> Iterator[tuple[str, float]]:
    import pyarrow as pa
    from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer
    from confluent_kafka.serialization import MessageField, SerializationContext
    from google.protobuf.json_format import MessageToDict

    decoder, count = ColumnDecoder(message), len(payloads)
    deserializer = ProtobufDeserializer(message, {"use.deprecated.format": False})
    context = SerializationContext("orders", MessageField.VALUE)
    framed = [b"\0\0\0\0\1\0" + payload for payload in payloads]

    def messages() -> list[Message]:
        return [deserializer(value, context) for value in framed]

    columns = best(count, lambda: decoder.decode(pa.array(framed, pa.binary()), 6))
    dicts = best(count, lambda: [MessageToDict(one, preserving_proto_field_name=True) for one in messages()])
    yield f"protobuf {name}: columns", columns
    yield f"protobuf {name}: confluent-kafka, messages", best(count, messages)
    yield f"protobuf {name}: confluent-kafka, dicts", dicts
    yield f"protobuf {name}: columns / dicts (goal {GOAL:g})", columns / dicts


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=20_000)
    figures = list(protobuf(parser.parse_args().rows))
    for name, value in figures:
        print(f"{name:60} {value:12,.1f}")
    for name, value in figures:
        print(json.dumps({"name": name, "value": round(value, 1)}))


if __name__ == "__main__":
    main()

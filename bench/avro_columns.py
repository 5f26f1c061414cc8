"""Measures the decoding of Avro values to Arrow columns, beside confluent-kafka-python's AvroDeserializer.

    python bench/avro_columns.py [--values 20000]

Needs `pip install pyarrow 'confluent-kafka[avro,schemaregistry]'`. The registry is the mock of the same library, so no
request is sent. Prints a table, then one JSON line per figure. Each figure is a ratio of CPU times in one run, and the
best of five rounds counts, so other processes on the machine have little influence.
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pyarrow as pa

from kcli.formats.avro.codec import avro_codec, avro_schema
from kcli.formats.avro.columns import ColumnDecoder

GOAL = 5.0
"""The least ratio: rows per CPU-second of columns to those of confluent-kafka-python."""

ROUNDS = 5
BATCH = 10_000
"""The values of one column, as Spark's Arrow batches have by default."""


@dataclass(frozen=True, slots=True)
class Case:
    fields: list[Any]
    value: Callable[[random.Random], dict[str, Any]]
    reader_fields: list[Any] | None = None


def _field(name: str, kind: Any, **more: Any) -> dict[str, Any]:
    return {"name": name, "type": kind, **more}


def _moment(rng: random.Random) -> dt.datetime:
    return dt.datetime.fromtimestamp(1.7e9 + rng.randrange(10**6), dt.UTC)


MILLIS = {"type": "long", "logicalType": "timestamp-millis"}
PRICE = {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}
KIND = {"type": "enum", "name": "Kind", "symbols": ["A", "B", "C"]}
LINE = {"type": "record", "name": "Line", "fields": [_field("sku", "string"), _field("qty", "int")]}
FLAT = [
    _field("id", "long"), _field("customer", "string"), _field("at", MILLIS), _field("price", PRICE),
    _field("kind", KIND), _field("quantity", "int"), _field("paid", "boolean"), _field("weight", "double"),
]  # fmt: skip


def _flat(rng: random.Random) -> dict[str, Any]:
    return {
        "id": rng.randrange(1 << 40),
        "customer": f"customer-{rng.randrange(10**6)}",
        "at": _moment(rng),
        "price": Decimal(rng.randrange(10**7)) / 100,
        "kind": rng.choice("ABC"),
        "quantity": rng.randrange(100),
        "paid": rng.random() < 0.5,
        "weight": rng.random(),
    }


def _nullable(rng: random.Random) -> dict[str, Any]:
    return {name: None if rng.random() < 0.3 else value for name, value in _flat(rng).items()}


def _nested(rng: random.Random) -> dict[str, Any]:
    lines = [{"sku": f"s{rng.randrange(10**5)}", "qty": nth} for nth in range(rng.randrange(6))]
    return {
        "id": rng.randrange(1 << 40),
        "lines": lines,
        "tags": {"a": "x", "b": "y"},
        "first": lines[0] if lines else None,
    }


CASES: dict[str, Case] = {
    "flat record": Case(FLAT, _flat),
    "nullable fields": Case(
        [_field(item["name"], ["null", item["type"]], default=None) for item in FLAT], _nullable
    ),
    "arrays, maps, records": Case(
        [
            _field("id", "long"),
            _field("lines", {"type": "array", "items": LINE}),
            _field("tags", {"type": "map", "values": "string"}),
            _field("first", ["null", "Line"]),
        ],
        _nested,
    ),
    "reader's schema": Case(
        FLAT, _flat, [_field("new", "string", default="n"), *FLAT[::-1][:-1], _field("id", "double")]
    ),
}


def best(work: Callable[[], object], count: int) -> float:
    """Returns the CPU time of a value in microseconds."""
    times = []
    for _ in range(ROUNDS):
        began = time.process_time()
        work()
        times.append((time.process_time() - began) / count * 1e6)
    return min(times)


def measured(case: Case, count: int) -> tuple[float, float]:
    """The CPU times of a value: by columns, and in confluent-kafka-python."""
    from confluent_kafka.schema_registry import Schema, SchemaRegistryClient
    from confluent_kafka.schema_registry.avro import AvroDeserializer
    from confluent_kafka.serialization import MessageField, SerializationContext

    def text(fields: list[Any]) -> str:
        return json.dumps({"type": "record", "name": "Order", "fields": fields})

    writer = avro_schema(text(case.fields))
    reader_text = None if case.reader_fields is None else text(case.reader_fields)
    rng, encode = random.Random(1), avro_codec(writer).encode
    client = SchemaRegistryClient.new_client({"url": "mock://"})
    number = client.register_schema("orders-value", Schema(writer.canonical))
    prefix = b"\0" + number.to_bytes(4)
    values = [prefix + encode(case.value(rng)) for _ in range(count)]
    columns = [pa.array(values[at : at + BATCH]) for at in range(0, count, BATCH)]
    decoder = ColumnDecoder(writer, None if reader_text is None else avro_schema(reader_text))
    for column in columns:
        decoded = decoder.decode(column, len(prefix))
        assert decoded.errors.null_count == len(column) and decoded.values.null_count == 0
    deserialize = AvroDeserializer(client, reader_text)
    context = SerializationContext("orders", MessageField.VALUE)
    return (
        best(lambda: [decoder.decode(column, len(prefix)) for column in columns], count),
        best(lambda: [deserialize(value, context) for value in values], count),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--values", type=int, default=20_000)
    count = parser.parse_args().values
    figures = []
    for name, case in CASES.items():
        own, other = measured(case, count)
        print(
            f"{name:24} {own:6.2f} µs by columns, {other:6.2f} µs in confluent-kafka-python: {other / own:5.1f} times"
        )
        figures.append(
            {"name": f"decode Avro, {name}", "value": round(other / own, 1), "unit": "ratio", "goal": GOAL}
        )
    for figure in figures:
        print(json.dumps(figure))


if __name__ == "__main__":
    main()

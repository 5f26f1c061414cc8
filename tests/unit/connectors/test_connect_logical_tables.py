"""ByLogicalTableRouter: the changes of several tables in one topic."""

from __future__ import annotations

import pytest

from kcli.config.definition import ConfigError
from kcli.connectors.records import ConnectRecord, SinkRecord
from kcli.formats.connect.errors import DataException, JavaException
from kcli.formats.connect.schema import INT32_SCHEMA, OPTIONAL_STRING_SCHEMA, STRING_SCHEMA, struct_schema
from kcli.formats.connect.structs import Struct
from rigs.transforms import sink, transformation

CLASS = "io.debezium.transforms.ByLogicalTableRouter"
ROUTE = {"topic_regex": "(.*)orders-(.*)", "topic_replacement": "$1all-orders"}
ROW = struct_schema(
    {"id": INT32_SCHEMA, "note": OPTIONAL_STRING_SCHEMA}, name="s.orders-1.Value", optional=True
)
ENVELOPE = struct_schema(
    {"before": ROW, "after": ROW, "op": STRING_SCHEMA}, name="s.orders-1.Envelope", version=2
)
KEY = struct_schema({"id": INT32_SCHEMA}, name="s.orders-1.Key")


def event(topic: str, *, with_key: bool = True) -> SinkRecord:
    value = Struct.of_checked(ENVELOPE, [None, Struct.of_checked(ROW, [1, "x"]), "c"])
    key = Struct.of_checked(KEY, [1]) if with_key else None
    return sink(value, ENVELOPE, key=key, key_schema=KEY if with_key else None, topic=topic)


def routed(record: SinkRecord, **config: str) -> ConnectRecord:
    made = transformation(CLASS, **{**ROUTE, **config}).apply(record)
    assert made is not None
    for part, schema in ((made.key, made.key_schema), (made.value, made.value_schema)):
        if isinstance(part, Struct):
            part.validate()
            assert part.schema == schema
    return made


def test_an_event_moves_with_its_schemas_and_its_table() -> None:
    made = routed(event("s.orders-1"))
    assert made.topic == "s.all-orders"
    assert made.key_schema == struct_schema(
        {"id": INT32_SCHEMA, "__dbz__physicalTableIdentifier": STRING_SCHEMA}, name="s.all-orders.Key"
    )
    assert isinstance(made.key, Struct) and made.key.values == [1, "s.orders-1"]
    row = struct_schema(
        {"id": INT32_SCHEMA, "note": OPTIONAL_STRING_SCHEMA}, name="s.all-orders.Value", optional=True
    )
    assert made.value_schema == struct_schema(
        {"before": row, "after": row, "op": STRING_SCHEMA}, name="s.all-orders.Envelope", version=2
    )
    assert isinstance(made.value, Struct)
    assert made.value.values == [None, Struct.of_checked(row, [1, "x"]), "c"]


def test_the_table_comes_from_the_topic() -> None:
    config = {"key_field_name": "shard", "key_field_regex": ".*-(.)", "key_field_replacement": "s$1"}
    made = routed(event("s.orders-2"), **config, schema_name_adjustment_mode="avro")
    assert isinstance(made.key, Struct)
    assert (made.key.values, list(made.key.schema.positions)) == ([1, "s2"], ["id", "shard"])
    assert (made.topic, made.key.schema.name) == ("s.all-orders", "s.all_orders.Key")
    made = routed(event("s.orders-22"), **config)
    assert isinstance(made.key, Struct) and made.key.values == [1, "s.orders-22"], (
        "the expression does not fit"
    )
    made = routed(event("s.orders-2"), key_enforce_uniqueness="false")
    assert isinstance(made.key, Struct) and made.key.values == [1]
    assert made.key.schema.name == "s.all-orders.Key"


def test_other_topics_stay_and_other_records_keep_their_values() -> None:
    other = event("s.customers")
    assert routed(other) is other
    unnamed = event("orders-1")
    assert routed(unnamed, topic_replacement="$1") is unnamed, "no name is left"
    assert (routed(event("s.orders-1", with_key=False)).key, routed(event("s.orders-1")).topic) == (
        None,
        "s.all-orders",
    )
    tombstone = sink(None, key=Struct.of_checked(KEY, [1]), key_schema=KEY, topic="s.orders-1")
    made = routed(tombstone)
    assert isinstance(made.key, Struct) and (made.key.values, made.value) == ([1, "s.orders-1"], None)
    plain = routed(sink("text", STRING_SCHEMA, topic="s.orders-1"))
    assert (plain.topic, plain.value, plain.value_schema) == ("s.all-orders", "text", STRING_SCHEMA)
    with pytest.raises(DataException, match="Only Struct objects"):
        routed(sink("text", STRING_SCHEMA, key="1", key_schema=STRING_SCHEMA, topic="s.orders-1"))


def test_names_are_remembered_up_to_a_limit() -> None:
    router = transformation(CLASS, **ROUTE, logical_table_cache_size="1")
    for _ in range(2):
        for topic in ("a.orders-1", "b.orders-1", "b.orders-2"):
            made = router.apply(event(topic))
            assert made is not None and isinstance(made.key, Struct)
            assert (made.topic, made.key.values) == (f"{topic[0]}.all-orders", [1, topic])
            assert made.key.schema.name == f"{topic[0]}.all-orders.Key"


def test_invalid_keys_are_refused() -> None:
    for config in (
        {"topic_regex": "("}, {"key_field_regex": "("}, {"key_field_regex": "x"}, {"schema_name_adjustment_mode": "x"},
        {"logical_table_cache_size": "0"},
    ):  # fmt: skip
        with pytest.raises(ConfigError):
            transformation(CLASS, **{**ROUTE, **config})
    with pytest.raises(ConfigError, match="topic"):
        transformation(CLASS, topic_regex="x")
    with pytest.raises(JavaException, match="No group 9"):
        routed(event("s.orders-1"), topic_replacement="$9")

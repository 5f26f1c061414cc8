"""ExtractNewRecordState: rows in place of envelopes, deletes, and additional fields and headers."""

from __future__ import annotations

import pytest

from kcli.config.definition import ConfigError
from kcli.connectors.records import ConnectRecord, Header, SinkRecord
from kcli.formats.connect.errors import DataException
from kcli.formats.connect.schema import (
    INT32_SCHEMA,
    INT64_SCHEMA,
    OPTIONAL_INT32_SCHEMA,
    OPTIONAL_INT64_SCHEMA,
    OPTIONAL_STRING_SCHEMA,
    STRING_SCHEMA,
    Schema,
    SchemaType,
    struct_schema,
)
from kcli.formats.connect.structs import Struct
from rigs.transforms import sink, transformation

CLASS = "io.debezium.transforms.ExtractNewRecordState"
NOTE = Schema(SchemaType.STRING, optional=True, default="none")
ROW = struct_schema(
    {"id": INT32_SCHEMA, "note": NOTE, "size": OPTIONAL_INT32_SCHEMA}, name="s.t.Value", optional=True
)
SOURCE = struct_schema(
    {
        "table": STRING_SCHEMA,
        "snapshot": Schema(SchemaType.STRING, optional=True, default="false"),
        "ts_ms": INT64_SCHEMA,
    },
    name="Source",
)
TRANSACTION = struct_schema({"id": STRING_SCHEMA}, name="event.block", optional=True)
ENVELOPE = struct_schema(
    {"before": ROW, "after": ROW, "source": SOURCE, "transaction": TRANSACTION, "op": STRING_SCHEMA,
     "ts_ms": OPTIONAL_INT64_SCHEMA},
    name="s.t.Envelope",
)  # fmt: skip
KEY = struct_schema({"id": INT32_SCHEMA}, name="s.t.Key")


def row(*values: object) -> Struct:
    return Struct.of_checked(ROW, list(values))


def event(op: str, before: Struct | None, after: Struct | None, *headers: Header) -> SinkRecord:
    source = Struct.of_checked(SOURCE, ["t", None, 5])
    value = Struct.of_checked(ENVELOPE, [before, after, source, None, op, 6])
    key = (after or before or row(0)).values[0]
    return sink(value, ENVELOPE, key=Struct.of_checked(KEY, [key]), key_schema=KEY, headers=headers)


CREATED = event("c", None, row(1, None, 2))
DELETED = event("d", row(1, "a", None), None)
TOMBSTONE = sink(None, key=Struct.of_checked(KEY, [1]), key_schema=KEY)


def extracted(record: SinkRecord, **config: str) -> ConnectRecord | None:
    made = transformation(CLASS, **config).apply(record)
    if made is not None and isinstance(made.value, Struct):
        made.value.validate()
        assert made.value.schema == made.value_schema
    return made


def shown(record: SinkRecord, **config: str) -> object:
    """The fields of the row, the text of a null with a schema, or None if the record is dropped."""
    made = extracted(record, **config)
    if made is None:
        return None
    if made.value is None:
        return "null" if made.value_schema is None else f"null of {made.value_schema.name}"
    assert isinstance(made.value, Struct)
    return {field.name: value for field, value in made.value.items()}


def test_a_row_replaces_the_envelope() -> None:
    made = extracted(CREATED)
    assert made is not None and isinstance(made.value, Struct)
    assert shown(CREATED) == {"id": 1, "note": None, "size": 2}
    assert made.value_schema == struct_schema(
        {"id": INT32_SCHEMA, "note": NOTE, "size": OPTIONAL_INT32_SCHEMA}, name="s.t.Value"
    ), "the row is required"
    assert (made.key, made.topic, made.headers) == (CREATED.key, "t", ())


def test_other_records_pass_unchanged() -> None:
    for record in (sink("text", STRING_SCHEMA), sink({"a": 1}), sink(row(1, "a", 2), ROW)):
        assert extracted(record, add_headers="op") is record


OLD_ROW = {"id": 1, "note": "a", "size": None, "__deleted": "true"}


@pytest.mark.parametrize(
    ("mode", "deleted", "tombstone"),
    [
        ("drop", None, None),
        ("tombstone", "null of s.t.Value", None),
        ("Delete-to-Tombstone", "null", None),
        ("rewrite", OLD_ROW, None),
        ("rewrite-with-tombstone", OLD_ROW, "null"),
    ],
)
def test_the_mode_chooses_what_a_delete_leaves(mode: str, deleted: object, tombstone: object) -> None:
    assert shown(DELETED, delete_tombstone_handling_mode=mode) == deleted
    assert shown(TOMBSTONE, delete_tombstone_handling_mode=mode) == tombstone
    assert shown(event("t", None, None), delete_tombstone_handling_mode=mode) is None, "a truncate has no row"


def test_a_rewritten_row_says_that_it_is_not_deleted() -> None:
    # The insertion of the field replaces nulls, as the insertion of any field does.
    rewrite = {"delete_tombstone_handling_mode": "rewrite"}
    assert shown(CREATED, **rewrite) == {"id": 1, "note": "none", "size": 2, "__deleted": "false"}
    assert shown(CREATED, **rewrite, replace_null_with_default="false") == {
        "id": 1, "note": None, "size": 2, "__deleted": "false"
    }  # fmt: skip


def test_fields_of_the_event_are_added() -> None:
    added = shown(
        CREATED, add_fields="op, table,source.ts_ms,ts_ms:at,transaction.id,nothing,snapshot,before.id"
    )
    assert added == {
        "id": 1, "note": None, "size": 2, "__op": "c", "__table": "t", "__source_ts_ms": 5, "__at": 6,
        "__transaction_id": None, "__snapshot": None, "__before_id": None,
    }  # fmt: skip
    made = extracted(CREATED, add_fields="snapshot", add_fields_prefix="x.")
    assert made is not None and made.value_schema is not None
    assert made.value_schema.fields[-1].name == "x.snapshot"
    assert made.value_schema.fields[-1].schema == OPTIONAL_STRING_SCHEMA, "the default is left out"
    rewritten = shown(DELETED, delete_tombstone_handling_mode="rewrite", add_fields="op")
    assert rewritten == OLD_ROW | {"__op": "d"}
    assert shown(DELETED, add_fields="op") == "null of s.t.Value"


def test_headers_of_the_event_are_added() -> None:
    old = Header("old", STRING_SCHEMA, "1")
    made = extracted(
        event("u", None, row(1, "a", 2), old), add_headers="op,table:T,id", add_headers_prefix="_"
    )
    assert made is not None
    assert made.headers == [
        old, Header("_op", OPTIONAL_STRING_SCHEMA, "u"), Header("_T", OPTIONAL_STRING_SCHEMA, "t"),
        Header("_id", OPTIONAL_STRING_SCHEMA, None),
    ]  # fmt: skip
    keep = {"delete_tombstone_handling_mode": "rewrite-with-tombstone"}
    made = extracted(TOMBSTONE, add_headers="table,op", **keep)
    assert made is not None and made.headers == [Header("__op", STRING_SCHEMA, "d")]
    assert extracted(TOMBSTONE, add_headers="table", **keep) is TOMBSTONE


def test_a_field_of_the_row_names_the_topic() -> None:
    for record, topic in (
        (event("c", None, row(1, "orders", 2)), "orders"),
        (DELETED, "a"),
        (event("c", None, row(1, " ", 2)), "t"),
    ):
        made = extracted(record, route_by_field="note")
        assert made is not None and made.topic == topic
    with pytest.raises(DataException, match="Field 'size' is not of type STRING"):
        extracted(CREATED, route_by_field="size")
    with pytest.raises(DataException, match="x is not a valid field name"):
        extracted(CREATED, route_by_field="x")


def test_a_header_lists_fields_to_leave_out() -> None:
    record = event("c", None, row(1, None, 2), Header("drop", None, ["id", "size"]))
    keys = {"drop_fields_header_name": "drop"}
    assert shown(record, **keys) == {"id": 1, "note": "none"}, "a required field stays"
    keys["drop_fields_keep_schema_compatible"] = "false"
    made = extracted(record, **keys)
    assert made is not None and made.key == record.key
    assert shown(record, **keys) == {"note": "none"}
    made = extracted(record, **keys, drop_fields_from_key="true")
    assert made is not None and made.key == Struct(struct_schema({}, name="s.t.Key"))
    for value in (None, []):
        same = event("c", None, row(1, None, 2), Header("drop", None, value))
        assert shown(same, **keys) == {"id": 1, "note": None, "size": 2}
    with pytest.raises(DataException, match="expected a list of the names of fields"):
        extracted(event("c", None, row(1, None, 2), Header("drop", None, "id")), **keys)


def test_added_fields_can_be_left_out_except_those_of_a_delete() -> None:
    drop = Header("drop", None, ["__op", "size"])
    keys = {
        "drop_fields_header_name": "drop",
        "add_fields": "op",
        "delete_tombstone_handling_mode": "rewrite",
    }
    assert shown(event("c", None, row(1, "a", 2), drop), **keys) == {
        "id": 1,
        "note": "a",
        "__deleted": "false",
    }
    assert shown(event("d", row(1, "a", 2), None, drop), **keys) == {
        "id": 1, "note": "a", "__deleted": "true", "__op": "d"
    }  # fmt: skip


def test_invalid_keys_are_refused() -> None:
    for key, value in (
        ("delete.tombstone.handling.mode", "none"), ("add.fields", "a:b:c"), ("add.headers", "op,:"),
        ("drop.fields.from.key", "maybe"),
    ):  # fmt: skip
        with pytest.raises(ConfigError):
            transformation(CLASS, **{key.replace(".", "_"): value})
    with pytest.raises(DataException, match="the event has no nothing"):
        extracted(CREATED, add_fields="nothing.id")

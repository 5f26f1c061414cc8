"""Events of the messages of a stream, and the positions that their offsets store."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace

import pytest

from kcli.connectors.cdc.catalog import TableFacts
from kcli.connectors.cdc.events import EventMaker, EventSettings
from kcli.connectors.cdc.messages import MessageForm
from kcli.connectors.cdc.naming import Naming
from kcli.connectors.cdc.pgoutput import (
    Begin,
    Change,
    Column,
    Commit,
    Delete,
    Insert,
    LogicalMessage,
    Missing,
    Origin,
    ProtocolError,
    Relation,
    Truncate,
    Tuple,
    TypeName,
    Update,
)
from kcli.connectors.cdc.positions import Phase, Position
from kcli.connectors.cdc.tables import Table, TableChoice, build_table
from kcli.connectors.cdc.value_types import Modes, TypeInfo
from kcli.connectors.records import SourceRecord
from kcli.formats.connect.errors import DataException
from kcli.formats.connect.schema import SchemaType
from kcli.formats.connect.structs import Struct

TYPES = {23: TypeInfo("int4"), 25: TypeInfo("text"), 1700: TypeInfo("numeric")}
ORDERS = Relation(
    1, "public", "orders", "d",
    (Column("id", True, 23, -1), Column("note", False, 25, -1), Column("size", False, 23, -1)),
)  # fmt: skip
FACTS = TableFacts(frozenset({"id", "size"}), ("id",))
CHOICE = TableChoice(
    Naming("shop"), lambda schema, table: True, lambda column: True, lambda table: None, Modes()
)
SETTINGS = EventSettings(
    "shop", "db", "0.9", True, frozenset("t"), "__debezium-heartbeat.shop", "shop.message",
    lambda prefix: prefix != "other", MessageForm(Modes()), True,
)  # fmt: skip
ANNOUNCED = replace(SETTINGS, transaction_topic="shop.transaction")
CONTEXT = [
    ("__debezium.context.connectorLogicalName", "shop"),
    ("__debezium.context.taskId", "0"),
    ("__debezium.context.connectorName", "postgresql"),
]
START = Position(Phase.STREAM, 100, 100)


@dataclass
class Stream:
    """A stream of one transaction after the other."""

    settings: EventSettings = SETTINGS
    position: Position = START
    choice: TableChoice = CHOICE
    facts: TableFacts = FACTS
    relation: Relation = ORDERS
    type_changes: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.maker = EventMaker(self.settings, self.position, self._describe, self._forget, lambda: 5_000_001)
        self.lsn = self.position.commit_lsn
        self.xid = 700
        self.maker.records(0, self.relation)

    def _forget(self) -> None:
        self.type_changes.append("again")

    def _describe(self, relation: Relation) -> Table | None:
        if not self.choice.captures(relation.schema, relation.table):
            return None
        return build_table(relation, self.facts, TYPES.__getitem__, self.choice)

    def transaction(self, *changes: Change, same_lsn: bool = False) -> list[SourceRecord]:
        self.xid += 1
        first = self.lsn + 1
        commit_lsn = first + len(changes)
        records = self.maker.records(first, Begin(commit_lsn, 3_000_000, self.xid))
        for place, change in enumerate(changes):
            records += self.maker.records(first if same_lsn else first + place, change)
        self.lsn = commit_lsn + 1
        records += self.maker.records(commit_lsn, Commit(commit_lsn, self.lsn, 3_000_000))
        for record in records:
            if record.value is not None:
                value_of(record).validate()
        return records


def value_of(record: SourceRecord) -> Struct:
    assert isinstance(record.value, Struct)
    return record.value


def row(record: SourceRecord, side: str = "after") -> list[object]:
    struct = value_of(record).get(side)
    assert isinstance(struct, Struct)
    return struct.values


def key_of(record: SourceRecord) -> list[object]:
    assert isinstance(record.key, Struct)
    return record.key.values


def op(record: SourceRecord) -> object:
    return None if record.value is None else value_of(record).get("op")


def headers(record: SourceRecord) -> list[tuple[str, str]]:
    return [(header.key, str(header.value)) for header in record.headers]


def texts(*values: str | Missing | None) -> Tuple:
    return tuple(value.encode() if isinstance(value, str) else value for value in values)


ONE = texts("1", "a", "9")


def test_an_event_has_debeziums_envelope() -> None:
    (record,) = Stream().transaction(Insert(1, ONE))
    assert (record.topic, record.source_partition) == ("shop.public.orders", {"server": "shop"})
    assert key_of(record) == [1]
    assert record.key_schema.name == "shop.public.orders.Key"
    schema = record.value_schema
    assert (schema.name, schema.version) == ("shop.public.orders.Envelope", 2)
    assert list(schema.positions) == [
        "before",
        "after",
        "source",
        "transaction",
        "op",
        "ts_ms",
        "ts_us",
        "ts_ns",
    ]
    assert schema.fields[0].schema.name == "shop.public.orders.Value" and schema.fields[0].schema.optional
    assert [(item.name, item.schema.optional) for item in schema.fields[1].schema.fields] == [
        ("id", False),
        ("note", True),
        ("size", False),
    ]
    source = value_of(record).get("source")
    assert isinstance(source, Struct)
    assert {item.name: value for item, value in source.items()} == {
        "version": "0.9", "connector": "postgresql", "name": "shop", "ts_ms": 3000, "snapshot": None, "db": "db",
        "sequence": '["100","101"]', "ts_us": 3_000_000, "ts_ns": 3_000_000_000, "schema": "public", "table": "orders",
        "txId": 701, "lsn": 101, "xmin": None,
    }  # fmt: skip
    assert source.schema.name == "io.debezium.connector.postgresql.Source"
    assert value_of(record).values[-4:] == ["c", 5000, 5_000_001, 5_000_001_000]
    assert record.source_offset == {
        "lsn": 101, "lsn_proc": 101, "lsn_commit": 100, "lsn_event": 0, "txId": 701, "ts_usec": 3_000_000
    }  # fmt: skip


def test_a_delete_is_followed_by_a_tombstone() -> None:
    stream = Stream()
    event, tombstone = stream.transaction(Delete(1, texts("1", None, None)))
    # A required column that is not in the replica identity has the fallback of its type.
    assert (op(event), row(event, "before"), value_of(event).get("after")) == ("d", [1, None, 0], None)
    assert (tombstone.value, tombstone.value_schema, tombstone.key) == (None, None, event.key)
    # Only the last record of the change passes the change.
    assert (event.source_offset["lsn"], tombstone.source_offset["lsn"]) == (100, 101)
    plain = Stream(settings=replace(SETTINGS, tombstones=False))
    assert [op(record) for record in plain.transaction(Delete(1, texts("1", None, None)))] == ["d"]


def test_a_changed_key_is_a_delete_and_a_create() -> None:
    records = Stream().transaction(Update(1, texts("1", None, None), texts("2", "a", "9")))
    assert [op(record) for record in records] == ["d", None, "c"]
    assert [key_of(record) for record in records] == [[1], [1], [2]]
    new, old = ("__debezium.newkey", "Struct{id=2}"), ("__debezium.oldkey", "Struct{id=1}")
    assert list(map(headers, records)) == [[new, *CONTEXT], [new, *CONTEXT], [old, *CONTEXT]]
    assert [record.source_offset["lsn"] for record in records] == [100, 100, 101]


def test_an_update_has_the_old_row_with_a_full_replica_identity() -> None:
    relation = replace(
        ORDERS, replica_identity="f", columns=tuple(replace(c, is_key=True) for c in ORDERS.columns)
    )
    stream = Stream(relation=relation)
    (event,) = stream.transaction(Update(1, texts("1", "long", "9"), texts("1", Missing.UNCHANGED, "8")))
    assert (row(event, "before"), row(event)) == ([1, "long", 9], [1, "long", 8])
    assert key_of(event) == [1], "the key is the primary key"
    (event,) = Stream().transaction(Update(1, None, texts("1", Missing.UNCHANGED, "8")))
    assert value_of(event).get("before") is None
    assert row(event) == [1, "__debezium_unavailable_value", 8]


def test_a_value_without_placeholder_is_null_in_an_optional_field() -> None:
    relation = replace(ORDERS, columns=(ORDERS.columns[0], Column("size", False, 1700, -1)))
    (event,) = Stream(relation=relation).transaction(Update(1, None, texts("1", Missing.UNCHANGED)))
    assert row(event) == [1, None]
    assert event.value_schema.fields[1].schema.field("size").schema.optional


def test_a_null_in_a_required_column_makes_its_field_optional() -> None:
    stream = Stream()
    (event,) = stream.transaction(Insert(1, texts("1", None, None)))
    assert row(event) == [1, None, None]
    (event,) = stream.transaction(Insert(1, ONE))
    assert event.value_schema.fields[1].schema.field("size").schema.optional
    stream.maker.records(0, ORDERS)
    (event,) = stream.transaction(Insert(1, ONE))
    assert not event.value_schema.fields[1].schema.field("size").schema.optional


def test_a_new_relation_changes_the_schema() -> None:
    stream = Stream()
    stream.transaction(Insert(1, ONE))
    stream.maker.records(0, TypeName(77, "public", "mood"))
    stream.maker.records(0, replace(ORDERS, columns=(*ORDERS.columns[:2], Column("flag", False, 25, -1))))
    (event,) = stream.transaction(Insert(1, texts("1", "a", "yes")))
    assert list(event.value_schema.fields[1].schema.positions) == ["id", "note", "flag"]
    assert stream.type_changes == ["again"]
    assert stream.maker.records(0, Origin("other")) == []


def test_headers_name_the_connector_and_its_task() -> None:
    stream = Stream()
    for record in stream.transaction(Insert(1, ONE), Delete(1, ONE)):
        assert headers(record) == CONTEXT
    assert stream.maker.heartbeat().headers == ()
    (record,) = Stream(settings=replace(SETTINGS, has_context_headers=False)).transaction(Insert(1, ONE))
    assert record.headers == ()


def test_a_message_of_a_transaction_is_a_record() -> None:
    (record,) = Stream().transaction(
        LogicalMessage(True, 101, "audit", b"\0\xff"), LogicalMessage(True, 102, "other", b"")
    )
    assert (record.topic, key_of(record), record.headers) == ("shop.message", ["audit"], ())
    assert record.key_schema.name == "io.debezium.connector.postgresql.MessageKey"
    schema = record.value_schema
    assert (schema.name, schema.version) == ("io.debezium.connector.postgresql.MessageValue", 1)
    assert list(schema.positions) == ["op", "ts_ms", "source", "transaction", "message"]
    value = value_of(record)
    assert [value.get(name) for name in ("op", "ts_ms", "transaction")] == ["m", 5000, None]
    assert row(record, "message") == ["audit", b"\0\xff"]
    source = value.get("source")
    assert isinstance(source, Struct)
    assert [source.get(name) for name in ("schema", "table", "txId", "lsn", "ts_ms")] == [
        "",
        "",
        701,
        101,
        3000,
    ]
    assert record.source_offset["lsn_commit"] == 100
    settings = replace(SETTINGS, message_form=MessageForm(Modes(binary_handling="hex")))
    (record,) = Stream(settings=settings).transaction(LogicalMessage(True, 101, "audit", b"\0\xff"))
    assert row(record, "message") == ["audit", "00ff"]


def test_a_message_between_transactions_moves_the_position() -> None:
    stream = Stream()
    (record,) = stream.maker.records(350, LogicalMessage(False, 400, "audit", b"x"))
    assert (record.source_offset["lsn_commit"], stream.maker.position.commit_lsn) == (400, 400)
    source = value_of(record).get("source")
    assert isinstance(source, Struct)
    assert [source.get(name) for name in ("txId", "lsn", "sequence")] == [None, 400, '["400","400"]']
    assert stream.maker.records(450, LogicalMessage(False, 500, "other", b"x")) == []
    assert stream.maker.position.commit_lsn == 500
    stream.maker.records(501, Begin(600, 0, 800))
    with pytest.raises(ProtocolError, match="stands in a transaction"):
        stream.maker.records(502, LogicalMessage(False, 502, "audit", b"x"))


def test_a_tombstone_of_a_table_without_a_key_has_no_key() -> None:
    relation = replace(ORDERS, columns=tuple(replace(column, is_key=False) for column in ORDERS.columns))
    stream = Stream(relation=relation, facts=TableFacts())
    (record,) = stream.transaction(Insert(1, ONE))
    assert (record.key, record.key_schema) == (None, None)
    assert [(op(record), record.key) for record in stream.transaction(Delete(1, ONE))] == [
        ("d", None), (None, None)
    ]  # fmt: skip


def test_a_composite_key_has_the_order_of_the_primary_key() -> None:
    columns = (ORDERS.columns[0], ORDERS.columns[1], replace(ORDERS.columns[2], is_key=True))
    facts = TableFacts(frozenset({"id", "size"}), ("size", "id"))
    (record,) = Stream(relation=replace(ORDERS, columns=columns), facts=facts).transaction(Insert(1, ONE))
    assert list(record.key_schema.positions) == ["size", "id"]
    # Another primary key at present: the stream is right about the time of the change.
    facts = TableFacts(frozenset(), ("note",))
    (record,) = Stream(relation=replace(ORDERS, columns=columns), facts=facts).transaction(Insert(1, ONE))
    assert list(record.key_schema.positions) == ["id", "size"]


def test_filters_and_chosen_keys() -> None:
    choice = replace(
        CHOICE, includes=lambda column: column != "public.orders.note", key_columns=lambda table: ["note"]
    )
    (record,) = Stream(choice=choice).transaction(Insert(1, ONE))
    assert (row(record), key_of(record)) == ([1, 9], ["a"])
    assert record.key_schema.fields[0].schema.type is SchemaType.STRING
    stream = Stream(choice=replace(CHOICE, captures=lambda schema, table: False))
    assert stream.transaction(Insert(1, ONE)) == []
    with pytest.raises(DataException, match="has no column nothing"):
        Stream(choice=replace(CHOICE, key_columns=lambda table: ["nothing"]))


def test_skipped_operations_have_no_events() -> None:
    changes = (Insert(1, ONE), Update(1, None, ONE), Delete(1, ONE), Truncate((1,)))
    for skipped, expected in (("", "cudt"), ("t", "cud"), ("cu", "dt"), ("cudt", "")):
        settings = replace(SETTINGS, tombstones=False, skipped=frozenset(skipped))
        records = Stream(settings=settings).transaction(*changes)
        assert "".join(str(op(record)) for record in records) == expected
    (truncate,) = Stream(settings=replace(SETTINGS, skipped=frozenset())).transaction(Truncate((1,)))
    assert (truncate.key, value_of(truncate).get("before")) == (None, None)


@pytest.mark.parametrize(("skipped", "expected"), [("u", "d-c"), ("d", "c"), ("c", "d-"), ("cd", "")])
def test_a_changed_key_is_skipped_as_a_delete_and_a_create(skipped: str, expected: str) -> None:
    settings = replace(ANNOUNCED, skipped=frozenset(skipped))
    _, *records, end = Stream(settings=settings).transaction(
        Update(1, texts("1", None, None), texts("2", "a", "9"))
    )
    assert "".join(str(op(record) or "-") for record in records) == expected
    assert value_of(end).get("event_count") == len(expected.replace("-", ""))


@pytest.mark.parametrize("same_lsn", [False, True])
def test_a_restart_at_any_record_repeats_and_loses_nothing(same_lsn: bool) -> None:
    transactions = [
        (Insert(1, ONE), Insert(1, texts("2", "b", "9")), Insert(1, texts("3", "c", "9"))),
        (Update(1, texts("1", None, None), texts("4", "a", "9")), Delete(1, texts("2", None, None))),
        (Insert(1, texts("5", "e", "9")),),
    ]

    def shown(records: list[SourceRecord]) -> list[tuple[object, ...]]:
        return [(op(record), *key_of(record)) for record in records]

    stream = Stream()
    complete = [
        record for changes in transactions for record in stream.transaction(*changes, same_lsn=same_lsn)
    ]
    for count in range(1, len(complete) + 1):
        stored = json.loads(json.dumps(complete[count - 1].source_offset))
        again = Stream(position=Position.of(stored))
        again.lsn, again.xid = START.commit_lsn, 700
        rest = []
        for changes in transactions:
            # The server leaves out the transactions that were committed before the position.
            if again.lsn + 1 + len(changes) < stored["lsn_commit"]:
                again.lsn, again.xid = again.lsn + len(changes) + 2, again.xid + 1
                continue
            rest += again.transaction(*changes, same_lsn=same_lsn)
        first = next(place for place in range(len(complete) + 1) if shown(complete)[place:] == shown(rest))
        assert first <= count, "nothing is lost"
        change_begins = [0, 1, 2, 3, 6, 8, 9]
        assert first == max(place for place in change_begins if place <= count), (
            "only a begun change is repeated"
        )


def test_transactions_are_announced_and_count_their_events() -> None:
    records = Stream(settings=ANNOUNCED).transaction(
        Insert(1, ONE),
        Update(1, texts("1", None, None), texts("2", "a", "9")),
        LogicalMessage(True, 103, "audit", b""),
    )
    begin, *changes, end = records
    assert (begin.topic, key_of(begin), begin.headers) == ("shop.transaction", ["701:101"], ())
    assert value_of(begin).values == ["BEGIN", "701:101", None, None, 3000]
    assert [field.name for field, _ in value_of(begin).items()] == [
        "status", "id", "event_count", "data_collections", "ts_ms"
    ]  # fmt: skip
    assert begin.value_schema.name == "io.debezium.connector.common.TransactionMetadataValue"
    assert begin.key_schema.name == "io.debezium.connector.common.TransactionMetadataKey"
    blocks = [row(record, "transaction") for record in changes if record.value is not None]
    assert blocks == [["701:101", 1, 1], ["701:102", 2, 2], ["701:102", 3, 3], ["701:103", 4, 1]]
    status, name, count, collections, _ = value_of(end).values
    assert (status, name, count, end.source_offset["lsn_commit"]) == ("END", "701:105", 4, 105)
    assert isinstance(collections, list)
    assert [item.values for item in collections] == [["public.orders", 3], ["message", 1]]


def test_a_restart_in_an_announced_transaction_counts_all_of_its_events() -> None:
    transactions = [
        (
            Insert(1, ONE),
            Update(1, texts("1", None, None), texts("4", "a", "9")),
            Insert(1, texts("2", "b", "9")),
        ),
        (Truncate((1,)),),  # a skipped operation
        (Delete(1, texts("2", None, None)),),
    ]

    def shown(records: list[SourceRecord]) -> list[str]:
        return [repr((record.topic, record.key, record.value, record.source_offset)) for record in records]

    stream = Stream(settings=ANNOUNCED)
    complete = [record for changes in transactions for record in stream.transaction(*changes)]
    assert len(complete) == 13
    for count in range(1, len(complete) + 1):
        stored = json.loads(json.dumps(complete[count - 1].source_offset))
        again = Stream(settings=ANNOUNCED, position=Position.of(stored))
        again.lsn, again.xid = START.commit_lsn, 700
        rest = []
        for changes in transactions:
            if again.lsn + 1 + len(changes) < stored["lsn_commit"]:
                again.lsn, again.xid = again.lsn + len(changes) + 2, again.xid + 1
                continue
            rest += again.transaction(*changes)
        # Only the records of a change that was cut off are repeated.
        assert shown(rest) == shown(complete[len(complete) - len(rest) :])
        assert len(complete) - count <= len(rest) <= len(complete) - count + 2


def test_positions_and_offsets() -> None:
    for position in (
        START,
        Position(Phase.STREAM, 5, 6, event=2, xid=3, time_us=4),
    ):
        assert Position.of(position.offset) == position
        assert Position.of(position.snapshot_offset(last=True)) == position
        assert Position.of(position.snapshot_offset(last=False)) == replace(position, phase=Phase.SNAPSHOT)
    # An offset of Debezium does not count the changes at its lsn, so they are sent again.
    debezium = Position.of({"transaction_id": None, "lsn_proc": 9, "lsn_commit": 8, "lsn": 9, "txId": 7})
    assert debezium.covers(7, 8, 1) and not debezium.covers(7, 9, 0) and not debezium.covers(8, 8, 0)
    assert Position.of({"lsn": 5}).commit_lsn == 5
    for offset in ({}, {"lsn": "5"}, {"lsn": True}, {"lsn": -1}):
        with pytest.raises(ValueError):
            Position.of(offset)


def test_keepalives_move_the_position_only_between_transactions() -> None:
    stream = Stream()
    stream.maker.records(1, Begin(900, 0, 800))
    stream.maker.passed(500)
    assert (stream.maker.position.commit_lsn, stream.maker.in_transaction) == (100, True)
    stream.maker.records(900, Commit(900, 901, 0))
    stream.maker.passed(950)
    assert stream.maker.position.commit_lsn == 950
    beat = stream.maker.heartbeat()
    assert (beat.topic, beat.source_offset["lsn_commit"]) == ("__debezium-heartbeat.shop", 950)
    assert value_of(beat).values == [5000] and key_of(beat) == ["shop"]


def test_a_stream_in_a_wrong_order_is_refused() -> None:
    with pytest.raises(ProtocolError, match="outside of a transaction"):
        Stream().maker.records(1, Insert(1, ONE))
    with pytest.raises(ProtocolError, match="has not described"):
        Stream().transaction(Insert(2, ONE))
    with pytest.raises(DataException, match="2 values"):
        Stream().transaction(Insert(1, ONE[:2]))
    with pytest.raises(DataException, match="The column id"):
        Stream().transaction(Insert(1, texts("x", "a", "9")))

"""Makes Debezium's change events of the messages of pgoutput, and of the rows of a snapshot."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from kcli.connectors.cdc.messages import MESSAGE_KEY, MessageForm, message_key
from kcli.connectors.cdc.pgoutput import (
    Begin,
    Change,
    Commit,
    Delete,
    Insert,
    LogicalMessage,
    Message,
    Origin,
    ProtocolError,
    Relation,
    Truncate,
    Tuple,
    TypeName,
    Update,
)
from kcli.connectors.cdc.positions import Phase, Position
from kcli.connectors.cdc.tables import SOURCE_SCHEMA, Table, merged
from kcli.connectors.cdc.transactions import Transaction
from kcli.connectors.interface import Offset, Partition
from kcli.connectors.records import Header, SourceRecord
from kcli.formats.connect.schema import INT64_SCHEMA, STRING_SCHEMA, struct_schema
from kcli.formats.connect.structs import Struct

CONNECTOR_NAME = "postgresql"
_TASK_ID = "0"
"""The connector has one task."""
_NEW_KEY, _OLD_KEY = "__debezium.newkey", "__debezium.oldkey"
_MESSAGES = "message"
"""The name under which a transaction counts its messages."""
_NO_TABLE = ("", "")
"""The schema and the table in the source of a message."""
_HEARTBEAT_KEY = struct_schema(
    {"serverName": STRING_SCHEMA}, name="io.debezium.connector.common.ServerNameKey", version=1
)
_HEARTBEAT = struct_schema({"ts_ms": INT64_SCHEMA}, name="io.debezium.connector.common.Heartbeat", version=1)


@dataclass(frozen=True, slots=True)
class EventSettings:
    topic_prefix: str
    database: str
    version: str
    """The version of kcli, for `source.version`."""
    tombstones: bool
    skipped: frozenset[str]
    """The operations without events: some of c, u, d, t."""
    heartbeat_topic: str
    message_topic: str
    captures_message: Callable[[str], bool]
    """Whether a logical decoding message is captured, by its prefix."""
    message_form: MessageForm
    has_context_headers: bool
    transaction_topic: str | None = None
    """The topic of the beginnings and ends of transactions. None without provide.transaction.metadata."""

    @property
    def partition(self) -> Partition:
        return {"server": self.topic_prefix}

    @property
    def context_headers(self) -> tuple[Header, ...]:
        """Headers that name the connector and its task, for the records of tables."""
        if not self.has_context_headers:
            return ()
        values = (
            ("connectorLogicalName", self.topic_prefix),
            ("taskId", _TASK_ID),
            ("connectorName", CONNECTOR_NAME),
        )
        return tuple(Header(f"__debezium.context.{name}", STRING_SCHEMA, value) for name, value in values)


@dataclass(frozen=True, slots=True)
class Origination:
    """Where and when a row was read, for the field `source`."""

    time_us: int
    lsn: int
    sequence: str | None = None
    xid: int | None = None
    snapshot: str | None = None
    """The place of a row in the snapshot. None in the stream, where the default of the field holds."""


@dataclass(slots=True)
class EventMaker:
    """Makes the records of messages. `position` is the position after the last message."""

    settings: EventSettings
    position: Position
    describe: Callable[[Relation], Table | None]
    """The captured table of a relation. None for a table that is not captured."""
    types_changed: Callable[[], None]
    """Called when the server describes a type again."""
    now_us: Callable[[], int]
    _tables: dict[int, Table | None] = field(default_factory=dict)
    _begin: Begin | None = None
    _resumed: Position | None = None
    _last_lsn: int = 0
    _event: int = 0
    _context_headers: tuple[Header, ...] = ()
    _transaction: Transaction | None = None

    def __post_init__(self) -> None:
        self._resumed = self.position
        self._context_headers = self.settings.context_headers

    @property
    def in_transaction(self) -> bool:
        return self._begin is not None

    def passed(self, lsn: int) -> None:
        """Moves the position to a point between transactions: the server has sent all that was committed before."""
        if not self.in_transaction and lsn > self.position.commit_lsn:
            self.position = replace(self.position, commit_lsn=lsn)

    def records(self, lsn: int, message: Message) -> list[SourceRecord]:
        """The records of a message at `lsn`. Raises ProtocolError and DataException."""
        match message:
            case Begin():
                return self._begin_transaction(lsn, message)
            case Commit():
                return self._end_transaction(message)
            case Relation():
                self._tables[message.oid] = self.describe(message)
            case TypeName():
                self.types_changed()
            case Origin():
                pass
            case LogicalMessage(transactional=False):
                return self._message_between_transactions(message)
            case _:
                return self._change_records(lsn, message)
        return []

    def _begin_transaction(self, lsn: int, begin: Begin) -> list[SourceRecord]:
        self._begin = begin
        self._last_lsn, self._event = 0, 0
        settings = self.settings
        if settings.transaction_topic is None:
            return []
        self._transaction = Transaction(
            settings.transaction_topic, settings.partition, begin.xid, begin.commit_us // 1000
        )
        if self._resumed is not None and self._resumed.xid == begin.xid:
            return []  # the record was sent before
        # A place before all changes. Their positions may be smaller than the end of the transaction before.
        self.position = Position(
            Phase.STREAM, self.position.commit_lsn, 0, xid=begin.xid, time_us=begin.commit_us
        )
        record = self._transaction.begin(lsn)
        record.source_offset = self.position.offset
        return [record]

    def _end_transaction(self, commit: Commit) -> list[SourceRecord]:
        transaction, self._transaction = self._transaction, None
        self._begin = None
        if self._resumed is not None and commit.commit_lsn > self._resumed.lsn:
            self._resumed = None
        self.position = replace(self.position, commit_lsn=commit.end_lsn)
        if transaction is None:
            return []
        record = transaction.end(commit.end_lsn)
        record.source_offset = self.position.offset
        return [record]

    def _message_between_transactions(self, message: LogicalMessage) -> list[SourceRecord]:
        """The server sends the message again only if the stream begins before it, so its offset is its position."""
        if self.in_transaction:
            raise ProtocolError("A message outside of transactions stands in a transaction")
        lsn = message.lsn
        self.passed(lsn)
        if not self.settings.captures_message(message.prefix):
            return []
        sequence = f'["{lsn}","{lsn}"]'
        record = self._message_record(message, Origination(self.position.time_us, lsn, sequence))
        record.source_offset = self.position.offset
        return [record]

    def _change_records(self, lsn: int, change: Change) -> list[SourceRecord]:
        begin = self._begin
        if begin is None:
            raise ProtocolError("A change stands outside of a transaction")
        self._event = self._event + 1 if lsn == self._last_lsn else 0
        self._last_lsn = lsn
        is_sent = self._resumed is not None and self._resumed.covers(begin.xid, lsn, self._event)
        if is_sent and self._transaction is None:
            return []
        before = self.position
        sequence = f'["{before.commit_lsn}","{lsn}"]'
        origination = Origination(begin.commit_us, lsn, sequence, begin.xid)
        records = self._events(change, origination)
        if is_sent:
            return []  # the transaction has counted its events
        self.position = Position(
            Phase.STREAM, before.commit_lsn, lsn, self._event, begin.xid, begin.commit_us
        )
        # A worker may store the offset of any record, so only the last record of a change may pass the change.
        for record in records:
            record.source_offset = before.offset
        if records:
            records[-1].source_offset = self.position.offset
        return records

    def _events(self, change: Change, origination: Origination) -> list[SourceRecord]:
        if isinstance(change, Truncate):
            described = list(map(self._table, change.relation_oids))
            if "t" in self.settings.skipped:
                return []
            return [
                self._record(table, "t", None, None, origination) for table in described if table is not None
            ]
        if isinstance(change, LogicalMessage):
            is_captured = self.settings.captures_message(change.prefix)
            return [self._message_record(change, origination)] if is_captured else []
        table = self._table(change.relation_oid)
        if table is None:
            return []
        match change:
            case Insert(new=new):
                return self._insert(table, new, origination)
            case Update(old=old, new=new):
                return self._update(table, old, new, origination)
            case Delete(old=old):
                table.check(old)
                return self._delete(table, old, origination)

    def _table(self, oid: int) -> Table | None:
        try:
            return self._tables[oid]
        except KeyError:
            raise ProtocolError(f"A change of the table {oid}, which the server has not described") from None

    def _fitting(self, table: Table, values: Tuple) -> Table:
        widened = table.widened(values)
        if widened is not table:
            self._tables[table.relation.oid] = widened
        return widened

    def _insert(self, table: Table, new: Tuple, origination: Origination) -> list[SourceRecord]:
        if "c" in self.settings.skipped:
            return []
        table.check(new)
        return [self._record(self._fitting(table, new), "c", None, new, origination)]

    def _update(
        self, table: Table, old: Tuple | None, new: Tuple, origination: Origination
    ) -> list[SourceRecord]:
        """An update of the key is a delete and an insert, also if updates are skipped."""
        for values in (old, new):
            if values is not None:
                table.check(values)
        new = merged(new, old)
        new_key, old_key = table.key(new), None if old is None else table.key(old)
        if old is None or old_key is None or new_key is None or old_key.values == new_key.values:
            if "u" in self.settings.skipped:
                return []
            return [self._record(self._fitting(table, new), "u", old, new, origination)]
        table = self._fitting(table, new)
        gone, created = self._delete(table, old, origination), self._insert(table, new, origination)
        for records, name, key in ((gone, _NEW_KEY, new_key), (created, _OLD_KEY, old_key)):
            for record in records:
                record.headers = (Header(name, key.schema, key), *record.headers)
        return [*gone, *created]

    def _delete(self, table: Table, old: Tuple, origination: Origination) -> list[SourceRecord]:
        if "d" in self.settings.skipped:
            return []
        record = self._record(table, "d", old, None, origination)
        if not self.settings.tombstones:
            return [record]
        return [record, replace(record, value=None, value_schema=None)]

    def snapshot_record(
        self, table: Table, values: Tuple, origination: Origination, offset: Offset
    ) -> SourceRecord:
        record = self._record(table, "r", None, values, origination)
        record.source_offset = offset
        return record

    def heartbeat(self) -> SourceRecord:
        """A record whose offset is the current position, so that it is stored although no table changes."""
        settings = self.settings
        return SourceRecord(
            settings.partition,
            self.position.offset,
            settings.heartbeat_topic,
            key=Struct.of_checked(_HEARTBEAT_KEY, [settings.topic_prefix]),
            key_schema=_HEARTBEAT_KEY,
            value=Struct.of_checked(_HEARTBEAT, [self.now_us() // 1000]),
            value_schema=_HEARTBEAT,
        )

    def _record(
        self,
        table: Table,
        op: str,
        before: Tuple | None,
        after: Tuple | None,
        origination: Origination,
    ) -> SourceRecord:
        now_us = self.now_us()
        key_values = after if after is not None else before
        key = None if key_values is None else table.key(key_values)
        value = Struct.of_checked(
            table.envelope_schema,
            [
                None if before is None else table.row(before),
                None if after is None else table.row(after),
                self._source(table.name, origination),
                self._block(".".join(table.name), origination),
                op,
                now_us // 1000,
                now_us,
                now_us * 1000,
            ],
        )
        return SourceRecord(
            self.settings.partition,
            None,
            table.topic,
            value=value,
            value_schema=table.envelope_schema,
            key=key,
            key_schema=None if key is None else table.key_schema,
            headers=self._context_headers,
        )

    def _message_record(self, message: LogicalMessage, origination: Origination) -> SourceRecord:
        source = self._source(_NO_TABLE, origination)
        return SourceRecord(
            self.settings.partition,
            None,
            self.settings.message_topic,
            value=self.settings.message_form.value(
                message, source, self._block(_MESSAGES, origination), self.now_us() // 1000
            ),
            value_schema=self.settings.message_form.schema,
            key=message_key(message),
            key_schema=MESSAGE_KEY,
        )

    def _block(self, collection: str, origination: Origination) -> Struct | None:
        """The place of an event in its transaction."""
        return None if self._transaction is None else self._transaction.block(collection, origination.lsn)

    def _source(self, table: tuple[str, str], origination: Origination) -> Struct:
        settings, time_us = self.settings, origination.time_us
        schema, name = table
        return Struct.of_checked(
            SOURCE_SCHEMA,
            [
                settings.version, CONNECTOR_NAME, settings.topic_prefix, time_us // 1000, origination.snapshot,
                settings.database, origination.sequence, time_us, time_us * 1000, schema, name, origination.xid,
                origination.lsn, None,
            ],
        )  # fmt: skip

"""Reads the rows that exist, in one transaction, so that the stream continues exactly where the snapshot ends."""

from __future__ import annotations

import logging
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from kcli.connectors.cdc.catalog import Catalog
from kcli.connectors.cdc.connection import Connection, Row, quoted, quoted_list
from kcli.connectors.cdc.events import EventMaker, Origination
from kcli.connectors.cdc.pgoutput import Relation
from kcli.connectors.cdc.positions import Phase, Position
from kcli.connectors.cdc.tables import Table
from kcli.connectors.records import SourceRecord

_log = logging.getLogger("kcli.connectors.cdc")
_FIRST_ROWS = 128
"""The rows of the first read of a table, because their size is not known yet."""
BATCH_BYTES = 16 * 1024 * 1024
"""The bytes of rows after which a batch ends, because a row may have many megabytes."""


@dataclass(frozen=True, slots=True)
class _ReadRow:
    table: Table
    values: Row
    is_first: bool
    """Whether the row is the first one of its table."""


def begin_exported(connection: Connection, snapshot: str, lsn: int, now_us: int) -> Position:
    """Begins a transaction in the snapshot of a new slot, which streams all that the snapshot does not see."""
    connection.rows("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
    connection.rows(f"SET TRANSACTION SNAPSHOT {connection.literal(snapshot)}")
    return Position(Phase.SNAPSHOT, lsn, lsn, time_us=now_us)


def begin_own(connection: Connection, position: Position) -> Position:
    """Begins a transaction with a snapshot of its own. The stream then continues at an earlier `position`.

    So it sends some changes that the snapshot has seen. They must stay in the stream: a row whose event was sent
    before an earlier crash may be deleted by now, and only the stream tells this.
    """
    connection.rows("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
    return replace(position, phase=Phase.SNAPSHOT)


class Snapshot:
    """The records of a snapshot. `maker.position` is the position of the snapshot."""

    def __init__(
        self,
        connection: Connection,
        catalog: Catalog,
        maker: EventMaker,
        fetch_size: int,
        statements: Mapping[str, str],
    ) -> None:
        """`statements` select the rows of some tables, by `schema.table`."""
        self._connection = connection
        self._catalog = catalog
        self._maker = maker
        self._fetch_size = fetch_size
        self._statements = statements
        self.size = 0
        """The bytes of all rows up to the last one that was returned."""
        self._xid: int | None = None

    def records(self, tables: Sequence[tuple[int, str, str]]) -> Generator[SourceRecord]:
        """Yields the records of all rows, and ends the transaction."""
        if tables:
            # A transaction would see a table as empty that ALTER TABLE or TRUNCATE rewrites after its snapshot.
            names = quoted_list([(schema, name) for _, schema, name in tables])
            self._connection.rows(f"LOCK TABLE {names} IN ACCESS SHARE MODE")
        self._xid = self._catalog.transaction_id() or None
        count = 0
        rows = self._rows(tables)
        row = next(rows, None)
        while row is not None:
            following = next(rows, None)
            yield self._record(row, following, is_first=count == 0)
            count += 1
            row = following
        self._connection.rows("COMMIT")
        self._maker.position = replace(self._maker.position, phase=Phase.STREAM)
        _log.info("The snapshot is complete: %d rows of %d tables", count, len(tables))

    def _rows(self, tables: Sequence[tuple[int, str, str]]) -> Iterator[_ReadRow]:
        for oid, schema, name in tables:
            relation = self._catalog.relation(oid, schema, name)
            table = self._maker.describe(relation)
            if table is None or not relation.columns:
                continue
            is_first = True
            for values in self._values(relation):
                yield _ReadRow(table, values, is_first)
                is_first = False

    def _values(self, relation: Relation) -> Iterator[Row]:
        """The rows of a table, without those of tables that inherit from it. Those are tables of their own."""
        name = quoted(relation.schema, relation.table)
        columns = ", ".join(quoted(column.name) for column in relation.columns)
        ((kind,),) = self._connection.texts(
            f"SELECT relkind FROM pg_catalog.pg_class WHERE oid = {relation.oid}"
        )
        statement = self._statements.get(f"{relation.schema}.{relation.table}")
        # The statement ends before the bracket, also if its last line is a comment.
        source = f"({statement}\n) AS kcli_table" if statement else name if kind == "p" else f"ONLY {name}"
        self._connection.rows(f"DECLARE kcli_rows NO SCROLL CURSOR FOR SELECT {columns} FROM {source}")
        count = min(self._fetch_size, _FIRST_ROWS)
        while rows := self._connection.rows(f"FETCH {count} FROM kcli_rows"):
            before = self.size
            for row in rows:
                self.size += sum(len(value) for value in row if value is not None)
                yield row
            row_size = max(1, (self.size - before) // len(rows))
            count = max(1, min(self._fetch_size, BATCH_BYTES // row_size))
        self._connection.rows("CLOSE kcli_rows")

    def _record(self, row: _ReadRow, following: _ReadRow | None, *, is_first: bool) -> SourceRecord:
        position = self._maker.position
        if following is None:
            place = "last"
        elif is_first:
            place = "first"
        elif following.is_first:
            place = "last_in_data_collection"
        else:
            place = "first_in_data_collection" if row.is_first else "true"
        sequence = f'[null,"{position.lsn}"]'
        origination = Origination(position.time_us, position.lsn, sequence, self._xid, place)
        offset = position.snapshot_offset(last=following is None)
        return self._maker.snapshot_record(row.table, row.values, origination, offset)

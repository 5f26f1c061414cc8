"""The life of a capture: it prepares the database, reads a snapshot, and then streams.

After an error of the database, `close` ends both connections, and the next `read` continues at the position after the
last change that it has returned.
"""

from __future__ import annotations

import itertools
import logging
import threading
import time
from collections.abc import Iterator, Sequence

from kcli.connectors.cdc.catalog import Catalog, Slot
from kcli.connectors.cdc.connection import Connection, DatabaseError, Stopped, lsn_text
from kcli.connectors.cdc.events import EventMaker
from kcli.connectors.cdc.keys import NO_DATA
from kcli.connectors.cdc.pgoutput import Keepalive, Relation, parse_message
from kcli.connectors.cdc.positions import Phase, Position
from kcli.connectors.cdc.preparation import check_count, check_server, set_identities
from kcli.connectors.cdc.settings import Settings, parse_statements
from kcli.connectors.cdc.snapshot import BATCH_BYTES, Snapshot, begin_exported, begin_own
from kcli.connectors.cdc.tables import Table, build_table
from kcli.connectors.interface import Offset
from kcli.connectors.records import SourceRecord
from kcli.formats.connect.errors import ConnectException

_log = logging.getLogger("kcli.connectors.cdc")
_COMMITS_OF_DROPPED = 3
"""The commits after which a record whose offset is not stored was dropped. The first one may have begun before it."""


def now_us() -> int:
    return time.time_ns() // 1000


class Capture:
    """Captures the changes of a database. One thread calls it at a time."""

    def __init__(self, settings: Settings, stored: Offset | None, stopping: threading.Event) -> None:
        self._settings = settings
        self._stopping = stopping
        self._session: Connection | None = None
        self._stream: Connection | None = None
        self._catalog: Catalog
        self._tables: Sequence[tuple[int, str, str]] = ()
        self._maker: EventMaker | None = None
        self._position = None if stored is None else Position.of(stored)
        self._snapshot: Iterator[SourceRecord] | None = None
        self._snapshot_reader: Snapshot
        self._has_snapshot = False
        self._announced: Position | None = None
        self._announced_commits = 0
        self._error: DatabaseError | None = None
        self._emitted = stored
        self._flushed = 0
        self._next_status = self._next_heartbeat = time.monotonic()

    def connect(self) -> None:
        """Connects for statements. Raises DatabaseError, and ConnectException for a server that cannot be captured."""
        self._session = session = Connection(self._settings.connection, self._stopping)
        check_server(session)
        for statement in parse_statements(self._settings.text("database.initial.statements")):
            session.rows(statement)
        self._catalog = Catalog(session)

    def read(self) -> list[SourceRecord]:
        """The next records, for which it waits up to poll.interval.ms. Raises DatabaseError and Stopped."""
        if self._error is not None:
            error, self._error = self._error, None
            raise error
        if self._maker is None:
            self._begin()
        # Without a maker, a snapshot is announced.
        records = self._read() if self._maker is not None else self._announcement()
        if records:
            self._emitted = records[-1].source_offset
        return records

    def close(self) -> None:
        """Ends the connections."""
        if self._maker is not None:
            self._position = self._maker.position
        self._maker = self._snapshot = self._error = None
        for connection in (self._stream, self._session):
            if connection is not None:
                connection.close()
        self._stream = self._session = None

    def drop_slot(self) -> None:
        """Removes the slot, on a connection of its own. Raises DatabaseError."""
        connection = Connection(self._settings.connection, threading.Event(), replication=True)
        try:
            connection.drop_slot(self._settings.text("slot.name"))
        finally:
            connection.close()

    # The beginning.

    def _begin(self) -> None:
        if self._session is None:
            self.connect()
        settings, catalog = self._settings, self._catalog
        via_root = settings.values["publish.via.partition.root"] is True
        self._tables = tables = [
            row for row in catalog.tables(via_root=via_root) if settings.choice.captures(*row[1:])
        ]
        check_count(settings, len(tables))
        set_identities(settings, catalog, tables)
        if settings.snapshot_mode != "initial_only":
            names = [(schema, name) for _, schema, name in tables]
            mode = settings.text("publication.autocreate.mode")
            catalog.ensure_publication(settings.text("publication.name"), mode, names, via_root=via_root)
        self._check_position()
        slot = self._checked_slot()
        if slot is not None:
            # A report of an earlier position would move the slot back.
            self._flushed = max(self._flushed, slot.confirmed)
        if not self._needs_snapshot(slot):
            self._maker = self._new_maker(self._stream_position(slot))
            return
        if self._must_announce(slot):
            return
        self._delay("snapshot.delay.ms")
        maker = self._maker = self._new_maker(self._begin_snapshot(slot))
        assert self._session is not None, "connected above"
        read = [row for row in tables if settings.in_snapshot(".".join(row[1:]))]
        _log.info("Reading a snapshot of %d tables", len(read))
        fetch_size = settings.number("snapshot.fetch.size")
        self._snapshot_reader = Snapshot(self._session, catalog, maker, fetch_size, settings.statements)
        self._snapshot = self._snapshot_reader.records(read)

    def _delay(self, key: str) -> None:
        if self._stopping.wait(self._settings.seconds(key)):
            raise Stopped

    def _new_maker(self, position: Position) -> EventMaker:
        return EventMaker(self._settings.events, position, self._describe, self._catalog.forget_types, now_us)

    def _describe(self, relation: Relation) -> Table | None:
        choice = self._settings.choice
        if not choice.captures(relation.schema, relation.table):
            return None
        return build_table(relation, self._catalog.facts(relation.oid), self._catalog.type, choice)

    def _checked_slot(self) -> Slot | None:
        name = self._settings.text("slot.name")
        slot = self._catalog.slot(name)
        database = self._settings.events.database
        if slot is not None and (slot.plugin, slot.database) != ("pgoutput", database):
            raise ConnectException(
                f"The slot {name} belongs to the plugin {slot.plugin or 'none'} and the database"
                f" {slot.database or 'none'}: expected pgoutput and {database}"
            )
        return slot

    def _check_position(self) -> None:
        """Looks for a position that the server has not reached. It would send no change up to this position."""
        position = self._position
        if position is None or position.commit_lsn <= (end := self._catalog.wal_end()):
            return
        state = (
            f"The stored position {lsn_text(position.commit_lsn)} is after the end of the WAL, {lsn_text(end)}: the"
            " database is another one, or comes from an older backup"
        )
        if self._settings.snapshot_mode not in ("always", "when_needed"):
            raise ConnectException(
                f"{state}. Reset the offsets of the connector to begin with a new snapshot, or set"
                " snapshot.mode=when_needed"
            )
        _log.warning("%s. A new snapshot begins", state)
        self._position = None

    def _needs_snapshot(self, slot: Slot | None) -> bool:
        """Whether to read a snapshot. Raises ConnectException if changes are lost."""
        mode, position = self._settings.snapshot_mode, self._position
        if mode in NO_DATA:
            is_due = False
        elif mode == "always":
            is_due = not self._has_snapshot
        else:
            is_due = position is None or position.phase is Phase.SNAPSHOT
        if is_due or mode == "initial_only" or position is None or (slot is not None and not slot.is_lost):
            return is_due
        if mode == "when_needed":
            return True
        state = (
            "does not exist any more"
            if slot is None
            else "has lost WAL that it needs (max_slot_wal_keep_size)"
        )
        raise ConnectException(
            f"The slot {self._settings.text('slot.name')} {state}, so the changes after {lsn_text(position.commit_lsn)}"
            " are lost. Reset the offsets of the connector to begin with a new snapshot, or set"
            " snapshot.mode=when_needed"
        )

    def _begin_snapshot(self, slot: Slot | None) -> Position:
        assert self._session is not None, "`_begin` has connected"
        if slot is not None and slot.is_lost:
            self.drop_slot()
            slot = None
        if slot is not None or self._settings.snapshot_mode == "initial_only":
            return begin_own(self._session, self._stream_position(slot))
        replication = self._replication()
        try:
            lsn, name = replication.create_slot(self._settings.text("slot.name"))
            return begin_exported(self._session, name, lsn, now_us())
        finally:
            replication.close()

    # The announcement of a snapshot that replaces the changes that are lost.

    def _must_announce(self, slot: Slot | None) -> bool:
        """Whether the worker must first store that a snapshot begins.

        The stored offset is a place in the stream, and the slot is gone. After a crash, a new slot would look like the
        old one, and the stream would continue there without the snapshot. So the slot is made after the worker has
        stored an offset of the snapshot.
        """
        position = self._position
        if position is None or position.phase is Phase.SNAPSHOT or not (slot is None or slot.is_lost):
            return False
        return self._settings.snapshot_mode != "initial_only"

    def _announcement(self) -> list[SourceRecord]:
        """The first row of the tables, with an offset of a snapshot. No row if it was returned before.

        Without rows, the new slot has all that a snapshot could read.
        """
        if self._announced is not None:
            self._stopping.wait(self._settings.seconds("poll.interval.ms"))
            return []
        assert self._session is not None, "`_begin` has connected"
        end = self._catalog.wal_end()
        position = begin_own(self._session, Position(Phase.STREAM, end, end, time_us=now_us()))
        tables = [row for row in self._tables if self._settings.in_snapshot(".".join(row[1:]))]
        statements = self._settings.statements
        rows = Snapshot(self._session, self._catalog, self._new_maker(position), 1, statements).records(
            tables
        )
        record = next(rows, None)
        rows.close()
        self._session.rows("ROLLBACK")
        if record is None:
            self._position = position
            return []
        _log.warning("A new snapshot begins after the worker has stored an offset of it")
        record.source_offset = position.snapshot_offset(last=False)
        self._announced, self._announced_commits = position, 0
        return [record]

    def _end_announcement(self, stored: Offset | None) -> None:
        """Lets the snapshot begin if the announcement is stored, or if a transformation has dropped its record."""
        self._announced_commits += 1
        is_stored = stored is not None and Position.of(stored).phase is Phase.SNAPSHOT
        if is_stored or self._announced_commits >= _COMMITS_OF_DROPPED:
            self._position, self._announced = self._announced, None

    def _stream_position(self, slot: Slot | None) -> Position:
        if self._position is not None:
            return self._position
        if self._settings.snapshot_mode == "initial_only" or slot is not None:
            lsn = 0 if slot is None else slot.confirmed
            return Position(Phase.STREAM, lsn, lsn, time_us=now_us())
        replication = self._replication()
        try:
            lsn, _ = replication.create_slot(self._settings.text("slot.name"))
        finally:
            replication.close()
        return Position(Phase.STREAM, lsn, lsn, time_us=now_us())

    def _replication(self) -> Connection:
        return Connection(self._settings.connection, self._stopping, replication=True)

    # Reading.

    def _read(self) -> list[SourceRecord]:
        settings = self._settings
        if self._snapshot is not None:
            size_max = self._snapshot_reader.size + BATCH_BYTES
            batch = []
            for record in itertools.islice(self._snapshot, settings.number("max.batch.size")):
                batch.append(record)
                if self._snapshot_reader.size >= size_max:
                    break
            if batch:
                return batch
            self._snapshot, self._has_snapshot = None, True
        if settings.snapshot_mode == "initial_only":
            self._stopping.wait(settings.seconds("poll.interval.ms"))
            return []
        maker = self._maker
        assert maker is not None, "`read` has begun"
        if self._stream is None:
            self._stream = self._started(maker)
        records: list[SourceRecord] = []
        try:
            self._read_stream(self._stream, maker, records)
            self._heartbeat(maker, records)
            if time.monotonic() >= self._next_status:
                self.report()
        except DatabaseError as error:
            # `maker` has passed these records, so they must not be lost.
            if not records:
                raise
            self._error = error
        return records

    def _started(self, maker: EventMaker) -> Connection:
        if self._has_snapshot:
            self._delay("streaming.delay.ms")
        stream = self._replication()
        position = maker.position.commit_lsn
        try:
            stream.start_stream(
                self._settings.text("slot.name"), position, self._settings.text("publication.name")
            )
        except BaseException:
            stream.close()
            raise
        self._next_heartbeat = time.monotonic() + self._settings.seconds("heartbeat.interval.ms")
        _log.info("Streaming the changes after %s", lsn_text(position))
        return stream

    def _read_stream(self, stream: Connection, maker: EventMaker, records: list[SourceRecord]) -> None:
        deadline = time.monotonic() + self._settings.seconds("poll.interval.ms")
        count_max, size = self._settings.number("max.batch.size"), 0
        while len(records) < count_max and size < BATCH_BYTES:
            frame = stream.next_frame(0 if records else deadline)
            if frame is None:
                break
            if isinstance(frame, Keepalive):
                maker.passed(frame.wal_end)
                if frame.wants_reply:
                    self.report()
            else:
                size += len(frame.payload)
                records += maker.records(frame.start, parse_message(frame.payload))
            if time.monotonic() >= deadline:
                break

    def _heartbeat(self, maker: EventMaker, records: list[SourceRecord]) -> None:
        interval_s = self._settings.seconds("heartbeat.interval.ms")
        if not interval_s or time.monotonic() < self._next_heartbeat:
            return
        self._next_heartbeat = time.monotonic() + interval_s
        records.append(maker.heartbeat())
        statement = self._settings.text("heartbeat.action.query")
        if statement and self._session is not None:
            self._session.rows(statement)

    # Positions that the server learns.

    def confirm(self, stored: Offset | None) -> None:
        """Takes the offset that the worker has stored. The server may remove the WAL before it."""
        if self._announced is not None:
            self._end_announcement(stored)
        maker = self._maker
        if maker is None or self._stream is None:
            return
        if stored == self._emitted and not maker.in_transaction:
            # All records are stored, so what the server has sent since then concerned other tables.
            position = maker.position
        elif stored is not None:
            position = Position.of(stored)
        else:
            return
        if position.phase is Phase.STREAM and position.commit_lsn > self._flushed:
            self._flushed = position.commit_lsn
            self.report()

    def report(self) -> None:
        """Reports the positions, so that the server knows that the connection lives."""
        self._next_status = time.monotonic() + self._settings.seconds("status.update.interval.ms")
        if self._stream is not None and self._maker is not None:
            self._stream.report(max(self._flushed, self._maker.position.commit_lsn), self._flushed)

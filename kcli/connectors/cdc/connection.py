"""A connection to PostgreSQL through libpq, for statements and for the replication protocol.

psycopg's own connections do not know the replication protocol, so this class uses its libpq layer. All values are
texts, because pgoutput sends texts too. A wait ends soon after `stopping` is set.
"""

from __future__ import annotations

import select
import threading
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from kcli.connectors.cdc.pgoutput import Keepalive, WalData, parse_frame, status_update
from kcli.errors import KcliError

if TYPE_CHECKING:
    from psycopg.pq.abc import PGconn, PGresult

Row = tuple[bytes | None, ...]
_CONNECT_TIMEOUT_S = 30
_WAIT_S = 0.1
"""The longest wait before `stopping` is looked at."""
_SESSION = {
    "DateStyle": "ISO,YMD",
    "TimeZone": "UTC",
    "IntervalStyle": "iso_8601",
    "bytea_output": "hex",
    "extra_float_digits": "1",
    "lc_monetary": "C",
    "statement_timeout": "0",
    "idle_in_transaction_session_timeout": "0",
}
"""Settings of a session that choose the forms of texts, and that let a snapshot take its time."""
_TRANSIENT = ("08", "40", "53", "57")
"""Classes of SQLSTATE whose errors may go away: connections, conflicts, resources, and an operator's intervention."""
_VERSION_OF_MESSAGES = 14_00_00
"""The first version of PostgreSQL whose pgoutput sends logical decoding messages."""
_IN_USE = "55006"
"""The SQLSTATE for a slot that another connection uses."""


class DatabaseError(KcliError):
    """An error of the database. `transient` says whether it may go away."""

    def __init__(self, message: str, sqlstate: str | None = None, *, transient: bool) -> None:
        super().__init__(message)
        self.sqlstate = sqlstate
        self.transient = transient

    @property
    def slot_in_use(self) -> bool:
        return self.sqlstate == _IN_USE


class Stopped(Exception):
    """The task stops while a statement runs."""


class Connection:
    """A connection. With `replication`, it can create slots and stream changes."""

    def __init__(
        self, parameters: Mapping[str, str], stopping: threading.Event, *, replication: bool = False
    ) -> None:
        try:
            from psycopg import pq
            from psycopg.conninfo import make_conninfo
        except ImportError as error:
            advice = "the driver psycopg is missing: pip install 'kcli-streaming[connect]'"
            raise DatabaseError(advice, transient=False) from error
        self._stopping = stopping
        session = " ".join(f"-c {name}={value}" for name, value in _SESSION.items())
        mode = {"replication": "database"} if replication else {}
        info = make_conninfo(
            "", **{"connect_timeout": str(_CONNECT_TIMEOUT_S), **parameters, **mode},
            options=session, client_encoding="UTF8", application_name="kcli connect",
        )  # fmt: skip
        self._libpq: PGconn = pq.PGconn.connect(info.encode())
        if self._libpq.status != pq.ConnStatus.OK:
            raise DatabaseError(self._error_text(), transient=True)

    @property
    def server_version(self) -> int:
        """Such as 150004."""
        version: int = self._libpq.server_version
        return version

    def rows(self, statement: str) -> list[Row]:
        """Runs a statement, and returns its rows. Raises DatabaseError and Stopped."""
        result = self._result(statement)
        count = range(result.nfields)
        return [tuple(result.get_value(row, column) for column in count) for row in range(result.ntuples)]

    def texts(self, statement: str) -> list[tuple[str, ...]]:
        """The rows of a statement, with an empty text in place of NULL."""
        return [tuple((value or b"").decode() for value in row) for row in self.rows(statement)]

    def _result(self, statement: str) -> PGresult:
        from psycopg import OperationalError, pq

        try:
            self._libpq.send_query(statement.encode())
            while self._libpq.is_busy():
                self._wait(time.monotonic() + _WAIT_S)
                if self._stopping.is_set():
                    self._libpq.get_cancel().cancel()
                    raise Stopped
            last: PGresult | None = None
            while (result := self._libpq.get_result()) is not None:
                last = result
                if result.status in (pq.ExecStatus.COPY_BOTH, pq.ExecStatus.FATAL_ERROR):
                    break
        except OperationalError as error:
            raise DatabaseError(str(error), transient=True) from error
        if last is None:
            raise DatabaseError(self._error_text(), transient=True)
        if last.status == pq.ExecStatus.FATAL_ERROR:
            raise self._refused(last)
        return last

    def _refused(self, result: PGresult) -> DatabaseError:
        from psycopg import pq

        self._drain()
        state = (result.error_field(pq.DiagnosticField.SQLSTATE) or b"").decode()
        lost = self._libpq.status != pq.ConnStatus.OK
        transient = lost or state.startswith(_TRANSIENT) or state == _IN_USE
        return DatabaseError(result.get_error_message().rstrip(), state, transient=transient)

    def _drain(self) -> None:
        while self._libpq.get_result() is not None:
            pass

    def literal(self, text: str) -> str:
        from psycopg import pq

        escaped: bytes = pq.Escaping(self._libpq).escape_string(text.encode())
        return f"'{escaped.decode()}'"

    # The replication protocol.

    def drop_slot(self, name: str) -> None:
        """Removes a slot, after its last user has gone."""
        self.rows(f"DROP_REPLICATION_SLOT {quoted(name)} WAIT")

    def create_slot(self, name: str) -> tuple[int, str]:
        """Creates a slot. Returns its first position, and the name of the snapshot of the tables at this position.

        Waits for all running transactions to end. The next statement of this connection ends the snapshot.
        """
        ((_, position, snapshot, _),) = self.texts(f"CREATE_REPLICATION_SLOT {quoted(name)} LOGICAL pgoutput")
        return lsn_number(position), snapshot

    def start_stream(self, slot: str, position: int, publication: str) -> None:
        """Begins to stream the transactions that were committed at `position` or later."""
        names = self.literal(quoted(publication))
        messages = ", messages 'true'" if self.server_version >= _VERSION_OF_MESSAGES else ""
        self._result(
            f"START_REPLICATION SLOT {quoted(slot)} LOGICAL {lsn_text(position)}"
            f" (proto_version '1', publication_names {names}{messages})"
        )

    def next_frame(self, deadline: float) -> WalData | Keepalive | None:
        """The next frame of the stream, or None if no frame comes until `deadline`."""
        from psycopg import OperationalError, pq

        try:
            while True:
                size, data = self._libpq.get_copy_data(1)
                if size > 0:
                    return parse_frame(bytes(data))
                if size < 0:
                    result = self._libpq.get_result()
                    if result is not None and result.status == pq.ExecStatus.FATAL_ERROR:
                        raise self._refused(result)
                    raise DatabaseError("The server has ended the stream", transient=True)
                if self._stopping.is_set() or not self._wait(deadline):
                    return None
        except OperationalError as error:
            raise DatabaseError(str(error), transient=True) from error

    def report(self, written: int, flushed: int) -> None:
        """Reports positions to the server, which then removes the WAL before `flushed`."""
        from psycopg import OperationalError

        try:
            self._libpq.put_copy_data(status_update(written, flushed, time.time_ns() // 1000))
            self._libpq.flush()
        except OperationalError as error:
            raise DatabaseError(str(error), transient=True) from error

    def _wait(self, deadline: float) -> bool:
        """Reads bytes of the server, for which it waits a while. Returns whether it has some, or may wait again."""
        left_s = max(0.0, deadline - time.monotonic())
        poll = select.poll()
        poll.register(self._libpq.socket, select.POLLIN)
        if poll.poll(min(left_s, _WAIT_S) * 1000):
            self._libpq.consume_input()
            return True
        return left_s > 0

    def _error_text(self) -> str:
        text: str = self._libpq.get_error_message()
        return text.rstrip()

    def close(self) -> None:
        self._libpq.finish()


def quoted(*names: str) -> str:
    """A name in SQL, with its schema before it."""
    return ".".join('"' + name.replace('"', '""') + '"' for name in names)


def quoted_list(names: Sequence[tuple[str, str]]) -> str:
    return ", ".join(quoted(*name) for name in names)


def lsn_text(number: int) -> str:
    """A position in the WAL as PostgreSQL shows it."""
    return f"{number >> 32:X}/{number & 0xFFFFFFFF:X}"


def lsn_number(text: str) -> int:
    high, _, low = text.partition("/")
    return int(high, 16) << 32 | int(low, 16)

"""Reads the rows of a database through SQLAlchemy, as a batch or a stream.

The data source `kcli-sql` returns each row as a JSON object. The position of a stream is in Spark's checkpoint:

* With an incrementing column, the position is the greatest value that was read. Rows must become visible in the order
  of their values. If a slow transaction commits a row after a greater value was read, this row is never read.
* With a timestamp column, the position is a time. All rows with an earlier timestamp were read. The position stays
  `delay_ms` behind the database's clock. `delay_ms` must be the longest time from a row's timestamp to the commit of
  the row.

After a failure, the range between two positions is read again. Unless the database has changed, this range has the same
rows as before.
"""

from __future__ import annotations

import base64
import datetime
import decimal
import json
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from kcli.spark.jobs.shared.errors import JobError

if TYPE_CHECKING:
    import pyarrow as pa
    from sqlalchemy import Connection, Engine

FORMAT = "kcli-sql"
SETTINGS = "secret.settings"
"""The name of the option that contains the settings.

The settings may contain a password in the URL. Spark hides options whose names contain `secret` in logs and plans.
"""

ROWS_PER_BATCH = 10_000
"""The number of rows in one fetch from the database, and in one Arrow batch."""

ALL_ROWS = 1 << 62
"""The row limit of a micro-batch if the settings have none."""

INCREMENTING, TIMESTAMP = "incrementing", "timestamp"

SqlValue = (
    bool
    | int
    | float
    | str
    | bytes
    | memoryview
    | decimal.Decimal
    | datetime.date
    | datetime.time
    | datetime.timedelta
    | uuid.UUID
    | None
)
"""The types that a value of a database column can have."""

SqlOffset = dict[str, SqlValue]
"""The offset of a stream in Spark's checkpoint. `position` is a value of the column, or None before the first row."""


@dataclass(frozen=True, slots=True)
class SqlSettings:
    """The database to read, and which rows to read from it. Either `table` or `query` is set.

    `column` orders the rows. `by` is its kind: INCREMENTING or TIMESTAMP.
    """

    url: str
    table: str | None = None
    query: str | None = None
    column: str | None = None
    by: str | None = None
    delay_ms: int = 0
    tasks: int = 1
    max_rows: int | None = None

    def to_json(self) -> str:
        """Returns the settings as the value of the option SETTINGS."""
        return json.dumps(asdict(self))


class SqlDataSource(DataSource):
    """The data source `kcli-sql`. It has one option, SETTINGS."""

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def schema(self) -> str:
        return "value string"

    def reader(self, schema: StructType) -> SqlReader:
        return SqlReader(SqlSettings(**json.loads(self.options[SETTINGS])))

    def streamReader(self, schema: StructType) -> SqlStreamReader:
        return SqlStreamReader(SqlSettings(**json.loads(self.options[SETTINGS])))


class Slice(InputPartition):
    """The rows that one task reads.

    With an incrementing column, the values of these rows are above `low` and at most `high`. With a timestamp column,
    the values are at least `low` and below `high`. None means no limit.
    """

    def __init__(self, low: SqlValue, high: SqlValue) -> None:
        super().__init__((low, high))


class SqlReader(DataSourceReader):
    """Reads the rows of a table or query as a batch."""

    def __init__(self, settings: SqlSettings) -> None:
        self.settings = settings

    def partitions(self) -> Sequence[InputPartition]:
        if self.settings.by != INCREMENTING or self.settings.tasks == 1:
            return [Slice(None, None)]
        with connected(self.settings) as connection:
            least = _scalar(connection, self.settings, "min", "")
            greatest = _scalar(connection, self.settings, "max", "")
        return slices(None, greatest, self.settings.tasks, least=least)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return read_rows(self.settings, *partition.value)


class SqlStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads new rows of a table or query as a stream of micro-batches."""

    def __init__(self, settings: SqlSettings) -> None:
        self.settings = settings
        self._last: SqlOffset | None = None
        """The offset at which a query with the trigger AvailableNow ends."""

    def initialOffset(self) -> SqlOffset:
        return {"position": None}

    def prepareForTriggerAvailableNow(self) -> None:
        self._last = self._end()

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadMaxRows(self.settings.max_rows or ALL_ROWS)

    def latestOffset(self, start: SqlOffset, limit: ReadLimit) -> SqlOffset:
        end = self._end() if self._last is None else self._last
        low, high = start["position"], end["position"]
        if high is None:
            return start
        with connected(self.settings) as connection:
            where, bound = _range(connection, self.settings, low, high)
            if not _scalar(connection, self.settings, "count", where, bound):
                # If there are no new rows, the position stays, so that Spark runs no micro-batch.
                return start
            if self.settings.by == INCREMENTING and isinstance(limit, ReadMaxRows):
                high = _nth(connection, self.settings, where, bound, limit.max_rows) or high
        return {"position": high}

    def reportLatestOffset(self) -> SqlOffset:
        return self._end()

    def partitions(self, start: SqlOffset, end: SqlOffset) -> Sequence[InputPartition]:
        low, high = start["position"], end["position"]
        if high is None or low == high:
            return []
        tasks = self.settings.tasks if self.settings.by == INCREMENTING else 1
        return slices(low, high, tasks)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return read_rows(self.settings, *partition.value)

    def _end(self) -> SqlOffset:
        with connected(self.settings) as connection:
            greatest = _scalar(connection, self.settings, "max", "")
            if self.settings.by == INCREMENTING or greatest is None:
                return {"position": greatest if self.settings.by == INCREMENTING else None}
            return {"position": _clock(connection, greatest, self.settings.delay_ms)}


def engine(url: str) -> Engine:
    """Returns the SQLAlchemy engine for a database URL.

    Raises JobError if the URL is invalid or its driver is missing. The message does not contain the password.
    """
    import sqlalchemy
    from sqlalchemy.exc import ArgumentError, NoSuchModuleError

    try:
        return sqlalchemy.create_engine(url)
    except NoSuchModuleError as error:
        raise JobError(f"--url: SQLAlchemy does not know this database: {error}") from None
    except ArgumentError:
        raise JobError("--url: expected DIALECT://USER@HOST/DATABASE, a URL of SQLAlchemy") from None
    except ModuleNotFoundError as error:
        raise JobError(f"--url: the driver is not installed: pip install {error.name}") from None


def connected(settings: SqlSettings) -> Connection:
    """Opens a connection to the database."""
    return engine(settings.url).connect()


def shown(url: str) -> str:
    """Returns a URL without its password."""
    from sqlalchemy import make_url

    return make_url(url).render_as_string(hide_password=True)


def table_columns(settings: SqlSettings) -> list[str]:
    """Returns the column names of the table or query. Raises JobError if the database refuses."""
    import sqlalchemy

    try:
        with connected(settings) as connection:
            statement = sqlalchemy.text(f"SELECT * FROM {_rows(connection, settings)} WHERE 1 = 0")
            return list(connection.execute(statement).keys())
    except sqlalchemy.exc.SQLAlchemyError as error:
        raise JobError(f"the database: {str(error).splitlines()[0]}") from None


def slices(low: SqlValue, high: SqlValue, tasks: int, *, least: SqlValue = None) -> list[Slice]:
    """Divides the range from `low` to `high` into `tasks` slices of about the same width, if the column contains
    integers.

    Otherwise returns one slice.
    """
    first = low if low is not None else least
    if tasks == 1 or not isinstance(first, int) or not isinstance(high, int):
        return [Slice(low, high)]
    edges = [first + (high - first) * nth // tasks for nth in range(1, tasks)]
    edges = sorted({edge for edge in edges if first < edge < high})
    return [Slice(a, b) for a, b in zip([low, *edges], [*edges, high], strict=True)]


def read_rows(settings: SqlSettings, low: SqlValue, high: SqlValue) -> Iterator[pa.RecordBatch]:
    """Reads the rows of one `Slice` as JSON objects. Runs in an executor."""
    import pyarrow as pa
    import sqlalchemy

    with connected(settings) as connection:
        where, bound = _range(connection, settings, low, high)
        order = f" ORDER BY {_column(connection, settings)}" if settings.column else ""
        statement = sqlalchemy.text(f"SELECT * FROM {_rows(connection, settings)}{where}{order}")
        result = connection.execution_options(stream_results=True).execute(statement, bound)
        for rows in result.mappings().partitions(ROWS_PER_BATCH):
            values = [json.dumps(dict(row), default=as_json, ensure_ascii=False) for row in rows]
            yield pa.RecordBatch.from_arrays([pa.array(values, pa.string())], names=["value"])


def as_json(value: SqlValue) -> str:
    """Converts a value that JSON does not support: times to ISO 8601, bytes to base64, other types to text."""
    if isinstance(value, datetime.date | datetime.time):
        return value.isoformat()
    if isinstance(value, bytes | memoryview):
        return base64.b64encode(bytes(value)).decode()
    return str(value)


def _rows(connection: Connection, settings: SqlSettings) -> str:
    """Returns the SQL text of the table or query for the FROM clause."""
    if settings.query is not None:
        return f"({settings.query}) q"
    assert settings.table is not None
    quote = connection.dialect.identifier_preparer.quote
    return ".".join(quote(part) for part in settings.table.split("."))


def _column(connection: Connection, settings: SqlSettings) -> str:
    assert settings.column is not None
    return connection.dialect.identifier_preparer.quote(settings.column)


def _range(
    connection: Connection, settings: SqlSettings, low: SqlValue, high: SqlValue
) -> tuple[str, dict[str, SqlValue]]:
    """Returns a WHERE clause that selects the range, and the values of its parameters."""
    above, below = (">", "<=") if settings.by == INCREMENTING else (">=", "<")
    terms, bound = [], {}
    for name, operator, value in (("low", above, low), ("high", below, high)):
        if value is not None:
            terms.append(f"{_column(connection, settings)} {operator} :{name}")
            bound[name] = _bound(connection, settings, value)
    return (f" WHERE {' AND '.join(terms)}" if terms else ""), bound


def _bound(connection: Connection, settings: SqlSettings, value: SqlValue) -> SqlValue:
    """Converts a position to the type of the column. SQLite stores times as text, other databases as timestamps."""
    if settings.by == TIMESTAMP and connection.dialect.name != "sqlite":
        assert isinstance(value, str), "the checkpoint has times as text"
        return datetime.datetime.fromisoformat(value)
    return value


def _scalar(
    connection: Connection,
    settings: SqlSettings,
    function: str,
    where: str,
    bound: Mapping[str, SqlValue] | None = None,
) -> SqlValue:
    import sqlalchemy

    column = "*" if function == "count" else _column(connection, settings)
    text = f"SELECT {function}({column}) FROM {_rows(connection, settings)}{where}"
    return connection.execute(sqlalchemy.text(text), bound or {}).scalar()


def _nth(
    connection: Connection, settings: SqlSettings, where: str, bound: Mapping[str, SqlValue], rows: int
) -> SqlValue:
    """Returns the column's value in row number `rows` of the sorted rows, or None if there are fewer rows."""
    import sqlalchemy

    if rows >= ALL_ROWS:
        return None
    column = _column(connection, settings)
    query = sqlalchemy.select(sqlalchemy.literal_column(column)).select_from(
        sqlalchemy.text(_rows(connection, settings))
    )
    if where:
        query = query.where(sqlalchemy.text(where.removeprefix(" WHERE ")))
    query = query.order_by(sqlalchemy.text(column)).limit(1).offset(rows - 1)
    return connection.execute(query, bound).scalar()


def _clock(connection: Connection, greatest: SqlValue, delay_ms: int) -> str:
    """Returns the time of the database minus the delay, in the form of `greatest`, a value of the timestamp column."""
    import sqlalchemy

    now = connection.execute(sqlalchemy.text("SELECT CURRENT_TIMESTAMP")).scalar()
    if isinstance(now, str):
        now = datetime.datetime.fromisoformat(now)
    assert isinstance(now, datetime.datetime)
    if isinstance(greatest, datetime.datetime) and (greatest.tzinfo is None) != (now.tzinfo is None):
        now = now.replace(tzinfo=None) if greatest.tzinfo is None else now.replace(tzinfo=datetime.UTC)
    before = now - datetime.timedelta(milliseconds=delay_ms)
    separator = "T" if isinstance(greatest, str) and "T" in greatest else " "
    return before.isoformat(sep=separator, timespec="seconds" if not delay_ms % 1000 else "milliseconds")

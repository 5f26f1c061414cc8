"""The bounds of timestamps in a statement, in the form that the database compares with its column."""

from __future__ import annotations

import datetime as dt
import re
from dataclasses import dataclass

from kcli.connectors.jdbc.database import Database
from kcli.connectors.jdbc.field_types import micros_reader
from kcli.connectors.jdbc.identifiers import TableName
from kcli.connectors.jdbc.moments import Zone
from kcli.connectors.jdbc.source_keys import SourceSettings
from kcli.formats.connect.errors import ConnectException

_SQLITE_TEXT = re.compile(r".{10}([T ])..:..:..(?:\.([0-9]+))?(Z|\+00:00)?")
_MICROS_PER_DAY = 86_400_000_000
_JULIAN_DAY_OF_EPOCH = 2_440_587.5


@dataclass(frozen=True, slots=True)
class Bounds:
    """Rows after `begin` and before `end`."""

    begin: object
    end: object


def database_micros(database: Database, zone: Zone) -> int:
    """The present time of the database in microseconds, cut to milliseconds."""
    value = database.execute(database.dialect.now).scalar()
    if value is None:
        query = database.dialect.now
        raise ConnectException(
            f"Unable to get current time from DB using {database.dialect.name} and query '{query}'"
        )
    if database.is_sqlite:
        zone = Zone(dt.UTC)  # SQLite's own time is in UTC, whatever the zone of the columns is
    return micros_reader(zone, database.dialect.module)(value) // 1000 * 1000


def timestamp_bounds(
    database: Database,
    settings: SourceSettings,
    table: TableName | None,
    columns: tuple[str, ...],
    begin_micros: int,
    delay_ms: int,
) -> Bounds:
    """The last position and the present time of the database, less the delay."""
    zone = settings.zone
    end_micros = database_micros(database, zone) - delay_ms * 1000
    sample = _sqlite_sample(database, settings, table, columns) if database.is_sqlite else None

    def form(micros: int) -> object:
        if database.is_sqlite:
            return _sqlite_form(micros, zone, sample)
        local = zone.local(micros)
        # PostgreSQL reads the offset for a column with a time zone, and skips it for one without.
        return local.isoformat(" ") if database.is_postgresql else local.replace(tzinfo=None)

    return Bounds(form(begin_micros), form(end_micros))


def _sqlite_sample(
    database: Database, settings: SourceSettings, table: TableName | None, columns: tuple[str, ...]
) -> object:
    """A timestamp of the column. SQLite compares texts, so the bounds must have the form of the column's texts."""
    quoting = database.quoting
    names = quoting.names(columns)
    moment = f"COALESCE({names})" if len(columns) > 1 else names
    source = f"({settings.query})" if table is None else quoting.table(table)
    sql = f"SELECT {moment} FROM {source} WHERE {moment} IS NOT NULL LIMIT 1"
    return database.execute(sql).scalar()


def _sqlite_form(micros: int, zone: Zone, sample: object) -> object:
    if isinstance(sample, int):
        return micros // 1000
    if isinstance(sample, float):
        return micros / _MICROS_PER_DAY + _JULIAN_DAY_OF_EPOCH
    match = _SQLITE_TEXT.fullmatch(sample) if isinstance(sample, str) else None
    separator, digits, suffix = match.groups("") if match is not None else (" ", "", "")
    local = (Zone(dt.UTC) if suffix else zone).local(micros).replace(tzinfo=None)
    if not digits and local.microsecond == 0:
        return local.isoformat(separator, "seconds") + suffix
    return (
        local.isoformat(separator, "milliseconds" if digits and len(digits) <= 3 else "microseconds") + suffix
    )

"""Checks of the source connector that concern several keys or the database."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

from kcli.config.definition import ConfigError
from kcli.connectors.jdbc.common_keys import ConnectionSettings
from kcli.connectors.jdbc.database import Database, SqlException
from kcli.connectors.jdbc.source_keys import BOTH, INCREMENTING, TIMESTAMP, SourceSettings
from kcli.formats.connect.errors import ConnectException
from kcli.model.java_text import trim

_SELECT = re.compile(r"SELECT\b", re.IGNORECASE | re.DOTALL)
_LISTS = ("table.whitelist", "table.blacklist", "table.include.list", "table.exclude.list")
_OLD_KEYS = ("table.whitelist", "table.blacklist", "timestamp.column.name", "incrementing.column.name")
_NEW_KEYS = (
    "table.include.list", "table.exclude.list", "timestamp.columns.mapping", "incrementing.column.mapping",
)  # fmt: skip
Errors = dict[str, list[str]]


def source_errors(config: Mapping[str, str]) -> Errors:
    """The errors by key. Empty if a key has an error of its own, which the worker reports."""
    try:
        settings = SourceSettings.of(config)
    except ConfigError:
        return {}
    checks = (_isolation, _tables_or_query, _query, _number_of_query, _connection, _statement, _columns)
    for check in checks:
        errors = check(settings)
        if errors:
            return errors
    return {}


def connection_errors(settings: ConnectionSettings) -> Errors:
    """Connects once, because a REST request waits for the answer."""
    database: Database | None = None
    try:
        database = Database(replace(settings, attempts=1))
        database.connection()
    except ConnectException as error:
        cause = error.__cause__ or error
        return {"connection.url": [f"Could not connect to database. {cause}"]}
    finally:
        if database is not None:
            database.close()
    return {}


def _connection(settings: SourceSettings) -> Errors:
    return connection_errors(settings.connection)


def _set(settings: SourceSettings, *keys: str) -> list[str]:
    return [key for key in keys if settings.values[key] not in (None, "", ())]


def _isolation(settings: SourceSettings) -> Errors:
    mode = settings.connection.isolation.upper()
    if mode == "SQL_SERVER_SNAPSHOT" and not settings.connection.url.startswith(("jdbc:sqlserver", "mssql")):
        text = f"Isolation mode of `{mode}` can only be configured with a Sql Server Dialect"
        return {"transaction.isolation.mode": [text]}
    return {}


def _tables_or_query(settings: SourceSettings) -> Errors:
    if settings.query is not None:
        return {}
    old, new = _set(settings, *_OLD_KEYS), _set(settings, *_NEW_KEYS)
    if old and new:
        text = (
            "Cannot mix legacy and new configuration approaches. Legacy configurations"
            f" ({', '.join(_OLD_KEYS)}) cannot be used together with new configurations"
            f" ({', '.join(_NEW_KEYS)}). Please choose one approach: either use all legacy configurations or all"
            " new configurations."
        )
        return {key: [text] for key in (*old, *new)}
    if not old and not new:
        text = (
            f"At least one table filtering configuration is required. Provide one of: {', '.join(_LISTS[:3])},"
            f" or {_LISTS[3]}."
        )
        return {key: [text] for key in _LISTS}
    return {}


def _query(settings: SourceSettings) -> Errors:
    if settings.query is None:
        return {}
    keys = _set(settings, "query", "query.masked")
    if len(keys) == 2:
        text = (
            "Both 'query' and 'query.masked' configs cannot be set at the same time. Please use only one of"
            " them."
        )
        return {key: [text] for key in keys}
    lists = _set(settings, *_LISTS)
    if lists:
        text = (
            f"Do not specify table filtering configs with 'query'. Remove {' / '.join(_LISTS)} when using query"
            " mode or 'query' when using table filtering mode."
        )
        return {key: [text] for key in ("query", "query.masked", *lists)}
    if not _SELECT.match(trim(settings.query)):
        text = (
            f"Only SELECT statements are supported for '{keys[0]}'. Please provide a statement that starts with"
            " SELECT."
        )
        return {keys[0]: [text]}
    return {}


def _number_of_query(settings: SourceSettings) -> Errors:
    key = "incrementing.column.name"
    if settings.query is None or not settings.by_number or _set(settings, key):
        return {}
    text = (
        f"'{key}' must be provided when using mode '{INCREMENTING}' or '{BOTH}' with a custom query. The"
        " incrementing column cannot be auto-discovered in query mode because there is no table to inspect."
        f" Note that 'incrementing.column.mapping' is not applied in query mode (it maps columns by table-name"
        f" regex, and a custom query has no underlying table to match), so '{key}' must be set explicitly."
    )
    return {key: [text]}


def _statement(settings: SourceSettings) -> Errors:
    """Runs the query without reading rows."""
    if settings.query is None:
        return {}
    database = Database(settings.connection)
    try:
        with database.errors():
            database.execute(f"SELECT * FROM ({settings.query}) q WHERE 1 = 0").close()
    except SqlException as error:
        shown = "" if settings.query_masked else f": {error}"
        text = (
            "The configured query is not valid and has database/connection errors. Please provide the correct"
            " query by validating the query syntax and the existing table/column names with the database being"
            f" connected{shown}"
        )
        return {"query.masked" if settings.query_masked else "query": [text]}
    finally:
        database.close()
    return {}


def _columns(settings: SourceSettings) -> Errors:
    if not _set(settings, *_NEW_KEYS):
        return {}
    if _set(settings, "table.exclude.list") and not _set(settings, "table.include.list"):
        text = (
            "table.exclude.list cannot be used without table.include.list. Exclude list only applies to tables"
            " that match the include list."
        )
        return {"table.exclude.list": [text]}
    for word, plural, key, used, mode in (
        ("Timestamp", "configurations", "timestamp.columns.mapping", settings.by_timestamp, TIMESTAMP),
        ("Incrementing", "configurations", "incrementing.column.mapping", settings.by_number, INCREMENTING),
    ):
        given = bool(_set(settings, key))
        if used and not given:
            text = (
                f"{word} column configuration must be provided when using mode '{mode}' or '{BOTH}'."
                f" Provide '{key}'."
            )
            return {"mode": [text]}
        if given and not used:
            text = (
                f"{word} column {plural} should not be provided if mode is not '{mode}' or '{BOTH}'."
                f" Remove '{key}'."
            )
            return {"mode": [text]}
    return {}

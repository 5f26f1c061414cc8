"""Engines of SQLAlchemy for an address, with a driver of PostgreSQL that returns JSON as text, and reads infinity."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from typing import TYPE_CHECKING

from kcli.connectors.jdbc.common_keys import ConnectionSettings
from kcli.connectors.jdbc.dialects import Dialect
from kcli.connectors.jdbc.moments import INFINITIES
from kcli.connectors.jdbc.urls import Address

if TYPE_CHECKING:
    from sqlalchemy import Engine

_CONNECT_TIMEOUT_S = 40
"""Java's connectors wait for 40 s too, because a REST request that validates a connector may take 90 s."""
_TEXT_TYPES = ("json", "jsonb", "uuid")
_TIMEOUT_OPTIONS = {"psycopg": "connect_timeout", "pymysql": "connect_timeout", "pymssql": "login_timeout"}


def new_engine(address: Address, settings: ConnectionSettings, dialect: Dialect) -> Engine:
    """An engine without a pool, because a task has one connection. It does not connect."""
    from sqlalchemy import URL, create_engine, event
    from sqlalchemy.pool import NullPool, StaticPool

    options = dict(address.options)
    query = dict(address.query)
    if "service_name" in options:
        query["service_name"] = str(options.pop("service_name"))
    timeout = _TIMEOUT_OPTIONS.get(dialect.module)
    if timeout is not None and timeout not in query:
        options.setdefault(timeout, _CONNECT_TIMEOUT_S)
    if dialect.module == "sqlite3":
        options["check_same_thread"] = False  # `stop` may come from another thread
    if "ssl" in options:
        options["ssl"] = _tls_context(options["ssl"])
    url = URL.create(
        dialect.engine if address.driver is None else f"{dialect.engine.partition('+')[0]}+{address.driver}",
        username=settings.user or address.user,
        password=settings.password or address.password,
        host=address.host or None,
        port=address.port,
        database=address.database or None,
        query=query,
    )
    in_memory = dialect.module == "sqlite3" and address.database in ("", ":memory:")
    engine = create_engine(
        url, poolclass=StaticPool if in_memory else NullPool, hide_parameters=True, connect_args=options
    )
    if dialect.module == "pymysql":
        event.listen(engine, "connect", _refuse_cut_values)
    if engine.dialect.driver == "psycopg":
        engine.dialect.ischema_names = {**engine.dialect.ischema_names, "xml": _text_type()}
        loaders = _loaders()
        event.listen(engine, "connect", lambda connection, record: _register(connection, loaders))
    return engine


def _refuse_cut_values(connection: object, _record: object) -> None:
    """Makes a value that does not fit an error, as Java's driver does. Some servers would store a part of it."""
    with connection.cursor() as cursor:  # type: ignore[attr-defined]
        cursor.execute("SET SESSION sql_mode = CONCAT(@@sql_mode, ',STRICT_TRANS_TABLES')")


def _loaders() -> Mapping[str, type]:
    """psycopg's classes that read values, by the type of PostgreSQL."""
    from psycopg.types.string import TextLoader

    return {
        **dict.fromkeys(_TEXT_TYPES, TextLoader),
        **{name: _with_infinity(name) for name in ("timestamp", "timestamptz")},
    }


def _with_infinity(name: str) -> type:
    """A class that reads what psycopg reads, and `infinity`."""
    from psycopg import DataError, adapters
    from psycopg.adapt import Loader
    from psycopg.pq import Format

    usual = adapters.get_loader(adapters.types[name].oid, Format.TEXT)
    infinities = {infinity.name.encode(): infinity for infinity in INFINITIES}

    class TimestampLoader(Loader):  # type: ignore[misc]
        def __init__(self, oid: int, context: object = None) -> None:
            super().__init__(oid, context)
            self._load = usual(oid, context).load

        def load(self, data: bytes) -> object:
            try:
                return self._load(data)
            except DataError:
                infinity = infinities.get(bytes(data))
                if infinity is None:
                    raise
                return infinity

    return TimestampLoader


def _register(connection: object, loaders: Mapping[str, type]) -> None:
    for name, loader in loaders.items():
        connection.adapters.register_loader(name, loader)  # type: ignore[attr-defined]


def _text_type() -> type:
    from sqlalchemy.types import TEXT

    return TEXT  # type: ignore[no-any-return]


def _tls_context(option: object) -> ssl.SSLContext:
    assert isinstance(option, dict)
    context = ssl.create_default_context()
    context.check_hostname = bool(option["check_hostname"])
    context.verify_mode = ssl.CERT_REQUIRED if option["verify_mode"] else ssl.CERT_NONE
    return context

"""Engines of SQLAlchemy for an address, with drivers that return JSON and UUIDs as text."""

from __future__ import annotations

import ssl
from typing import TYPE_CHECKING

from kcli.connectors.jdbc.common_keys import ConnectionSettings
from kcli.connectors.jdbc.dialects import Dialect
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
    query = {}
    if "service_name" in options:
        query["service_name"] = str(options.pop("service_name"))
    if dialect.module in _TIMEOUT_OPTIONS:
        options.setdefault(_TIMEOUT_OPTIONS[dialect.module], _CONNECT_TIMEOUT_S)
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
    if engine.dialect.driver == "psycopg":
        engine.dialect.ischema_names = {**engine.dialect.ischema_names, "xml": _text_type()}
        event.listen(engine, "connect", _return_text)
    return engine


def _return_text(connection: object, record: object) -> None:
    from psycopg.types.string import TextLoader

    for name in _TEXT_TYPES:
        connection.adapters.register_loader(name, TextLoader)  # type: ignore[attr-defined]


def _text_type() -> type:
    from sqlalchemy.types import TEXT

    return TEXT  # type: ignore[no-any-return]


def _tls_context(option: object) -> ssl.SSLContext:
    assert isinstance(option, dict)
    context = ssl.create_default_context()
    context.check_hostname = bool(option["check_hostname"])
    context.verify_mode = ssl.CERT_REQUIRED if option["verify_mode"] else ssl.CERT_NONE
    return context

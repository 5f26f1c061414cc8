"""What a capture checks and changes in the database before it reads."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from kcli.connectors.cdc.catalog import SERVER_VERSION_MIN, Catalog
from kcli.connectors.cdc.connection import Connection
from kcli.connectors.cdc.keys import parse_identities
from kcli.connectors.cdc.settings import Settings
from kcli.formats.connect.errors import ConnectException

_log = logging.getLogger("kcli.connectors.cdc")


def check_server(connection: Connection) -> None:
    """Raises ConnectException for a server that cannot be captured."""
    if connection.server_version < SERVER_VERSION_MIN:
        raise ConnectException(
            f"PostgreSQL {connection.server_version // 10_000} is too old: expected 12 or newer"
        )
    ((level,),) = connection.texts("SHOW wal_level")
    if level != "logical":
        raise ConnectException(
            f"wal_level is {level}: expected logical. Set wal_level=logical in postgresql.conf, and restart PostgreSQL"
        )


def check_count(settings: Settings, count: int) -> None:
    """Compares the number of tables with guardrail.collections.max. Raises ConnectException."""
    count_max = settings.number("guardrail.collections.max")
    if not 0 < count_max < count:
        return
    text = f"{count} tables are captured: expected at most {count_max} (guardrail.collections.max)"
    if settings.text("guardrail.collections.limit.action") == "fail":
        raise ConnectException(text)
    _log.warning("%s", text)


def set_identities(settings: Settings, catalog: Catalog, tables: Sequence[tuple[int, str, str]]) -> None:
    """Sets the replica identities of replica.identity.autoset.values, where a table has another one."""
    chosen = parse_identities(settings.text("replica.identity.autoset.values"))
    if not chosen:
        return
    for oid, schema, name in tables:
        identity = next((sql for matches, sql in chosen if matches(f"{schema}.{name}")), None)
        if identity is not None and catalog.identity(oid) != identity:
            catalog.set_identity(schema, name, identity)

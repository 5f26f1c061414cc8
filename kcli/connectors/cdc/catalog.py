"""What the connector reads from PostgreSQL's catalogs: tables, columns, types, the slot and the publication."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from kcli.connectors.cdc.connection import Connection, lsn_number, quoted, quoted_list
from kcli.connectors.cdc.pgoutput import Column, Relation
from kcli.connectors.cdc.value_types import TypeInfo
from kcli.formats.connect.errors import ConnectException

SERVER_VERSION_MIN = 12_00_00
"""PostgreSQL 12 is the first version with generated columns, which the statements below read."""
_IDENTITIES = {"d": "DEFAULT", "f": "FULL", "n": "NOTHING"}
_UNKNOWN = TypeInfo("text")
"""A type that was dropped in the meantime. Its values stay texts."""


@dataclass(frozen=True, slots=True)
class TableFacts:
    """What a `Relation` does not say about a table. It is true at present, and not at the position of the stream."""

    required: frozenset[str] = frozenset()
    """The columns that are not null."""
    primary_key: tuple[str, ...] = ()
    defaults: Mapping[str, str] = field(default_factory=dict)
    """The expressions of the columns that have a default."""


@dataclass(frozen=True, slots=True)
class Slot:
    plugin: str
    database: str
    confirmed: int
    """The server sends the transactions that were committed at this position or later."""
    is_lost: bool
    """Whether the server has removed WAL that the slot needs."""


class Catalog:
    """Reads the catalogs on a connection. Remembers types, because their numbers do not change."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._types: dict[int, TypeInfo] = {}

    def tables(self, *, via_root: bool) -> list[tuple[int, str, str]]:
        """The number, schema and name of each table. `via_root` means partitioned tables in place of partitions."""
        kinds = "c.relkind IN ('r', 'p') AND NOT c.relispartition" if via_root else "c.relkind = 'r'"
        rows = self._connection.texts(
            "SELECT c.oid, n.nspname, c.relname FROM pg_catalog.pg_class c"
            " JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace"
            f" WHERE {kinds} AND c.relpersistence = 'p'"
            " AND n.nspname NOT IN ('pg_catalog', 'information_schema') ORDER BY 2, 3"
        )
        return [(int(oid), schema, table) for oid, schema, table in rows]

    def relation(self, oid: int, schema: str, table: str) -> Relation:
        """The table as the stream would describe it: without generated columns."""
        rows = self._connection.texts(
            "SELECT attname, atttypid, atttypmod FROM pg_catalog.pg_attribute"
            f" WHERE attrelid = {oid} AND attnum > 0 AND NOT attisdropped AND attgenerated = '' ORDER BY attnum"
        )
        key = self.facts(oid).primary_key
        columns = tuple(
            Column(name, name in key, int(type_oid), int(modifier)) for name, type_oid, modifier in rows
        )
        return Relation(oid, schema, table, "d", columns)

    def facts(self, oid: int) -> TableFacts:
        required = self._connection.texts(
            f"SELECT attname FROM pg_catalog.pg_attribute WHERE attrelid = {oid} AND attnum > 0 AND attnotnull"
        )
        key = self._connection.texts(
            "SELECT a.attname FROM pg_catalog.pg_index i"
            " CROSS JOIN LATERAL unnest(i.indkey) WITH ORDINALITY AS k(number, place)"
            " JOIN pg_catalog.pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.number"
            f" WHERE i.indrelid = {oid} AND i.indisprimary ORDER BY k.place"
        )
        defaults = self._connection.texts(
            "SELECT a.attname, pg_catalog.pg_get_expr(d.adbin, d.adrelid) FROM pg_catalog.pg_attrdef d"
            " JOIN pg_catalog.pg_attribute a ON a.attrelid = d.adrelid AND a.attnum = d.adnum"
            f" WHERE d.adrelid = {oid} AND a.attgenerated = ''"
        )
        return TableFacts(
            frozenset(name for (name,) in required),
            tuple(name for (name,) in key),
            {row[0]: row[1] for row in defaults},
        )

    def identity(self, oid: int) -> str:
        """The replica identity of a table, as in ALTER TABLE … REPLICA IDENTITY."""
        ((identity, index),) = self._connection.texts(
            "SELECT relreplident, (SELECT c.relname FROM pg_catalog.pg_index i"
            " JOIN pg_catalog.pg_class c ON c.oid = i.indexrelid WHERE i.indrelid = t.oid AND i.indisreplident)"
            f" FROM pg_catalog.pg_class t WHERE t.oid = {oid}"
        )
        return f"USING INDEX {quoted(index)}" if identity == "i" else _IDENTITIES[identity]

    def set_identity(self, schema: str, table: str, identity: str) -> None:
        self._connection.rows(f"ALTER TABLE {quoted(schema, table)} REPLICA IDENTITY {identity}")

    def forget_types(self) -> None:
        """Reads the types again at their next use, because an enum in one of them may have new labels."""
        self._types.clear()

    def type(self, oid: int) -> TypeInfo:
        known = self._types.get(oid)
        if known is None:
            known = self._types[oid] = self._read_type(oid)
        return known

    def _read_type(self, oid: int) -> TypeInfo:
        rows = self._connection.texts(
            "SELECT t.typname, t.typtype, t.typbasetype, t.typtypmod,"
            # int2vector and the like have items, but not the text of an array. Boxes are divided by semicolons.
            " coalesce((SELECT i.oid FROM pg_catalog.pg_type i"
            " WHERE i.oid = t.typelem AND i.typarray = t.oid AND i.typdelim = ','), 0),"
            " (SELECT json_agg(e.enumlabel ORDER BY e.enumsortorder) FROM pg_catalog.pg_enum e"
            f" WHERE e.enumtypid = t.oid) FROM pg_catalog.pg_type t WHERE t.oid = {oid}"
        )
        if not rows:
            return _UNKNOWN
        name, kind, base, modifier, item, labels = rows[0]
        return TypeInfo(
            name,
            kind,
            base=self.type(int(base)) if int(base) else None,
            base_modifier=int(modifier),
            item=self.type(int(item)) if int(item) else None,
            labels=tuple(json.loads(labels)) if labels else (),
        )

    def transaction_id(self) -> int:
        """The number of the present transaction. A standby server has none."""
        ((text,),) = self._connection.texts(
            "SELECT CASE WHEN pg_is_in_recovery() THEN 0 ELSE txid_current() END"
        )
        return int(text)

    def wal_end(self) -> int:
        """The end of the WAL that the server has."""
        ((text,),) = self._connection.texts(
            "SELECT CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn() ELSE pg_current_wal_insert_lsn() END"
        )
        return lsn_number(text)

    def slot(self, name: str) -> Slot | None:
        lost = "wal_status = 'lost'" if self._connection.server_version >= 13_00_00 else "false"
        rows = self._connection.texts(
            f"SELECT plugin, database, coalesce(confirmed_flush_lsn, '0/0'), {lost}"
            f" FROM pg_catalog.pg_replication_slots WHERE slot_name = {self._connection.literal(name)}"
        )
        if not rows:
            return None
        plugin, database, confirmed, is_lost = rows[0]
        return Slot(plugin, database, lsn_number(confirmed), is_lost == "t")

    def has_publication(self, name: str) -> bool:
        literal = self._connection.literal(name)
        return bool(
            self._connection.rows(f"SELECT 1 FROM pg_catalog.pg_publication WHERE pubname = {literal}")
        )

    def ensure_publication(
        self, name: str, mode: str, captured: Sequence[tuple[str, str]], *, via_root: bool
    ) -> None:
        """Creates the publication as publication.autocreate.mode says. Raises ConnectException."""
        exists = self.has_publication(name)
        if mode == "disabled" and not exists:
            raise ConnectException(
                f"The publication {name} does not exist. Create it, or set publication.autocreate.mode"
            )
        if mode == "filtered" and not captured:
            raise ConnectException(
                "publication.autocreate.mode=filtered needs a table, and no table is captured"
            )
        if exists:
            if mode == "filtered" and self._published(name) != set(captured):
                self._connection.rows(f"ALTER PUBLICATION {quoted(name)} SET TABLE {quoted_list(captured)}")
            return
        tables = {"all_tables": " FOR ALL TABLES", "filtered": f" FOR TABLE {quoted_list(captured)}"}
        option = " WITH (publish_via_partition_root = true)" if via_root else ""
        self._connection.rows(f"CREATE PUBLICATION {quoted(name)}{tables.get(mode, '')}{option}")

    def _published(self, name: str) -> set[tuple[str, str]]:
        rows = self._connection.texts(
            "SELECT schemaname, tablename FROM pg_catalog.pg_publication_tables"
            f" WHERE pubname = {self._connection.literal(name)}"
        )
        return {(schema, table) for schema, table in rows}

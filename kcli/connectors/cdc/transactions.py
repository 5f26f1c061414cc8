"""The records that announce the beginning and the end of a transaction, and the place of an event in it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from kcli.connectors.cdc.tables import TRANSACTION_SCHEMA
from kcli.connectors.records import SourceRecord
from kcli.formats.connect.schema import (
    INT64_SCHEMA,
    OPTIONAL_INT64_SCHEMA,
    STRING_SCHEMA,
    Schema,
    SchemaType,
    struct_schema,
)
from kcli.formats.connect.structs import Struct

_PACKAGE = "io.debezium.connector.common"
_KEY = struct_schema({"id": STRING_SCHEMA}, name=f"{_PACKAGE}.TransactionMetadataKey", version=1)
_COLLECTION = struct_schema(
    {"data_collection": STRING_SCHEMA, "event_count": INT64_SCHEMA},
    name="event.collection",
    version=1,
    optional=True,
)
_VALUE = struct_schema(
    {
        "status": STRING_SCHEMA,
        "id": STRING_SCHEMA,
        "event_count": OPTIONAL_INT64_SCHEMA,
        "data_collections": Schema(SchemaType.ARRAY, optional=True, value_schema=_COLLECTION),
        "ts_ms": INT64_SCHEMA,
    },
    name=f"{_PACKAGE}.TransactionMetadataValue",
    version=1,
)


@dataclass(slots=True)
class Transaction:
    """A transaction of the stream, which counts its events."""

    topic: str
    partition: Mapping[str, object]
    xid: int
    time_ms: int
    _counts: dict[str, int] = field(default_factory=dict)
    _total: int = 0

    def block(self, collection: str, lsn: int) -> Struct:
        """Counts an event of a table, and returns its field `transaction`."""
        self._total += 1
        self._counts[collection] = count = self._counts.get(collection, 0) + 1
        return Struct.of_checked(TRANSACTION_SCHEMA, [self._id(lsn), self._total, count])

    def begin(self, lsn: int) -> SourceRecord:
        return self._record("BEGIN", lsn, None, None)

    def end(self, lsn: int) -> SourceRecord:
        collections: list[object] = [
            Struct.of_checked(_COLLECTION, [collection, count]) for collection, count in self._counts.items()
        ]
        return self._record("END", lsn, self._total, collections)

    def _id(self, lsn: int) -> str:
        """The number with a position: of the begin, the end or the event, as in Debezium."""
        return f"{self.xid}:{lsn}"

    def _record(
        self, status: str, lsn: int, count: int | None, collections: list[object] | None
    ) -> SourceRecord:
        name = self._id(lsn)
        return SourceRecord(
            self.partition,
            None,
            self.topic,
            value=Struct.of_checked(_VALUE, [status, name, count, collections, self.time_ms]),
            value_schema=_VALUE,
            key=Struct.of_checked(_KEY, [name]),
            key_schema=_KEY,
        )

"""The records of logical decoding messages, which sessions write with pg_logical_emit_message."""

from __future__ import annotations

from kcli.connectors.cdc.pgoutput import LogicalMessage
from kcli.connectors.cdc.tables import SOURCE_SCHEMA, TRANSACTION_SCHEMA
from kcli.formats.connect.schema import (
    OPTIONAL_BYTES_SCHEMA,
    OPTIONAL_INT64_SCHEMA,
    OPTIONAL_STRING_SCHEMA,
    STRING_SCHEMA,
    struct_schema,
)
from kcli.formats.connect.structs import Struct

_PACKAGE = "io.debezium.connector.postgresql"
MESSAGE_KEY = struct_schema({"prefix": OPTIONAL_STRING_SCHEMA}, name=f"{_PACKAGE}.MessageKey", version=1)
_BLOCK = struct_schema(
    {"prefix": OPTIONAL_STRING_SCHEMA, "content": OPTIONAL_BYTES_SCHEMA},
    name=f"{_PACKAGE}.Message",
    version=1,
)
MESSAGE_VALUE = struct_schema(
    {
        "op": STRING_SCHEMA,
        "ts_ms": OPTIONAL_INT64_SCHEMA,
        "source": SOURCE_SCHEMA,
        "transaction": TRANSACTION_SCHEMA,
        "message": _BLOCK,
    },
    name=f"{_PACKAGE}.MessageValue",
    version=1,
)
_OPERATION = "m"


def message_key(message: LogicalMessage) -> Struct:
    return Struct.of_checked(MESSAGE_KEY, [message.prefix])


def message_value(message: LogicalMessage, source: Struct, transaction: Struct | None, now_ms: int) -> Struct:
    block = Struct.of_checked(_BLOCK, [message.prefix, message.content])
    return Struct.of_checked(MESSAGE_VALUE, [_OPERATION, now_ms, source, transaction, block])

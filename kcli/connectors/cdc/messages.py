"""The records of logical decoding messages, which sessions write with pg_logical_emit_message."""

from __future__ import annotations

from kcli.connectors.cdc.field_types import binary_form
from kcli.connectors.cdc.pgoutput import LogicalMessage
from kcli.connectors.cdc.tables import SOURCE_SCHEMA, TRANSACTION_SCHEMA
from kcli.connectors.cdc.value_types import Modes
from kcli.formats.connect.schema import (
    OPTIONAL_INT64_SCHEMA,
    OPTIONAL_STRING_SCHEMA,
    STRING_SCHEMA,
    Schema,
    struct_schema,
)
from kcli.formats.connect.structs import Struct

_PACKAGE = "io.debezium.connector.postgresql"
MESSAGE_KEY = struct_schema({"prefix": OPTIONAL_STRING_SCHEMA}, name=f"{_PACKAGE}.MessageKey", version=1)
_OPERATION = "m"


def message_key(message: LogicalMessage) -> Struct:
    return Struct.of_checked(MESSAGE_KEY, [message.prefix])


class MessageForm:
    """The values of messages, whose contents have the form of binary.handling.mode."""

    def __init__(self, modes: Modes) -> None:
        kind, self._encode = binary_form(modes)
        self._block = struct_schema(
            {"prefix": OPTIONAL_STRING_SCHEMA, "content": Schema(kind, optional=True)},
            name=f"{_PACKAGE}.Message",
            version=1,
        )
        self.schema = struct_schema(
            {
                "op": STRING_SCHEMA,
                "ts_ms": OPTIONAL_INT64_SCHEMA,
                "source": SOURCE_SCHEMA,
                "transaction": TRANSACTION_SCHEMA,
                "message": self._block,
            },
            name=f"{_PACKAGE}.MessageValue",
            version=1,
        )

    def value(
        self, message: LogicalMessage, source: Struct, transaction: Struct | None, now_ms: int
    ) -> Struct:
        block = Struct.of_checked(self._block, [message.prefix, self._encode(message.content)])
        return Struct.of_checked(self.schema, [_OPERATION, now_ms, source, transaction, block])

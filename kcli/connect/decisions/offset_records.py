"""The records of the offsets topic: the offsets of source partitions.

A key is the list of the connector's name and the partition, and a value is the offset. Partition and offset are maps
whose values are texts, numbers, booleans, bytes or null. A deleted offset has no value.
"""

from __future__ import annotations

import base64
import logging
from collections.abc import Mapping
from typing import cast

from kcli.connect.decisions.json_values import fields_of, json_bytes, parsed
from kcli.formats.connect.errors import DataException
from kcli.protocol.records.schema import Json

Partition = Mapping[str, object]
Offset = Mapping[str, object]

_log = logging.getLogger("kcli.connect.offsets")


def offset_key(connector: str, partition: Partition | None) -> bytes:
    """Raises DataException for a partition with other values than texts, numbers, booleans and null."""
    return json_bytes([connector, _checked(partition)])


def offset_value(offset: Offset | None) -> bytes | None:
    """Raises DataException for an offset with other values than texts, numbers, booleans and null."""
    return None if offset is None else json_bytes(_checked(offset))


def read_offset(value: bytes | None) -> Offset | None:
    """The offset in a value. Raises DataException if the value is anything but a JSON object or null."""
    try:
        content = parsed(value)
        return None if content is None else fields_of(content)
    except ValueError as error:
        raise DataException(f"Failed to read an offset: {error}") from error


def source_partition(key: bytes | None) -> tuple[str, Partition] | None:
    """The connector and the source partition of a key. A key in another form is logged. Returns None for such a key,
    and for a key without a partition."""
    try:
        content = parsed(key)
    except ValueError as error:
        _log.warning("Ignoring the key of an offset, which is not JSON: %s", error)
        return None
    match content:
        case [str(connector), dict(partition)]:
            return connector, partition
        case [str(), None]:
            return None
    _log.warning(
        "Ignoring the key of an offset: expected the list of a connector and its partition, found %s", content
    )
    return None


class OffsetRecords:
    """The offsets by key, and the source partitions of each connector that have an offset."""

    def __init__(self) -> None:
        self.entries: dict[bytes, bytes] = {}
        # By connector and by content: the keys of a partition, which may have its fields in several orders.
        self._keys: dict[str, dict[bytes, tuple[bytes, ...]]] = {}

    def replay(self, key: bytes | None, value: bytes | None) -> None:
        """Applies one record."""
        if key is None:
            _log.warning("Ignoring an offset without a key")
            return
        had_offset = key in self.entries
        if value is None:
            self.entries.pop(key, None)
        else:
            self.entries[key] = value
        if had_offset == (value is not None):
            return
        source = source_partition(key)
        if source is not None:
            connector, partition = source
            keys = self._keys.setdefault(connector, {})
            content = _content(partition)
            others = tuple(other for other in keys.pop(content, ()) if other != key)
            if value is not None or others:
                keys[content] = others if value is None else (*others, key)

    def keys(self, connector: str) -> Mapping[bytes, bytes]:
        """The key of each source partition that has an offset, by the content of the partition.

        Two stores have the same content for a partition whose fields are in different orders.
        """
        return {content: keys[-1] for content, keys in self._keys.get(connector, {}).items()}

    def stored_key(self, key: bytes) -> bytes | None:
        """The key of an offset for the same source partition, whose fields may have another order."""
        if key in self.entries:
            return key
        source = source_partition(key)
        if source is None:
            return None
        connector, partition = source
        keys = self._keys.get(connector, {}).get(_content(partition))
        return keys[-1] if keys else None


def _content(partition: Partition) -> bytes:
    """The same bytes for each order of the fields."""
    return json_bytes(cast("Json", dict(sorted(partition.items()))))


def _checked(fields: Mapping[str, object] | None) -> Json:
    if fields is None:
        return None
    checked: dict[str, Json] = {}
    for name, value in fields.items():
        if not isinstance(name, str):
            raise DataException("Offsets may only use String keys")
        match value:
            case None | bool() | int() | float() | str():
                checked[name] = value
            case bytes():
                checked[name] = base64.b64encode(value).decode()
            case _:
                raise DataException(
                    "Offsets may only contain primitive types as values, "
                    f"but field {name} contains {type(value).__name__}"
                )
    return checked

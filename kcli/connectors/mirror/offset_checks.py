"""The checks of offsets that a user wants to store for a connector, with Java's texts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeGuard

from kcli.connectors.interface import Offset, Partition
from kcli.formats.connect.errors import ConnectException
from kcli.formats.connect.java_strings import java_string

_INT_MAX = 2**31 - 1


def check_offsets(
    offsets: Sequence[tuple[Partition | None, Offset | None]],
    text_keys: Sequence[str],
    *,
    has_partition: bool,
    only_zero: bool,
) -> None:
    """Raises ConnectException for a partition or an offset in another form. A reset (None) is never refused."""
    for partition, offset in offsets:
        if offset is None:
            continue
        if partition is None:
            raise ConnectException("Source partitions may not be null")
        for key in text_keys:
            _check_text(partition, key)
        if has_partition:
            _check_partition(partition)
        _check_offset(partition, offset, only_zero=only_zero)


def _check_text(partition: Partition, key: str) -> None:
    value = _required(partition, key)
    if not isinstance(value, str):
        raise _invalid(partition, key, value, "must be a string")


def _check_partition(partition: Partition) -> None:
    value = _required(partition, "partition")
    if not _is_integer(value) or value > _INT_MAX:
        raise _invalid(partition, "partition", value, "must be an integer")
    if value < 0:
        raise _invalid(partition, "partition", value, "cannot be negative")


def _check_offset(partition: Partition, offset: Offset, *, only_zero: bool) -> None:
    where = f"Source offset {java_string(offset)} for source partition {java_string(partition)}"
    if "offset" not in offset:
        raise ConnectException(f"{where} is missing the 'offset' key, which is required")
    value = offset["offset"]
    invalid = f"{where} has an invalid value {java_string(value)} for the 'offset' key"
    if not _is_integer(value):
        raise ConnectException(f"{invalid}, which must be an integer")
    if only_zero and value != 0:
        raise ConnectException(f"{invalid}; the only accepted value is 0")
    if value < 0:
        raise ConnectException(f"{invalid}, which cannot be negative")


def _required(partition: Partition, key: str) -> object:
    if key not in partition:
        raise ConnectException(
            f"Source partition {java_string(partition)} is missing the '{key}' key, which is required"
        )
    return partition[key]


def _invalid(partition: Partition, key: str, value: object, rule: str) -> ConnectException:
    return ConnectException(
        f"Source partition {java_string(partition)} has an invalid value {java_string(value)} for the '{key}' key, "
        f"which {rule}"
    )


def _is_integer(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool)

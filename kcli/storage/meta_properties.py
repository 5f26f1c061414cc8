"""Reads and writes meta.properties: the cluster id, node id and directory id of a log directory."""

from __future__ import annotations

import re
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from kcli.config import properties
from kcli.errors import StorageError
from kcli.model.java_text import parse_int
from kcli.model.uuids import uuid_from_text, uuid_to_text
from kcli.runtime.disk import Disk, read_file, replace_file

META_PROPERTIES_FILE = "meta.properties"
CURRENT_VERSION = 1

_WEEKDAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


@dataclass(frozen=True, slots=True)
class MetaProperties:
    """The content of meta.properties. Version 1 is for KRaft. Version 0 is for ZooKeeper and has broker.id instead of
    node.id."""

    cluster_id: str | None
    node_id: int | None
    directory_id: uuid.UUID | None = None
    version: int = CURRENT_VERSION


def read_meta_properties(disk: Disk, directory: str) -> MetaProperties | None:
    """The content of meta.properties. None if the file does not exist. Raises StorageError if the content is
    invalid.
    """
    path = f"{directory}/{META_PROPERTIES_FILE}"
    try:
        text = read_file(disk, path).decode("utf-8", "replace")
    except FileNotFoundError:
        return None
    fields = _parse(text)
    if not fields.keys() & {"version", "cluster.id", "broker.id", "node.id"}:
        # In version 0, each key may be missing. But a file without any key was truncated or overwritten. If the
        # directory got a new identity, its records would no longer belong to this identity.
        raise StorageError(
            f"{path} names neither version nor cluster.id nor node.id: it is damaged. Restore it: with "
            f"version={CURRENT_VERSION}, node.id, cluster.id and directory.id of this directory"
        )
    version = _integer(fields, "version", path)
    version = 0 if version is None else version
    if version not in (0, CURRENT_VERSION):
        raise StorageError(f"{path}: Unknown meta.properties version number {version}")
    node_id = _integer(fields, "node.id" if version else "broker.id", path)
    cluster_id = fields.get("cluster.id")
    if version == CURRENT_VERSION and (node_id is None or cluster_id is None):
        missing = "node.id" if node_id is None else "cluster.id"
        raise StorageError(f"{path}: {missing} is missing")
    directory_id = None
    if "directory.id" in fields:
        try:
            directory_id = uuid_from_text(fields["directory.id"])
        except ValueError as error:
            raise StorageError(f"{path}: directory.id: {error}") from None
    return MetaProperties(cluster_id, node_id, directory_id, version)


def write_meta_properties(disk: Disk, directory: str, properties: MetaProperties, now_ms: int) -> None:
    replace_file(disk, f"{directory}/{META_PROPERTIES_FILE}", encode_meta_properties(properties, now_ms))


def encode_meta_properties(properties: MetaProperties, now_ms: int) -> bytes:
    """The bytes of meta.properties, as Java's `Properties.store` writes them. The keys have the order of Java's hash
    table.
    """
    fields: dict[str, str] = {}
    if properties.node_id is not None:
        fields["node.id" if properties.version else "broker.id"] = str(properties.node_id)
    if properties.directory_id is not None:
        fields["directory.id"] = uuid_to_text(properties.directory_id)
    fields["version"] = str(properties.version)
    if properties.cluster_id is not None:
        fields["cluster.id"] = properties.cluster_id
    lines = ["#", f"#{java_date(now_ms)}", *(f"{name}={_escape(value)}" for name, value in fields.items())]
    return "".join(line + "\n" for line in lines).encode("utf-8")


def java_date(now_ms: int) -> str:
    """Formats a time like `Sat Nov 21 08:52:41 UTC 2026`, in English for every locale."""
    at = datetime.fromtimestamp(now_ms / 1000, UTC)
    return f"{_WEEKDAYS[at.weekday()]} {_MONTHS[at.month - 1]} {at:%d %H:%M:%S} UTC {at.year}"


def _integer(fields: Mapping[str, str], name: str, path: str) -> int | None:
    text = fields.get(name)
    if text is None:
        return None
    try:
        return parse_int(text)
    except ValueError:
        raise StorageError(f"{path}: {name} should be a number, found {text!r}") from None


def _parse(text: str) -> dict[str, str]:
    return dict(properties.parse(text))


def _escape(value: str) -> str:
    return re.sub(r"([\\=:#!])", r"\\\1", value)

"""Which configs and ACLs a remote topic gets, and how partitions and groups are divided among tasks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TypeVar

from kcli.client.admin.configs import AlterConfig, ConfigEntry
from kcli.connectors.mirror.filters import ConfigFilter
from kcli.metadata.image import AclEntry
from kcli.model.acl import AclOperation, AclPermissionType
from kcli.model.configs import ConfigOperation, ConfigSource

T = TypeVar("T")


def new_topic_configs(entries: Iterable[ConfigEntry], chosen: ConfigFilter) -> dict[str, str]:
    """The configs of a new remote topic."""
    return {
        entry.name: entry.value
        for entry in _copied(entries, chosen)
        if entry.value is not None and (not _is_default(entry) or chosen.copies_defaults)
    }


def config_changes(entries: Iterable[ConfigEntry], chosen: ConfigFilter) -> list[AlterConfig]:
    """The changes that give an existing remote topic the configs of its source.

    A config that the source does not set is removed, unless the target gets the defaults of the source.
    """
    return [
        AlterConfig(name=entry.name, value=None, op=ConfigOperation.DELETE)
        if _is_default(entry) and not chosen.copies_defaults
        else AlterConfig(name=entry.name, value=entry.value)
        for entry in _copied(entries, chosen)
    ]


def _copied(entries: Iterable[ConfigEntry], chosen: ConfigFilter) -> Iterable[ConfigEntry]:
    return (
        entry
        for entry in entries
        if not (entry.is_read_only or entry.is_sensitive)
        and entry.source is not ConfigSource.STATIC_BROKER_CONFIG
        and chosen.accepts(entry.name)
    )


def _is_default(entry: ConfigEntry) -> bool:
    return entry.source is ConfigSource.DEFAULT_CONFIG


def remote_acl(acl: AclEntry, remote_topic: str) -> AclEntry | None:
    """The ACL of a remote topic for an ACL of its source. None for a permission to write, because only MirrorMaker
    writes to remote topics. So a permission for all operations becomes a permission to read."""
    operation = acl.operation
    if acl.permission_type == AclPermissionType.ALLOW:
        if operation == AclOperation.WRITE:
            return None
        if operation == AclOperation.ALL:
            operation = AclOperation.READ
    return replace(acl, resource_name=remote_topic, operation=operation)


def dealt(items: Sequence[T], tasks_max: int) -> list[list[T]]:
    """Deals items to tasks in turn, so that the partitions of a busy topic are in several tasks."""
    count = min(tasks_max, len(items))
    return [list(items[nth::count]) for nth in range(count)]


def divided(items: Sequence[T], tasks_max: int) -> list[list[T]]:
    """Divides items into contiguous parts. The first parts have one more item than the others."""
    count = min(tasks_max, len(items))
    parts: list[list[T]] = []
    at = 0
    for nth in range(count):
        size = len(items) // count + (nth < len(items) % count)
        parts.append(list(items[at : at + size]))
        at += size
    return parts

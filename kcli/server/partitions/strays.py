"""Logs on the disk that belong to no replica of this broker."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from kcli.metadata.image import MetadataImage
from kcli.metadata.removed_topics import RemovedTopics
from kcli.model.ids import Offset
from kcli.server.partitions.replicas import Replicas
from kcli.storage.store.opening import STRAYS_SHOWN

_log = logging.getLogger("kcli.server.broker_role")


async def set_strays_aside(
    replicas: Replicas, image: MetadataImage, removed_topics: Callable[[Offset], RemovedTopics]
) -> None:
    """Deletes logs that a stop or a crash has left on the disk although their topics are deleted. Renames other logs
    that are not in the metadata ("sets them aside").

    Kafka sets aside all logs that are not in the metadata, and never deletes them. This broker deletes such a log if
    the metadata log contains the removal of its topic. `removed_topics` reads from the metadata log the topics that
    were removed before an offset.
    """
    strays = replicas.strays(image)
    if not strays:
        return

    def set_aside() -> None:
        removed = removed_topics(Offset(image.offset + 1))
        deleted = [log for log in strays if removed.has(log.topic, log.topic_id)]
        unknown = [log for log in strays if not removed.has(log.topic, log.topic_id)]
        if unknown:
            shown = ", ".join(log.path for log in unknown[:STRAYS_SHOWN])
            _log.warning(
                "%d logs are stray: no topic of this cluster, or no replica of this node: %s",
                len(unknown),
                shown,
            )
        replicas.logs.set_aside(deleted, unknown)
        _log.info(
            "%d logs of deleted topics are deleted, %d strays are set aside", len(deleted), len(unknown)
        )

    await asyncio.to_thread(set_aside)

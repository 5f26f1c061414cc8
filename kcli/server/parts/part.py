"""A part of a node, and the ordered list of the parts of a role.

A part is a row: it names the functions of one subsystem that the node calls, and every function is optional. A new
subsystem is one more row. The place of the row in the list is its place in the order of the start, of the changes of
the metadata and of the configuration, and of failed directories. The stop runs through the list in reverse.

If a subsystem must start at one place and stop at another, it has two rows.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from kcli.config.broker import BrokerConfig
from kcli.config.dynamic import DynamicConfig
from kcli.metadata.delta import MetadataDelta
from kcli.metadata.image import MetadataImage
from kcli.server.parts.housekeeping import PeriodicJob
from kcli.server.quorum.loader import MetadataLoader
from kcli.storage.directory import LogDirectory

_log = logging.getLogger("kcli.server.KafkaRaftServer")

T = TypeVar("T")

Step = Callable[[], Awaitable[None] | None]
"""A function that the node calls, and whose result it awaits if the function needs a wait."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """The functions of one subsystem. A function that is None is not called.

    - `load` gets the first metadata image, and `apply` each later change. Both come before the end of the start, so
      `apply` may be called before `start` of the same part, if the start of an earlier part waits.
    - `start` may wait. An exception of `start` ends the start of the node.
    - `stop` gets whether the stop is clean. It is called even if `start` was not, because the start of an earlier part
      may have failed.
    - `reconfigure` gets the configuration before and after a change.
    - `directory_failed` gets a log directory that has gone offline.
    - `jobs` run at intervals while the node runs.
    - `offers` are the objects that handlers and beans may use. A handler names the object that it needs.
    """

    name: str
    load: Callable[[MetadataImage], None] | None = None
    start: Step | None = None
    stop: Callable[[bool], Awaitable[None] | None] | None = None
    apply: Callable[[MetadataDelta, MetadataImage], None] | None = None
    reconfigure: Callable[[BrokerConfig, BrokerConfig], None] | None = None
    directory_failed: Callable[[LogDirectory], None] | None = None
    jobs: Sequence[PeriodicJob] = ()
    offers: Mapping[str, object] = field(default_factory=dict)


def always(step: Step) -> Callable[[bool], Awaitable[None] | None]:
    """A stop that is the same whether it is clean or not."""
    return lambda _clean: step()


def if_clean(step: Step) -> Callable[[bool], Awaitable[None] | None]:
    """A stop that only a clean stop of the node needs."""
    return lambda clean: step() if clean else None


def when(subsystem: T | None, part: Callable[[T], Part]) -> Part | None:
    """The part of a subsystem, or None if the node does not have the subsystem."""
    return None if subsystem is None else part(subsystem)


class Parts:
    """The parts of one role, in order."""

    def __init__(self, rows: Iterable[Part | None]) -> None:
        """A row may be None, so that a list can name a part that only some nodes have."""
        self.rows = [row for row in rows if row is not None]

    def follow(self, dynamic_config: DynamicConfig, loader: MetadataLoader) -> None:
        """Loads the metadata into the parts. From then on, the parts get each change of the metadata and of the
        configuration.

        Subscribes to the configuration first, so that configs that `load` finds in the metadata take effect in the same
        way as later changes.
        """
        for part in self.rows:
            if part.reconfigure is not None:
                dynamic_config.subscribe(part.reconfigure)
        image = loader.image
        for part in self.rows:
            if part.load is not None:
                part.load(image)
        for part in self.rows:
            if part.apply is not None:
                loader.subscribe(part.apply)

    async def start(self) -> None:
        """Starts the parts, one after another. If a part cannot start, raises its error, and the later parts do not
        start."""
        for part in self.rows:
            if part.start is not None:
                waiting = part.start()
                if waiting is not None:
                    await waiting

    async def stop(self, *, clean: bool) -> None:
        """Stops the parts in reverse order, also those that have not started. If parts fail, the others are stopped
        too, and then the first error is raised."""
        first: Exception | None = None
        for part in reversed(self.rows):
            if part.stop is None:
                continue
            try:
                waiting = part.stop(clean)
                if waiting is not None:
                    await waiting
            except Exception as error:
                _log.exception("The part %s could not be stopped", part.name)
                first = first or error
        if first is not None:
            raise first

    def directory_failed(self, directory: LogDirectory) -> None:
        """Tells every part. If a part fails, the later parts still hear of the directory, and the node still halts if
        it must."""
        for part in self.rows:
            if part.directory_failed is not None:
                try:
                    part.directory_failed(directory)
                except Exception:
                    _log.exception(
                        "The part %s failed on the offline directory %s", part.name, directory.path
                    )

    def jobs(self) -> list[PeriodicJob]:
        return [job for part in self.rows for job in part.jobs]

    def offers(self) -> dict[str, object]:
        """The objects that the parts offer to handlers and beans, by name."""
        offers: dict[str, object] = {}
        for part in self.rows:
            assert offers.keys().isdisjoint(part.offers), f"another part offers a name of {part.name}"
            offers.update(part.offers)
        return offers

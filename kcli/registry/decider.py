"""The state of a registry: applies the records of the topic, and runs decisions about the state.

A decision about a long schema takes too long for the event loop, so it runs in a thread, one such decision at a time.
The state does not change meanwhile: the records that come are applied when the thread has ended.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from kcli.client.topic_table.changes import Change
from kcli.formats.registry.contexts import normalized
from kcli.formats.registry.documents import RegisterRequest, SchemaDefinition
from kcli.registry.decisions.configs import Settings
from kcli.registry.decisions.records import Entry
from kcli.registry.decisions.rules import Rules
from kcli.registry.decisions.schemas import SchemaParser
from kcli.runtime import log_text
from kcli.runtime.limited_lines import LimitedLines

_log = logging.getLogger("kcli.registry.decider")

T = TypeVar("T")

QUICK_CHARACTERS_MAX = 8_000
"""The most characters of schemas that are parsed, normalized and compared in the event loop. They take about 20 ms."""

COMPARED_PER_CHARACTER = 80
"""The product of the characters of two compared schemas that takes as long as the parsing of one character. Each part
of a combination is compared with each part of the other one: 300 members of `anyOf` in 5,000 characters take 0.7 s."""

LONG_CACHE_PART = 10
"""The thread caches this part of the schemas that the event loop caches, because it parses long ones."""


_TYPES = {"AVRO": "avro", "JSON": "json", "PROTOBUF": "protobuf"}
"""The types of schemas in the names of metrics."""


class Decider:
    def __init__(self, settings: Settings) -> None:
        self.rules = Rules.of(settings)
        """For requests that parse no schema."""
        state = self.rules.state
        # The thread has a parser of its own, because the cache of a parser serves one thread.
        parser = SchemaParser(
            state,
            strict_references=settings.strict_references,
            cache_size=max(settings.cached_schemas // LONG_CACHE_PART, 1),
        )
        self._long_rules = Rules(state, settings, parser)
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="schemas")
        self._turn = asyncio.Lock()
        self._is_frozen = False
        self._deferred: deque[Change] = deque()
        self._settled = asyncio.Event()
        self._settled.set()
        self._lines = LimitedLines()
        self.conflicts: dict[bytes, tuple[Entry, ...]] = {}
        """The records that restore each key whose last record was refused, because it conflicts with another one."""
        self.on_conflict: Callable[[], None] = lambda: None
        self.is_loaded = False
        """Whether the whole topic was read. Conflicts in the records before are left as they are, because they may be
        old, and the records may be needed."""

    def stop(self) -> None:
        self._thread.shutdown(wait=False, cancel_futures=True)

    # Records.

    def take(self, change: Change) -> None:
        """Applies a record of the topic, now or when the state may change."""
        if self._is_frozen:
            self._deferred.append(change)
            self._settled.clear()
        else:
            self._apply(change)

    def counts(self) -> dict[str, int]:
        """The numbers of versions, under the names of Confluent's metrics. A deleted version was created too."""
        counts = {"registered-count": 0, "deleted-count": 0}
        counts |= {f"{name}-schemas-{end}": 0 for name in _TYPES.values() for end in ("created", "deleted")}
        state = self.rules.state
        for schema in itertools.chain.from_iterable(map(state.versions, state.subjects())):
            name = _TYPES.get(schema.definition.type)
            counts["registered-count"] += 1
            counts["deleted-count"] += schema.deleted
            if name is not None:
                counts[f"{name}-schemas-created"] += 1
                counts[f"{name}-schemas-deleted"] += schema.deleted
        return counts

    async def settled(self) -> None:
        """Returns when all records that have come are applied."""
        await self._settled.wait()

    def has_refused(self, entries: Iterable[Entry]) -> bool:
        """Whether one of these records was not applied, because another registry has written a conflicting one."""
        return any(key in self.conflicts for key, _ in entries)

    def _apply(self, change: Change) -> None:
        if change.key is None:
            self._log_skipped(f"the record at offset {change.offset} has no key")
            return
        skipped = self.rules.state.replay(change.key, change.value, change.offset, change.timestamp_ms)
        self.conflicts.pop(change.key, None)
        if skipped is None:
            return
        self._log_skipped(skipped.reason)
        if skipped.repair and self.is_loaded:
            self.conflicts[change.key] = skipped.repair
            self.on_conflict()

    def _log_skipped(self, reason: str) -> None:
        ending = self._lines.ending(asyncio.get_running_loop().time())
        if ending is not None:
            _log.warning("A record of the topic has no effect: %s%s", log_text.reason(reason), ending)

    # Decisions.

    async def decide(self, decision: Callable[[Rules], T], characters: int) -> T:
        """Runs a decision that parses and compares about so many characters of schemas."""
        if characters <= QUICK_CHARACTERS_MAX:
            return decision(self.rules)
        # The client may go away, but the state must not change until the thread has ended.
        return await asyncio.shield(asyncio.ensure_future(self._decide_in_thread(decision)))

    async def _decide_in_thread(self, decision: Callable[[Rules], T]) -> T:
        async with self._turn:
            self._is_frozen = True
            try:
                loop = asyncio.get_running_loop()
                return await loop.run_in_executor(self._thread, decision, self._long_rules)
            finally:
                self._is_frozen = False
                while self._deferred:
                    self._apply(self._deferred.popleft())
                self._settled.set()

    def characters_of(self, subject: str, request: RegisterRequest) -> int:
        """The characters that a decision about a schema for a subject may parse."""
        versions = self.rules.state.versions(normalized(subject))
        return characters_of(request.definition) + sum(
            characters_of(version.definition) for version in versions
        )

    def comparison_of(self, subject: str, request: RegisterRequest) -> int:
        """The characters that take as long as a decision that also compares the schema with the versions."""
        versions = self.rules.state.versions(normalized(subject))
        older = sum(len(version.definition.text) for version in versions)
        compared = len(request.definition.text) * older // COMPARED_PER_CHARACTER
        return self.characters_of(subject, request) + compared


def characters_of(definition: SchemaDefinition) -> int:
    """The characters of a schema. Referenced schemas count as long, because they may refer to hundreds of others."""
    return len(definition.text) + QUICK_CHARACTERS_MAX * len(definition.references)

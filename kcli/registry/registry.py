"""Carries out the requests of the REST API: reads at once, and changes on the leader."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import TypeVar

from kcli.errors import KcliError
from kcli.formats.registry.documents import RegisterRequest, RegisterResponse
from kcli.http.rest.routing import Call, Reply
from kcli.registry.config.settings import RegistryConfig
from kcli.registry.decider import Decider
from kcli.registry.decisions.configs import Level, Settings
from kcli.registry.decisions.decision import Decision
from kcli.registry.decisions.errors import RegistryError, not_permitted
from kcli.registry.decisions.leadership import Identity
from kcli.registry.decisions.registration import register, registered
from kcli.registry.decisions.rules import Rules
from kcli.registry.election import Election
from kcli.registry.forwarding import Forwarder, ForwardingFailed, LeaderUnreachable, is_forwarded
from kcli.registry.store import NotLeader, RecordTooLarge, Store, StoreFailed, StoreTimedOut

_log = logging.getLogger("kcli.registry")

T = TypeVar("T")

LEADER_WAIT_SECONDS = 5.0
"""The time for which a change waits for a leader. An election takes less, unless a leader has died without leaving."""

REFRESH_SECONDS = 0.1
"""The time between two looks at the end of the topic for schemas that are unknown here."""

LEADERS_MAX = 3
"""The most leaders to which one request is given, because the leader may change again and again."""


@dataclass(frozen=True, slots=True)
class Operation:
    """A kind of change, with the texts of its errors in Confluent's registry."""

    failed: str
    timed_out: str
    not_forwarded: str
    no_leader: str = "Leader not known."


REGISTER = Operation(
    failed="Register schema operation failed while writing to the Kafka store",
    timed_out="Register operation timed out",
    not_forwarded="Error while forwarding register schema request to the leader",
)
DELETE_VERSION = Operation(
    failed="Delete Schema Version operation failed while writing to the Kafka store",
    timed_out="Delete Schema Version operation timed out",
    not_forwarded="Error while forwarding delete schema version request to the leader",
)
DELETE_SUBJECT = Operation(
    failed="Error while deleting the subject",
    timed_out="Delete subject operation timed out",
    not_forwarded="Error while forwarding delete subject request to the leader",
)
DELETE_CONTEXT = Operation(
    failed="Error while deleting context",
    timed_out="Delete context operation timed out",
    not_forwarded="Error while forwarding delete context request to the leader",
)
UPDATE_CONFIG = Operation(
    failed="Failed to update compatibility level",
    timed_out="Update config operation timed out",
    not_forwarded="Error while forwarding update config request to the leader",
    no_leader="Failed to update compatibility level",
)
DELETE_CONFIG = Operation(
    failed="Failed to delete compatibility level",
    timed_out="Delete config operation timed out",
    not_forwarded="Error while forwarding delete config request to the leader",
    no_leader="Failed to delete compatibility level",
)
UPDATE_MODE = Operation(
    failed="Failed to update mode",
    timed_out="Update mode operation timed out",
    not_forwarded="Error while forwarding update mode request to the leader",
    no_leader="Failed to update mode",
)
DELETE_MODE = Operation(
    failed="Failed to delete mode",
    timed_out="Delete mode operation timed out",
    not_forwarded="Error while forwarding delete mode request to the leader",
    no_leader="Failed to delete mode",
)

TOO_LARGE, STORE_ERROR, TIMED_OUT, NOT_FORWARDED, NO_LEADER = 42209, 50001, 50002, 50003, 50004


def decision_settings(config: RegistryConfig) -> Settings:
    """What the properties of a registry decide about schemas."""
    return Settings(
        level=Level(config.compatibility_level),
        validate_fields=config.validates_fields,
        validate_new_schemas=config.validates_new_schemas,
        allow_empty_subject=not config.rejects_empty_subject,
        allow_mode_changes=config.mode_is_mutable,
        strict_references=config.has_strict_references,
        cached_schemas=config.cached_schemas,
    )


class Registry:
    """`election` is None before the registry joins the group, and for a registry that only reads."""

    def __init__(self, config: RegistryConfig, decider: Decider, store: Store, forwarder: Forwarder) -> None:
        self.config = config
        self.decider = decider
        self.store = store
        self.election: Election | None = None
        self._forwarder = forwarder
        self._writer = asyncio.Lock()
        self._is_unsure = False
        """Whether a write has failed, so that its records may be in the topic without being in the state."""
        self._refreshing: asyncio.Task[None] | None = None
        self._refreshed_s = -REFRESH_SECONDS
        self._tasks: set[asyncio.Task[object]] = set()
        decider.on_conflict = self._begin_repair

    @property
    def rules(self) -> Rules:
        """For requests that parse no schema."""
        return self.decider.rules

    # The leadership.

    @property
    def leads(self) -> bool:
        return self.election is not None and self.election.leads

    async def take_over(self) -> None:
        """Implements `Transfer`."""
        async with self._writer:
            await self._catch_up()

    async def give_up(self) -> None:
        """Implements `Transfer`."""
        await self.store.give_up()

    async def _catch_up(self) -> None:
        self._is_unsure = True
        await self.store.take_over()
        await self.decider.settled()
        self._is_unsure = False

    # Changes.

    async def register(
        self,
        call: Call,
        subject: str,
        request: RegisterRequest,
        render: Callable[[RegisterResponse], object],
        *,
        normalize: bool,
        force: bool,
    ) -> Reply:
        """Registers a schema. If the subject has the schema already, this registry answers, and no leader is needed."""
        known = await self.decider.decide(
            lambda rules: registered(rules, subject, request, normalize=normalize),
            self.decider.characters_of(subject, request),
        )
        if known is not None:
            return Reply(render(known))
        return await self.change(
            call,
            REGISTER,
            lambda rules: register(rules, subject, request, normalize=normalize, force=force),
            render,
            self.decider.comparison_of(subject, request),
        )

    async def change(
        self,
        call: Call,
        operation: Operation,
        decide: Callable[[Rules], Decision[T]],
        render: Callable[[T], object],
        characters: int = 0,
    ) -> Reply:
        """Decides and writes on the leader, and answers when this registry has read the records.

        `characters` are those whose parsing takes as long as the decision. Raises RegistryError.
        """
        if self.config.read_only:
            raise not_permitted("This registry is read-only, because kcli.read.only is set")
        election = self.election
        if election is None:
            raise RegistryError(NO_LEADER, operation.no_leader)
        unreachable: LeaderUnreachable | None = None
        leader: Identity | None = None
        try:
            for _ in range(LEADERS_MAX):
                other_than = None if unreachable is None else leader
                leader = await election.wait_for_leader(LEADER_WAIT_SECONDS, other_than=other_than)
                if leader is None or (leader is not election.identity and is_forwarded(call)):
                    break
                try:
                    if leader is not election.identity:
                        return await self._forward(call, leader)
                    return Reply(render(await self._shielded(self._decide_and_write(decide, characters))))
                except NotLeader:
                    unreachable = None
                except LeaderUnreachable as error:
                    unreachable = error
            if unreachable is not None:
                raise unreachable
        except ForwardingFailed as error:
            _log.warning("A request was not forwarded to the leader: %s", error)
            raise RegistryError(NOT_FORWARDED, operation.not_forwarded) from error
        except RecordTooLarge as error:
            message = "Register operation failed because schema is too large"
            raise RegistryError(TOO_LARGE, message) from error
        except StoreTimedOut as error:
            raise RegistryError(TIMED_OUT, operation.timed_out) from error
        except StoreFailed as error:
            raise RegistryError(STORE_ERROR, operation.failed) from error
        raise RegistryError(NO_LEADER, operation.no_leader)

    async def _forward(self, call: Call, leader: Identity) -> Reply:
        reply = await self._forwarder.forward(call, leader)
        if reply.status < 400:
            await self._read_to_end()  # the client may read its change from this registry
        return reply

    async def refresh(self) -> None:
        """Reads what other registries have written, because a client asks for a schema that is unknown here.

        A producer may have registered the schema at another registry a moment ago.
        """
        if self.leads:
            return
        if self._refreshing is None or self._refreshing.done():
            now_s = asyncio.get_running_loop().time()
            if now_s < self._refreshed_s + REFRESH_SECONDS:
                return
            self._refreshed_s = now_s
            self._refreshing = asyncio.create_task(self._read_to_end())
        await asyncio.shield(self._refreshing)

    async def _read_to_end(self) -> None:
        try:
            async with asyncio.timeout(self.config.store.timeout_ms / 1000):
                await self.store.read_to_end()
                await self.decider.settled()
        except (KcliError, OSError) as error:  # a TimeoutError is an OSError
            _log.info("The last records of the topic are not read yet: %s", error)

    async def _decide_and_write(self, decide: Callable[[Rules], Decision[T]], characters: int) -> T:
        """Runs alone, because a decision needs the records of the decisions before it. Raises StoreFailed."""
        async with self._writer:
            for _ in range(1 + self.config.store.write_max_retries):
                if not self.leads:
                    raise NotLeader("another registry leads")
                await self._be_sure()
                decision = await self.decider.decide(decide, characters)
                if not decision.entries:
                    return decision.answer
                self._is_unsure = True
                await self.store.put(decision.entries)
                await self.decider.settled()
                self._is_unsure = False
                if not self.decider.has_refused(decision.entries):
                    return decision.answer
        raise StoreFailed("other registries write conflicting records")

    async def _be_sure(self) -> None:
        """After a failed write, reads what is in the topic. Raises StoreFailed."""
        if not self._is_unsure:
            return
        try:
            async with asyncio.timeout(self.config.store.timeout_ms / 1000):
                await self._catch_up()
        except TimeoutError:
            raise StoreTimedOut("the records of an earlier write are not read yet") from None

    async def _shielded(self, work: Coroutine[object, object, T]) -> T:
        """Waits for work that continues if the client goes away, because half of a change must not stay."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            # The reason for a refusal has no reader any more. Without this, asyncio would log it as an error.
            task.add_done_callback(lambda done: done.cancelled() or done.exception())
            raise

    # Conflicts.

    def _begin_repair(self) -> None:
        """Restores a key that a registry has overwritten after it had lost the leadership."""
        if self.leads:
            task = asyncio.create_task(self._repair())
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _repair(self) -> None:
        async with self._writer:
            entries = [entry for repair in self.decider.conflicts.values() for entry in repair]
            if not entries or not self.leads:
                return
            self._is_unsure = True
            try:
                await self.store.put(entries)
                await self.decider.settled()
                self._is_unsure = False
            except StoreFailed as error:
                _log.error("The topic was not repaired: %s", error)

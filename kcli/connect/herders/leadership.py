"""The leader of a group of workers: which worker it is, and the writes to the config topic that only it may do."""

from __future__ import annotations

import logging
from collections.abc import Awaitable

from kcli.connect.decisions.config_state import SessionKey
from kcli.connect.decisions.session import check_signature, key_expires_ms, must_replace_key
from kcli.connect.errors import NotLeader, RestError
from kcli.connect.herders.group import GroupAssignment
from kcli.connect.herders.settings import HerderParts, HerderSettings
from kcli.connect.herders.stage import Stages
from kcli.connect.model import InternalSignature, TaskId
from kcli.formats.connect.errors import ConnectException

_log = logging.getLogger("org.apache.kafka.connect.runtime.distributed.DistributedHerder")


class Leadership:
    """Knows the last assignment of this worker, and writes to the config topic as the leader.

    With transactions, another worker that becomes the leader fences this one: its writes fail until it claims the topic
    again.
    """

    def __init__(self, settings: HerderSettings, parts: HerderParts, stages: Stages) -> None:
        self._session = settings.session
        self._claims_config_topic = settings.claims_config_topic
        self._membership = parts.membership
        self._configs = parts.configs
        self._clock = parts.clock
        self._random_bytes = parts.random_bytes
        self._stages = stages
        self.assignment: GroupAssignment | None = None
        self.is_fenced = False

    def follow(self, assignment: GroupAssignment) -> bool:
        """Takes the assignment of a rebalance. Returns whether the group has another leader now."""
        is_new = self.assignment is None or self.assignment.leader != assignment.leader
        self.assignment = assignment
        return is_new

    @property
    def is_leader(self) -> bool:
        """Whether this worker is the leader."""
        assignment = self.assignment
        return assignment is not None and assignment.leader == self._membership.member_id

    @property
    def url(self) -> str | None:
        """The URL of the leader. None before the first assignment."""
        return None if self.assignment is None else self.assignment.leader_url

    def check(self) -> None:
        """Raises NotLeader with the URL of the leader, if another worker is the leader."""
        if not self.is_leader:
            raise NotLeader(self.url)

    def owner_url(self, id: TaskId) -> str | None:
        """The URL of the next worker to ask for the owner of a connector or task: the owner, or the leader."""
        return self._membership.owner_url(id) if self.is_leader else self.url

    def check_signature(self, signature: InternalSignature | None) -> None:
        """Raises the error of a request whose signature another worker of the group has not made."""
        if self._membership.is_sessioned:
            check_signature(signature, self._configs.state.session_key, self._session)

    async def claim(self) -> None:
        """Fences the last leader, so that only this worker writes to the config topic."""
        if not self._claims_config_topic:
            return
        try:
            await self._configs.claim()
            self.is_fenced = False
        except Exception:
            self.is_fenced = True
            _log.exception(
                "Unable to claim write privileges for the config topic after this worker became leader"
            )

    async def has_write_privileges(self) -> bool:
        """Claims the config topic again, if a write has failed. Returns whether the herder may work."""
        if self.is_fenced and self.is_leader:
            with self._stages.stage("reclaiming write privileges for the config topic"):
                await self.claim()
        elif self.is_fenced:
            self.is_fenced = False  # fenced by the next leader, as it should be
        return not self.is_fenced

    async def write(self, description: str, write: Awaitable[None]) -> None:
        """Writes to the config topic. `description` is as in "writing a config for connector c to"."""
        with self._stages.stage(f"{description} the config topic"):
            try:
                await write
            except RestError:
                raise
            except Exception as error:
                self.is_fenced = self._claims_config_topic
                raise ConnectException(
                    "Failed to write to config topic; this may be due to a transient error and the request can be "
                    "safely retried"
                ) from error

    @property
    def key_expires_ms(self) -> int | None:
        """The time at which the leader must replace the session key. None if it need not."""
        key = self._configs.state.session_key
        if not self._owns_key or key is None:
            return None
        return key_expires_ms(key, self._session)

    async def rotate_key(self) -> None:
        """Replaces the key of signatures, if it is missing or too old."""
        now_ms, session = self._clock.now_ms(), self._session
        if self._owns_key and must_replace_key(self._configs.state.session_key, session, now_ms):
            key = SessionKey(self._random_bytes(session.key_size_bytes), session.key_algorithm, now_ms)
            await self.write("writing a new session key to", self._configs.put_session_key(key))

    @property
    def _owns_key(self) -> bool:
        return self.is_leader and self._membership.is_sessioned

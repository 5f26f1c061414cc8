"""What the resources share: the subject of a request, the reading of schemas, and pages of lists."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from kcli.formats.registry.contexts import normalized
from kcli.http.rest.routing import Call
from kcli.model.java_text import trim
from kcli.registry.config.access_rules import Operation
from kcli.registry.decisions.configs import alias_of
from kcli.registry.decisions.rules import Rules
from kcli.registry.registry import Registry
from kcli.registry.rest.access import Access

T = TypeVar("T")


LISTED_CHARACTERS = 8
"""The characters whose parsing takes as long as one version of a list: about 20 µs."""


@dataclass(frozen=True, slots=True)
class Desk:
    """The registry, and the rules of access to it."""

    registry: Registry
    access: Access

    @property
    def rules(self) -> Rules:
        return self.registry.rules

    def subject(self, call: Call, operation: Operation) -> str:
        """The subject of the path, which its config may replace. Raises RegistryError without the permission."""
        subject = self.aliased(call.parameters["subject"])
        self.access.check(call, operation, subject)
        return subject

    def aliased(self, subject: str) -> str:
        alias = alias_of(self.rules.state, normalized(subject))
        return alias if alias != normalized(subject) else subject

    async def listed(self, decision: Callable[[Rules], T]) -> T:
        """Makes a list of subjects or schemas, which takes long if there are many."""
        return await self.registry.decider.decide(
            decision, LISTED_CHARACTERS * self.rules.state.version_count
        )

    async def formatted(self, name: str, decision: Callable[[Rules], T], characters: int) -> T:
        """Reads a schema in a format. Only a format needs the parsed schema."""
        return await self.registry.decider.decide(decision, characters if trim(name) else 0)

"""A decision: the records to write, and the answer to the request."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

from kcli.registry.decisions.records import Entry

T = TypeVar("T", covariant=True)


@dataclass(frozen=True, slots=True)
class Decision(Generic[T]):
    """The leader writes the entries in their order, reads them again, and then returns the answer.

    A decision without entries needs no leader.
    """

    answer: T
    entries: tuple[Entry, ...] = ()

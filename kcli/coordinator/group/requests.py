"""The kinds of requests about one group, and the call of a client.

A type of group lists the requests that it serves (`GroupType.requests`). A request names its kind by a constant, such
as `JOIN_GROUP` (classic/requests.py). `TypeTable.serving` finds the type that serves a request.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from kcli.coordinator.group.step import GroupStep
from kcli.coordinator.group.topics import VisibleTopics
from kcli.coordinator.runtime import Token
from kcli.errors import KafkaError


class OfGroup(Protocol):
    """A value that names the group to which it belongs."""

    @property
    def group_id(self) -> str: ...


RequestT = TypeVar("RequestT", bound=OfGroup)
ArgumentT = TypeVar("ArgumentT", bound=OfGroup)
AnswerT = TypeVar("AnswerT")


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """The client that sent a request, from the header of the request and the connection.

    `visible` is a function that selects the topics that the client may describe, or None if the client may describe
    every topic.
    """

    api_version: int
    client_id: str
    client_host: str
    visible: VisibleTopics | None = None


@dataclass(frozen=True, slots=True)
class Call(Generic[RequestT, AnswerT]):
    """A request of a client, with the token for the answer (`coordinator.runtime`)."""

    request: RequestT
    caller: Caller
    token: Token[AnswerT]

    @property
    def group_id(self) -> str:
        return self.request.group_id


@dataclass(frozen=True, slots=True)
class Describe:
    """A question about the state and the members of a group."""

    group_id: str
    api_version: int


@dataclass(frozen=True, slots=True, eq=False)
class Request(Generic[ArgumentT]):
    """A kind of request that may change a group, such as JoinGroup.

    If its function raises a KafkaError, the group has not changed. `refuse` then replies with this error. If `refuse`
    is None, the caller of the shard gets the error.
    """

    name: str
    refuse: Callable[[ArgumentT, KafkaError, GroupStep], None] | None = None

    def by(self, function: Callable[[ArgumentT, GroupStep], None]) -> Served:
        return self, function


@dataclass(frozen=True, slots=True, eq=False)
class Question(Generic[ArgumentT, AnswerT]):
    """A kind of request that writes no records, such as Heartbeat. Its function gets the time in milliseconds, and
    returns the answer."""

    name: str

    def by(self, function: Callable[[ArgumentT, int], AnswerT]) -> Served:
        return self, function


# The functions of a table have different arguments. `by` and `TypeTable.serving` connect them with their kinds.
Kind = Request[Any] | Question[Any, Any]
Served = tuple[Kind, Callable[[Any, Any], Any]]
"""A kind of request, and the function that serves it."""

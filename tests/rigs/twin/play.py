"""Sends the cases of a table to a server, one after another, and removes the server's own ids from its answers."""

from __future__ import annotations

import asyncio
import dataclasses
import uuid
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from kcli.errors import ErrorCode, ProtocolError
from kcli.protocol.wire import codec
from kcli.protocol.wire.api import ApiKey
from rigs import wire_client
from rigs.twin.case import PRODUCER, TOPIC_IDS, Case
from rigs.wire_client import Client

MEMBER = "{member}"

NOT_YET = {
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.CONCURRENT_TRANSACTIONS,
}
"""Errors that pass while a coordinator starts or ends a transaction. The request is sent again."""
SILENT = "no answer"
"""Stands for the answer of a server that leaves a request without any, as Kafka does after its own error."""
ANSWER_S = 10.0
TRIES = 40
PAUSE_S = 0.25


@dataclass(frozen=True, slots=True)
class Answer:
    """What a server answered to a case in one version. `response` is None if it closed the connection, and SILENT if it
    sent nothing."""

    case: Case
    version: int
    response: Any

    @property
    def name(self) -> str:
        return f"{self.case.key.name} v{self.version}: {self.case.name}"


@dataclass(slots=True)
class Learned:
    """The ids that the server has given. They are put into requests, and removed from answers."""

    member: str = MEMBER
    producer: int = PRODUCER
    topics: dict[uuid.UUID, uuid.UUID] = field(default_factory=dict)

    def fill(self, value: Any, version: int) -> Any:
        """A request with the server's ids."""
        return _mapped(value, lambda _name, each: self._filled(each, version))

    def _filled(self, value: Any, version: int) -> Any:
        match value:
            case str():
                return value.replace(MEMBER, self.member).replace("{v}", str(version))
            case int() if value == PRODUCER:
                return self.producer
            case uuid.UUID():
                return self.topics.get(value, value)
        return value

    def learn(self, response: Any) -> None:
        """Remembers the ids in an answer of JoinGroup or InitProducerId."""
        self.member = getattr(response, "member_id", None) or self.member
        if getattr(response, "producer_id", -1) >= 0:
            self.producer = response.producer_id

    def forget(self, value: Any) -> Any:
        """An answer without the server's ids."""
        return _mapped(value, self._forgotten)

    def _forgotten(self, name: str, value: Any) -> Any:
        match value:
            case str():
                return value.replace(self.member, MEMBER)
            case int() if name == "producer_id" and value == self.producer:
                return PRODUCER
            case uuid.UUID():
                return next((stand_in for stand_in, real in self.topics.items() if real == value), value)
        return value


def _mapped(value: Any, change: Callable[[str, Any], Any], name: str = "") -> Any:
    """A message with each value of its fields changed by (name of the field, value)."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {each.name: getattr(value, each.name) for each in dataclasses.fields(value)}
        return dataclasses.replace(
            value, **{each: _mapped(below, change, each) for each, below in fields.items()}
        )
    if isinstance(value, tuple):
        return tuple(_mapped(each, change, name) for each in value)
    return change(name, value)


def _codes(value: Any) -> set[ErrorCode]:
    """Every error code in an answer."""
    found: set[ErrorCode] = set()

    def seen(_name: str, each: Any) -> Any:
        if isinstance(each, ErrorCode):
            found.add(each)
        return each

    _mapped(value, seen)
    return found


class Player:
    """A client of one server. It connects again when the server has closed the connection."""

    def __init__(self, host: str, port: int) -> None:
        self._at = (host, port)
        self._client: Client | None = None
        self._learned = Learned()

    async def play(self, cases: Iterable[Case]) -> list[Answer]:
        try:
            return [await self._send(case, version) for case in cases for version in case.versions()]
        finally:
            self.close()

    def close(self) -> None:
        if self._client is not None:
            self._client.close()
            self._client = None

    async def _send(self, case: Case, version: int) -> Answer:
        await self._find_topics()
        request = self._learned.fill(case.message(), version)
        for _ in range(TRIES):
            response = await self._call(request, case.key, version)
            if not NOT_YET & _codes(response):
                break
            await asyncio.sleep(PAUSE_S)
        self._learned.learn(response)
        return Answer(case, version, self._learned.forget(response))

    async def _call(self, request: Any, key: ApiKey, version: int) -> Any:
        client = await self._connected()
        try:
            async with asyncio.timeout(ANSWER_S):
                response = await client.call(request, key, version, "twin")
        except (asyncio.IncompleteReadError, ConnectionError):
            self.close()
            return None
        except TimeoutError:
            self.close()
            return SILENT
        # Encoding the response raises an error if it has a field that the version does not have.
        codec.encode_response(response, key, version, 1)
        return response

    async def _connected(self) -> Client:
        if self._client is None:
            self._client = Client(*await asyncio.open_connection(*self._at))
        return self._client

    async def _find_topics(self) -> None:
        """Requests the ids of the topics that exist now."""
        missing = {id_: name for id_, name in TOPIC_IDS.items() if id_ not in self._learned.topics}
        if not missing:
            return
        asked = {"topics": [{"name": name} for name in missing.values()], "allow_auto_topic_creation": False}
        found = await self._call(Case("", ApiKey.METADATA, asked).message(), ApiKey.METADATA, 12)
        ids = {topic.name: topic.topic_id for topic in found.topics if topic.topic_id is not None}
        self._learned.topics |= {id_: ids[name] for id_, name in missing.items() if name in ids}


async def truncated(host: str, port: int, key: ApiKey, version: int) -> bool:
    """Whether the server closes the connection on a request of this API whose body ends too early."""
    reader, writer = await asyncio.open_connection(host, port)
    client = wire_client.Client(reader, writer)
    frame = codec.encode_request(codec.message_class(key, "request")(), key, version, 1, "twin")
    body = frame[4:-1]
    writer.write(len(body).to_bytes(4, "big") + body)
    try:
        return await client.at_end()
    except (ProtocolError, ConnectionError):
        return True
    finally:
        client.close()

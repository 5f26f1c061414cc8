"""The recorded table of authorizations: what Apache Kafka 4.1 answered to each request, for each set of ACLs.

Each request is in Kafka's own JSON form, and so is each answer. `Stage` makes the topics, groups and transactional ids
of the recording. `differences` compares an answer of ours with a recorded answer.
"""

from __future__ import annotations

import base64
import dataclasses
import fnmatch
import json
import logging
import re
import typing
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from kcli.model.acl import CLUSTER_NAME, AclOperation, ResourceType
from kcli.protocol.batches.batch import Record, encode_batch
from kcli.protocol.messages import delete_topics
from kcli.protocol.messages.find_coordinator import FindCoordinatorRequest
from kcli.protocol.messages.init_producer_id import InitProducerIdRequest
from kcli.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kcli.protocol.wire import codec
from kcli.protocol.wire.api import API, ApiKey
from kcli.security.acls.configured import STANDARD
from kcli.security.mechanisms.client import Credentials
from kcli.server.requests.apis import APIS
from rigs.node import create
from rigs.twin.case import Data, build
from rigs.wire_client import Client

Json = Any

KAFKAS_CLUSTER = "Z29sZGVuLWNsdXN0ZXItMQ"
TOPICS, GROUPS, IDS = ("t", "t2", "tdel", "tdel2"), ("g", "g2", "gdel"), ("x", "x2")

COVERED: Mapping[ResourceType, Sequence[str]] = {
    ResourceType.TOPIC: ("t", "absent", "tdel"),
    ResourceType.GROUP: ("g", "gdel"),
    ResourceType.CLUSTER: (CLUSTER_NAME,),
    ResourceType.TRANSACTIONAL_ID: ("x",),
    ResourceType.USER: ("User:owner",),
}
"""The resources that the ACLs of the recording name. All ACLs are literal."""

Grant = tuple[AclOperation, ResourceType]

ADMIN = Credentials("PLAIN", "admin", "admin-secret")


def user(number: int) -> Credentials:
    """The user with the set of ACLs that has this number."""
    return Credentials("PLAIN", f"u{number}", "user-secret")


def secured(sets: int) -> dict[str, str]:
    """The settings of a node with ACLs, and with a user for each set of ACLs."""
    users = " ".join(f'user_{each.username}="{each.password}"' for each in (ADMIN, *map(user, range(sets))))
    own = f'username="{ADMIN.username}" password="{ADMIN.password}"'
    login = f"org.apache.kafka.common.security.plain.PlainLoginModule required {own} {users};"
    return {
        "authorizer.class.name": STANDARD,
        "super.users": "User:ANONYMOUS;User:admin",
        "delegation.token.secret.key": "a key of a test",
        "listeners": "PLAINTEXT://127.0.0.1:0,SASL://127.0.0.1:0,CONTROLLER://127.0.0.1:0",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SASL:SASL_PLAINTEXT,CONTROLLER:SASL_PLAINTEXT",
        "sasl.enabled.mechanisms": "PLAIN",
        "sasl.mechanism.controller.protocol": "PLAIN",
        "listener.name.sasl.plain.sasl.jaas.config": login,
        "listener.name.controller.plain.sasl.jaas.config": login,
    }


@dataclass(frozen=True, slots=True)
class Row:
    """A recorded request. `answers` has the answer for each set of ACLs, by the words of the set."""

    key: ApiKey
    version: int
    words: str
    request: Mapping[str, Json]
    on_controller: bool
    answers: Mapping[str, Json]

    @property
    def name(self) -> str:
        place = " on the controller" if self.on_controller else ""
        return f"{API[self.key].name} v{self.version}{place}: {self.words}"


def folder(golden: Path) -> Path:
    """The folder of the recording. Skips the test if it is missing."""
    path = golden.parent / "golden2" / "authz"
    if not path.exists():
        pytest.skip(f"the recorded answers of Kafka 4.1 are not here: {path}")
    return path


def acl_sets(golden: Path) -> tuple[str, ...]:
    """The words of every recorded set of ACLs."""
    return tuple((folder(golden) / "acl-sets.txt").read_text().splitlines())


def rows(golden: Path, cluster_id: str, log_directory: Path) -> tuple[Row, ...]:
    """The recorded requests, with our cluster id and log directory in place of Kafka's."""
    text = (folder(golden) / "authz.jsonl").read_text().replace(KAFKAS_CLUSTER, cluster_id)
    text = text.replace("{DIR}/data", str(log_directory))
    every = acl_sets(golden)
    keys = {spec.name: key for key, spec in API.items()}
    found = []
    for line in map(json.loads, text.splitlines()):
        named = {words: each["response"] for each in line["results"] for words in each["acls"]}
        found.append(
            Row(
                keys[line["api"]],
                line["version"],
                line["request_in_words"],
                line["request"],
                line.get("listener") == "controller",
                {words: named.get(words, named["none"]) for words in every},
            )
        )
    return tuple(found)


def audit_lines(golden: Path) -> dict[tuple[str, str, str], list[str]]:
    """The lines about the user in Kafka's authorizer log, sorted, by API, words of the request and words of the set."""
    found = {}
    for line in map(json.loads, (folder(golden) / "authorizer-log.jsonl").read_text().splitlines()):
        of_user = [
            each.removesuffix(" (kafka.authorizer.logger)") for each in line["lines"] if "{USER}" in each
        ]
        found[line["api"], line["request_in_words"], line["acls"]] = sorted(of_user)
    return found


class AuditLog(logging.Handler):
    """Collects the lines of our audit log about users of the recording, in the form of Kafka's log."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self._lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        line, count = re.subn(r"User:u\d+\b", "User:{USER}", record.getMessage())
        if count:
            self._lines.append(f"{record.levelname} {line}")

    def taken(self) -> list[str]:
        """The lines since the last call, sorted."""
        lines, self._lines = self._lines, []
        return sorted(lines)


def is_served(row: Row) -> bool:
    return row.key in APIS


def grants(words: str) -> tuple[Grant, ...]:
    """The grants of a set of ACLs, such as `READ GROUP + DESCRIBE TOPIC`."""
    if words == "none":
        return ()
    parts = (part.split() for part in words.split(" + "))
    return tuple((AclOperation[operation], ResourceType[kind]) for operation, kind in parts)


class Stage:
    """The topics, groups and transactional ids of the recording. `client` may do everything."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.ids: dict[str, uuid.UUID] = {}

    async def set(self) -> None:
        """Makes what is missing, and deletes the topic `absent` if a request has created it."""
        for name in TOPICS:
            if f"{{id of {name}}}" not in self.ids:
                self.ids[f"{{id of {name}}}"] = await create(self.client, name)
        for kind, key in enumerate(("g", "x")):
            request = FindCoordinatorRequest(key=key, key_type=kind)
            await self.client.call(request, ApiKey.FIND_COORDINATOR, 3)
        for group in GROUPS:
            await self.set_group(group)
        for name in IDS:
            init = InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=60_000)
            await self.client.call(init, ApiKey.INIT_PRODUCER_ID, 3)

    async def set_group(self, group: str) -> None:
        part = OffsetCommitRequestPartition(partition_index=0, committed_offset=0)
        topics = tuple(OffsetCommitRequestTopic(name=name, partitions=(part,)) for name in ("t", "t2"))
        request = OffsetCommitRequest(group_id=group, topics=topics)
        await self.client.call(request, ApiKey.OFFSET_COMMIT, 8)

    async def reset(self, key: ApiKey) -> None:
        """Restores what a request of this API may have destroyed."""
        match key:
            case ApiKey.DELETE_TOPICS:
                for name in ("tdel", "tdel2"):
                    await self._delete(name)
                    self.ids[f"{{id of {name}}}"] = await create(self.client, name)
            case ApiKey.METADATA:
                await self._delete("absent")
            case ApiKey.DELETE_GROUPS | ApiKey.OFFSET_DELETE:
                for group in GROUPS:
                    await self.set_group(group)

    async def _delete(self, name: str) -> None:
        request = delete_topics.DeleteTopicsRequest(
            topics=(delete_topics.DeleteTopicState(name=name),), timeout_ms=10_000
        )
        await self.client.call(request, ApiKey.DELETE_TOPICS, 6)

    def message(self, row: Row) -> Any:
        """The request of a row as a message."""
        kind = codec.message_class(row.key, "request")
        return build(kind, self._data(kind, row.request))

    def _data(self, hint: Any, value: Json) -> Data:
        """Plain data of our names, from Kafka's JSON form of a message."""
        kind = next((each for each in typing.get_args(hint) if each is not type(None)), hint)
        if value is None:
            return None
        if kind is uuid.UUID:
            return self.ids.get(value) or _uuid(value)
        if isinstance(value, Mapping):
            if "$records" in value:
                return _records(value["$records"])
            hints = typing.get_type_hints(kind)
            names = {_plain(name): name for name in hints}
            return {
                (name := names[_plain(key)]): self._data(hints[name], each)
                for key, each in value.items()
                if _plain(key) in names
            }
        if isinstance(value, list):
            return [self._data(kind, each) for each in value]
        return base64.b64decode(value) if kind is bytes else value

    def differences(self, recorded: Json, ours: Any, path: str = "") -> Iterator[str]:
        """Describes each difference between a recorded answer and our answer."""
        if isinstance(recorded, Mapping):
            if ours is None:
                yield f"{path}: recorded {recorded}, ours null"
                return
            for key, value in recorded.items():
                yield from self.differences(value, field_of(ours, key), f"{path}.{key}")
        elif isinstance(recorded, list):
            left = list(ours or ())
            for entry in recorded:
                found = next((one for one in left if not any(self.differences(entry, one))), None)
                if found is None:
                    yield f"{path}: {entry} is missing in {ours}"
                else:
                    left.remove(found)
            if left:
                yield f"{path}: Kafka does not answer {left}"
        elif not self.is_equal(recorded, ours):
            yield f"{path}: recorded {recorded!r}, ours {ours!r}"

    def is_equal(self, recorded: Json, ours: Any) -> bool:
        if recorded in ("*", "{uuid}"):
            return True
        if recorded == "{USER}":
            return isinstance(ours, str) and re.fullmatch(r"u\d+", ours) is not None
        if isinstance(recorded, str) and "*" in recorded:
            return isinstance(ours, str) and fnmatch.fnmatchcase(ours, recorded)
        if recorded in self.ids:
            return bool(self.ids[recorded] == ours)
        if isinstance(ours, uuid.UUID) or (ours is None and recorded == "A" * 22):
            return _uuid(recorded) == ours
        if isinstance(ours, bytes) or (ours is None and recorded == ""):
            return base64.b64decode(recorded) == (ours or b"")
        return bool(recorded == ours)


def _plain(name: str) -> str:
    return name.replace("_", "").lower()


def field_of(message: Any, name: str) -> Any:
    names = {_plain(each.name): each.name for each in dataclasses.fields(message)}
    return getattr(message, names[_plain(name)])


def _uuid(text: str) -> uuid.UUID | None:
    found = uuid.UUID(bytes=base64.urlsafe_b64decode(text + "=="))
    return found if found.int else None


def _records(about: Mapping[str, Json]) -> bytes:
    producer = {}
    if "pid" in about:
        producer = {
            "producer_id": about["pid"],
            "producer_epoch": about["epoch"],
            "base_sequence": about["seq"],
        }
    records = [
        Record(place, 1_760_000_000_000, None, text.encode(), ())
        for place, text in enumerate(about["values"])
    ]
    return bytes(encode_batch(records, transactional=about.get("txn", False), **producer))

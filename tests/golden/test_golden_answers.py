"""Our answers beside those of Apache Kafka 4.1 to the same requests, recorded for the table of authorizations.

Kafka's client had one set of ACLs, and ours may do everything. So each request is compared with the answer of the set
that was refused least, and entries that Kafka refused are skipped.
"""

from __future__ import annotations

import base64
import dataclasses
import json
import re
import typing
import uuid
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from kcli.errors import ErrorCode
from kcli.protocol.batches.batch import Record, encode_batch
from kcli.protocol.messages.find_coordinator import FindCoordinatorRequest
from kcli.protocol.messages.init_producer_id import InitProducerIdRequest
from kcli.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kcli.protocol.wire import codec
from kcli.protocol.wire.api import API, ApiKey
from kcli.server.handlers.served import SERVED
from rigs.loops import on_a_loop
from rigs.node import connect, create, running
from rigs.twin.case import Data, build
from rigs.wire_client import Client

REFUSED = {
    ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED,
}

SKIPPED = {
    "ApiVersions": "Kafka serves APIs that are not built",
    "DescribeAcls": "no authorizer is configured here",
    "CreateAcls": "no authorizer is configured here",
    "DeleteAcls": "no authorizer is configured here",
    "CreateDelegationToken": "a listener without security gives no tokens",
    "RenewDelegationToken": "a listener without security gives no tokens",
    "ExpireDelegationToken": "a listener without security gives no tokens",
    "DescribeDelegationToken": "a listener without security gives no tokens",
    "DescribeLogDirs": "sizes and directories are those of the machine",
    "DescribeProducers": "earlier requests left producers here, which Kafka refused",
    "ListConfigResources": "earlier requests deleted topics here",
}

STATE = ("all", "all topics", "groups g and g2, all topics", "group g, all topics", "all types", "topics only",
         "all, with cluster and topic authorized operations")  # fmt: skip
"""Requests for everything there is: Kafka showed what the ACLs allow."""

OPERATIONS = {"topicAuthorizedOperations", "clusterAuthorizedOperations", "authorizedOperations"}
NAMES = {
    "name", "topic", "topicName", "partitionIndex", "partition", "partitionId", "index", "resourceType", "resourceName",
    "groupId", "key", "transactionalId", "topicId", "nodeId", "replicaId", "entityType", "user",
}  # fmt: skip
"""The fields that name an entry of a list."""

Json = Any

KAFKAS_CLUSTER = "Z29sZGVuLWNsdXN0ZXItMQ"


class World:
    """The topics, groups and transactional ids of the recording."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.ids: dict[str, uuid.UUID] = {}

    async def make(self) -> None:
        for name in ("t", "t2", "tdel", "tdel2"):
            self.ids[f"{{id of {name}}}"] = await create(self.client, name)
        for kind, key in enumerate(("g", "x")):
            request = FindCoordinatorRequest(key=key, key_type=kind)
            await self.client.call(request, ApiKey.FIND_COORDINATOR, 3)
        part = OffsetCommitRequestPartition(partition_index=0, committed_offset=0)
        topics = tuple(OffsetCommitRequestTopic(name=name, partitions=(part,)) for name in ("t", "t2"))
        for group in ("g", "g2", "gdel"):
            await self.client.call(
                OffsetCommitRequest(group_id=group, topics=topics), ApiKey.OFFSET_COMMIT, 8
            )
        for name in ("x", "x2"):
            request = InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=60_000)
            await self.client.call(request, ApiKey.INIT_PRODUCER_ID, 3)

    def data(self, hint: Any, value: Json) -> Data:
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
                (name := names[_plain(key)]): self.data(hints[name], each)
                for key, each in value.items()
                if _plain(key) in names
            }
        if isinstance(value, list):
            return [self.data(kind, each) for each in value]
        return base64.b64decode(value) if kind is bytes else value

    def is_equal(self, recorded: Json, ours: Any) -> bool:
        if isinstance(recorded, str) and ("*" in recorded or recorded == "{uuid}"):
            return True
        if recorded in self.ids:
            return bool(self.ids[recorded] == ours)
        if isinstance(ours, uuid.UUID) or (ours is None and recorded == "A" * 22):
            return _uuid(recorded) == ours
        if isinstance(ours, bytes):
            return True
        return bool(recorded == ours)

    def differences(self, recorded: Json, ours: Any, path: str = "") -> Iterator[str]:
        if isinstance(recorded, Mapping):
            if _code(recorded) in REFUSED:
                return
            for key, value in recorded.items():
                if key not in OPERATIONS:
                    yield from self.differences(value, _field(ours, key), f"{path}.{key}")
        elif isinstance(recorded, list) and recorded and isinstance(recorded[0], Mapping):
            for entry in recorded:
                if _code(entry) in REFUSED:
                    continue
                found = next((each for each in ours if self._is_named(entry, each)), None)
                if found is None:
                    yield f"{path}: {entry} is missing in {ours}"
                else:
                    yield from self.differences(entry, found, path)
        elif isinstance(recorded, list):
            if ours is None or len(recorded) != len(ours) or not all(map(self.is_equal, recorded, ours)):
                yield f"{path}: {recorded} and ours {ours}"
        elif not self.is_equal(recorded, ours):
            yield f"{path}: {recorded!r} and ours {ours!r}"

    def _is_named(self, entry: Mapping[str, Json], ours: Any) -> bool:
        return all(self.is_equal(entry[name], _field(ours, name)) for name in NAMES & entry.keys())


def _code(entry: Mapping[str, Json]) -> int | None:
    return entry.get("errorCode", entry.get("partitionErrorCode"))


def _plain(name: str) -> str:
    return name.replace("_", "").lower()


def _field(message: Any, name: str) -> Any:
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


def _refusals(result: Mapping[str, Json]) -> int:
    codes = re.findall(r'rrorCode": (\d+)', json.dumps(result["response"]))
    return sum(int(code) in REFUSED for code in codes)


def recorded(golden: Path, cluster_id: str) -> Sequence[Mapping[str, Json]]:
    path = golden.parent / "golden2" / "authz" / "authz.jsonl"
    if not path.exists():
        pytest.skip(f"the recorded answers of Kafka 4.1 are not here: {path}")
    names = {API[key].name for key in SERVED} - SKIPPED.keys()
    lines = [json.loads(line) for line in path.read_text().replace(KAFKAS_CLUSTER, cluster_id).splitlines()]
    return [line for line in lines if line["api"] in names and line.get("listener") != "controller"]


DIFFERENT = {
    ("FindCoordinator", "share key"): "share groups are not built",
    ("DescribeConfigs", "broker logger 1"): "the loggers have other names",
    ("IncrementalAlterConfigs", "broker logger 1; validateOnly"): "the loggers have other names",
    ("CreateTopics", "absent, absent2, t; validateOnly"): "Kafka hid the configs for lack of an ACL",
    ("DeleteTopics", "by id tdel2 (not covered), unknown id"): "tdel2 is already deleted here",
}
"""(API, request) -> why the answers differ."""


@on_a_loop
async def test_the_answers_are_those_of_kafka(tmp_path: Path, golden: Path) -> None:
    keys = {API[key].name: key for key in SERVED}
    settings = {"transaction_state_log_replication_factor": "1", "transaction_state_log_min_isr": "1",
                "auto_create_topics_enable": "false"}  # fmt: skip
    wrong = []
    async with running(tmp_path, **settings) as node:
        world = World(await connect(node))
        await world.make()
        for line in recorded(golden, node.ports.metadata.cluster_id):
            key, words = keys[line["api"]], line["request_in_words"]
            about = json.loads(json.dumps(line["request"]).replace("{DIR}/data", str(tmp_path)))
            kind = codec.message_class(key, "request")
            request = build(kind, world.data(kind, about))
            ours = await world.client.call(request, key, line["version"])
            if words in STATE or (line["api"], words) in DIFFERENT:
                continue
            kafkas = min(line["results"], key=_refusals)["response"]
            wrong += [
                f"{key.name} v{line['version']} {words}{each}" for each in world.differences(kafkas, ours)
            ]
    assert wrong == []

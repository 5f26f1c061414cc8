"""Our answers beside those of Apache Kafka 4.1 to the same requests, recorded for the table of authorizations.

Kafka's client had one set of ACLs, and ours may do everything. So each request is compared with the answer of the set
that was refused least, and entries that Kafka refused are skipped.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from kcli.errors import ErrorCode
from kcli.protocol.wire.api import API
from rigs.loops import on_a_loop
from rigs.node import connect, running
from rigs.recorded_rights import Json, Row, Stage, field_of, is_served, rows

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


class World(Stage):
    """The stage of the recording. Its comparison leaves out what Kafka refused."""

    def differences(self, recorded: Json, ours: Any, path: str = "") -> Iterator[str]:
        if isinstance(recorded, Mapping):
            if _code(recorded) in REFUSED:
                return
            for key, value in recorded.items():
                if key not in OPERATIONS:
                    yield from self.differences(value, field_of(ours, key), f"{path}.{key}")
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
        elif path.rpartition(".")[2] != "records" and not self.is_equal(recorded, ours):
            yield f"{path}: {recorded!r} and ours {ours!r}"

    def _is_named(self, entry: Mapping[str, Json], ours: Any) -> bool:
        return all(self.is_equal(entry[name], field_of(ours, name)) for name in NAMES & entry.keys())


def _code(entry: Mapping[str, Json]) -> int | None:
    return entry.get("errorCode", entry.get("partitionErrorCode"))


def _refusals(answer: Json) -> int:
    """The number of refusals in a recorded answer."""
    if isinstance(answer, Mapping):
        own = sum(value in REFUSED for key, value in answer.items() if key.endswith("rrorCode"))
        return own + sum(map(_refusals, answer.values()))
    return sum(map(_refusals, answer)) if isinstance(answer, list) else 0


def _is_compared(row: Row) -> bool:
    return is_served(row) and API[row.key].name not in SKIPPED and not row.on_controller


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
    settings = {"transaction_state_log_replication_factor": "1", "transaction_state_log_min_isr": "1",
                "auto_create_topics_enable": "false"}  # fmt: skip
    wrong = []
    async with running(tmp_path, **settings) as node:
        world = World(await connect(node))
        await world.set()
        for row in filter(_is_compared, rows(golden, node.metadata.cluster_id or "", tmp_path)):
            ours = await world.client.call(world.message(row), row.key, row.version)
            if row.words in STATE or (API[row.key].name, row.words) in DIFFERENT:
                continue
            kafkas = min(row.answers.values(), key=_refusals)
            wrong += [f"{row.name}{each}" for each in world.differences(kafkas, ours)]
    assert wrong == []

"""Our broker answers the twin's table by each version's schema, and as Kafka does where the table says how.

The same table compares a broker with a real Kafka by hand: `python -m rigs.twin` (tests/rigs/twin/__main__.py).
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from kcli.protocol.wire.api import API, ApiKey
from kcli.server.requests.apis import served_on_broker
from rigs.node import running
from rigs.twin.case import Data, leaves
from rigs.twin.compare import Difference, compare
from rigs.twin.play import Answer, Player, truncated
from rigs.twin.table import TABLE

BROKER = {
    "offsets_topic_num_partitions": "1",
    "transaction_state_log_num_partitions": "1",
    "transaction_state_log_replication_factor": "1",
    "transaction_state_log_min_isr": "1",
    "auto_create_topics_enable": "false",
}


async def _played(directory: Path) -> list[Answer]:
    async with running(directory, **BROKER) as node:
        return await Player("127.0.0.1", node.port()).play(TABLE)


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> list[Answer]:
    return asyncio.run(_played(tmp_path_factory.mktemp("twin")))


def test_every_version_of_every_api_is_asked_for() -> None:
    asked = {(case.key, version) for case in TABLE for version in case.versions()}
    served = {
        (key, version)
        for key in served_on_broker()
        for version in range(API[key].min_version, API[key].max_version + 1)
    }
    assert asked == served


def test_the_answers_are_those_of_the_table(answers: list[Answer]) -> None:
    wrong = [
        f"{answer.name}: {path} is {found!r}, expected {value!r}"
        for answer in answers
        for path, value in answer.case.expected(answer.version)
        if (found := _found(answer, path)) != _entries(value)
    ]
    assert wrong == []


def test_every_request_has_an_answer(answers: list[Answer]) -> None:
    assert [answer.name for answer in answers if answer.response is None] == []


def test_a_broker_is_its_own_twin(answers: list[Answer], tmp_path: Path) -> None:
    again = asyncio.run(_played(tmp_path))
    assert [str(difference) for difference in compare(answers, again)] == []


@pytest.mark.parametrize(
    ("key", "path", "first", "second", "is_accepted"),
    [
        (ApiKey.METADATA, "controller_id", 1, 2, True),
        (ApiKey.METADATA, "controller_id", -1, 2, False),
        (ApiKey.LIST_OFFSETS, "topics.partitions.timestamp", 1_800_000_000_000, 1_800_000_000_001, True),
        (ApiKey.LIST_OFFSETS, "topics.partitions.timestamp", -1, 1_800_000_000_000, False),
        (ApiKey.LIST_OFFSETS, "topics.partitions.timestamp", 1000, 1001, False),
        (ApiKey.DESCRIBE_LOG_DIRS, "results.topics.partitions.partition_size", 1, 2, True),
        (ApiKey.DESCRIBE_LOG_DIRS, "results.topics.partitions.offset_lag", 0, 1, False),
        (ApiKey.DESCRIBE_LOG_DIRS, "results.error_code", 0, 56, False),
    ],
)
def test_a_field_may_differ_only_where_the_servers_must_differ(
    key: ApiKey, path: str, first: int, second: int, is_accepted: bool
) -> None:
    assert (Difference("v0: a case", key, path, first, second).accepted is not None) is is_accepted


def test_a_request_that_ends_too_early_closes_the_connection(tmp_path: Path) -> None:
    async def ends() -> dict[ApiKey, bool]:
        async with running(tmp_path, **BROKER) as node:
            return {
                key: await truncated("127.0.0.1", node.port(), key, API[key].max_version)
                for key in served_on_broker()
            }

    assert {key.name for key, closes in asyncio.run(ends()).items() if not closes} == set()


def _found(answer: Answer, path: str) -> tuple[Data, ...] | None:
    return None if answer.response is None else leaves(answer.response, path)


def _entries(value: Data) -> tuple[Data, ...]:
    return value if isinstance(value, tuple) else (value,)

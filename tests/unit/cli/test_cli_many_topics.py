"""Tools on a cluster of 10,000 topics: the requests are few, and none is larger than a bound."""

from __future__ import annotations

from collections import Counter

import pytest

from kcli.client.admin.configs import RESOURCES_PER_REQUEST
from kcli.client.admin.topics import TOPICS_PER_REQUEST
from kcli.protocol.wire.api import ApiKey
from rigs.scripted_cluster import Kcli, ScriptedCluster

TOPICS = 10_000
DESCRIPTIONS = TOPICS // TOPICS_PER_REQUEST
CONFIGS = TOPICS // RESOURCES_PER_REQUEST
assert DESCRIPTIONS <= 10 and CONFIGS <= 20


@pytest.fixture
def topics(cluster: ScriptedCluster) -> list[str]:
    cluster.topics = {f"t-{number:05}": 1 for number in range(TOPICS)}
    return list(cluster.topics)


def requests(cluster: ScriptedCluster) -> Counter[ApiKey]:
    return Counter(key for key, _, _ in cluster.server.requests if key is not ApiKey.API_VERSIONS)


def test_topics_are_described_in_a_few_requests(
    kcli: Kcli, cluster: ScriptedCluster, topics: list[str]
) -> None:
    done = kcli("topics", "--describe")
    named = [line.split("\t")[0].removeprefix("Topic: ") for line in done.out.splitlines()[::2]]
    assert done.code == 0 and sorted(named) == topics
    assert requests(cluster) == {
        ApiKey.METADATA: 1,
        ApiKey.DESCRIBE_TOPIC_PARTITIONS: DESCRIPTIONS,
        ApiKey.DESCRIBE_CONFIGS: CONFIGS,
        ApiKey.DESCRIBE_CLUSTER: 1,
    }
    assert {len(request.topics) for request in cluster.server.sent(ApiKey.DESCRIBE_TOPIC_PARTITIONS)} == {
        TOPICS_PER_REQUEST
    }


def test_offsets_of_all_topics_are_one_request_per_leader(
    kcli: Kcli, cluster: ScriptedCluster, topics: list[str]
) -> None:
    done = kcli("get-offsets")
    assert [line.split(":")[0] for line in done.out.splitlines()] == topics
    assert requests(cluster) == {
        ApiKey.METADATA: 2,
        ApiKey.DESCRIBE_TOPIC_PARTITIONS: DESCRIPTIONS,
        ApiKey.LIST_OFFSETS: 1,
    }


def test_settings_of_all_topics_come_in_a_few_requests(
    kcli: Kcli, cluster: ScriptedCluster, topics: list[str]
) -> None:
    done = kcli("configs", "--describe", "--entity-type", "topics")
    assert done.code == 0 and len(done.out.splitlines()) == 3 * TOPICS
    assert requests(cluster) == {ApiKey.METADATA: 1, ApiKey.DESCRIBE_CONFIGS: CONFIGS}
    assert {len(request.resources) for request in cluster.server.sent(ApiKey.DESCRIBE_CONFIGS)} == {
        RESOURCES_PER_REQUEST
    }


def test_settings_of_brokers_are_requested_one_by_one(kcli: Kcli, cluster: ScriptedCluster) -> None:
    assert kcli("configs", "--describe", "--entity-type", "brokers").code == 0
    requested = [
        [resource.resource_name for resource in request.resources]
        for request in cluster.server.sent(ApiKey.DESCRIBE_CONFIGS)
    ]
    assert requested == [["1"], [""]]

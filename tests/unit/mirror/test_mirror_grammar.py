"""mm2.properties: the clusters and flows, and the layers of the properties of workers and connectors."""

from __future__ import annotations

import pytest

from kcli.config.definition import ConfigError
from kcli.config.properties import parse
from kcli.connectors.mirror.keys import CLIENT_KEYS
from kcli.mirror.config.grammar import CONNECTORS, Flow, MirrorConfig, mirror_config
from kcli.mirror.config.keys import CONNECTOR_KEYS

SOURCE = CONNECTORS[0]
A_TO_B, B_TO_A = Flow("A", "B"), Flow("B", "A")
BASE = "clusters = A, B\nA.bootstrap.servers = a:1\nB.bootstrap.servers = b:1\n"


def config(text: str) -> MirrorConfig:
    return mirror_config(parse(BASE + text))


# Flows.


@pytest.mark.parametrize(
    ("text", "flows"),
    [
        ("", ["B->A", "A->B"]),
        ("emit.heartbeats.enabled = false", []),
        ("emit.heartbeats.enabled = false\nA->B.enabled = true", ["A->B"]),
        ("emit.heartbeats.enabled = false\nA->B.enabled = TRUE", ["A->B"]),
        ("emit.heartbeats.enabled = false\nA->B.enabled = yes", []),
        ("emit.heartbeats.enabled = no", []),
        ("B->A.emit.heartbeats.enabled = false", ["A->B"]),
        ("emit.heartbeats.enabled = false\nB->A.emit.heartbeats.enabled = true", ["B->A"]),
    ],
)
def test_a_flow_exists_if_it_is_on_or_has_heartbeats(text: str, flows: list[str]) -> None:
    assert [str(flow) for flow in config(text).flows] == flows


def test_clusters_and_flows_have_the_order_of_javas_sets() -> None:
    three = mirror_config(parse("clusters = C.x, B, A, B"))
    assert three.clusters == ["A", "B", "C.x"]
    assert [str(flow) for flow in three.flows] == ["B->A", "C.x->B", "C.x->A", "A->C.x", "B->C.x", "A->B"]
    assert mirror_config(parse("clusters = A->B, B")).clusters == ["B", "A->B"]


def test_only_flows_to_the_chosen_clusters_remain() -> None:
    assert config("").flows_to(["B", "C"]) == [A_TO_B]
    assert config("").flows_to(["C"]) == []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", 'Missing required configuration "clusters" which has no default value'),
        (
            "clusters = A\nsecurity.protocol = BOGUS",
            "Invalid value BOGUS for configuration security.protocol",
        ),
        (
            "clusters = A\ndedicated.mode.enable.internal.rest = maybe",
            "Expected value to be either true or false",
        ),
        (
            "clusters = A\ndedicated.mode.enable.internal.rest = true\nlisteners = ",
            "at least one URL is expected",
        ),
    ],
)
def test_errors_of_the_driver_have_the_text_of_java(text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        mirror_config(parse(text))


def test_the_internal_server_is_off_by_default() -> None:
    assert config("listeners = http://:1").rest is None
    rest = config("dedicated.mode.enable.internal.rest = true\nlisteners = http://here:7").rest
    assert rest is not None
    assert [(one.scheme, one.host, one.port) for one in rest.listeners] == [("http", "here", 7)]
    assert rest.admin_listeners == ()


# Workers.


def test_a_worker_has_its_own_group_and_topics_on_the_target() -> None:
    bytes_converter = "org.apache.kafka.connect.converters.ByteArrayConverter"
    assert config("").worker(A_TO_B) == {
        "bootstrap.servers": "b:1",
        "admin.bootstrap.servers": "b:1",
        "consumer.bootstrap.servers": "b:1",
        "producer.bootstrap.servers": "b:1",
        "client.id": "A->B",
        "group.id": "A-mm2",
        "config.storage.topic": "mm2-configs.A.internal",
        "offset.storage.topic": "mm2-offsets.A.internal",
        "status.storage.topic": "mm2-status.A.internal",
        "key.converter": bytes_converter,
        "value.converter": bytes_converter,
        "header.converter": bytes_converter,
    }


@pytest.mark.parametrize(
    ("text", "key", "value"),
    [
        ("B.group.id = g", "group.id", "g"),
        ("B.client.id = c", "client.id", "c"),
        ("A.group.id = g", "group.id", "A-mm2"),
        ("group.id = g", "group.id", "A-mm2"),
        ("A->B.group.id = g", "group.id", "A-mm2"),
        ("B.exactly.once.source.support = enabled", "exactly.once.source.support", "enabled"),
        ("offset.storage.partitions = 1", "offset.storage.partitions", "1"),
        ("config.storage.topic = t\nB.config.storage.topic = u", "config.storage.topic", "t"),
        ("B.key.converter = k", "key.converter", "k"),
        ("task.shutdown.graceful.timeout.ms = 1", "task.shutdown.graceful.timeout.ms", "1"),
        ("replication.policy.separator = _", "replication.policy.separator", "_"),
        ("security.protocol = SSL", "security.protocol", "SSL"),
        ("security.protocol = SSL", "producer.security.protocol", "SSL"),
        ("security.protocol = SSL\nB.security.protocol = PLAINTEXT", "admin.security.protocol", "PLAINTEXT"),
        ("B.security.protocol = SSL\nB.consumer.security.protocol = X", "consumer.security.protocol", "X"),
        ("B.sasl.jaas.config = a  b;", "consumer.sasl.jaas.config", "a  b;"),
        ("offset.flush.interval.ms = 1", "offset.flush.interval.ms", None),
    ],
)
def test_a_worker_takes_the_keys_of_its_target_and_some_of_the_top_level(
    text: str, key: str, value: str | None
) -> None:
    assert config(text).worker(A_TO_B).get(key) == value


# Connectors.


@pytest.mark.parametrize(
    ("text", "key", "value"),
    [
        # identity
        ("", "name", "MirrorSourceConnector"),
        ("", "connector.class", "org.apache.kafka.connect.mirror.MirrorSourceConnector"),
        ("", "source.cluster.alias", "A"),
        ("", "target.cluster.alias", "B"),
        ("name = n", "name", "n"),
        ("target.cluster.alias = T", "target.cluster.alias", "T"),
        ("A->B.source.cluster.alias = S", "source.cluster.alias", "S"),
        ("A.alias = S", "source.cluster.alias", "S"),
        # 1: the top level
        ("tasks.max = 3", "tasks.max", "3"),
        ("replication.factor = 1", "replication.factor", "1"),
        ("security.protocol = SSL", "security.protocol", "SSL"),
        ("bootstrap.servers = x:1", "bootstrap.servers", None),
        ("bogus = 1", "bogus", None),
        ("use.defaults.from = source", "use.defaults.from", None),
        ("transforms.t.type = x", "transforms.t.type", None),
        # 2: the policy
        ("replication.policy.own.key = 1", "replication.policy.own.key", "1"),
        # 3 and 4: the clusters
        ("", "source.cluster.bootstrap.servers", "a:1"),
        ("", "source.consumer.bootstrap.servers", "a:1"),
        ("", "target.producer.bootstrap.servers", "b:1"),
        ("A.consumer.isolation.level = read_committed", "source.consumer.isolation.level", "read_committed"),
        ("A.consumer.isolation.level = read_committed", "target.consumer.isolation.level", None),
        ("B.offset.flush.interval.ms = 5", "target.cluster.offset.flush.interval.ms", "5"),
        ("A.administer = 2", "source.administer", "2"),
        # 5: the flow
        ("A->B.enabled = true", "enabled", "true"),
        ("enabled = true", "enabled", "true"),
        ("", "enabled", "false"),
        ("topics = a\nA->B.topics = b\nB->A.topics = c", "topics", "b"),
        ("A->B.source.cluster.bootstrap.servers = o:1", "source.cluster.bootstrap.servers", "o:1"),
        ("A->B.producer.override.batch.size = 1", "producer.override.batch.size", "1"),
        ("A->B.bogus = 1", "bogus", "1"),
        ("A->B.use.defaults.from = source", "use.defaults.from", "source"),
    ],
)
def test_a_later_layer_takes_precedence_in_a_connector(text: str, key: str, value: str | None) -> None:
    assert config(text).connector(A_TO_B, SOURCE).get(key) == value


def test_variables_stay_in_workers_and_connectors_and_not_in_the_driver() -> None:
    mirror = mirror_config(
        parse(
            "config.providers = env\n"
            "config.providers.env.class = org.apache.kafka.common.config.provider.EnvVarConfigProvider\n"
            "clusters = A, ${env:HOME}\n"
            "A.sasl.jaas.config = ${env:HOME}\n"
        )
    )
    assert "${env:HOME}" not in mirror.clusters
    flow = next(flow for flow in mirror.flows if flow.target == "A")
    worker, connector = mirror.worker(flow), mirror.connector(flow, SOURCE)
    assert worker["sasl.jaas.config"] == connector["target.cluster.sasl.jaas.config"] == "${env:HOME}"
    assert worker["config.providers"] == connector["config.providers"] == "env"
    assert worker.keys() & connector.keys() >= {"config.providers.env.class"}


def test_the_tables_of_names_have_no_servers_at_the_top_level() -> None:
    assert not CONNECTOR_KEYS.issuperset(CLIENT_KEYS)
    assert CONNECTOR_KEYS | {"bootstrap.servers"} >= CLIENT_KEYS

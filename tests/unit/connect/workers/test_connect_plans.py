"""The specifications of tasks, from the configurations of a worker and a connector."""

from __future__ import annotations

import pytest

from kcli.config.definition import ConfigError
from kcli.connect.config.worker import distributed_config
from kcli.connect.model import Config, ConnectorType, TargetState, TaskId
from kcli.connect.stores.store import TaskProducer
from kcli.connect.tasks.spec import TaskSpec, packed, unpacked
from kcli.connect.workers.plans import Plans
from kcli.formats.connect.errors import ConnectException
from rigs.connect_engine import PLAIN, PLUGINS

WORKER = {
    "bootstrap.servers": "b:9092",
    "group.id": "g",
    "config.storage.topic": "c",
    "status.storage.topic": "s",
    "offset.storage.topic": "o",
    "key.converter": PLAIN,
    "value.converter": PLAIN,
    "value.converter.own": "worker",
    "header.converter": PLAIN,
    "producer.linger.ms": "7",
    "sasl.mechanism": "PLAIN",
}
SOURCE = {"name": "c", "connector.class": "gold.CounterSource"}
SINK = {"name": "c", "connector.class": "gold.PickySink", "topics": "a,b"}


def plans(**worker: str) -> Plans:
    more = {name.replace("_", "."): text for name, text in worker.items()}
    return Plans(distributed_config({**WORKER, **more}), PLUGINS, dict)


def spec(config: Config, **worker: str) -> TaskSpec:
    return plans(**worker).task(TaskId("c", 1), config, {"task": "1"}, TargetState.STARTED)


def test_a_source_task() -> None:
    made = spec({**SOURCE, "producer.override.linger.ms": "9", "errors.tolerance": " all "})
    assert (made.id, made.plugin.class_name, made.plugin.config) == (
        "c-1",
        "gold.CounterSource",
        {"task": "1"},
    )
    assert made.source is not None
    assert made.source.producer == {
        "bootstrap.servers": "b:9092",
        "client.id": "connector-producer-c-1",
        "acks": "all",
        "enable.idempotence": "false",
        "max.in.flight.requests.per.connection": "1",
        "delivery.timeout.ms": "2147483647",
        "max.block.ms": "9223372036854775807",
        "linger.ms": "9",
    }
    assert (made.source.topic_groups, made.source.transaction_boundary, made.sink) == (None, None, None)
    assert made.errors.tolerance == "all"
    assert unpacked(packed(made)) == made


def test_a_sink_task() -> None:
    letters = {"errors.deadletterqueue.topic.name": "dead", "consumer.override.group.id": "mine"}
    made = spec({**SINK, **letters})
    assert made.sink is not None
    assert made.sink.topics == ("a", "b")
    assert made.sink.consumer["group.id"] == "mine"
    assert made.sink.consumer["client.id"] == "connector-consumer-c-1"
    assert made.sink.dead_letter_producer["client.id"] == "connector-dlq-producer-c-1"
    assert made.errors.dead_letter_topic == "dead"


def test_exactly_once_has_a_transactional_id_and_the_offsets_topic_of_the_connector() -> None:
    config = {**SOURCE, "transaction.boundary": "Interval", "transaction.boundary.interval.ms": "5"}
    source = spec(config, exactly_once_source_support="enabled").source
    assert source is not None
    assert source.producer["transactional.id"] == "g-c-1"
    assert source.producer["enable.idempotence"] == "true"
    assert (source.transaction_boundary, source.transaction_interval_ms, source.offsets_topic) == (
        "interval",
        5,
        "o",
    )
    own = spec({**SOURCE, "offsets.storage.topic": "mine"}, exactly_once_source_support="enabled").source
    assert own is not None
    assert own.offsets_topic == "mine"
    assert own.transaction_boundary == "poll"


def test_the_keys_of_a_converter_belong_to_the_one_who_chose_its_class() -> None:
    assert spec(SOURCE).value_converter.config == {"own": "worker"}
    assert spec({**SOURCE, "value.converter.own": "ignored"}).value_converter.config == {"own": "worker"}
    chosen = spec({**SOURCE, "value.converter": PLAIN, "value.converter.x": "y"})
    assert chosen.value_converter.config == {"x": "y"}


def test_topic_groups_take_missing_values_from_the_default() -> None:
    config = {
        **SOURCE,
        "topic.creation.groups": "logs",
        "topic.creation.default.partitions": "3",
        "topic.creation.default.replication.factor": "2",
        "topic.creation.logs.include": "log-.*",
        "topic.creation.logs.partitions": "9",
        "topic.creation.logs.cleanup.policy": "compact",
    }
    source = spec(config).source
    assert source is not None and source.topic_groups is not None
    logs, default = source.topic_groups
    assert (logs.name, logs.include, logs.partitions, logs.replication_factor) == ("logs", ("log-.*",), 9, 2)
    assert logs.configs == {"cleanup.policy": "compact"}
    assert (default.name, default.partitions, default.replication_factor) == ("default", 3, 2)
    disabled = spec(config, topic_creation_enable="false").source
    assert disabled is not None
    assert disabled.topic_groups is None


def test_transformations_and_predicates() -> None:
    config = {**SOURCE, "transforms": "f", "transforms.f.type": "gold.Flaky", "transforms.f.times": "2"}
    (step,) = spec(config).transforms
    assert step.transformation.config == {"type": "gold.Flaky", "times": "2"}
    assert (step.predicate, step.negate) == (None, False)


def test_types_and_unknown_classes() -> None:
    assert plans().type_of(SOURCE) is ConnectorType.SOURCE
    assert plans().type_of(SINK) is ConnectorType.SINK
    with pytest.raises(ConnectException, match="Failed to find any class"):
        plans().type_of({"connector.class": "nope"})
    with pytest.raises(ConnectException, match=r"connector\.class"):
        plans().type_of({})


def test_placeholders_are_resolved_and_null_keys_are_left_out() -> None:
    plan = Plans(
        distributed_config(WORKER),
        PLUGINS,
        lambda config: {key: value and value.replace("${v}", "secret") for key, value in config.items()},
    )
    made = plan.task(TaskId("c", 0), {**SOURCE, "x": None}, {"password": "${v}"}, TargetState.PAUSED)
    assert made.plugin.config == {"password": "secret"}
    assert made.is_paused
    assert plan.resolved({"x": None, "y": "1"}) == {"y": "1"}


def test_a_limit_of_memory_is_a_number() -> None:
    assert spec(SOURCE, kcli_task_memory_max_bytes="1000").memory_bytes_max == 1000
    with pytest.raises(ConfigError, match=r"kcli\.task\.memory\.max\.bytes"):
        plans(kcli_task_memory_max_bytes="-1")


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        (
            {"errors.retry.timeout": "soon"},
            "Invalid value soon for configuration errors.retry.timeout: Not a number",
        ),
        (
            {"errors.tolerance": "ALL"},
            "Invalid value ALL for configuration errors.tolerance: String must be one of",
        ),
        (
            {"transaction.boundary": "x"},
            "Invalid value x for configuration transaction.boundary: String must be one",
        ),
        (
            {"key.converter": "Nope"},
            "Invalid value Nope for configuration key.converter: Class Nope could not be f",
        ),
    ],
)
def test_an_invalid_configuration_of_the_topic_fails_the_task(keys: Config, message: str) -> None:
    with pytest.raises(ConfigError) as refused:
        spec({**SOURCE, **keys})
    assert str(refused.value).startswith(message)


def test_only_with_exactly_once_a_user_changes_offsets_with_the_producer_of_a_task() -> None:
    task = TaskId("c", 0)
    assert plans().task_producer(task) is None
    assert plans(exactly_once_source_support="preparing").task_producer(task) is None
    assert plans(exactly_once_source_support="enabled").task_producer(task) == TaskProducer(
        "g-c-0", "connector-producer-c-0"
    )

"""Changing configs: operations, what is written, and the refusals word for word."""

from __future__ import annotations

from typing import Any

import pytest

from kcli.controller import configs
from kcli.controller.api import ALTER_CONFIGS, INCREMENTAL_ALTER_CONFIGS
from kcli.model.configs import CLUSTER_DEFAULT, ConfigResource, ConfigResourceType
from kcli.protocol.messages import alter_configs as ac
from kcli.protocol.messages import incremental_alter_configs as ic
from kcli.protocol.records.metadata import ClearElrRecord, ConfigRecord
from rigs.controller import FEATURES, ControllerRig

TOPIC, BROKER, CLIENT_METRICS, GROUP = 2, 4, 16, 32
SET, DELETE, APPEND, SUBTRACT = range(4)


@pytest.fixture
def rig() -> ControllerRig:
    made = ControllerRig()
    made.add_brokers(1)
    made.create("t", configs={"retention.ms": "5"})
    return made


def change(
    rig: ControllerRig, kind: int, name: str, *operations: tuple[Any, ...], validate: bool = False
) -> tuple[Any, ...]:
    """(records, error name, message) of one resource's change, which is replayed."""
    resource = ic.AlterConfigsResource(
        resource_type=kind,
        resource_name=name,
        configs=tuple(
            ic.AlterableConfig(name=key, config_operation=operation, value=value)
            for key, operation, value in operations
        ),
    )
    request = ic.IncrementalAlterConfigsRequest(resources=(resource,), validate_only=validate)
    decision = rig.decide(INCREMENTAL_ALTER_CONFIGS, request)
    (response,) = rig.obey(decision).responses
    return decision.records, response.error_code.name, response.error_message


def config(
    rig: ControllerRig, name: str = "t", kind: ConfigResourceType = ConfigResourceType.TOPIC
) -> dict[str, str]:
    return dict(rig.image.config(ConfigResource(kind, name)))


def test_set_delete_and_leave_alone(rig: ControllerRig) -> None:
    records, code, message = change(
        rig, TOPIC, "t", ("retention.ms", SET, "5"), ("segment.ms", SET, "6"), ("flush.ms", DELETE, None)
    )
    assert (code, message) == ("NONE", None)
    assert [(record.name, record.value) for record in records] == [("segment.ms", "6")]
    assert config(rig) == {"retention.ms": "5", "segment.ms": "6"}
    change(rig, TOPIC, "t", ("retention.ms", DELETE, None))
    assert config(rig) == {"segment.ms": "6"}


def test_lists_grow_and_shrink_from_their_default(rig: ControllerRig) -> None:
    change(rig, TOPIC, "t", ("cleanup.policy", APPEND, "compact,delete"))
    assert config(rig)["cleanup.policy"] == "delete,compact"
    change(rig, TOPIC, "t", ("cleanup.policy", SUBTRACT, "delete"))
    assert config(rig)["cleanup.policy"] == "compact"


def test_validate_only_writes_nothing(rig: ControllerRig) -> None:
    records, code, _ = change(rig, TOPIC, "t", ("retention.ms", SET, "9"), validate=True)
    assert (records, code) == ((), "NONE")


def test_a_brokers_value_is_written_again_even_if_it_stays(rig: ControllerRig) -> None:
    change(rig, BROKER, "1", ("log.cleaner.threads", SET, "2"))
    records, _, _ = change(rig, BROKER, "1", ("log.cleaner.threads", SET, "2"))
    assert records == (
        ConfigRecord(resource_type=BROKER, resource_name="1", name="log.cleaner.threads", value="2"),
    )


@pytest.mark.parametrize(
    ("kind", "name", "operation", "code", "message"),
    [
        (
            TOPIC,
            "nope",
            ("retention.ms", SET, "1"),
            "UNKNOWN_TOPIC_OR_PARTITION",
            "The topic 'nope' does not exist.",
        ),
        (
            TOPIC,
            "",
            ("retention.ms", SET, "1"),
            "INVALID_REQUEST",
            "Default topic resources are not allowed.",
        ),
        (TOPIC, "t", ("no.such", SET, "1"), "INVALID_CONFIG", "Unknown topic config name: no.such"),
        (
            TOPIC,
            "t",
            ("retention.ms", SET, "x"),
            "INVALID_CONFIG",
            "Invalid value x for configuration retention.ms: Not a number of type LONG",
        ),
        (
            TOPIC,
            "t",
            ("retention.ms", APPEND, "1"),
            "INVALID_CONFIG",
            "Can't APPEND to key retention.ms because its type is not LIST.",
        ),
        (
            TOPIC,
            "t",
            ("retention.ms", SET, "1" * 32768),
            "INVALID_CONFIG",
            "The configuration value cannot be added because it exceeds the maximum value size of 32767 bytes.",
        ),
        *(
            (
                BROKER,
                "1",
                (name, SET, "1"),
                "INVALID_REQUEST",
                f"Cannot update these configs dynamically: Set({name})",
            )
            for name in ("plain.sasl.jaas.config", "listener.name.c.ssl.endpoint.identification.algorithm")
        ),
        (BROKER, "x", ("a", SET, "1"), "INVALID_REQUEST", "Unable to parse broker name as a base 10 number."),
        (BROKER, "-2", ("a", SET, "1"), "INVALID_REQUEST", "Invalid negative broker ID."),
        (BROKER, "9", ("a", SET, "1"), "BROKER_ID_NOT_REGISTERED", "No broker with id 9 found."),
        (
            BROKER,
            "1",
            ("min.insync.replicas", SET, "1"),
            "INVALID_CONFIG",
            "Broker-level min.insync.replicas cannot be altered while ELR is enabled.",
        ),
        (
            BROKER,
            "",
            ("min.insync.replicas", DELETE, None),
            "INVALID_CONFIG",
            "Cluster-level min.insync.replicas cannot be removed while ELR is enabled.",
        ),
        (
            CLIENT_METRICS,
            "",
            ("interval.ms", SET, "1"),
            "INVALID_REQUEST",
            "Subscription name can't be empty",
        ),
        (
            CLIENT_METRICS,
            "m",
            ("interval.ms", SET, "99"),
            "INVALID_REQUEST",
            "Invalid value 99 for interval.ms, interval must be between 100 and 3600000 (1 hour)",
        ),
        (
            CLIENT_METRICS,
            "m",
            ("match", SET, "client_id=a,nonsense"),
            "INVALID_CONFIG",
            "Illegal client matching pattern: nonsense",
        ),
        (CLIENT_METRICS, "m", ("x", SET, "1"), "INVALID_REQUEST", "Unknown client metrics configuration: x"),
        (GROUP, "", ("share.auto.offset.reset", SET, "earliest"), "INVALID_REQUEST", None),
        (GROUP, "g", ("x", SET, "1"), "INVALID_CONFIG", "Unknown group config name: x"),
        (8, "1", ("root", SET, "INFO"), "INVALID_REQUEST", "Unknown resource type BROKER_LOGGER"),
        (99, "1", ("root", SET, "INFO"), "INVALID_REQUEST", "Unknown resource type 99"),
    ],
)
def test_invalid_changes_are_refused(
    rig: ControllerRig, kind: int, name: str, operation: tuple[Any, ...], code: str, message: str | None
) -> None:
    records, error, text = change(rig, kind, name, operation)
    assert (records, error) == ((), code)
    assert message is None or text == message


def test_groups_and_subscriptions_come_into_being_by_being_configured(rig: ControllerRig) -> None:
    assert change(rig, GROUP, "g", ("share.auto.offset.reset", SET, "earliest"))[1] == "NONE"
    assert change(rig, CLIENT_METRICS, "m", ("match", SET, "client_id=app.*"))[1] == "NONE"
    assert config(rig, "g", ConfigResourceType.GROUP) == {"share.auto.offset.reset": "earliest"}
    assert config(rig, "m", ConfigResourceType.CLIENT_METRICS) == {"match": "client_id=app.*"}


def test_one_bad_resource_does_not_spoil_the_others(rig: ControllerRig) -> None:
    resources = tuple(
        ic.AlterConfigsResource(
            resource_type=TOPIC,
            resource_name=name,
            configs=(ic.AlterableConfig(name="segment.ms", config_operation=SET, value="7"),),
        )
        for name in ("nope", "t")
    )
    request = ic.IncrementalAlterConfigsRequest(resources=resources)
    response = rig.obey(rig.decide(INCREMENTAL_ALTER_CONFIGS, request))
    assert [each.error_code.name for each in response.responses] == ["UNKNOWN_TOPIC_OR_PARTITION", "NONE"]
    assert config(rig)["segment.ms"] == "7"


def test_the_old_way_replaces_everything(rig: ControllerRig) -> None:
    change(rig, TOPIC, "t", ("segment.ms", SET, "6"))
    resource = ac.AlterConfigsResource(
        resource_type=TOPIC,
        resource_name="t",
        configs=(
            ac.AlterableConfig(name="retention.ms", value="5"),
            ac.AlterableConfig(name="flush.ms", value="8"),
        ),
    )
    decision = rig.decide(ALTER_CONFIGS, ac.AlterConfigsRequest(resources=(resource,)))
    assert sorted((record.name, record.value or "-") for record in decision.records) == [
        ("flush.ms", "8"),
        ("segment.ms", "-"),
    ]
    assert rig.obey(decision).responses[0].error_code.name == "NONE"
    assert config(rig) == {"retention.ms": "5", "flush.ms": "8"}


def test_another_min_insync_replicas_forgets_eligible_leaders(rig: ControllerRig) -> None:
    rig.add_brokers(2)
    rig.create("pair", replication_factor=2, configs={"min.insync.replicas": "2"})
    rig.heartbeat(2, shut_down=True)
    assert (rig.partition("pair").isr, rig.partition("pair").elr) == ((1,), (2,))
    records, _, _ = change(rig, BROKER, "", ("min.insync.replicas", SET, "2"))
    assert records[-1] == ClearElrRecord(topic_name="")
    assert rig.partition("pair").elr == ()
    records, _, _ = change(rig, TOPIC, "t", ("min.insync.replicas", SET, "1"))
    assert records[-1] == ClearElrRecord(topic_name="t")


def test_a_partition_without_in_sync_replicas_keeps_its_candidates(rig: ControllerRig) -> None:
    rig.heartbeat(1, shut_down=True)
    epoch = rig.partition("t").partition_epoch
    for kind, name in ((BROKER, ""), (TOPIC, "t")):
        change(rig, kind, name, ("min.insync.replicas", SET, "2"))
        partition = rig.partition("t")
        assert (partition.isr, partition.elr, partition.last_known_elr) == ((), (1,), (1,))
    assert rig.partition("t").partition_epoch == epoch + 4  # each time cleared and set again


def test_candidates_are_kept_while_the_records_fit_into_a_batch(
    rig: ControllerRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig.heartbeat(1, shut_down=True)
    monkeypatch.setattr(configs, "MAX_RECORDS_PER_BATCH", 2)
    records, _, _ = change(rig, TOPIC, "t", ("min.insync.replicas", SET, "1"))
    assert list(records[1:]) == [ClearElrRecord(topic_name="t")]
    assert (rig.partition("t").elr, rig.partition("t").last_known_elr) == ((), ())


def test_without_elr_min_insync_replicas_is_a_config_like_others() -> None:
    rig = ControllerRig({**FEATURES, "eligible.leader.replicas.version": 0})
    rig.add_brokers(1)
    assert CLUSTER_DEFAULT not in rig.image.configs
    records, code, _ = change(rig, BROKER, "1", ("min.insync.replicas", SET, "2"))
    assert (len(records), code) == (1, "NONE")

"""Configs, ACLs, groups, keys and offsets of the connectors of MirrorMaker."""

from __future__ import annotations

import pytest

from kcli.client.admin.configs import AlterConfig, ConfigEntry
from kcli.client.admin.groups import CommittedOffset
from kcli.config.definition import ConfigDef, ConfigError
from kcli.connectors.interface import Offset, Partition
from kcli.connectors.mirror.copying import next_position, task_partitions
from kcli.connectors.mirror.decisions import config_changes, dealt, divided, new_topic_configs, remote_acl
from kcli.connectors.mirror.filters import ConfigFilter, NameFilter, joined
from kcli.connectors.mirror.groups import Translator, has_topic, offsets_to_commit
from kcli.connectors.mirror.keys import (
    CHECKPOINT_KEYS,
    HEARTBEAT_KEYS,
    SOURCE_KEYS,
    checkpoint_errors,
    source_errors,
)
from kcli.connectors.mirror.offset_checks import check_offsets
from kcli.connectors.mirror.offset_syncs import OffsetSyncStore
from kcli.connectors.mirror.policy import DefaultReplicationPolicy
from kcli.connectors.mirror.records import Checkpoint, OffsetSync
from kcli.connectors.mirror.settings import Settings
from kcli.errors import GroupAuthorizationException
from kcli.formats.connect.errors import ConnectException
from kcli.metadata.image import AclEntry
from kcli.model.acl import AclOperation, AclPermissionType, PatternType, ResourceType
from kcli.model.configs import ConfigOperation, ConfigSource
from kcli.model.topic_partition import TopicPartition

T0, REMOTE = TopicPartition("t", 0), TopicPartition("A.t", 0)
ALIASES = {"name": "mm", "source.cluster.alias": "A", "target.cluster.alias": "B"}


def entry(name: str, source: ConfigSource, **more: bool) -> ConfigEntry:
    flags = {"is_sensitive": False, "is_read_only": False} | more
    return ConfigEntry(name=name, value="1", source=source, **flags)


ENTRIES = (
    entry("set", ConfigSource.DYNAMIC_TOPIC_CONFIG),
    entry("default", ConfigSource.DEFAULT_CONFIG),
    entry("cluster", ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG),
    entry("static", ConfigSource.STATIC_BROKER_CONFIG),
    entry("excluded", ConfigSource.DYNAMIC_TOPIC_CONFIG),
    entry("secret", ConfigSource.DYNAMIC_TOPIC_CONFIG, is_sensitive=True),
    entry("fixed", ConfigSource.DYNAMIC_TOPIC_CONFIG, is_read_only=True),
)


@pytest.mark.parametrize("copies_defaults", [False, True])
def test_the_configs_of_a_remote_topic(copies_defaults: bool) -> None:
    chosen = ConfigFilter(joined(["excluded"]), copies_defaults=copies_defaults)
    default = {"default": "1"} if copies_defaults else {}
    assert new_topic_configs(ENTRIES, chosen) == {"set": "1", "cluster": "1"} | default
    operation = ConfigOperation.SET if copies_defaults else ConfigOperation.DELETE
    assert config_changes(ENTRIES, chosen) == [
        AlterConfig(name="set", value="1"),
        AlterConfig(name="default", value="1" if copies_defaults else None, op=operation),
        AlterConfig(name="cluster", value="1"),
    ]


def test_the_acls_of_a_remote_topic() -> None:
    def remote(operation: AclOperation, permission: AclPermissionType) -> AclOperation | None:
        acl = AclEntry(ResourceType.TOPIC, "t", PatternType.LITERAL, "User:u", "*", operation, permission)
        found = remote_acl(acl, "A.t")
        assert found is None or (found.resource_name, found.principal) == ("A.t", "User:u")
        return None if found is None else AclOperation(found.operation)

    allow, deny = AclPermissionType.ALLOW, AclPermissionType.DENY
    assert remote(AclOperation.WRITE, allow) is None
    assert remote(AclOperation.ALL, allow) == remote(AclOperation.READ, allow) == AclOperation.READ
    assert remote(AclOperation.ALL, deny) == AclOperation.ALL
    assert remote(AclOperation.WRITE, deny) == AclOperation.WRITE


def test_the_work_of_tasks() -> None:
    assert dealt("abcde", 2) == [["a", "c", "e"], ["b", "d"]] and dealt("ab", 5) == [["a"], ["b"]]
    assert divided("abcde", 2) == [["a", "b", "c"], ["d", "e"]] and dealt("", 2) == divided("", 2) == []
    assert task_partitions("my-topic-0,t-12") == [TopicPartition("my-topic", 0), TopicPartition("t", 12)]
    assert [next_position(stored) for stored in (None, {}, {"offset": -1}, {"offset": 4})] == [
        None,
        None,
        None,
        5,
    ]


@pytest.fixture
def translator() -> Translator:
    syncs = OffsetSyncStore(keeps_history=True)
    for topic in ("t", "B.x", "other"):
        syncs.add(OffsetSync(TopicPartition(topic, 0), 10, 100))
    syncs.loaded()
    return Translator(DefaultReplicationPolicy(), "A", "B", NameFilter.of([".*"], ["other"]), syncs)


def test_checkpoints_of_a_group(translator: Translator) -> None:
    committed = {
        T0: CommittedOffset(offset=20, metadata="m"),
        TopicPartition("B.x", 0): CommittedOffset(offset=10),
        TopicPartition("t", 1): CommittedOffset(offset=5),
        TopicPartition("other", 0): CommittedOffset(offset=10),
        TopicPartition("t", 2): None,
    }
    assert translator.new_checkpoints("g", committed) == [
        Checkpoint("g", REMOTE, 20, 101, "m"),
        Checkpoint("g", TopicPartition("x", 0), 10, 100),
    ]
    assert translator.offsets("g")[REMOTE] == CommittedOffset(offset=101, metadata="m")
    assert translator.new_checkpoints("g", committed) == []


def test_a_checkpoint_must_be_more_recent_than_the_last_one(translator: Translator) -> None:
    def upstream_offsets(offset: int) -> list[int]:
        checkpoints = translator.new_checkpoints("g", {T0: CommittedOffset(offset=offset)})
        return [checkpoint.upstream_offset for checkpoint in checkpoints]

    assert upstream_offsets(20) == [20]
    assert upstream_offsets(25) == []  # the same offset in the target
    assert upstream_offsets(15) == [15]  # the group went back
    assert upstream_offsets(5) == []  # too old
    translator.syncs.add(OffsetSync(T0, 30, 130))
    assert upstream_offsets(30) == [30]


def test_offsets_of_an_idle_group_never_go_back() -> None:
    other = TopicPartition("A.t", 1)
    translated = {REMOTE: CommittedOffset(offset=10), other: CommittedOffset(offset=10)}
    current = {REMOTE: CommittedOffset(offset=10), other: CommittedOffset(offset=9)}
    assert offsets_to_commit(translated, current) == {other: CommittedOffset(offset=10)}
    assert offsets_to_commit(translated, {REMOTE: None}) == translated


def test_a_group_needs_an_offset_in_a_copied_topic() -> None:
    topics = NameFilter.of(["t"], [])
    assert has_topic({T0: CommittedOffset(offset=0)}, topics)
    assert not has_topic({T0: None, TopicPartition("u", 0): CommittedOffset(offset=0)}, topics)
    assert not has_topic({T0: GroupAuthorizationException()}, topics)


def test_the_properties_of_clients() -> None:
    config = ALIASES | {
        "source.cluster.bootstrap.servers": "a:1", "source.cluster.security.protocol": "SSL",
        "source.cluster.acks": "1", "consumer.fetch.min.bytes": "1", "source.consumer.fetch.min.bytes": "2",
        "client.id": "no", "consumer.client.id": "mine", "target.cluster.bootstrap.servers": "b:1",
    }  # fmt: skip
    settings = Settings.of(SOURCE_KEYS, config)
    assert settings.client("source", "consumer", "role") == {
        "bootstrap.servers": "a:1", "security.protocol": "SSL", "fetch.min.bytes": "2",
        "client.id": "mine|A->B|mm|role",
    }  # fmt: skip
    task = Settings.of(SOURCE_KEYS, config | {"task.index": "3"}, is_task=True)
    assert task.client("target", "admin", "r") == {"bootstrap.servers": "b:1", "client.id": "A->B|mm-3|r"}


def test_a_key_of_a_client_without_effect_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    config = ALIASES | {
        "source.consumer.client.rack": "r", "consumer.poll.timeout.ms": "5", "consumer.max.poll.records": "9",
        "admin.timeout.ms": "5", "producer.acks": "1",
    }  # fmt: skip
    settings = Settings.of(SOURCE_KEYS, config)
    for kind in ("consumer", "admin", "producer"):
        settings.client("source", kind, kind)
    assert caplog.messages == [
        "These keys of the consumer client have no effect: client.rack",
        "These keys of the producer client have no effect: acks",
    ]


def test_the_topics_of_the_connectors() -> None:
    settings = Settings.of(SOURCE_KEYS, ALIASES)
    assert (settings.syncs_side, settings.syncs_topic) == ("source", "mm2-offset-syncs.B.internal")
    assert settings.checkpoints_topic == "A.checkpoints.internal"
    target = Settings.of(SOURCE_KEYS, ALIASES | {"offset-syncs.topic.location": "target"})
    assert (target.syncs_side, target.syncs_topic) == ("target", "mm2-offset-syncs.A.internal")
    own = ALIASES | {"replication.policy.separator": "_"}
    assert Settings.of(SOURCE_KEYS, own).checkpoints_topic == "A_checkpoints_internal"
    own["replication.policy.internal.topic.separator.enabled"] = "false"
    assert Settings.of(SOURCE_KEYS, own).checkpoints_topic == "A.checkpoints.internal"


def test_the_intervals_of_jobs() -> None:
    settings = Settings.of(CHECKPOINT_KEYS, ALIASES | {"refresh.groups.interval.seconds": "-1"})
    assert settings.interval_s("emit.checkpoints") == 60
    assert settings.interval_s("refresh.groups") is settings.interval_s("sync.group.offsets") is None


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("topics", "a,("),
        ("offset-syncs.topic.location", "middle"),
        ("replication.policy.class", "Other"),
        ("topic.filter.class", "com.example.Filter"),
        ("forwarding.admin.class", "com.example.Admin"),
        ("metric.reporters", "com.example.Reporter"),
        ("security.protocol", "TLS"),
    ],
)
def test_values_that_are_refused(key: str, value: str) -> None:
    with pytest.raises(ConfigError, match="Invalid value"):
        SOURCE_KEYS.parse(ALIASES | {key: value})


@pytest.mark.parametrize("keys", [SOURCE_KEYS, CHECKPOINT_KEYS, HEARTBEAT_KEYS])
def test_the_alias_of_the_source_is_required(keys: ConfigDef) -> None:
    with pytest.raises(ConfigError, match=r"source\.cluster\.alias"):
        keys.parse({})


def test_the_errors_of_several_keys() -> None:
    off = {"emit.offset-syncs.enabled": "false"}
    assert source_errors(off) == checkpoint_errors(off | {"enabled": "false"}) == {}
    assert list(source_errors(off | {"offset-syncs.topic.location": "target"})) == list(off)
    assert checkpoint_errors(off)["emit.offset-syncs.enabled"] == [
        "MirrorCheckpointConnector can't run without offset syncs"
    ]
    assert list(checkpoint_errors({"emit.checkpoints.enabled": "false"})) == ["emit.checkpoints.enabled"]
    once = {"exactly.once.support": "required"}
    assert list(source_errors(once)) == ["exactly.once.support"]
    assert source_errors(once | {"source.consumer.isolation.level": "read_committed"}) == {}


GOOD = {"cluster": "A", "topic": "t", "partition": 0}


@pytest.mark.parametrize(
    ("partition", "offset", "text"),
    [
        (None, {"offset": 1}, "Source partitions may not be null"),
        ({"topic": "t", "partition": 0}, {"offset": 1}, "is missing the 'cluster' key, which is required"),
        (
            GOOD | {"topic": 1},
            {"offset": 1},
            "has an invalid value 1 for the 'topic' key, which must be a string",
        ),
        (GOOD | {"partition": True}, {"offset": 1}, "for the 'partition' key, which must be an integer"),
        (GOOD | {"partition": 2**31}, {"offset": 1}, "for the 'partition' key, which must be an integer"),
        (GOOD | {"partition": -1}, {"offset": 1}, "for the 'partition' key, which cannot be negative"),
        (GOOD, {}, "is missing the 'offset' key, which is required"),
        (GOOD, {"offset": "1"}, "has an invalid value 1 for the 'offset' key, which must be an integer"),
        (GOOD, {"offset": -1}, "for the 'offset' key, which cannot be negative"),
    ],
)
def test_offsets_that_are_refused(partition: Partition | None, offset: Offset, text: str) -> None:
    with pytest.raises(ConnectException, match=text):
        check_offsets([(partition, offset)], ("cluster", "topic"), has_partition=True, only_zero=False)


def test_offsets_that_are_accepted() -> None:
    offsets = [(GOOD, {"offset": 1}), (None, None), ({"anything": 1}, None)]
    check_offsets(offsets, ("cluster", "topic"), has_partition=True, only_zero=False)
    with pytest.raises(ConnectException, match="the only accepted value is 0"):
        check_offsets(offsets, ("cluster", "topic"), has_partition=True, only_zero=True)

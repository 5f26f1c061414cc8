"""Admin calls of real clients."""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
import time

import pytest

from kcli.testing.broker_process import BrokerProcess
from rigs.kafka_clients import Confluent, Sent

pytestmark = pytest.mark.compat


def test_the_admin_client_of_confluent_kafka_works(broker: BrokerProcess) -> None:
    from confluent_kafka import KafkaException, TopicPartition
    from confluent_kafka.admin import (
        AdminClient,
        AlterConfigOpType,
        ConfigEntry,
        ConfigResource,
        NewPartitions,
        NewTopic,
        OffsetSpec,
        ResourceType,
    )  # fmt: skip

    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    admin.create_topics([NewTopic("ck-admin", 2, 1, config={"retention.ms": "3600000"})])["ck-admin"].result(
        30
    )
    with pytest.raises(KafkaException, match="TOPIC_ALREADY_EXISTS"):
        admin.create_topics([NewTopic("ck-admin", 2, 1)])["ck-admin"].result(30)
    assert len(admin.list_topics("ck-admin", 30).topics["ck-admin"].partitions) == 2
    admin.create_partitions([NewPartitions("ck-admin", 5)])["ck-admin"].result(30)
    from confluent_kafka import TopicCollection

    described = admin.describe_topics(TopicCollection(["ck-admin"]))["ck-admin"].result(30)
    assert [part.id for part in described.partitions] == [0, 1, 2, 3, 4]
    resource = ConfigResource(ResourceType.TOPIC, "ck-admin")
    config = admin.describe_configs([resource])[resource].result(30)
    assert config["retention.ms"].value == "3600000"
    assert config["segment.bytes"].value == "1073741824"
    change = ConfigResource(
        ResourceType.TOPIC, "ck-admin",
        incremental_configs=[ConfigEntry("cleanup.policy", "compact", incremental_operation=AlterConfigOpType.APPEND)],
    )  # fmt: skip
    admin.incremental_alter_configs([change])[change].result(30)
    assert admin.describe_configs([resource])[resource].result(30)["cleanup.policy"].value == "delete,compact"
    Confluent().produce(
        broker.bootstrap, "ck-admin", [Sent(b"k", b"%d" % number) for number in range(10)], "none"
    )
    part = TopicPartition("ck-admin", 0)
    latest = admin.list_offsets({part: OffsetSpec.latest()})[part].result(30)
    assert latest.offset == 10
    deleted = admin.delete_records([TopicPartition("ck-admin", 0, 4)])[
        TopicPartition("ck-admin", 0, 4)
    ].result(30)
    assert deleted.low_watermark == 4
    assert admin.list_offsets({part: OffsetSpec.earliest()})[part].result(30).offset == 4
    cluster = admin.describe_cluster().result(30)
    assert [node.id for node in cluster.nodes] == [cluster.controller.id]
    assert Confluent().read_as_group(broker.bootstrap, "ck-admin", "ck-group", 3) == [b"4", b"5", b"6"]
    listed = admin.list_consumer_groups().result(30)
    assert "ck-group" in [group.group_id for group in listed.valid]
    group = admin.describe_consumer_groups(["ck-group"])["ck-group"].result(30)
    assert group.state.name == "EMPTY"
    admin.delete_consumer_groups(["ck-group"])["ck-group"].result(30)
    admin.delete_topics(["ck-admin"])["ck-admin"].result(30)
    assert "ck-admin" not in admin.list_topics(timeout=30).topics


def test_kafka_python_admin(broker: BrokerProcess) -> None:
    from kafka import KafkaAdminClient
    from kafka.admin import ConfigResource, ConfigResourceType, NewPartitions, NewTopic

    admin = KafkaAdminClient(bootstrap_servers=broker.bootstrap)
    admin.create_topics([NewTopic("kp-admin", num_partitions=2, replication_factor=1)])
    assert "kp-admin" in admin.list_topics()
    admin.create_partitions({"kp-admin": NewPartitions(3)})
    (described,) = admin.describe_topics(["kp-admin"])
    assert len(described["partitions"]) == 3
    assert admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, "kp-admin")])
    assert admin.describe_cluster()["cluster_id"]
    admin.delete_topics(["kp-admin"])
    assert "kp-admin" not in admin.list_topics()
    admin.close()


def test_the_admin_client_of_aiokafka_works(broker: BrokerProcess) -> None:
    from aiokafka.admin import AIOKafkaAdminClient, NewTopic
    from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType

    async def main() -> None:
        admin = AIOKafkaAdminClient(bootstrap_servers=broker.bootstrap)
        await admin.start()
        try:
            await admin.create_topics([NewTopic("ak-admin", num_partitions=2, replication_factor=1)])
            assert "ak-admin" in await admin.list_topics()
            (described,) = await admin.describe_topics(["ak-admin"])
            assert len(described["partitions"]) == 2
            assert await admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, "ak-admin")])
            await admin.list_consumer_groups()
            await admin.delete_topics(["ak-admin"])
            assert "ak-admin" not in await admin.list_topics()
        finally:
            await admin.close()

    asyncio.run(main())


@pytest.mark.skipif(shutil.which("kcat") is None, reason="kcat is not installed")
def test_kcat_lists_what_there_is(broker: BrokerProcess) -> None:
    Confluent().produce(broker.bootstrap, "kcat-admin", [Sent(None, b"x")], "none")
    done = subprocess.run(
        ["kcat", "-L", "-J", "-b", broker.bootstrap], capture_output=True, check=True, timeout=60
    )
    seen = json.loads(done.stdout)
    assert [each["name"] for each in seen["brokers"]] == [broker.bootstrap]
    (topic,) = [each for each in seen["topics"] if each["topic"] == "kcat-admin"]
    assert topic["partitions"] == [
        {"partition": 0, "leader": 1, "replicas": [{"id": 1}], "isrs": [{"id": 1}]}
    ]


def test_security_that_is_not_there(broker: BrokerProcess) -> None:
    """Clients hear what they hear of a Kafka without authorizer and SASL, not that the broker is too old."""
    from confluent_kafka import KafkaError, KafkaException, Producer
    from confluent_kafka.admin import (
        AclBinding,
        AclBindingFilter,
        AclOperation,
        AclPermissionType,
        AdminClient,
        ResourcePatternType,
        ResourceType,
    )  # fmt: skip

    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    acl = AclBinding(
        ResourceType.TOPIC, "t", ResourcePatternType.LITERAL, "User:a", "*", AclOperation.READ, AclPermissionType.ALLOW
    )  # fmt: skip
    any_acl = AclBindingFilter(
        ResourceType.ANY, None, ResourcePatternType.ANY, None, None, AclOperation.ANY, AclPermissionType.ANY
    )
    for answer in [*admin.create_acls([acl]).values(), *admin.delete_acls([any_acl]).values()]:
        with pytest.raises(KafkaException, match="No Authorizer is configured") as refused:
            answer.result(30)
        assert refused.value.args[0].code() == KafkaError.SECURITY_DISABLED

    said: list[str] = []
    producer = Producer(
        {
            "bootstrap.servers": broker.bootstrap,
            "security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN",
            "sasl.username": "u", "sasl.password": "p",
            "error_cb": lambda error: said.append(str(error)),
        }
    )  # fmt: skip
    deadline = time.monotonic() + 30
    while not any("SASL" in each for each in said) and time.monotonic() < deadline:
        producer.poll(0.1)
    assert any("SASL" in each for each in said), said

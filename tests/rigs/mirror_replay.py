"""Replays recorded scenarios of MirrorMaker: two brokers, and a Connect worker for each flow between them."""

from __future__ import annotations

import base64
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition

from kcli.client.admin.configs import AlterConfig
from kcli.client.admin.groups import CommittedOffset
from kcli.client.admin.topics import NewPartitions, NewTopic
from kcli.config.properties import parse
from kcli.connectors.mirror.background import Background
from kcli.connectors.mirror.keys import CHECKPOINT_KEYS, HEARTBEAT_KEYS, PACKAGE, SOURCE_KEYS
from kcli.connectors.mirror.records import Checkpoint, OffsetSync
from kcli.metadata.image import AclEntry
from kcli.model.configs import ConfigOperation, ConfigResource, ConfigResourceType, ConfigSource
from kcli.model.topic_partition import TopicPartition as Partition
from kcli.testing.broker_process import BrokerProcess
from rigs.connect_worker import WorkerProcess

PATIENCE_S = 40.0
_OF_WORKERS = ("mm2-configs", "mm2-offsets", "mm2-status", "__")
CONNECTORS = {
    "MirrorSourceConnector": SOURCE_KEYS,
    "MirrorCheckpointConnector": CHECKPOINT_KEYS,
    "MirrorHeartbeatConnector": HEARTBEAT_KEYS,
}
_STORES = (("config", "configs"), ("offset", "offsets"), ("status", "status"))
BYTES = "org.apache.kafka.connect.converters.ByteArrayConverter"
Step = dict[str, Any]


class Replay:
    """The world of one scenario."""

    def __init__(self, directory: Path, broker_config: Mapping[str, str], stack: ExitStack) -> None:
        self._directory = directory
        self._stack = stack
        self.brokers = {
            name: stack.enter_context(
                BrokerProcess(directory / name, {"log.retention.hours": "-1", **broker_config})
            )
            for name in ("A", "B")
        }
        self._background = Background("replay")
        stack.callback(self._background.close)
        self._admins = {name: self._background.client(self._properties(name)) for name in self.brokers}
        self._producers: dict[str, Producer] = {}
        self.workers: list[WorkerProcess] = []

    def _properties(self, cluster: str) -> dict[str, str]:
        return {"bootstrap.servers": self.brokers[cluster].bootstrap}

    def _call(self, cluster: str, name: str, *args: Any, **kwargs: Any) -> Any:
        async def call() -> Any:
            return await getattr(self._admins[cluster], name)(*args, **kwargs)

        return self._background.run(call(), PATIENCE_S)

    def run(self, step: Step) -> Any:
        """Does what a step says. Returns the outcome of a step that looks."""
        return getattr(self, f"_{step['action']}", self._skip)(step)

    def _skip(self, step: Step) -> None:
        """Steps of clients and tools, which other tests replay."""

    def _create(self, step: Step) -> None:
        configs = step.get("configs") or {}
        new = NewTopic(
            name=step["topic"], partitions=step["partitions"], replication_factor=1, configs=configs
        )
        self._checked(self._call(step["cluster"], "create_topics", [new]))

    def _grow(self, step: Step) -> None:
        new = NewPartitions(topic=step["topic"], count=step["partitions"])
        self._checked(self._call(step["cluster"], "create_partitions", [new]))

    def _delete(self, step: Step) -> None:
        self._call(step["cluster"], "delete_topics", [step["topic"]])

    def _delrec(self, step: Step) -> None:
        place = Partition(step["topic"], step["partition"])
        self._call(step["cluster"], "delete_records", {place: step["offset"]})

    def _alter(self, step: Step) -> None:
        changes = [AlterConfig(name=name, value=value) for name, value in (step.get("set") or {}).items()]
        changes += [
            AlterConfig(name=name, value=None, op=ConfigOperation.DELETE) for name in step.get("unset") or ()
        ]
        resource = ConfigResource(ConfigResourceType.TOPIC, step["topic"])
        self._checked(self._call(step["cluster"], "incremental_alter_configs", {resource: changes}))

    def _commit(self, step: Step) -> None:
        offsets = {
            Partition(topic, number): CommittedOffset(offset=offset, metadata=metadata)
            for topic, number, offset, metadata in step["offsets"]
        }
        self._checked(self._call(step["cluster"], "alter_group_offsets", step["group"], offsets))

    def _acl(self, step: Step) -> None:
        self._call(step["cluster"], "create_acls", [AclEntry(*fields) for fields in step["add"]])

    def _checked(self, errors: Mapping[object, object]) -> None:
        assert not any(errors.values()), errors

    def _produce(self, step: Step) -> None:
        name = step.get("txn")
        key = f"{step['cluster']}-{name}-{step.get('codec', 'none')}"
        producer = self._producers.get(key) if name else None  # a new one knows new partitions
        if producer is None:
            config: dict[str, Any] = {
                **self._properties(step["cluster"]), "compression.type": step.get("codec", "none"),
                "linger.ms": 50, "log_level": 0,
            }  # fmt: skip
            if name:
                config["transactional.id"] = name
            producer = self._producers[key] = Producer(config)
            if name:
                producer.init_transactions()
        if name and not step.get("cont"):
            producer.begin_transaction()
        for record in step["records"]:
            producer.produce(
                step["topic"], _bytes(record["value"]), _bytes(record["key"]), step["partition"],
                timestamp=record["timestamp"],
                headers=[(header, _bytes(value)) for header, value in record.get("headers", ())],
            )  # fmt: skip
        producer.flush()
        if step.get("end") == "commit":
            producer.commit_transaction()
        elif step.get("end") == "abort":
            producer.abort_transaction()

    # MirrorMaker.

    def _mm2(self, step: Step) -> None:
        if step["do"] != "start":
            for worker in self.workers:
                worker.stop() if step["do"] == "stop" else worker.kill()
            self.workers = []
            return
        text = step["config"]
        for name, broker in self.brokers.items():
            text = text.replace(f"{{{name}PORT}}", str(broker.port))
        properties = parse(text)
        for source, target in (("A", "B"), ("B", "A")):
            if _flag(properties, source, target, "enabled", "false") or _flag(
                properties, source, target, "emit.heartbeats.enabled", "true"
            ):
                self._start_flow(properties, source, target)

    def _start_flow(self, properties: Mapping[str, str], source: str, target: str) -> None:
        overrides = {"group.id": f"{source}-mm2", "key.converter": BYTES, "value.converter": BYTES,
                     "header.converter": BYTES}  # fmt: skip
        overrides |= {f"{kind}.storage.topic": f"mm2-{topic}.{source}.internal"
                      for kind, topic in _STORES}  # fmt: skip
        own = f"{target}."
        overrides |= {key.removeprefix(own): text for key, text in properties.items() if key.startswith(own)}
        worker = WorkerProcess(self._directory, self.brokers[target].bootstrap, overrides)
        self._stack.callback(worker.close)
        worker.start()
        self.workers.append(worker)
        known = {key for keys in CONNECTORS.values() for key in keys}
        config = {key: text for key, text in properties.items() if key in known}
        config |= {"enabled": "false", "source.cluster.alias": source, "target.cluster.alias": target}
        for side, cluster in (("source", source), ("target", target)):
            for key, text in _with_prefix(properties, f"{cluster}.").items():
                inner = "" if key.startswith(("consumer.", "producer.", "admin.")) else "cluster."
                config[f"{side}.{inner}{key}"] = text
        config |= _with_prefix(properties, f"{source}->{target}.")
        for name in CONNECTORS:
            connector = {**config, "name": name, "connector.class": f"{PACKAGE}{name}"}
            answer = worker.request("PUT", f"/connectors/{name}/config", connector)
            assert answer.status in (200, 201), answer.text

    # Looking.

    def _sleep(self, step: Step) -> None:
        time.sleep(step["seconds"])

    def _wait(self, step: Step) -> None:
        if step["what"] == "log" or not step.get("reached"):
            return
        deadline = time.monotonic() + PATIENCE_S
        while not getattr(self, f"_has_{step['what']}")(step):
            assert time.monotonic() < deadline, (step, [worker.log_tail() for worker in self.workers])
            time.sleep(0.1)

    def _has_records(self, step: Step) -> bool:
        return (
            sum(len(part["records"]) for part in self.records(step["cluster"], step["topic"]))
            >= step["count"]
        )

    def _has_topic(self, step: Step) -> bool:
        return step["topic"] in self._names(step["cluster"])

    def _has_partitions(self, step: Step) -> bool:
        return self._topic(step["cluster"], step["topic"])["partitions"] == step["count"]

    def _has_config(self, step: Step) -> bool:
        return self._topic(step["cluster"], step["topic"])["configs"].get(step["key"]) == step["value"]

    def _has_group(self, step: Step) -> bool:
        offsets = self._offsets(step["cluster"], step["group"])
        return offsets.get(step["tp"], [-1])[0] == step["offset"]

    def _has_checkpoint(self, step: Step) -> bool:
        return any(
            line["group"] == step["group"]
            and f"{line['topic']}-{line['partition']}" == step["tp"]
            and line["upstreamOffset"] == step["upstream"]
            for line in self.last(step["cluster"], step["topic"])
        )

    def _has_acls(self, step: Step) -> bool:
        return len(self._call(step["cluster"], "describe_acls")) >= step["count"]

    def _observe(self, step: Step) -> dict[str, Any]:
        outcome: dict[str, Any] = {}
        for what in step["what"]:
            kind, _, topic = what.partition(":")
            if kind == "topics":
                outcome["topics"] = {
                    name: self._topic(step["cluster"], name) for name in self._names(step["cluster"])
                }
            elif kind == "groups":
                outcome["groups"] = {
                    group.group_id: {
                        "type": group.type.lower(), "protocolType": group.protocol, "state": group.state,
                        "offsets": self._offsets(step["cluster"], group.group_id),
                    }
                    for group in self._call(step["cluster"], "list_groups")
                    if group.protocol != "connect"
                }  # fmt: skip
            elif kind == "records" or (
                kind == "last" and ("offset-syncs" in topic or "checkpoints" in topic)
            ):
                read = self.records if kind == "records" else self.last
                outcome.setdefault(kind, {})[topic] = read(step["cluster"], topic)
            elif kind == "acls":
                acls = self._call(step["cluster"], "describe_acls")
                outcome["acls"] = sorted(
                    [acl.resource_type, acl.resource_name, acl.pattern_type, acl.principal, acl.host,
                     acl.operation, acl.permission_type]
                    for acl in acls
                )  # fmt: skip
        return outcome

    def _names(self, cluster: str) -> list[str]:
        return [topic.name for topic in self._call(cluster, "list_topics")]

    def _topic(self, cluster: str, topic: str) -> dict[str, Any]:
        resource = ConfigResource(ConfigResourceType.TOPIC, topic)
        entries = self._call(cluster, "describe_configs", [resource])[resource]
        described = self._call(cluster, "describe_topics", [topic])[topic]
        return {
            "partitions": len(described.partitions),
            "replicationFactor": len(described.partitions[0].replicas),
            "internal": described.is_internal,
            "configs": {
                entry.name: entry.value
                for entry in entries
                if entry.source is ConfigSource.DYNAMIC_TOPIC_CONFIG
            },
        }

    def _offsets(self, cluster: str, group: str) -> dict[str, list[Any]]:
        return {
            str(place): [
                found.offset,
                -1 if found.leader_epoch is None else found.leader_epoch,
                found.metadata,
            ]
            for place, found in self._call(cluster, "list_group_offsets", group).items()
            if found is not None
        }

    def records(self, cluster: str, topic: str) -> list[dict[str, Any]]:
        """All records of a topic that a reader of committed records sees, by partition."""
        parts = []
        for number, (start, end, messages) in self._read(cluster, topic):
            records = []
            for message in messages:
                record = {"offset": message.offset(), "timestamp": message.timestamp()[1],
                          "key": _shown(message.key()), "value": _shown(message.value())}  # fmt: skip
                if message.headers():
                    record["headers"] = [[name, _shown(value)] for name, value in message.headers()]
                records.append(record)
            parts.append({"partition": number, "start": start, "end": end, "records": records})
        return parts

    def last(self, cluster: str, topic: str) -> list[dict[str, Any]]:
        """The newest checkpoint or offset sync of each key."""
        found = {}
        for _, (_, _, messages) in self._read(cluster, topic):
            for message in messages:
                found.pop(message.key(), None)
                found[message.key()] = self._meaning(topic, message.key(), message.value())
        return list(found.values())

    @staticmethod
    def _meaning(topic: str, key: bytes, value: bytes) -> dict[str, Any]:
        if "offset-syncs" in topic:
            sync = OffsetSync.parse(key, value)
            return {"topic": sync.partition.topic, "partition": sync.partition.partition,
                    "upstreamOffset": sync.upstream_offset, "downstreamOffset": sync.downstream_offset}  # fmt: skip
        point = Checkpoint.parse(key, value)
        return {"group": point.group, "topic": point.partition.topic, "partition": point.partition.partition,
                "version": 0, "upstreamOffset": point.upstream_offset,
                "downstreamOffset": point.downstream_offset, "metadata": point.metadata}  # fmt: skip

    def _read(self, cluster: str, topic: str) -> Iterator[tuple[int, tuple[int, int, list[Any]]]]:
        config = {**self._properties(cluster), "group.id": "replay", "isolation.level": "read_committed",
                  "enable.partition.eof": True, "log_level": 0, "enable.auto.commit": False}  # fmt: skip
        consumer = Consumer(config)
        try:
            if topic not in self._names(cluster):
                return
            count = self._topic(cluster, topic)["partitions"]
            for number in range(count):
                start, end = consumer.get_watermark_offsets(TopicPartition(topic, number), PATIENCE_S)
                consumer.assign([TopicPartition(topic, number, start)])
                messages = []
                while (message := consumer.poll(PATIENCE_S)) is not None and message.error() is None:
                    messages.append(message)
                yield number, (start, end, messages)
        finally:
            consumer.close()


def _flag(properties: Mapping[str, str], source: str, target: str, key: str, default: str) -> bool:
    return properties.get(f"{source}->{target}.{key}", properties.get(key, default)) == "true"


def _with_prefix(properties: Mapping[str, str], prefix: str) -> dict[str, str]:
    return {key.removeprefix(prefix): text for key, text in properties.items() if key.startswith(prefix)}


def _bytes(value: Any) -> bytes | None:
    return (
        base64.b64decode(value["b64"])
        if isinstance(value, dict)
        else None
        if value is None
        else value.encode()
    )


def _shown(value: bytes | None) -> Any:
    if value is None:
        return None
    text = value.decode(errors="surrogateescape")
    return text if text.isprintable() else {"b64": base64.b64encode(value).decode()}


def differences(where: str, actual: Any, expected: Any) -> list[str]:
    """How an outcome differs from the recorded one, without values that varied and topics of the worker itself."""
    if expected == "*":
        return []
    if isinstance(expected, dict) and set(expected) == {"unordered"}:
        expected = expected["unordered"]
        actual, expected = sorted(actual, key=repr), sorted(expected, key=repr)
    if isinstance(expected, dict) and isinstance(actual, dict):
        names = [name for name in {**expected, **actual} if not name.startswith(_OF_WORKERS)]
        lines = []
        for name in names:
            if name not in actual or name not in expected:
                lines += [f"{where}/{name}: only in one"] if expected.get(name) != "*" else []
            else:
                lines += differences(f"{where}/{name}", actual[name], expected[name])
        return lines
    if isinstance(expected, list) and isinstance(actual, list) and len(expected) == len(actual):
        if "/last/" in where:  # in the order of the tasks
            actual, expected = sorted(actual, key=_place), sorted(expected, key=_place)
        pairs = enumerate(zip(actual, expected, strict=True))
        return [line for nth, pair in pairs for line in differences(f"{where}[{nth}]", *pair)]
    return [] if actual == expected else [f"{where}: {actual} instead of {expected}"]


def _place(line: dict[str, Any]) -> tuple[Any, ...]:
    return line.get("group"), line["topic"], line["partition"]

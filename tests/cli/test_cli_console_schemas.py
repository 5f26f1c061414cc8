"""The console producer and consumer with schemas of a registry, and Confluent's client on the other side."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from kcli.testing.broker_process import BrokerProcess
from rigs.schema_registry import MemoryRegistry, memory_registry

ORDER = (
    '{"type":"record","name":"Order","fields":[{"name":"id","type":"int"},'
    '{"name":"note","type":["null","string"],"default":null}]}'
)
LINES = b'{"id":1,"note":{"string":"a"}}\n{"id":2,"note":null}\n'
PROTO = 'syntax = "proto3"; message A { int32 a = 1; } message B { string b = 1; }'


@pytest.fixture
def registry() -> Iterator[MemoryRegistry]:
    with memory_registry() as registry:
        yield registry


def kcli(tool: str, broker: BrokerProcess, topic: str, *words: str, stdin: bytes = b"") -> Any:
    """Runs a tool. Returns the finished process."""
    command = [sys.executable, "-m", "kcli", tool, "--bootstrap-server", broker.bootstrap, "--topic", topic]
    return subprocess.run([*command, *words], input=stdin, capture_output=True, timeout=120)


def produce(broker: BrokerProcess, topic: str, stdin: bytes, *words: str) -> Any:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    if topic not in admin.list_topics(timeout=60).topics:
        admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(60)
    return kcli("console-producer", broker, topic, *words, stdin=stdin)


def consume(broker: BrokerProcess, topic: str, *words: str) -> Any:
    return kcli(
        "console-consumer", broker, topic, "--partition", "0", "--offset", "earliest", "--exit-at-end", *words
    )


def test_lines_of_json_become_avro_and_lines_of_json(
    broker: BrokerProcess, registry: MemoryRegistry, tmp_path: Path
) -> None:
    from confluent_kafka.schema_registry import SchemaRegistryClient
    from confluent_kafka.schema_registry.avro import AvroDeserializer
    from confluent_kafka.serialization import MessageField, SerializationContext

    file = tmp_path / "order.avsc"
    file.write_text(ORDER)
    schemas = ("--value-format", "avro", "--schema-registry", registry.url)
    sent = produce(broker, "avro", LINES, *schemas, "--schema", str(file))
    assert (sent.returncode, sent.stderr) == (0, b"")
    assert list(registry.subjects) == ["avro-value"]
    read = consume(broker, "avro", *schemas)
    assert (read.returncode, read.stdout) == (0, LINES)
    consumer = Consumer(
        {"bootstrap.servers": broker.bootstrap, "group.id": "judge", "auto.offset.reset": "earliest"}
    )
    consumer.subscribe(["avro"])
    messages = consumer.consume(2, 60)
    consumer.close()
    judge = AvroDeserializer(SchemaRegistryClient({"url": registry.url}))
    context = SerializationContext("avro", MessageField.VALUE)
    assert [judge(message.value(), context) for message in messages] == [
        {"id": 1, "note": "a"},
        {"id": 2, "note": None},
    ]
    whole = consume(broker, "avro", *schemas, "--output", "json", "--filter", "value~string")
    assert [json.loads(line)["value"] for line in whole.stdout.splitlines()] == [
        json.loads(LINES.splitlines()[0])
    ]


def test_the_properties_of_confluents_tools(broker: BrokerProcess, registry: MemoryRegistry) -> None:
    words = [
        f"schema.registry.url={registry.url}",
        'key.schema={"type":"long"}',
        f"value.schema={ORDER}",
        "parse.key=true",
        "key.separator=|",
        "null.marker=NULL",
    ]
    properties = [word for text in words for word in ("--property", text)]
    sent = produce(
        broker, "props", b'5|{"id":1,"note":null}\n6|NULL\n', "--value-format", "avro", *properties
    )
    assert (sent.returncode, sent.stderr) == (0, b"")
    assert sorted(registry.subjects) == ["props-key", "props-value"]
    words = [
        f"schema.registry.url={registry.url}",
        "print.key=true",
        "print.schema.ids=true",
        "schema.id.separator=#",
    ]
    properties = [word for text in words for word in ("--property", text)]
    read = consume(broker, "props", "--value-format", "avro", "--key-format", "avro", *properties)
    assert read.stdout == b'5#1\t{"id":1,"note":null}#2\n6#1\tnull\n'
    assert read.stderr == b"Processed a total of 2 messages\n"
    wrong = produce(
        broker, "props", b'{"id":1}\n', "--value-format", "avro", "--schema-registry", registry.url,
        "--property", f"value.schema={ORDER.replace('int', 'long')}", "--property", "auto.register=false",
    )  # fmt: skip
    assert wrong.returncode == 1 and b"the schema of values: Schema not found" in wrong.stderr


def test_other_formats_and_subjects(broker: BrokerProcess, registry: MemoryRegistry, tmp_path: Path) -> None:
    registry.put("shared", PROTO, "PROTOBUF")
    url = ("--schema-registry", registry.url)
    sent = produce(
        broker, "proto", b'{"b":"x"}\n', "--value-format", "protobuf", *url, "--value-subject", "shared",
        "--value-message", "B", "--property", "value.schema.id.serializer=HeaderSchemaIdSerializer",
    )  # fmt: skip
    assert (sent.returncode, sent.stderr) == (0, b"")
    read = consume(broker, "proto", "--value-format", "protobuf", *url)
    assert read.stdout == b'{"b":"x"}\n'
    assert consume(broker, "proto").stdout == b"\n\x01x\n", "the header form leaves only the message"
    number = registry.put("numbers", '{"type":"object","properties":{"a":{"type":"number"}}}', "JSON")
    sent = produce(
        broker,
        "json",
        b'{"a": 1.50}\n',
        "--value-format",
        "json-schema",
        *url,
        "--value-schema-id",
        str(number),
    )
    assert (sent.returncode, sent.stderr) == (0, b"")
    assert consume(broker, "json", "--value-format", "json-schema", *url).stdout == b'{"a": 1.50}\n'


def test_errors_name_the_line_or_the_record(broker: BrokerProcess, registry: MemoryRegistry) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    number = registry.put("errors-value", ORDER)
    for value in (b'{"plain": "json"}', b"\0\0\0\0" + bytes([number]) + b"\x0e\0", b"\0\0\0\0\x63x"):
        producer.produce("errors", value)
    assert producer.flush(60) == 0
    schemas = ("--value-format", "avro", "--schema-registry", registry.url)
    read = consume(broker, "errors", *schemas)
    assert read.returncode == 1 and read.stdout == b""
    assert read.stderr.splitlines()[-1] == (
        b"topic errors, partition 0, offset 0, value: Unknown magic byte! The value has no registry prefix: it begins "
        b"with 0x7b (JSON)"
    )
    read = consume(broker, "errors", *schemas, "--skip-message-on-error")
    assert read.returncode == 0 and read.stdout == b'{"id":7,"note":null}\n'
    assert b"offset 2, value: Schema 99 not found" in read.stderr
    sent = produce(
        broker, "errors", b'{"id":1,"note":null}\n{"id":"x"}\n', *schemas, "--value-schema-id", str(number)
    )
    assert sent.returncode == 1
    assert sent.stderr.startswith(b"standard input, line 2: the value: the value does not fit schema 1: ")
    assert (
        produce(broker, "copies", b'{"id":1}\n', *schemas, "--value-schema-id", str(number)).returncode == 0
    )
    silent = consume(broker, "copies", "--value-format", "avro", "--schema-registry", "http://127.0.0.1:1",
                     "--property", "max.retries=0")  # fmt: skip
    assert silent.returncode == 1
    assert b"the schema registry http://127.0.0.1:1 cannot be reached: " in silent.stderr


def test_values_are_converted_to_a_given_schema(
    broker: BrokerProcess, registry: MemoryRegistry, tmp_path: Path
) -> None:
    schemas = ("--value-format", "avro", "--schema-registry", registry.url)
    assert produce(broker, "old", LINES, *schemas, "--property", f"value.schema={ORDER}").returncode == 0
    newer = ORDER.replace('"int"', '"long"').replace(
        '"fields":[', '"fields":[{"name":"n","type":"int","default":3},'
    )
    file = tmp_path / "newer.avsc"
    file.write_text(newer)
    read = consume(broker, "old", *schemas, "--schema", str(file))
    assert read.stdout.splitlines()[0] == b'{"n":3,"id":1,"note":{"string":"a"}}'
    search = kcli("console-consumer", broker, "old", *schemas, "--by-time", "--offset", "earliest")
    assert (search.stdout, search.returncode) == (LINES, 0), search.stderr
    # The same as the latest version of the subject.
    registry.put("old-value", newer)
    read = consume(broker, "old", *schemas, "--property", "use.latest.version=true")
    assert read.stdout.splitlines()[1] == b'{"n":3,"id":2,"note":null}'


def test_the_envelope_has_the_json_of_a_value(broker: BrokerProcess, registry: MemoryRegistry) -> None:
    schemas = ("--value-format", "avro", "--schema-registry", registry.url)
    record = json.dumps({"key": "k", "value": json.loads(LINES.splitlines()[0]), "headers": [["h", "1"]]})
    own = ("--property", f"value.schema={ORDER}")
    sent = produce(broker, "envelope", record.encode(), *schemas, "--input", "json", *own)
    assert (sent.returncode, sent.stderr) == (0, b"")
    read = consume(broker, "envelope", *schemas, "--output", "json")
    assert json.loads(read.stdout)["value"] == {"id": 1, "note": {"string": "a"}}
    again = produce(broker, "copy", read.stdout, *schemas, "--input", "json", *own)
    assert again.returncode == 0
    read = consume(broker, "copy", *schemas, "--format", "%k %v %h\\n")
    assert read.stdout == b'k {"id":1,"note":{"string":"a"}} h=1\n'

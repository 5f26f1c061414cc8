"""The console producer and consumer with schemas of a registry, and Confluent's client on the other side."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from kcli.cli.main import run
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


@dataclass(frozen=True)
class Ran:
    returncode: int
    stdout: bytes
    stderr: bytes


@dataclass(frozen=True)
class Tools:
    """Runs the tools in this process, because a process for each run would take most of the time."""

    broker: BrokerProcess
    capture: pytest.CaptureFixture[bytes]
    monkeypatch: pytest.MonkeyPatch

    def run(self, tool: str, topic: str, *words: str, stdin: bytes = b"") -> Ran:
        self.monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        self.capture.readouterr()
        code = run([tool, "--bootstrap-server", self.broker.bootstrap, "--topic", topic, *words])
        return Ran(code, *self.capture.readouterr())

    def produce(self, topic: str, stdin: bytes, *words: str) -> Ran:
        admin = AdminClient({"bootstrap.servers": self.broker.bootstrap})
        if topic not in admin.list_topics(timeout=60).topics:
            admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(60)
        return self.run("console-producer", topic, *words, stdin=stdin)

    def consume(self, topic: str, *words: str) -> Ran:
        place = ("--partition", "0", "--offset", "earliest", "--exit-at-end")
        return self.run("console-consumer", topic, *place, *words)


@pytest.fixture
def tools(
    broker: BrokerProcess, capsysbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch
) -> Tools:
    return Tools(broker, capsysbinary, monkeypatch)


def test_lines_of_json_become_avro_and_lines_of_json(
    tools: Tools, registry: MemoryRegistry, tmp_path: Path
) -> None:
    from confluent_kafka.schema_registry import SchemaRegistryClient
    from confluent_kafka.schema_registry.avro import AvroDeserializer
    from confluent_kafka.serialization import MessageField, SerializationContext

    file = tmp_path / "order.avsc"
    file.write_text(ORDER)
    schemas = ("--value-format", "avro", "--schema-registry", registry.url)
    sent = tools.produce("avro", LINES, *schemas, "--schema", str(file))
    assert (sent.returncode, sent.stderr) == (0, b"")
    assert list(registry.subjects) == ["avro-value"]
    read = tools.consume("avro", *schemas)
    assert (read.returncode, read.stdout) == (0, LINES)
    consumer = Consumer(
        {"bootstrap.servers": tools.broker.bootstrap, "group.id": "judge", "auto.offset.reset": "earliest"}
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
    whole = tools.consume("avro", *schemas, "--output", "json", "--filter", "value~string")
    assert [json.loads(line)["value"] for line in whole.stdout.splitlines()] == [
        json.loads(LINES.splitlines()[0])
    ]


def test_the_properties_of_confluents_tools(tools: Tools, registry: MemoryRegistry) -> None:
    words = [
        f"schema.registry.url={registry.url}",
        'key.schema={"type":"long"}',
        f"value.schema={ORDER}",
        "parse.key=true",
        "key.separator=|",
        "null.marker=NULL",
    ]
    properties = [word for text in words for word in ("--property", text)]
    sent = tools.produce("props", b'5|{"id":1,"note":null}\n6|NULL\n', "--value-format", "avro", *properties)
    assert (sent.returncode, sent.stderr) == (0, b"")
    assert sorted(registry.subjects) == ["props-key", "props-value"]
    words = [
        f"schema.registry.url={registry.url}",
        "print.key=true",
        "print.schema.ids=true",
        "schema.id.separator=#",
    ]
    properties = [word for text in words for word in ("--property", text)]
    read = tools.consume("props", "--value-format", "avro", "--key-format", "avro", *properties)
    assert read.stdout == b'5#1\t{"id":1,"note":null}#2\n6#1\tnull\n'
    assert read.stderr == b"Processed a total of 2 messages\n"
    idle = ("--property", "skip.known.types=false", "--property", "value.schema.id=2")
    read = tools.consume("props", "--value-format", "avro", "--schema-registry", registry.url, *idle)
    assert read.stderr.splitlines()[:2] == [
        b"WARN --property: ignored the unknown property value.schema.id.",
        b"WARN skip.known.types has no effect: kcli registers no schemas of google.protobuf",
    ]
    refused = tools.consume("props", "--value-format", "avro", "--property", "rule.executors=encrypt")
    assert refused.returncode == 1 and b"rule.executors: kcli executes no rules" in refused.stderr
    wrong = tools.produce(
        "props", b'{"id":1}\n', "--value-format", "avro", "--schema-registry", registry.url,
        "--property", f"value.schema={ORDER.replace('int', 'long')}", "--property", "auto.register=false",
    )  # fmt: skip
    assert wrong.returncode == 1 and b"the schema of values: Schema not found" in wrong.stderr


def test_other_formats_and_subjects(tools: Tools, registry: MemoryRegistry, tmp_path: Path) -> None:
    registry.put("shared", PROTO, "PROTOBUF")
    url = ("--schema-registry", registry.url)
    sent = tools.produce(
        "proto", b'{"b":"x"}\n', "--value-format", "protobuf", *url, "--value-subject", "shared",
        "--value-message", "B", "--property", "value.schema.id.serializer=HeaderSchemaIdSerializer",
    )  # fmt: skip
    assert (sent.returncode, sent.stderr) == (0, b"")
    read = tools.consume("proto", "--value-format", "protobuf", *url)
    assert read.stdout == b'{"b":"x"}\n'
    assert tools.consume("proto").stdout == b"\n\x01x\n", "the header form leaves only the message"
    number = registry.put("numbers", '{"type":"object","properties":{"a":{"type":"number"}}}', "JSON")
    sent = tools.produce(
        "json",
        b'{"a": 1.50}\n',
        "--value-format",
        "json-schema",
        *url,
        "--value-schema-id",
        str(number),
    )
    assert (sent.returncode, sent.stderr) == (0, b"")
    assert tools.consume("json", "--value-format", "json-schema", *url).stdout == b'{"a": 1.50}\n'


def test_errors_name_the_line_or_the_record(tools: Tools, registry: MemoryRegistry) -> None:
    producer = Producer({"bootstrap.servers": tools.broker.bootstrap})
    number = registry.put("errors-value", ORDER)
    for value in (b'{"plain": "json"}', b"\0\0\0\0" + bytes([number]) + b"\x0e\0", b"\0\0\0\0\x63x"):
        producer.produce("errors", value)
    assert producer.flush(60) == 0
    schemas = ("--value-format", "avro", "--schema-registry", registry.url)
    read = tools.consume("errors", *schemas)
    assert read.returncode == 1 and read.stdout == b""
    assert read.stderr.splitlines()[-1] == (
        b"topic errors, partition 0, offset 0, value: Unknown magic byte! The value has no registry prefix: it begins "
        b"with 0x7b (JSON)"
    )
    read = tools.consume("errors", *schemas, "--skip-message-on-error")
    assert read.returncode == 0 and read.stdout == b'{"id":7,"note":null}\n'
    assert b"offset 2, value: Schema 99 not found" in read.stderr
    sent = tools.produce(
        "errors", b'{"id":1,"note":null}\n{"id":"x"}\n', *schemas, "--value-schema-id", str(number)
    )
    assert sent.returncode == 1
    assert sent.stderr.startswith(b"standard input, line 2: the value: the value does not fit schema 1: ")
    assert tools.produce("copies", b'{"id":1}\n', *schemas, "--value-schema-id", str(number)).returncode == 0
    silent = tools.consume("copies", "--value-format", "avro", "--schema-registry", "http://127.0.0.1:1",
                     "--property", "max.retries=0")  # fmt: skip
    assert silent.returncode == 1
    assert b"the schema registry http://127.0.0.1:1 cannot be reached: " in silent.stderr


def test_values_are_converted_to_a_given_schema(
    tools: Tools, registry: MemoryRegistry, tmp_path: Path
) -> None:
    schemas = ("--value-format", "avro", "--schema-registry", registry.url)
    assert tools.produce("old", LINES, *schemas, "--property", f"value.schema={ORDER}").returncode == 0
    newer = ORDER.replace('"int"', '"long"').replace(
        '"fields":[', '"fields":[{"name":"n","type":"int","default":3},'
    )
    file = tmp_path / "newer.avsc"
    file.write_text(newer)
    read = tools.consume("old", *schemas, "--schema", str(file))
    assert read.stdout.splitlines()[0] == b'{"n":3,"id":1,"note":{"string":"a"}}'
    search = tools.run("console-consumer", "old", *schemas, "--by-time", "--offset", "earliest")
    assert (search.stdout, search.returncode) == (LINES, 0), search.stderr
    # The same as the latest version of the subject.
    registry.put("old-value", newer)
    read = tools.consume("old", *schemas, "--property", "use.latest.version=true")
    assert read.stdout.splitlines()[1] == b'{"n":3,"id":2,"note":null}'


def test_the_envelope_has_the_json_of_a_value(tools: Tools, registry: MemoryRegistry) -> None:
    schemas = ("--value-format", "avro", "--schema-registry", registry.url)
    record = json.dumps({"key": "k", "value": json.loads(LINES.splitlines()[0]), "headers": [["h", "1"]]})
    own = ("--property", f"value.schema={ORDER}")
    sent = tools.produce("envelope", record.encode(), *schemas, "--input", "json", *own)
    assert (sent.returncode, sent.stderr) == (0, b"")
    read = tools.consume("envelope", *schemas, "--output", "json")
    assert json.loads(read.stdout)["value"] == {"id": 1, "note": {"string": "a"}}
    again = tools.produce("copy", read.stdout, *schemas, "--input", "json", *own)
    assert again.returncode == 0
    read = tools.consume("copy", *schemas, "--format", "%k %v %h\\n")
    assert read.stdout == b'k {"id":1,"note":{"string":"a"}} h=1\n'

"""What the console consumer prints for a record."""

from __future__ import annotations

import json
from dataclasses import dataclass, field

import pytest

from kcli.cli.syntax.options import UsageError
from kcli.cli.tools.console import envelope
from kcli.cli.tools.console.formatters import FormatError, deserializer, formatter, letters, tsv_line
from kcli.rdkafka.log import logger


@dataclass
class Message:
    """The part of librdkafka's message that formatters look at."""

    k: bytes | None = b"k"
    v: bytes | None = b"v"
    h: list[tuple[str, bytes | None]] = field(default_factory=list)
    t: tuple[int, int] = (1, 1795250262666)

    def key(self) -> bytes | None:
        return self.k

    def value(self) -> bytes | None:
        return self.v

    def headers(self) -> list[tuple[str, bytes | None]] | None:
        return self.h or None

    def timestamp(self) -> tuple[int, int]:
        return self.t

    def topic(self) -> str:
        return "t"

    def partition(self) -> int:
        return 0

    def offset(self) -> int:
        return 7


def _default(message: Message, **properties: str) -> bytes:
    named = {name.replace("_", "."): text for name, text in properties.items()}
    return formatter("org.apache.kafka.tools.consumer.DefaultMessageFormatter", named)(message)


def test_the_default_formatter_prints_only_the_value() -> None:
    assert _default(Message()) == b"v\n"
    assert _default(Message(v=None)) == b"null\n"


def test_every_column_in_kafkas_order() -> None:
    names = ("timestamp", "partition", "offset", "delivery", "epoch", "headers", "key")
    line = _default(Message(h=[("h1", b"a"), ("h2", b"b")]), **{f"print_{name}": "true" for name in names})
    assert line == (
        b"CreateTime:1795250262666\tPartition:0\tOffset:7\tDelivery:NOT_PRESENT\tEpoch:NOT_PRESENT\th1:a,h2:b\tk\tv\n"
    )


def test_separators_and_null_literal() -> None:
    line = _default(Message(k=None, h=[("h", None)]), print_key="true", print_headers="true", null_literal="<nil>",
                    key_separator="|", line_separator="@@", headers_separator=";")  # fmt: skip
    assert line == b"h:<nil>|<nil>|v@@"


def test_no_column_prints_nothing() -> None:
    assert _default(Message(), print_value="false") == b""


def test_the_timestamp_is_printed_with_its_type() -> None:
    assert _default(Message(t=(2, 5)), print_timestamp="true") == b"LogAppendTime:5\tv\n"
    assert _default(Message(t=(0, 0)), print_timestamp="true") == b"NO_TIMESTAMP\tv\n"


@pytest.mark.parametrize(
    ("name", "data", "text"),
    [
        ("IntegerDeserializer", b"\xff\xff\xff\xfe", b"-2"),
        ("LongDeserializer", b"\0\0\0\0\0\0\1\0", b"256"),
        ("ShortDeserializer", b"\0\7", b"7"),
        ("BooleanDeserializer", b"\1", b"true"),
        ("DoubleDeserializer", b"\x3f\xf8\0\0\0\0\0\0", b"1.5"),
        ("DoubleDeserializer", b"\x41\x63\x12\xd0\0\0\0\0", b"1.0E7"),
        ("FloatDeserializer", b"\x3d\xcc\xcc\xcd", b"0.1"),
        ("FloatDeserializer", b"null", b"1.8988725E28"),
        ("FloatDeserializer", b"\x7f\xc0\0\0", b"NaN"),
        ("BytesDeserializer", b"\0a\\\xff~\n ", b"\\x00a\\x5C\\xFF~\\x0A "),
        ("ByteBufferDeserializer", b"abc", b"java.nio.HeapByteBuffer[pos=0 lim=3 cap=3]"),
        ("StringDeserializer", b"\xe2\x82a", b"\xef\xbf\xbda"),
        ("UUIDDeserializer", b"1-2-3-4-5", b"00000001-0002-0003-0004-000000000005"),
        (
            "UUIDDeserializer",
            b"6f1e0a3c-0000-4000-8000-000000000001",
            b"6f1e0a3c-0000-4000-8000-000000000001",
        ),
    ],
)
def test_each_java_deserializer_prints_its_type(name: str, data: bytes, text: bytes) -> None:
    line = _default(Message(v=data), value_deserializer=f"org.apache.kafka.common.serialization.{name}")
    assert line == text + b"\n"


def test_wrong_size_for_a_number() -> None:
    with pytest.raises(FormatError, match="Size of data received by IntegerDeserializer is not 4"):
        _default(Message(v=b"abc"), value_deserializer="IntegerDeserializer")
    with pytest.raises(FormatError, match="Unexpected byte received by BooleanDeserializer: 2"):
        _default(Message(v=b"\2"), value_deserializer="BooleanDeserializer")
    with pytest.raises(FormatError, match="Error parsing data into UUID"):
        _default(Message(v=b"1-2-3"), value_deserializer="UUIDDeserializer")


def test_a_formatter_that_is_not_there_is_named() -> None:
    with pytest.raises(UsageError, match=r"com\.example\.Mine"):
        formatter("com.example.Mine", {})


def test_a_missing_deserializer_is_reported_and_left_out(
    capsys: pytest.CaptureFixture[str],
) -> None:
    logger().handlers.clear()  # its stream is the stderr of now
    assert deserializer("MyDeserializer") is None
    assert "ERROR Unable to instantiate a deserializer from MyDeserializer" in capsys.readouterr().err
    logger().handlers.clear()


def test_json_keeps_text_as_text_and_bytes_as_base64() -> None:
    record = json.loads(envelope.write(Message(k=b"\xff", v="ü".encode(), h=[("h", None)])))
    assert record == {
        "topic": "t", "partition": 0, "offset": 7, "timestamp": 1795250262666, "timestampType": "CreateTime",
        "headers": [["h", None]], "key": {"base64": "/w=="}, "value": "ü",
    }  # fmt: skip


def test_tsv_stays_on_one_line() -> None:
    assert tsv_line(Message(k=None, v=b"a\tb\nc\\")) == b"t\t0\t7\t1795250262666\t\\N\ta\\tb\\nc\\\\\n"
    assert tsv_line(Message(k=b"", v=b"\\N")) == b"t\t0\t7\t1795250262666\t\t\\\\N\n", "null and empty differ"


def test_offsets_of_groups_as_json() -> None:
    from kcli.protocol.records import consumer_offsets as records

    show = formatter("org.apache.kafka.tools.consumer.OffsetsMessageFormatter", {})
    key = records.encode_key(records.OffsetCommitKey(group="g", topic="t", partition=3))
    value = records.encode_value(records.OffsetCommitValue(offset=11, leader_epoch=0, commit_timestamp=5))
    assert show(Message(k=key, v=value)) == (
        b'{"key":{"type":1,"data":{"group":"g","topic":"t","partition":3}},'
        b'"value":{"version":4,"data":{"offset":11,"leaderEpoch":0,"metadata":"","commitTimestamp":5}}}'
    )
    assert show(Message(k=key, v=None)).endswith(b'"value":null}')
    assert show(Message(k=records.encode_key(records.GroupMetadataKey(group="g")), v=None)) == b""
    assert show(Message(k=b"\x00\x63new", v=b"")) == b"", "a record type of a newer Kafka"
    with pytest.raises(FormatError, match="Could not read record at offset 7"):
        show(Message(k=b"v", v=b"v"))


def test_the_letters_of_kcat_format_a_record() -> None:
    message = Message(b"k", b"val", [("a", b"1"), ("b", None)])
    assert letters(r"%t %p %o %k %K %v %s %S %h 5%%\t\\x\n")(message) == (
        b"%s %d %d k 1 val val 3 a=1,b=NULL 5%%\t\\x\n"
        % (message.topic().encode(), message.partition(), message.offset())
    )
    assert letters("%k|%K|%v|%V|%h")(Message(None, None, [])) == b"|-1||-1|"
    for wrong in ("%x", "%", "\\q"):
        with pytest.raises(UsageError, match="--format has"):
            letters(wrong)

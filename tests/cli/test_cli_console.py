"""The console tools as processes on a real broker: pipes, ends, and a broker that goes away."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import re
import signal
import subprocess
import sys
import termios
import time
from pathlib import Path
from typing import IO

import pytest
from confluent_kafka import Producer

from kcli.testing.broker_process import BrokerProcess

KCLI = [sys.executable, "-m", "kcli"]


def kcli(*words: str, stdin: bytes = b"", timeout: float = 180) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run([*KCLI, *words], input=stdin, capture_output=True, timeout=timeout)


def unread(pipe: IO[bytes]) -> int:
    """How many bytes of what was written its reader has not taken yet."""
    return int.from_bytes(fcntl.ioctl(pipe, termios.FIONREAD, bytes(4)), sys.byteorder)


def _create(broker: BrokerProcess, topic: str, partitions: int = 1) -> str:
    done = kcli("topics", "--bootstrap-server", broker.bootstrap, "--create", "--topic", topic,
                "--partitions", str(partitions))  # fmt: skip
    assert done.returncode == 0, done.stderr
    return topic


def _produce(
    broker: BrokerProcess, topic: str, text: bytes, *more: str
) -> subprocess.CompletedProcess[bytes]:
    return kcli(
        "console-producer", "--bootstrap-server", broker.bootstrap, "--topic", topic, *more, stdin=text
    )


def _consume(broker: BrokerProcess, topic: str, count: int, *more: str) -> subprocess.CompletedProcess[bytes]:
    return kcli("console-consumer", "--bootstrap-server", broker.bootstrap, "--topic", topic, "--from-beginning",
                "--max-messages", str(count), "--timeout-ms", "90000", *more)  # fmt: skip


@pytest.mark.parametrize("name", ["Apache_2k.log", "HDFS_2k.log", "OpenSSH_2k.log", "Zookeeper_2k.log"])
def test_real_logs_come_back_line_by_line(broker: BrokerProcess, real_logs: Path, name: str) -> None:
    text = (real_logs / name).read_bytes()
    lines = text.splitlines()
    topic = _create(broker, f"real-{name}")
    sent = _produce(broker, topic, text)
    assert (sent.returncode, sent.stdout, sent.stderr) == (0, b"", b"")
    read = _consume(broker, topic, len(lines))
    assert read.returncode == 0
    assert hashlib.sha256(read.stdout).digest() == hashlib.sha256(b"\n".join(lines) + b"\n").digest()
    assert read.stderr == b"Processed a total of %d messages\n" % len(lines)


def test_bytes_that_are_not_utf8_arrive_as_they_are(broker: BrokerProcess) -> None:
    topic = _create(broker, "binary")
    assert _produce(broker, topic, b"\xff\xfe\x00\x80\nplain\n").returncode == 0
    assert _consume(broker, topic, 2).stdout == b"\xff\xfe\x00\x80\nplain\n"


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_each_codec_is_written_and_read(broker: BrokerProcess, codec: str) -> None:
    topic = _create(broker, f"console-{codec}")
    text = b"".join(b"%d of %s\n" % (number, codec.encode()) for number in range(500))
    assert _produce(broker, topic, text, "--compression-codec", codec).returncode == 0
    assert _consume(broker, topic, 500).stdout == text


def test_a_record_that_is_large_after_decompression_is_read(broker: BrokerProcess) -> None:
    """Java's consumer has no limit for it. The default limit of librdkafka is 100 MB."""
    topic = _create(broker, "inflates")
    producer = Producer(
        {
            "bootstrap.servers": broker.bootstrap,
            "compression.codec": "zstd",
            "message.max.bytes": 200_000_000,
        }
    )
    producer.produce(topic, bytes(110_000_000), b"large")
    assert producer.flush(60) == 0
    read = _consume(broker, topic, 1, "--property", "print.key=true", "--property", "print.value=false")
    assert read.stdout == b"large\n"


def test_keys_headers_and_json(broker: BrokerProcess) -> None:
    topic = _create(broker, "parts")
    sent = _produce(
        broker, topic, b"a:1,b:2\tk\tv\n", "--property", "parse.key=true", "--property", "parse.headers=true"
    )
    assert sent.returncode == 0
    read = _consume(broker, topic, 1, "--property", "print.key=true", "--property", "print.headers=true")
    assert read.stdout == b"a:1,b:2\tk\tv\n"
    assert b'"headers": [["a", "1"], ["b", "2"]]' in _consume(broker, topic, 1, "--output", "json").stdout


def test_a_short_pipe_stays_in_order_on_a_topic_of_many_partitions(broker: BrokerProcess) -> None:
    topic = _create(broker, "sticky", 6)
    text = b"".join(b"%d\n" % number for number in range(200))
    assert _produce(broker, topic, text).returncode == 0
    assert _consume(broker, topic, 200).stdout == text
    long = b"".join(b"%0100d\n" % number for number in range(2000))
    assert _produce(broker, topic, long).returncode == 0
    offsets = kcli("get-offsets", "--bootstrap-server", broker.bootstrap, "--topic", topic).stdout
    assert sum(int(line.rpartition(b":")[2]) > 0 for line in offsets.splitlines()) > 3, "a long one is spread"


def test_timeout_ends_with_0(broker: BrokerProcess) -> None:
    topic = _create(broker, "silent")
    begun = time.monotonic()
    read = kcli(
        "console-consumer", "--bootstrap-server", broker.bootstrap, "--topic", topic, "--timeout-ms", "700"
    )
    assert (read.returncode, read.stdout) == (0, b"")
    assert read.stderr.endswith(b"Processed a total of 0 messages\n")
    assert time.monotonic() - begun < 60


def test_interrupt_ends_cleanly_and_counts(broker: BrokerProcess) -> None:
    topic = _create(broker, "interrupted")
    _produce(broker, topic, b"one\ntwo\n")
    process = subprocess.Popen(
        [*KCLI, "console-consumer", "--bootstrap-server", broker.bootstrap, "--topic", topic, "--from-beginning"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    assert process.stdout is not None
    assert [process.stdout.readline(), process.stdout.readline()] == [b"one\n", b"two\n"]
    process.send_signal(signal.SIGINT)
    _, words = process.communicate(timeout=120)
    assert process.returncode == 130
    assert words == b"Processed a total of 2 messages\n"


@pytest.mark.parametrize(
    "words",
    [
        (
            "producer-perf-test --bootstrap-server {server} --topic {topic} --num-records 100000"
            " --record-size 9 --throughput 500 --reporting-interval 300"
        ),
        "e2e-latency {server} {topic} 1000000 1 9",
    ],
)
def test_measurements_end_with_ctrl_c(broker: BrokerProcess, words: str) -> None:
    topic = _create(broker, f"measured-{words[:3]}")
    command = words.format(server=broker.bootstrap, topic=topic).split()
    process = subprocess.Popen([*KCLI, *command], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.readline()
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=120)
    assert process.returncode == 130
    assert b"Traceback" not in said


@pytest.mark.parametrize(("signal_number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_producer_that_is_ended_sends_what_it_read(
    broker: BrokerProcess, signal_number: signal.Signals, code: int
) -> None:
    topic = _create(broker, f"ended-{code}")
    words = [
        "console-producer",
        "--bootstrap-server",
        broker.bootstrap,
        "--topic",
        topic,
        "--timeout",
        "30000",
    ]
    producer = subprocess.Popen([*KCLI, *words], stdin=subprocess.PIPE, stderr=subprocess.PIPE)
    assert producer.stdin is not None and producer.stderr is not None
    producer.stdin.write(b"one\ntwo\n")
    producer.stdin.flush()
    while unread(producer.stdin):
        time.sleep(0.01)
    time.sleep(1)  # it has read them, and lingers
    producer.send_signal(signal_number)
    assert producer.wait(timeout=120) == code
    producer.stdin.close()
    producer.stderr.close()
    assert _consume(broker, topic, 2).stdout == b"one\ntwo\n"


def test_a_reader_that_stops_reading(broker: BrokerProcess) -> None:
    topic = _create(broker, "piped")
    _produce(broker, topic, b"".join(b"%d\n" % number for number in range(5000)))
    script = f"{' '.join(KCLI)} console-consumer --bootstrap-server {broker.bootstrap} --topic {topic} --from-beginning"
    done = subprocess.run(["sh", "-c", f"{script} | head -n 3"], capture_output=True, timeout=180)
    assert done.stdout == b"0\n1\n2\n"
    assert b"Unable to write to standard out, closing consumer." in done.stderr
    assert b"Traceback" not in done.stderr


def test_the_group_continues_after_the_last_printed_record(broker: BrokerProcess) -> None:
    topic = _create(broker, "resumed")
    _produce(broker, topic, b"".join(b"%d\n" % number for number in range(10)))
    first = _consume(broker, topic, 3, "--group", "resumers")
    second = _consume(broker, topic, 3, "--group", "resumers")
    assert (first.stdout, second.stdout) == (b"0\n1\n2\n", b"3\n4\n5\n")


def test_a_group_that_read_nothing_misses_nothing(broker: BrokerProcess) -> None:
    """Java's consumer commits where it stood in every partition when it leaves."""
    topic = _create(broker, "waited", 3)
    _produce(broker, topic, b"before\n")
    words = [
        "console-consumer",
        "--bootstrap-server",
        broker.bootstrap,
        "--topic",
        topic,
        "--group",
        "waiters",
    ]
    # Until it stood somewhere: a machine under load may need more than one go.
    for _ in range(10):
        kcli(*words, "--timeout-ms", "3000")
        told = kcli(
            "consumer-groups", "--bootstrap-server", broker.bootstrap, "--describe", "--group", "waiters"
        )
        if told.stdout.count(b"waited") == 3:
            break
    _produce(broker, topic, b"meanwhile\n")
    read = kcli(*words, "--max-messages", "1", "--timeout-ms", "90000")
    assert read.stdout == b"meanwhile\n"


def test_a_small_topic_is_read_partition_by_partition(broker: BrokerProcess) -> None:
    """In the order of Java's map of partitions: here from the last to the first."""
    topic = _create(broker, "b", 3)
    lines = b"".join(b'{"value": "%d", "partition": %d}\n' % (at, at % 3) for at in range(30))
    assert _produce(broker, topic, lines, "--input", "json", "--keep-partition").returncode == 0
    expected = b"".join(b"%d\n" % at for partition in (2, 1, 0) for at in range(partition, 30, 3))
    assert _consume(broker, topic, 30).stdout == expected
    part = _consume(broker, topic, 12, "--group", "some")
    assert part.stdout == expected[: len(part.stdout)] and part.stdout.count(b"\n") == 12
    rest = _consume(broker, topic, 18, "--group", "some")
    assert sorted((part.stdout + rest.stdout).split()) == sorted(expected.split()), "each once"


def test_properties_go_as_in_kafka(broker: BrokerProcess) -> None:
    topic = _create(broker, "properties")
    sent = _produce(broker, topic, b"one\n", "--producer-property", "schema.registry.url=http://nowhere")
    assert (sent.returncode, sent.stderr.count(b"\n")) == (0, 1), sent.stderr
    assert b"WARN The configuration schema.registry.url was supplied but is not known here" in sent.stderr
    # A property of the formatter goes before the option; an isolation level is taken from either.
    read = _consume(
        broker,
        topic,
        1,
        *("--value-deserializer", "org.apache.kafka.common.serialization.LongDeserializer"),
        *("--property", "value.deserializer=org.apache.kafka.common.serialization.StringDeserializer"),
        *("--consumer-property", "isolation.level=read_committed", "--property", "print.key"),
    )
    assert (read.returncode, read.stdout) == (0, b"one\n")
    wrong = _consume(broker, topic, 1, "--isolation-level", "half")
    assert wrong.returncode == 1
    assert b"Invalid value half for configuration isolation.level: String must be one of" in wrong.stderr
    none = _consume(broker, topic, 1, "--consumer-property", "auto.offset.reset=latest")
    assert (none.returncode, none.stderr.count(b"please remove one option")) == (1, 1)


def test_streams_that_are_closed(broker: BrokerProcess) -> None:
    topic = _create(broker, "closed")
    words = f"{' '.join(KCLI)} {{}} --bootstrap-server {broker.bootstrap} --topic {topic}"
    script = f"{words.format('console-producer')} <&- && {words.format('topics')} --describe >&-"
    done = subprocess.run(["sh", "-c", script], capture_output=True, timeout=180)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def test_bad_lines_name_the_line(broker: BrokerProcess) -> None:
    topic = _create(broker, "badlines")
    sent = _produce(
        broker, topic, b"k:v\nnokey\n", "--property", "parse.key=true", "--property", "key.separator=:"
    )
    assert sent.returncode == 1
    assert b"KafkaException: No key separator found on line number 2: 'nokey'" in sent.stderr
    assert _consume(broker, topic, 1).stdout == b"v\n", "what came before the bad line was sent"


def test_a_broker_that_goes_away_is_reported_with_a_count(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path) as broker:
        _create(broker, "gone")
        process = subprocess.Popen(
            [*KCLI, "console-producer", "--bootstrap-server", broker.bootstrap, "--topic", "gone",
             "--producer-property", "delivery.timeout.ms=3000", "--timeout", "0"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        assert process.stdin is not None
        process.stdin.write(b"arrives\n")
        process.stdin.flush()
        _consume(broker, "gone", 1)
        broker.kill()
        process.stdin.write(b"lost 1\nlost 2\n")
        _, words = process.communicate(timeout=120)
        assert process.returncode == 1
        assert b"2 of 3 lines were not acknowledged. They may be in topic gone." in words


def test_usage_errors_exit_1_with_the_table(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KCLI_SCRIPT", "kafka-console-producer.sh")
    done = kcli("console-producer", "--bootstrap-server", "localhost:1")
    assert done.returncode == 1
    assert done.stderr.startswith(b'Missing required argument "[topic]"\n')
    assert b"--compression-codec" in done.stderr
    bad = kcli("console-producer", "--topic", "t", "--bootstrap-server", "localhost")
    assert bad.stderr.startswith(b"Please provide valid host:port like host1:9091,host2:9092\n")
    typo = kcli("console-consumer", "--topik", "t", "--bootstrap-server", "localhost:1")
    assert b"topik is not a recognized option\nDid you mean --topic?" in typo.stderr
    assert os.linesep.encode() in typo.stderr


def test_a_record_that_is_too_large_does_not_stop_the_others(broker: BrokerProcess) -> None:
    topic = _create(broker, "too-large")
    sent = _produce(broker, topic, b"one\n" + b"x" * 2_000_000 + b"\ntwo\n")
    assert sent.returncode == 1
    assert (
        sent.stderr.splitlines()[-1] == f"1 of 3 lines were refused, and are not in topic {topic}.".encode()
    )
    assert b"with key: null, value: 2000000 bytes with error" in sent.stderr
    assert re.match(rb"\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3}\] ERROR Error when sending", sent.stderr)
    assert b"RecordTooLargeException" in sent.stderr and b"Traceback" not in sent.stderr
    assert _consume(broker, topic, 2).stdout == b"one\ntwo\n"


def test_envelopes_go_from_one_topic_to_another_without_loss(broker: BrokerProcess) -> None:
    source, target = _create(broker, "envelopes", 3), _create(broker, "envelopes-copied", 3)
    lines = [
        {"key": None, "value": None, "partition": 2},
        {"key": "", "value": "", "partition": 0},
        {"key": {"base64": "//4="}, "value": {"base64": "gIE="}, "partition": 2, "timestamp": 1_700_000_000_000,
         "headers": [["h", "1"], ["h", None], ["h", ""], ["x", {"base64": "/w=="}]]},
        {"key": "k", "value": "ü\n\t\\N", "partition": 1, "timestamp": 1_700_000_000_001},
    ]  # fmt: skip
    text = b"".join(json.dumps(line).encode() + b"\n" for line in lines)
    words = ("--input", "json", "--keep-partition")
    assert _produce(broker, source, text, *words).returncode == 0
    read = _consume(broker, source, 4, "--output", "json").stdout
    assert _produce(broker, target, read, *words).returncode == 0
    again = _consume(broker, target, 4, "--output", "json").stdout

    def by_place(text: bytes) -> list[str]:
        records = [json.loads(line) for line in text.splitlines()]
        return sorted(json.dumps({**record, "topic": ""}) for record in records)

    assert by_place(again) == by_place(read)
    for line in lines:
        envelopes = [json.loads(envelope_text) for envelope_text in read.splitlines()]
        assert any(envelope | line == envelope for envelope in envelopes), line
    rows = _consume(broker, source, 4, "--output", "tsv").stdout.splitlines()
    assert [row.split(b"\t")[-2:] for row in rows if row.split(b"\t")[1] == b"0"] == [[b"", b""]]
    assert [b"\\N", b"\\N"] in [row.split(b"\t")[-2:] for row in rows]


def test_where_reading_starts_and_what_is_filtered(broker: BrokerProcess) -> None:
    topic = _create(broker, "positions", 2)
    records = [
        {
            "key": f"k{number % 3}",
            "value": str(number),
            "partition": number % 2,
            "timestamp": 1_700_000_000_000 + number,
        }
        for number in range(20)
    ]
    text = b"".join(json.dumps(record).encode() + b"\n" for record in records)
    assert _produce(broker, topic, text, "--input", "json", "--keep-partition").returncode == 0

    def read(*words: str, end: tuple[str, ...] = ("--timeout-ms", "1500")) -> tuple[list[int], bytes]:
        done = kcli(
            "console-consumer", "--bootstrap-server", broker.bootstrap, "--topic", topic, *words, *end
        )
        assert done.returncode == 0
        return sorted(map(int, done.stdout.split())), done.stderr

    assert read("--last", "3")[0] == [14, 15, 16, 17, 18, 19]
    assert read("--last", "1", "--partition", "1")[0] == [19]
    assert read("--from-time", "1700000000016")[0] == [16, 17, 18, 19]
    assert read("--from-time", "2100-01-01")[0] == []
    out, said = read("--last", "100", "--filter", "key=k1", "--filter", "value~^1")
    assert out == [1, 10, 13, 16, 19]
    assert said.endswith(b"Processed a total of 5 messages\n5 of 20 records passed the filter\n")
    enough = ("--max-messages", "2", "--timeout-ms", "20000")
    assert read("--from-time", "0", "--partition", "0", "--filter", "key!=k0", end=enough)[0] == [2, 4]


def test_last_counts_records_not_offsets(broker: BrokerProcess) -> None:
    topic = _create(broker, "last-of-transactions")
    producer = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": topic})
    producer.init_transactions()
    for number in range(12):
        producer.begin_transaction()
        producer.produce(topic, b"%d" % number)
        if number % 3 == 2:
            producer.flush()
            producer.abort_transaction()
        else:
            producer.commit_transaction()
    words = ("console-consumer", "--bootstrap-server", broker.bootstrap, "--topic", topic)
    for count, more, expected in (
        ("1", ("--max-messages", "1"), b"11\n"),
        ("4", ("--max-messages", "4"), b"8\n9\n10\n11\n"),
        ("4", ("--max-messages", "4", "--isolation-level", "read_committed"), b"6\n7\n9\n10\n"),
        ("99", ("--max-messages", "12"), b"".join(b"%d\n" % number for number in range(12))),
    ):
        assert kcli(*words, "--last", count, *more).stdout == expected


def test_a_group_stands_after_the_marker_of_a_transaction(broker: BrokerProcess) -> None:
    topic = _create(broker, "group-after-marker")
    producer = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": topic})
    producer.init_transactions()
    producer.begin_transaction()
    producer.produce(topic, b"one")
    producer.commit_transaction()
    end = ("--bootstrap-server", broker.bootstrap)
    read = kcli("console-consumer", *end, "--topic", topic, "--group", topic, "--from-beginning",
                "--timeout-ms", "8000")  # fmt: skip
    assert read.stdout == b"one\n"
    described = kcli("consumer-groups", *end, "--describe", "--group", topic, "--output", "json")
    row = json.loads(described.stdout)
    assert (row["current_offset"], row["log_end_offset"], row["lag"]) == (2, 2, 0)


def test_internal_topics_are_read_by_name_only(broker: BrokerProcess) -> None:
    topic = _create(broker, "before-internal")
    _produce(broker, topic, b"one\n")
    _consume(broker, topic, 1, "--group", "of-internal")
    named = _consume(broker, "__consumer_offsets", 1)
    assert named.stderr == b"Processed a total of 1 messages\n"
    hidden = kcli("console-consumer", "--bootstrap-server", broker.bootstrap, "--include", "__consumer.*",
                  "--from-beginning", "--timeout-ms", "1500")  # fmt: skip
    assert hidden.stdout == b""


def test_lines_are_sent_in_transactions(broker: BrokerProcess) -> None:
    topic = _create(broker, "console-tx")

    def sent(*words: str, stdin: bytes) -> subprocess.CompletedProcess[bytes]:
        return _produce(broker, topic, stdin, "--transactional-id", "console-tx", *words)

    assert sent(stdin=b"one\ntwo\n").returncode == 0
    # The second line is wrong: the first one goes with it.
    keyed = ("--property", "parse.key=true", "--property", "key.separator=:")
    failed = sent(*keyed, stdin=b"k:never\nno key\n")
    assert failed.returncode == 1
    assert b"No key separator found on line number 2" in failed.stderr
    assert b"1 of 1 lines were not committed" in failed.stderr
    failed = sent(stdin=b"neither\n" + b"x" * 2_000_000 + b"\nnor\n")
    assert (failed.returncode, b"RecordTooLargeException" in failed.stderr) == (1, True)
    assert sent("--input", "json", stdin=b'{"value": "three"}\n').returncode == 0
    assert sent("--sync", "--transaction-duration-ms", "1", stdin=b"four\nfive\n").returncode == 0
    read = _consume(broker, topic, 5, "--isolation-level", "read_committed", "--partition", "0")
    assert read.stdout == b"one\ntwo\nthree\nfour\nfive\n"


def test_a_transaction_ends_in_time_without_input(broker: BrokerProcess) -> None:
    topic = _create(broker, "console-tx-idle")
    words = ["--bootstrap-server", broker.bootstrap, "--topic", topic, "--transaction-duration-ms", "300"]
    process = subprocess.Popen([*KCLI, "console-producer", *words], stdin=subprocess.PIPE)
    assert process.stdin is not None
    try:
        process.stdin.write(b"typed\n")
        process.stdin.flush()
        read = _consume(broker, topic, 1, "--isolation-level", "read_committed", "--partition", "0")
        assert read.stdout == b"typed\n"
        assert process.poll() is None
        process.stdin.write(b"and interrupted\n")
        process.stdin.flush()
        time.sleep(0.2)
        process.send_signal(signal.SIGTERM)
        assert process.wait(120) == 143
    finally:
        process.kill()
        process.stdin.close()
    read = _consume(broker, topic, 2, "--isolation-level", "read_committed", "--partition", "0")
    assert read.stdout == b"typed\nand interrupted\n"


def test_transactions_of_a_length_that_the_broker_would_abort_are_refused() -> None:
    for duration, why in (("0", b"greater than zero"), ("60000", b"is not less than transaction.timeout.ms")):
        words = ("--bootstrap-server", "localhost:1", "--topic", "t", "--transaction-duration-ms", duration)
        refused = kcli("console-producer", *words)
        assert (refused.returncode, why in refused.stderr) == (1, True)


def test_a_partition_that_a_topic_does_not_have_is_an_error_at_once(broker: BrokerProcess) -> None:
    kcli("console-producer", "--bootstrap-server", broker.bootstrap, "--topic", "one", stdin=b"a\n")
    done = kcli(
        "console-consumer", "--bootstrap-server", broker.bootstrap, "--topic", "one", "--partition", "5"
    )
    assert done.returncode == 1
    assert "Partition one-5 does not exist: topic one has 1 partition, number 0" in done.stderr.decode()


def test_a_consumer_ends_at_the_end_of_all_partitions(broker: BrokerProcess) -> None:
    topic = _create(broker, "ends-of-all")
    kcli("console-producer", "--bootstrap-server", broker.bootstrap, "--topic", topic, stdin=b"a\nb\n")
    words = ("--bootstrap-server", broker.bootstrap, "--topic", topic, "--from-beginning", "--exit-at-end")
    done = kcli("console-consumer", *words, "--format", "%t %v\\n")
    assert (done.returncode, done.stdout) == (0, f"{topic} a\n{topic} b\n".encode() * 1), done.stderr


def test_a_producer_reports_each_new_topic_and_no_other(broker: BrokerProcess) -> None:
    """librdkafka's own requests create the topic, and their answers often have it already."""
    words = ("console-producer", "--bootstrap-server", broker.bootstrap, "--topic")
    for name in ("misspelt-1", "misspelt-2", "misspelt-3"):
        said = kcli(*words, name, stdin=b"a\n").stderr.decode()
        assert said.count(f"{{{name}=UNKNOWN_TOPIC_OR_PARTITION}}") == 1
    assert "recoverable" not in kcli(*words, "misspelt-1", stdin=b"a\n").stderr.decode()

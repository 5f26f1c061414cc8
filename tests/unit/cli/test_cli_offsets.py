"""`kcli get-offsets` and `kcli delete-records`, from words to bytes, against a scripted cluster."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kcli.cli.script_form import SCRIPT_VARIABLE
from kcli.protocol.wire.api import ApiKey
from rigs.scripted_cluster import Done, Kcli, ScriptedCluster


def test_get_offsets_prints_one_partition_a_line(kcli: Kcli) -> None:
    assert kcli("get-offsets") == Done(0, "t:0:10\nt:1:11\nu:0:10\n", "")
    assert kcli("get-offsets", "--topic", "t", "--partitions", "1").out == "t:1:11\n"
    assert kcli("get-offsets", "--topic-partitions", "t:1-,:0-1").out == "t:0:10\nt:1:11\nu:0:10\n"
    assert kcli("get-offsets", "--topic-partitions", "t:0").out == "t:0:10\n"
    assert kcli("get-offsets", "--time", "99") == Done(0, "", "")
    assert json.loads(kcli("get-offsets", "--topic", "u", "--output", "json").out) == {
        "topic": "u",
        "partition": 0,
        "offset": 10,
    }


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--topic", "nope"), "Could not match any topic-partitions with the specified filters"),
        (
            ("--topic", "t", "--topic-partitions", "u"),
            "--topic-partitions cannot be used with --topic or --partitions",
        ),
        (
            ("--partitions", "x"),
            "--partitions expects a comma separated list of numeric partition ids, but received: x",
        ),
        *(
            (
                ("--partitions", text),
                f"--partitions expects a comma separated list of numeric partition ids, but received: {text}",
            )
            for text in ("0_1", " 0", "0\u00a0", "2147483648")
        ),
        *(
            (
                ("--time", text),
                (
                    f"Malformed time argument {text}. Please use -1 or latest / -2 or earliest / -3 or max-timestamp "
                    "/ -4 or earliest-local / -5 or latest-tiered, or a specified long format timestamp"
                ),
            )
            for text in ("1_0", " 1", "9223372036854775808")
        ),
        (("--topic-partitions", "t:99999999999"), 'For input string: "99999999999"'),
        (
            ("--time", "bogus"),
            (
                "Malformed time argument bogus. Please use -1 or latest / -2 or earliest / -3 or max-timestamp / "
                "-4 or earliest-local / -5 or latest-tiered, or a specified long format timestamp"
            ),
        ),
        (
            ("--topic-partitions", "t:x"),
            "org.apache.kafka.tools.TerseException: Invalid rule specification: t:x",
        ),
    ],
)
def test_get_offsets_fails_in_kafkas_words(kcli: Kcli, words: tuple[str, ...], message: str) -> None:
    assert kcli("get-offsets", *words) == Done(1, "", f"Error occurred: {message}\n")


def test_delete_records_prints_the_result_of_each_partition(
    kcli: Kcli, cluster: ScriptedCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "d.json"
    file.write_text('{"partitions": [{"topic": "t", "partition": 0, "offset": 3}, '
                    '{"topic": "u", "partition": 0, "offset": 99}], "version": 1}')  # fmt: skip
    would = kcli("delete-records", "--offset-json-file", str(file), "--dry-run")
    assert would.out.splitlines()[0] == "partition: t-0\twould delete records before offset: 3"
    assert not cluster.server.sent(ApiKey.DELETE_RECORDS)
    assert kcli("delete-records", "--offset-json-file", str(file)) == Done(
        1,
        "Executing records delete operation\n"
        "Records delete operation completed:\n"
        "partition: t-0\tlow_watermark: 3\n"
        "partition: u-0\terror: org.apache.kafka.common.errors.OffsetOutOfRangeException: The requested offset is "
        "not within the range of offsets maintained by the server.\n",
        "",
    )
    monkeypatch.setenv(SCRIPT_VARIABLE, "kafka-delete-records.sh")
    assert kcli("delete-records", "--offset-json-file", str(file)).code == 0, "as in Kafka"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("not json", "The input string is not a valid JSON"),
        ('{"version": 7, "partitions": []}', "Not supported version field value 7"),
        ('{"version": 1.0, "partitions": []}', "Not supported version field value 1.0"),
        ('{"version": "1", "partitions": []}', 'Not supported version field value "1"'),
        ('{"version": true, "partitions": []}', "Not supported version field value true"),
        ('{"version": 1}', "Missing partitions field"),
        ('{"Partitions": []}', "Missing partitions field"),
        ('{"partitions": NaN}', "The input string is not a valid JSON"),
        ('\ufeff{"partitions": []}', "The input string is not a valid JSON"),
        ("[" * 100_000, "The input string is not a valid JSON"),
        (
            '{"partitions": [{"topic": "a", "partition": 0, "offset": 9223372036854775808}]}',
            (
                'The field offset of {"topic": "a", "partition": 0, "offset": 9223372036854775808} '
                "must be of type long"
            ),
        ),
        (
            (
                '{"partitions": [{"topic": "a", "partition": 0, "offset": 1},'
                ' {"topic": "a", "partition": 0, "offset": 2}]}'
            ),
            "Offset json file contains duplicate topic partitions: a-0",
        ),
    ],
)
def test_delete_records_refuses_an_invalid_file(kcli: Kcli, tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "d.json"
    file.write_text(text)
    assert kcli("delete-records", "--offset-json-file", str(file)) == Done(1, "", message + "\n")

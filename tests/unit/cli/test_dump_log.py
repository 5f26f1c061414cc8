"""dump-log on small files made here; the golden tests hold it against Kafka's own output."""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from crc32c import crc32c

from kcli.cli.running import run_command
from kcli.cli.tools.dump_log.batches import READ_BYTES, batches
from kcli.cli.tools.dump_log.command import command
from kcli.protocol.batches.batch import Record, encode_batch
from kcli.protocol.batches.compression import Codec
from kcli.protocol.batches.control import EndTransactionMarker, encode_marker_batch
from kcli.protocol.records import consumer_offsets as offsets
from kcli.protocol.records.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    encode_assignment,
    encode_subscription,
)
from kcli.protocol.records.metadata import FeatureLevelRecord, encode_metadata_record
from rigs.hostile_batches import large_values

LOG = "00000000000000000000.log"
FIRST = encode_batch(
    [
        Record(timestamp_ms=10, key=b"k", value=b"v", headers=(("a", b""), ("b", None))),
        Record(timestamp_ms=11),
    ],
    producer_id=1,
    producer_epoch=0,
    base_sequence=5,
    leader_epoch=2,
)
SECOND = encode_batch([Record(timestamp_ms=12, value=b"\xff")], base_offset=2, codec=Codec.LZ4)


class Result:
    def __init__(self, code: int, out: str, err: str) -> None:
        self.code = code
        self.out = out
        self.lines = out.splitlines()
        self.err = err


@pytest.fixture
def dump(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Callable[..., Any]:
    monkeypatch.chdir(tmp_path)

    def call(*argv: str, **files: bytes) -> Result:
        code = run_command(command, list(argv))
        printed = capsys.readouterr()
        return Result(code, printed.out, printed.err)

    return call


def write(tmp_path: Path, content: bytes, name: str = LOG) -> str:
    (tmp_path / name).write_bytes(content)
    return name


def test_batches_are_printed_without_their_records(dump: Callable[..., Any], tmp_path: Path) -> None:
    crc = int.from_bytes(FIRST[17:21], "big")
    result = dump("--files", write(tmp_path, FIRST + SECOND))
    assert result.lines[:3] == [
        f"Dumping {LOG}",
        "Log starting offset: 0",
        (
            "baseOffset: 0 lastOffset: 1 count: 2 baseSequence: 5 lastSequence: 6 producerId: 1 producerEpoch: 0 "
            "partitionLeaderEpoch: 2 isTransactional: false isControl: false deleteHorizonMs: OptionalLong.empty "
            f"position: 0 CreateTime: 11 size: {len(FIRST)} magic: 2 compresscodec: none crc: {crc} isvalid: true"
        ),
    ]
    assert result.lines[3].startswith("baseOffset: 2 ")
    assert "compresscodec: lz4" in result.lines[3]
    assert (result.code, result.err, len(result.lines)) == (0, "", 4)


def test_records_and_their_contents(dump: Callable[..., Any], tmp_path: Path) -> None:
    name = write(tmp_path, FIRST + SECOND)
    deep = dump("--files", name, "--deep-iteration")
    assert deep.lines[3] == "| offset: 0 CreateTime: 10 keySize: 1 valueSize: 1 sequence: 5 headerKeys: [a,b]"
    assert deep.lines[4] == "| offset: 1 CreateTime: 11 keySize: -1 valueSize: -1 sequence: 6 headerKeys: []"
    printed = dump("--files", name, "--print-data-log")
    assert printed.lines[3] == deep.lines[3] + " key: k payload: v"
    assert printed.lines[4] == deep.lines[4]
    assert printed.lines[6].endswith("sequence: -1 headerKeys: [] payload: �")
    bare = dump("--files", name, "--print-data-log", "--skip-record-metadata")
    assert [bare.lines[index] for index in (3, 4, 6)] == ["| key: k payload: v", "", " payload: �"]


def test_tail_and_limit(dump: Callable[..., Any], tmp_path: Path) -> None:
    name = write(tmp_path, FIRST + SECOND[:-1])
    tail = len(SECOND) - 1
    assert dump("--files", name).lines[-1] == f"Found {tail} invalid bytes at the end of {LOG}"
    assert len(dump("--files", name, "--max-bytes", str(len(FIRST) + 3)).lines) == 3
    assert len(dump("--files", name, "--max-bytes", "20").lines) == 2


def test_a_broken_checksum_is_shown_and_a_broken_size_ends_the_tool(
    dump: Callable[..., Any], tmp_path: Path
) -> None:
    damaged = bytearray(FIRST)
    damaged[-1] ^= 1
    assert dump("--files", write(tmp_path, bytes(damaged))).lines[2].endswith("isvalid: false")
    result = dump("--files", write(tmp_path, FIRST + bytes(100)))
    assert result.code == 1
    assert result.err == (
        'Exception in thread "main" org.apache.kafka.common.errors.CorruptRecordException: '
        f"Found record size 0 smaller than minimum record overhead (14) in file {tmp_path / LOG}.\n"
    )


def test_records_that_do_not_add_up_end_the_tool(dump: Callable[..., Any], tmp_path: Path) -> None:
    miscounted = bytearray(FIRST)
    miscounted[60] = 1
    name = write(tmp_path, bytes(miscounted))
    result = dump("--files", name, "--deep-iteration")
    assert (result.code, len(result.lines)) == (1, 4)
    assert result.err.startswith(
        'Exception in thread "main" org.apache.kafka.common.InvalidRecordException: Incorrect declared batch size'
    )


def test_gaps_are_listed_newest_first(dump: Callable[..., Any], tmp_path: Path) -> None:
    records = [Record(offset=offset, timestamp_ms=1) for offset in (3, 4, 7, 9)]
    name = write(tmp_path, encode_batch(records, base_offset=3))
    result = dump("--files", name, "--deep-iteration")
    assert result.code == 0
    assert result.err.splitlines() == [
        f"Non-consecutive offsets in {tmp_path / LOG}",
        "  7 is followed by 9",
        "  4 is followed by 7",
    ]
    assert dump("--files", name).err == ""


def test_markers_have_no_contents(dump: Callable[..., Any], tmp_path: Path) -> None:
    marker = EndTransactionMarker(committed=False, coordinator_epoch=4)
    name = write(tmp_path, encode_marker_batch(marker, producer_id=1, producer_epoch=0, timestamp_ms=7))
    line = "| offset: 0 CreateTime: 7 keySize: 4 valueSize: 6 sequence: -1 headerKeys: []"
    shown = f"{line} endTxnMarker: ABORT coordinatorEpoch: 4"
    assert dump("--files", name, "--print-data-log").lines[3] == shown
    assert dump("--files", name, "--offsets-decoder", "--skip-record-metadata").lines[3] == ""


def test_messages_of_old_formats_are_printed(dump: Callable[..., Any], tmp_path: Path) -> None:
    body = b"\x01\x00" + struct.pack(">qi", 55, -1) + struct.pack(">i", 1) + b"v"
    crc = zlib.crc32(body)
    name = write(tmp_path, struct.pack(">qiI", 8, len(body) + 4, crc) + body)
    result = dump("--files", name, "--print-data-log")
    size = len(body) + 16
    assert result.lines[2:] == [
        f"offset: 8 position: 0 CreateTime: 55 size: {size} magic: 1 compresscodec: none crc: {crc} isvalid: true",
        f"| offset: 8 CreateTime: 55 keySize: -1 valueSize: 1 isValid: true crc: {crc} payload: v",
    ]


def test_decoders_by_class(dump: Callable[..., Any], tmp_path: Path) -> None:
    record = Record(timestamp_ms=1, key=struct.pack(">i", -5), value=struct.pack(">q", 1 << 40))
    name = write(tmp_path, encode_batch([record]))
    package = "org.apache.kafka.tools.api."
    both = (
        "--key-decoder-class",
        package + "IntegerDecoder",
        "--value-decoder-class",
        package + "LongDecoder",
    )
    assert dump("--files", name, *both).lines[3].endswith(f" key: -5 payload: {1 << 40}")
    plain = dump("--files", name, "--key-decoder-class", package + "DefaultDecoder", "--value-decoder-class")
    assert " key: fffffffb payload: " in plain.lines[3]
    short = dump("--files", name, "--key-decoder-class", package + "LongDecoder")
    assert (short.code, short.err) == (1, 'Exception in thread "main" java.nio.BufferUnderflowException\n')
    unknown = dump("--files", name, "--value-decoder-class", "no.such.Decoder")
    assert unknown.lines == [f"Dumping {LOG}"]
    assert unknown.err == 'Exception in thread "main" java.lang.ClassNotFoundException: no.such.Decoder\n'


def test_the_offsets_decoder_prints_keys_values_and_errors(dump: Callable[..., Any], tmp_path: Path) -> None:
    member = offsets.MemberMetadata(
        member_id="m",
        subscription=encode_subscription(ConsumerProtocolSubscription(topics=("t",))),
        assignment=encode_assignment(ConsumerProtocolAssignment()),
    )
    group = offsets.GroupMetadataValue(protocol_type="consumer", members=(member,))
    key = offsets.encode_key(offsets.GroupMetadataKey(group="g"))
    records = [
        Record(timestamp_ms=1, key=key, value=offsets.encode_value(group)),
        Record(timestamp_ms=1, key=key),
        Record(timestamp_ms=1, key=b"\x00\x63", value=b""),
        Record(timestamp_ms=1, key=key, value=b"\x00\x63"),
    ]
    lines = dump(
        "--files", write(tmp_path, encode_batch(records)), "--offsets-decoder", "--skip-record-metadata"
    ).lines
    shown, payload = lines[3].split(" payload: ")
    assert shown == '| key: {"type":"2","data":{"group":"g"}}'
    member_json = json.loads(payload)["data"]["members"][0]
    assert json.loads(payload)["version"] == "3"
    assert member_json["subscription"]["topics"] == ["t"]
    assert member_json["assignment"] == {"assignedPartitions": [], "userData": None}
    assert lines[4] == '| key: {"type":"2","data":{"group":"g"}} payload: <DELETE>'
    assert lines[5] == "| key: Unknown record type 99 at offset 2, skipping."
    assert lines[6].startswith("| key: Error at offset 3, skipping. Version 99")
    keyless = dump("--files", write(tmp_path, encode_batch([Record(timestamp_ms=1)])), "--offsets-decoder")
    assert keyless.code == 1
    assert "(message had a missing key)" in keyless.err


def test_the_metadata_decoder_prints_records_of_a_snapshot(dump: Callable[..., Any], tmp_path: Path) -> None:
    value = encode_metadata_record(FeatureLevelRecord(name="f", feature_level=1), 0)
    name = write(tmp_path, encode_batch([Record(timestamp_ms=1, value=value)]), "bootstrap.checkpoint")
    lines = dump("--files", name, "--cluster-metadata-decoder", "--skip-record-metadata").lines
    assert lines[1] == "KRaft bootstrap snapshot"
    assert lines[3] == (
        ' payload: {"type":"FEATURE_LEVEL_RECORD","version":0,"data":{"name":"f","featureLevel":1}}'
    )
    remote = dump("--files", name, "--remote-log-metadata-decoder", "--skip-record-metadata").lines
    assert remote[3] == " payload: Error at offset 0, skipping. Unknown metadata id 12"
    name = write(tmp_path, b"", "00000000000000000009-0000000002.checkpoint")
    assert dump("--files", name).lines[1] == "Snapshot end offset: 9, epoch: 2"


def test_an_offset_index_is_printed_and_compared_with_the_log(
    dump: Callable[..., Any], tmp_path: Path
) -> None:
    write(tmp_path, FIRST + SECOND)
    entries = struct.pack(">iiii", 1, 0, 2, len(FIRST))
    name = write(tmp_path, entries + bytes(16), "00000000000000000000.index")
    result = dump("--files", name)
    assert result.lines[1:] == ["offset: 1 position: 0", f"offset: 2 position: {len(FIRST)}"]
    assert result.err == ""
    assert dump("--files", name, "--index-sanity-check").lines[1] == f"{name} passed sanity check."
    wrong = write(tmp_path, struct.pack(">iiii", 0, 0, 3, len(FIRST)), name)
    result = dump("--files", wrong, "--verify-index-only")
    assert len(result.lines) == 1
    assert result.err.splitlines() == [
        f"Mismatches in :{tmp_path / name}",
        "  Index offset: 3, log offset: 2",
        "  Index offset: 0, log offset: 1",
    ]
    assert dump("--files", write(tmp_path, b"", name)).lines[1] == f"{name} is empty."
    torn = dump("--files", write(tmp_path, entries[:-1], name), "--index-sanity-check")
    assert "found 15 bytes which is neither positive nor a multiple of 8" in torn.err
    below = dump("--files", write(tmp_path, struct.pack(">ii", -1, 0), name), "--index-sanity-check")
    assert "CorruptIndexException" in below.err and below.code == 1
    for position, words in (
        (-9, "Invalid position: -9 in read"),
        (999, "Slice from position 999 exceeds end"),
    ):
        wild = dump("--files", write(tmp_path, struct.pack(">ii", 1, position), name))
        assert f"IllegalArgumentException: {words}" in wild.err and wild.code == 1
    (tmp_path / "00000000000000000000.log").unlink()
    assert "NoSuchFileException" in dump("--files", name, "--index-sanity-check").err


def test_a_time_index_is_printed_and_compared_with_the_log(dump: Callable[..., Any], tmp_path: Path) -> None:
    write(tmp_path, FIRST + SECOND)
    write(tmp_path, struct.pack(">ii", 2, len(FIRST)), "00000000000000000000.index")
    name = write(tmp_path, struct.pack(">qiqi", 11, 1, 12, 2) + bytes(12), "00000000000000000000.timeindex")
    result = dump("--files", name)
    assert result.lines[1:] == ["timestamp: 11 offset: 1", "timestamp: 12 offset: 2"]
    assert result.err == ""
    faulty = struct.pack(">qiqiqiqi", 11, 1, 11, 2, 12, 0, 13, 9)
    result = dump("--files", write(tmp_path, faulty[:24] + faulty[36:], name), "--verify-index-only")
    assert result.err.splitlines() == [
        f"Found timestamp mismatch in :{tmp_path / name}",
        "  Index timestamp: 11, log timestamp: 12",
        f"Found out of order timestamp in :{tmp_path / name}",
        "  Index timestamp: 11, Previously indexed timestamp: 11",
        f"The following indexed offsets are not found in :{tmp_path / name}",
        "Indexed offset: 9, found log offset: -1",
    ]
    assert dump("--files", name, "--index-sanity-check").out.endswith("passed sanity check.\n")
    falling = struct.pack(">qiqi", 12, 1, 11, 2)
    assert (
        "last timestamp is 11" in dump("--files", write(tmp_path, falling, name), "--index-sanity-check").err
    )


def test_a_transaction_index_is_printed_if_its_version_is_known(
    dump: Callable[..., Any], tmp_path: Path
) -> None:
    name = write(tmp_path, struct.pack(">hqqqq", 0, 5, 1, 9, 10), "00000000000000000000.txnindex")
    assert dump("--files", name).lines[1:] == [
        "version: 0 producerId: 5 firstOffset: 1 lastOffset: 9 lastStableOffset: 10"
    ]
    newer = dump("--files", write(tmp_path, struct.pack(">hqqqq", 1, 5, 1, 9, 10), name))
    assert newer.code == 1 and "Unexpected aborted transaction version 1" in newer.err


def snapshot(entries: bytes, count: int, version: int = 1) -> bytes:
    checked = struct.pack(">i", count) + entries
    return struct.pack(">hI", version, crc32c(checked)) + checked


def test_a_producer_snapshot_is_printed_if_it_is_whole(dump: Callable[..., Any], tmp_path: Path) -> None:
    form = ">qhiqiqiq"
    entries = struct.pack(form, 9, 1, 0, 40, 2, 99, 3, 30) + struct.pack(form, 8, 0, -1, -1, 0, 7, -1, -1)
    name = write(tmp_path, snapshot(entries, 2), "00000000000000000041.snapshot")
    assert dump("--files", name).out.split("\n")[1:3] == [
        (
            "producerId: 9 producerEpoch: 1 coordinatorEpoch: 3 currentTxnFirstOffset: OptionalLong[30] "
            "lastTimestamp: 99 firstSequence: 2147483646 lastSequence: 0 lastOffset: 40 offsetDelta: 2 timestamp: 99"
        ),
        (
            "producerId: 8 producerEpoch: 0 coordinatorEpoch: -1 currentTxnFirstOffset: OptionalLong.empty "
            "lastTimestamp: 7 "
        ),
    ]
    for content, why in (
        (snapshot(entries, 2, version=2), "unknown file version 2"),
        (snapshot(entries, 2)[:-1] + b"\x00", "CRC is no longer valid"),
        (snapshot(entries, 3), "do not hold 3 entries"),
        (b"\x00", "cannot hold"),
    ):
        result = dump("--files", write(tmp_path, content, name))
        assert result.code == 0
        assert why in result.err


def test_rows_of_json_have_the_fields_of_a_batch(dump: Callable[..., Any], tmp_path: Path) -> None:
    name = write(tmp_path, FIRST)
    rows = [json.loads(line) for line in dump("--files", name, "--print-data-log", "--output", "json").lines]
    assert [row.get("payload") for row in rows] == [None, "v", None]
    assert rows[0]["is_valid"] is True
    assert rows[1]["header_keys"] == ["a", "b"]
    table = dump("--files", name, "--output", "tsv").lines
    assert table[0].startswith("file\tbase_offset\t") and len(table) == 2
    index = write(tmp_path, struct.pack(">ii", 1, 0), LOG.replace(".log", ".index"))
    checked = dump("--files", index, "--index-sanity-check", "--output", "json")
    assert json.loads(checked.out) == {"file": index, "is_sane": True}


@pytest.mark.usefixtures("kafkas_script")
def test_wrong_names_and_words(dump: Callable[..., Any], tmp_path: Path) -> None:
    missing = dump("--files", LOG)
    assert (missing.lines, missing.code) == ([f"Dumping {LOG}", "Log starting offset: 0"], 1)
    assert missing.err == f'Exception in thread "main" java.nio.file.NoSuchFileException: {LOG}\n'
    assert dump("--files", write(tmp_path, b"", "a.txt")).err == "Ignoring unknown file a.txt\n"
    assert (
        'NumberFormatException: For input string: "a"' in dump("--files", write(tmp_path, b"", "a.log")).err
    )
    assert "StringIndexOutOfBoundsException: begin -1, end 4, length 4" in dump("--files", "name").err
    (tmp_path / "d-0").mkdir()
    told = "d-0 is a directory: --files takes the files in it"
    assert dump("--files", "d-0").err == told + "\n"
    write(tmp_path, b"", f"d-0/{LOG}")
    named = dump("--files", "d-0")
    assert (named.code, named.out, named.err) == (1, "", f"{told}, as in --files d-0/{LOG}\n")
    two = dump("--files", f"{write(tmp_path, b'')},{write(tmp_path, b'', 'b.txt')}")
    assert two.lines == [f"Dumping {LOG}", "Log starting offset: 0", "Dumping b.txt"]
    bogus = dump("--bogus")
    assert bogus.code == 1
    assert bogus.err.startswith(
        'Exception in thread "main" joptsimple.UnrecognizedOptionException: bogus is not a recognized option\n'
    )


def test_batches_are_read_in_pieces(tmp_path: Path) -> None:
    small = encode_batch([Record(timestamp_ms=1, value=b"x" * 1000)])
    large = encode_batch([Record(timestamp_ms=1, value=b"x" * (READ_BYTES + 5))])
    log = small * 1500 + large + small
    name = tmp_path / LOG
    name.write_bytes(log)
    read = list(batches(str(name)))
    assert [batch.position for batch in read[-2:]] == [1500 * len(small), 1500 * len(small) + len(large)]
    assert all(
        batch.buffer[batch.at : batch.at + batch.header.size_bytes]
        == log[batch.position : batch.position + batch.header.size_bytes]
        for batch in read
    )
    assert max(len(batch.buffer) for batch in read) == len(large)


def test_a_batch_of_two_hundred_megabytes(dump: Callable[..., Any], tmp_path: Path) -> None:
    name = write(tmp_path, large_values(200, 1_000_000, 1_000, step_ms=10))
    lines = dump("--deep-iteration", "--files", name).lines
    assert len(lines) == 2 + 1 + 200
    assert lines[-1].startswith("| offset: 199 CreateTime: 2990 keySize: 3 valueSize: 1000000 ")

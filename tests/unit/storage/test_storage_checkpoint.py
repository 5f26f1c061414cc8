"""The small text files."""

from __future__ import annotations

import uuid

import pytest

from kcli.errors import CorruptRecordError, StorageError
from kcli.model.topic_partition import TopicPartition
from kcli.model.uuids import uuid_from_text
from kcli.runtime.disk import read_file, replace_file
from kcli.storage import checkpoint
from kcli.storage.leader_epochs import LeaderEpochCache
from kcli.storage.meta_properties import (
    MetaProperties,
    encode_meta_properties,
    java_date,
    read_meta_properties,
    write_meta_properties,
)
from simulation.runtime.disk import SimDisk

SATURDAY_MS = 1_795_251_161_000


def disk_with(content: bytes, path: str = "/f") -> SimDisk:
    disk = SimDisk()
    disk.open(path, create=True).write_at(0, content)
    return disk


class TestOffsets:
    def test_offsets_are_read_back_from_a_checkpoint(self) -> None:
        disk = SimDisk()
        offsets = {TopicPartition("a.b_c-d", 0): 12, TopicPartition("t", 7): 0}
        checkpoint.write_offsets(disk, "/f", offsets)
        assert read_file(disk, "/f") == b"0\n2\na.b_c-d 0 12\nt 7 0\n"
        assert checkpoint.read_offsets(disk, "/f") == offsets
        assert [entry.name for entry in disk.list_dir("/")] == ["f"]

    def test_blanks_at_the_end_of_a_line_are_no_field(self) -> None:
        disk = SimDisk()
        replace_file(disk, "/f", b"0\n1\nt 7 12 \t\n")
        assert checkpoint.read_offsets(disk, "/f") == {TopicPartition("t", 7): 12}

    def test_it_survives_a_crash_whole(self) -> None:
        disk = SimDisk()
        checkpoint.write_offsets(disk, "/f", {TopicPartition("t", 0): 1})
        for nth in range(50):
            disk.open("/f.tmp", create=True).write_at(0, b"garbage")
            assert checkpoint.read_offsets(disk.crash_clone(nth), "/f") == {("t", 0): 1}

    @pytest.mark.parametrize("content", [b"", None])
    def test_empty_and_absent(self, content: bytes | None) -> None:
        disk = SimDisk() if content is None else disk_with(content)
        assert checkpoint.read_offsets(disk, "/f") == {}

    @pytest.mark.parametrize(
        ("content", "reason"),
        [
            (b"1\n0\n", r"/f, line 1: expected version 0, found '1'"),
            (b"0\n2\nt 0 1\n", r"line 2: expected the number of entries, which is 1, found '2'"),
            (b"0\n1\nt 0\n", r"line 3: expected 3 fields"),
            (b"0\n1\nt 0 x\n", r"line 3: expected '<topic> <partition> <offset>', found 't 0 x'"),
            (b"0\n", r"line 2"),
            (b"\xff\xfe", "not UTF-8"),
        ],
    )
    def test_an_invalid_checkpoint_names_file_and_line(self, content: bytes, reason: str) -> None:
        with pytest.raises(CorruptRecordError, match=reason):
            checkpoint.read_offsets(disk_with(content), "/f")


class TestPartitionMetadata:
    TOPIC_ID = uuid_from_text("_zNwda_kQFS9Rx1FsjrhTg")

    def test_as_kafka_writes_it(self) -> None:
        disk = SimDisk()
        replace_file(disk, "/f", checkpoint.encode_partition_metadata(self.TOPIC_ID))
        assert read_file(disk, "/f") == b"version: 0\ntopic_id: _zNwda_kQFS9Rx1FsjrhTg"
        assert checkpoint.read_partition_metadata(disk, "/f") == self.TOPIC_ID

    def test_a_missing_file_has_no_topic_id(self) -> None:
        assert checkpoint.read_partition_metadata(SimDisk(), "/f") is None

    @pytest.mark.parametrize(
        "content",
        [
            b"",
            b"version: 0\n",
            b"version: -1\ntopic_id: _zNwda_kQFS9Rx1FsjrhTg",
            b"version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAA",
            b"version: 0\ntopic_id: short",
        ],
    )
    def test_invalid_partition_metadata_is_refused(self, content: bytes) -> None:
        with pytest.raises(CorruptRecordError, match="/f"):
            checkpoint.read_partition_metadata(disk_with(content), "/f")


class TestCleanShutdown:
    def test_the_clean_shutdown_file_keeps_the_broker_epoch(self) -> None:
        disk = SimDisk()
        assert checkpoint.read_clean_shutdown(disk, "/f") is None
        checkpoint.write_clean_shutdown(disk, "/f", 541)
        assert read_file(disk, "/f") == b'{"version":0,"brokerEpoch":541}'
        assert checkpoint.read_clean_shutdown(disk, "/f") == 541

    @pytest.mark.parametrize("content", [b"", b"[]", b'{"version":1,"brokerEpoch":3}', b'{"version":0}'])
    def test_clean_though_it_says_no_more(self, content: bytes) -> None:
        assert checkpoint.read_clean_shutdown(disk_with(content), "/f") == -1


class TestMetaProperties:
    def test_as_kafka_writes_it(self) -> None:
        properties = MetaProperties("lD_6snWTRdy4CzZdZ5_Q9w", 7, uuid_from_text("DLakhdoCQZi047zTbA2rzQ"))
        assert encode_meta_properties(properties, SATURDAY_MS) == (
            b"#\n#Sat Nov 21 08:52:41 UTC 2026\nnode.id=7\ndirectory.id=DLakhdoCQZi047zTbA2rzQ\n"
            b"version=1\ncluster.id=lD_6snWTRdy4CzZdZ5_Q9w\n"
        )

    @pytest.mark.parametrize(
        "properties",
        [
            MetaProperties("c:l=u!s#t\\er", 0, uuid.UUID(int=500)),
            MetaProperties("c", 3),
            MetaProperties(None, 3, version=0),
            MetaProperties("c", None, version=0),
        ],
    )
    def test_meta_properties_are_read_back(self, properties: MetaProperties) -> None:
        disk = SimDisk()
        disk.make_dir("/d")
        write_meta_properties(disk, "/d", properties, 0)
        assert read_meta_properties(disk, "/d") == properties

    @pytest.mark.parametrize(
        ("content", "reason"),
        [
            (b"version=2\nnode.id=1\ncluster.id=c\n", "Unknown meta.properties version number 2"),
            (b"version=1\ncluster.id=c\n", "node.id is missing"),
            (b"version=1\nnode.id=1\n", "cluster.id is missing"),
            (b"version=1\nnode.id=one\ncluster.id=c\n", "node.id should be a number, found 'one'"),
            (b"version=1\nnode.id=1\ncluster.id=c\ndirectory.id=no\n", "'no' is not an id"),
        ],
    )
    def test_invalid_meta_properties_are_refused(self, content: bytes, reason: str) -> None:
        with pytest.raises(StorageError, match=reason):
            read_meta_properties(disk_with(content, "/meta.properties"), "")

    def test_date_has_two_digits(self) -> None:
        assert java_date(0) == "Thu Jan 01 00:00:00 UTC 1970"


class TestLeaderEpochs:
    def cache(self, *entries: tuple[int, int]) -> LeaderEpochCache:
        cache = LeaderEpochCache(SimDisk(), "/f")
        for entry in entries:
            cache.assign(*entry)
        return cache

    def test_a_new_epoch_removes_entries_at_or_above_its_offset(self) -> None:
        cache = self.cache((0, 0), (0, 5), (2, 10), (4, 20))
        assert cache.entries == [(0, 0), (2, 10), (4, 20)]
        cache.assign(3, 15)
        assert cache.entries == [(0, 0), (2, 10), (3, 15)]
        cache.assign(5, 10)
        assert cache.entries == [(0, 0), (5, 10)]
        assert cache.latest_epoch == 5
        cache.assign(5, 7)
        assert cache.entries == [(0, 0), (5, 7)]

    def test_truncating_the_end_removes_epochs_that_begin_there(self) -> None:
        cache = self.cache((0, 0), (2, 10), (4, 20))
        cache.truncate_end(21)
        assert len(cache.entries) == 3
        cache.truncate_end(20)
        assert cache.entries == [(0, 0), (2, 10)]

    @pytest.mark.parametrize(
        ("start", "left"),
        [
            (0, [(0, 0), (2, 10), (4, 20)]),
            (5, [(0, 5), (2, 10), (4, 20)]),
            (10, [(2, 10), (4, 20)]),
            (99, [(4, 99)]),
        ],
    )
    def test_truncating_the_start_moves_the_first_epoch(
        self, start: int, left: list[tuple[int, int]]
    ) -> None:
        cache = self.cache((0, 0), (2, 10), (4, 20))
        cache.truncate_start(start)
        assert cache.entries == left

    @pytest.mark.parametrize(
        ("epoch", "end"),
        [(-1, (-1, -1)), (0, (0, 5)), (1, (1, 10)), (2, (1, 10)), (3, (3, 20)), (5, (5, 99)), (6, (-1, -1))],
    )
    def test_an_epoch_ends_where_the_next_epoch_begins(self, epoch: int, end: tuple[int, int]) -> None:
        assert self.cache((1, 5), (3, 10), (5, 20)).end_offset_for(epoch, 99) == end
        assert self.cache().end_offset_for(epoch, 99) == (-1, -1)

    def test_epoch_of_offset(self) -> None:
        cache = self.cache((1, 5), (3, 10))
        assert [cache.epoch_for_offset(offset) for offset in (4, 5, 9, 10, 99)] == [-1, 1, 1, 3, 3]

    def test_written_when_asked(self) -> None:
        disk = SimDisk()
        cache = LeaderEpochCache(disk, "/f")
        cache.assign(0, 0)
        cache.assign(2, 538)
        assert not disk.exists("/f")
        cache.flush()
        assert read_file(disk, "/f") == b"0\n2\n0 0\n2 538\n"
        assert LeaderEpochCache(disk, "/f").entries == cache.entries
        calls = disk.calls
        cache.flush()
        assert disk.calls == calls

    def test_a_failed_write_is_tried_again(self) -> None:
        disk = SimDisk()
        cache = LeaderEpochCache(disk, "/f")
        cache.assign(1, 0)
        disk.fail("rename")
        with pytest.raises(OSError, match="simulated"):
            cache.flush()
        cache.flush()
        assert LeaderEpochCache(disk, "/f").entries == [(1, 0)]

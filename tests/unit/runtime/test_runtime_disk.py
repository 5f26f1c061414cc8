"""The file seam: the machine's disk and the simulated one do the same."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

import pytest

from kcli.runtime import volume_sync
from kcli.runtime.disk import (
    Disk,
    SystemDisk,
    SystemFile,
    make_durable_dir,
    read_file,
    replace_file,
)
from simulation.runtime.disk import FaultKind, SimDisk


@pytest.fixture(params=["system", "simulated"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Disk, str]:
    if request.param == "system":
        return SystemDisk(), str(tmp_path)
    disk = SimDisk()
    disk.make_dir("/d")
    return disk, "/d"


class TestBothDisks:
    def test_more_buffers_than_one_call_takes(self, place: tuple[Disk, str]) -> None:
        disk, path = place
        file = disk.open(f"{path}/a", create=True)
        file.write_at(2, *(b"%04d" % number for number in range(3000)))
        assert file.read_at(2, 12_000) == b"".join(b"%04d" % number for number in range(3000))
        file.close()

    def test_files_are_written_read_and_cut(self, place: tuple[Disk, str]) -> None:
        disk, path = place
        with pytest.raises(FileNotFoundError):
            disk.open(f"{path}/a")
        file = disk.open(f"{path}/a", create=True)
        file.write_at(0, b"hello")
        file.write_at(3, b"p", bytearray(b"!"), memoryview(b"?"))
        assert file.read_at(0, 100) == b"help!?"
        assert file.read_cached_at(1, 3) == b"elp"
        assert file.read_at(6, 5) == b""
        file.truncate(2)
        file.truncate(4)
        assert (file.read_at(0, 9), file.size()) == (b"he\0\0", 4)
        file.write_at(6, b"x")
        file.sync()
        assert read_file(disk, f"{path}/a") == b"he\0\0\0\0x"
        file.close()

    def test_names_are_created_renamed_and_removed(self, place: tuple[Disk, str]) -> None:
        disk, path = place
        disk.make_dir(f"{path}/x/y")
        disk.make_dir(f"{path}/x/y")
        held = disk.open(f"{path}/x/y/f", create=True)
        held.write_at(0, b"12")
        disk.rename(f"{path}/x", f"{path}/z")
        assert disk.exists(f"{path}/z/y/f")
        assert not disk.exists(f"{path}/x")
        (entry,) = disk.list_dir(f"{path}/z")
        assert (entry.name, entry.is_dir) == ("y", True)
        (entry,) = disk.list_dir(f"{path}/z/y")
        assert (entry.name, entry.is_dir, entry.size_bytes) == ("f", False, 2)
        disk.open(f"{path}/z/y/g", create=True)
        disk.rename(f"{path}/z/y/f", f"{path}/z/y/g")
        assert [entry.name for entry in disk.list_dir(f"{path}/z/y")] == ["g"]
        disk.remove(f"{path}/z/y/g")
        assert held.read_at(0, 2) == b"12"  # a file outlives its name
        disk.remove_tree(f"{path}/z")
        disk.sync_dir(path)
        assert disk.list_dir(path) == []
        with pytest.raises(FileNotFoundError):
            disk.remove(f"{path}/z")
        with pytest.raises(FileNotFoundError):
            disk.list_dir(f"{path}/z")

    def test_dates_and_space(self, place: tuple[Disk, str]) -> None:
        disk, path = place
        disk.open(f"{path}/a", create=True)
        disk.set_modified_ms(f"{path}/a", 1_700_000_000_123)
        assert disk.modified_ms(f"{path}/a") == 1_700_000_000_123
        total, usable = disk.space(path)
        assert total >= usable > 0

    def test_a_lock_is_held_by_one_owner(self, place: tuple[Disk, str]) -> None:
        disk, path = place
        lock = disk.lock(f"{path}/.lock")
        with pytest.raises(BlockingIOError):
            disk.lock(f"{path}/.lock")
        lock.release()
        assert not disk.exists(f"{path}/.lock")
        disk.lock(f"{path}/.lock").release()

    def test_replace_file_leaves_only_the_new_content(self, place: tuple[Disk, str]) -> None:
        disk, path = place
        replace_file(disk, f"{path}/f", b"a long first content")
        replace_file(disk, f"{path}/f", b"short")
        assert read_file(disk, f"{path}/f") == b"short"
        assert [entry.name for entry in disk.list_dir(path)] == ["f"]

    def test_a_file_that_may_only_be_read(self, place: tuple[Disk, str]) -> None:
        disk, path = place
        replace_file(disk, f"{path}/f", b"frozen")
        disk.make_read_only(f"{path}/f")
        assert read_file(disk, f"{path}/f") == b"frozen"
        disk.rename(f"{path}/f", f"{path}/g")
        with contextlib.suppress(PermissionError):  # root may write to a read-only file
            disk.open(f"{path}/g")
            assert isinstance(disk, SystemDisk)
            assert os.geteuid() == 0
        disk.remove(f"{path}/g")


class TestSystemFile:
    def test_the_last_reference_closes(self, tmp_path: Path) -> None:
        file = SystemDisk().open(str(tmp_path / "f"), create=True)
        fd = file.fileno()
        os.fstat(fd)
        del file
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(fd)

    def test_a_short_write_is_finished(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        whole = os.pwrite
        monkeypatch.setattr(os, "pwrite", lambda fd, piece, at: whole(fd, bytes(piece)[:3], at))
        monkeypatch.setattr(os, "pwritev", lambda fd, pieces, at: whole(fd, bytes(pieces[0])[:2], at))
        file: SystemFile = SystemDisk().open(str(tmp_path / "f"), create=True)
        file.write_at(0, b"0123456789")
        file.write_at(10, b"abc", b"defg")
        assert file.read_at(0, 99) == b"0123456789abcdefg"

    def test_a_cached_read_that_would_wait(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        file = SystemDisk().open(str(tmp_path / "f"), create=True)
        file.write_at(0, b"0123456789")

        def preadv(_fd: int, buffers: tuple[bytearray], _at: int, _flags: int) -> int:
            buffers[0][:4] = b"0123"
            return 4

        monkeypatch.setattr(os, "preadv", preadv)
        assert file.read_cached_at(0, 10) is None  # the rest is on the device

        def would_block(*_arguments: object) -> int:
            raise BlockingIOError(11, "would wait")

        monkeypatch.setattr(os, "preadv", would_block)
        assert file.read_cached_at(0, 10) is None


class TestCrashes:
    def test_synced_bytes_survive_a_crash(self) -> None:
        disk = SimDisk()
        disk.make_dir("/d")
        disk.sync_dir("/")
        file = disk.open("/d/f", create=True)
        file.write_at(0, b"safe")
        file.sync()
        disk.sync_dir("/d")
        file.write_at(4, b"unsafe")
        found = {read_file(disk.crash_clone(seed), "/d/f") for seed in range(100)}
        assert all(content.startswith(b"safe") for content in found)
        assert {b"safe", b"safeunsafe", b"safeun"} <= found
        assert read_file(disk, "/d/f") == b"safeunsafe"

    def test_names_that_were_not_synced_may_be_lost(self) -> None:
        disk = SimDisk()
        disk.make_dir("/d")
        disk.sync_dir("/")
        disk.open("/d/f", create=True).sync()
        found = {disk.crash_clone(seed).exists("/d/f") for seed in range(50)}
        assert found == {True, False}

    def test_a_rename_is_whole_or_not_at_all(self) -> None:
        disk = SimDisk()
        for name in ("old", "new"):
            file = disk.open(f"/{name}", create=True)
            file.write_at(0, name.encode())
            file.sync()
        disk.sync_dir("/")
        disk.rename("/new", "/old")
        found = {
            tuple((entry.name, read_file(clone, f"/{entry.name}")) for entry in clone.list_dir("/"))
            for clone in map(disk.crash_clone, range(50))
        }
        assert found == {(("new", b"new"), ("old", b"old")), (("old", b"new"),)}

    def test_same_seed_same_disk(self) -> None:
        disk = SimDisk()
        file = disk.open("/f", create=True)
        for nth in range(20):
            file.write_at(5 * nth, b"%05d" % nth)
        disk.sync_dir("/")
        assert read_file(disk.crash_clone(3), "/f") == read_file(disk.crash_clone(3), "/f")


class TestFaults:
    def test_the_nth_call_of_an_operation(self) -> None:
        disk = SimDisk()
        file = disk.open("/f", create=True)
        disk.fail("write", nth=2)
        file.write_at(0, b"a")
        with pytest.raises(OSError, match="simulated disk error"):
            file.write_at(1, b"b")
        file.write_at(1, b"c")
        assert file.read_at(0, 9) == b"ac"
        assert not disk.has_faults

    def test_only_on_some_paths(self) -> None:
        disk = SimDisk()
        disk.fail("open", "log")
        disk.open("/index", create=True)
        with pytest.raises(OSError, match="/log"):
            disk.open("/log", create=True)

    def test_a_full_disk_takes_half_a_write(self) -> None:
        disk = SimDisk()
        file = disk.open("/f", create=True)
        disk.fail("write", kind=FaultKind.FULL)
        with pytest.raises(OSError, match="full"):
            file.write_at(0, b"0123")
        assert file.read_at(0, 9) == b"01"

    def test_a_flipped_bit(self) -> None:
        disk = SimDisk()
        file = disk.open("/f", create=True)
        file.write_at(0, bytes(9))
        disk.fail("read", kind=FaultKind.FLIP)
        flipped = file.read_at(0, 9)
        assert sum(byte.bit_count() for byte in flipped) == 1
        assert file.read_at(0, 9) == bytes(9)

    def test_a_healed_disk_works_again(self) -> None:
        disk = SimDisk()
        disk.fail()
        disk.heal()
        disk.open("/f", create=True)


def test_a_durable_directory_survives_a_power_failure() -> None:
    disk = SimDisk()
    make_durable_dir(disk, "/var/lib/kafka")
    make_durable_dir(disk, "/var/lib/kafka")
    assert disk.crash_clone(1).exists("/var/lib/kafka")
    disk.make_dir("/var/lib/other")
    assert not all(disk.crash_clone(seed).exists("/var/lib/other") for seed in range(20))


def test_a_durable_directory_on_a_real_disk(tmp_path: Path) -> None:
    make_durable_dir(SystemDisk(), str(tmp_path / "a" / "b"))
    assert (tmp_path / "a" / "b").is_dir()


def test_a_whole_file_system_is_synced_only_where_that_is_reliable(tmp_path: Path) -> None:
    disk = SystemDisk()
    (tmp_path / "file").write_bytes(b"content")
    assert disk.sync_volume(str(tmp_path)) in (True, False)  # depends on the file system of the tests
    assert disk.sync_volume("/proc") is False
    with pytest.raises(OSError, match="missing"):
        if not disk.sync_volume(str(tmp_path / "missing")):
            raise FileNotFoundError("missing: no syncfs on this system")


def test_an_old_kernel_does_not_report_errors_of_a_whole_sync(monkeypatch: pytest.MonkeyPatch) -> None:
    release = os.uname_result(("Linux", "host", "5.7.19-generic", "version", "x86_64"))
    monkeypatch.setattr(os, "uname", lambda: release)
    volume_sync._library.cache_clear()
    try:
        assert volume_sync.sync_volume("/") is False
    finally:
        monkeypatch.undo()
        volume_sync._library.cache_clear()


def test_a_named_pipe_in_place_of_a_file_does_not_block(tmp_path: Path) -> None:
    path = str(tmp_path / "meta.properties")
    os.mkfifo(path)
    assert SystemDisk().read(path) == b""
    file = SystemDisk().open(path, read_only=True)
    file.close()

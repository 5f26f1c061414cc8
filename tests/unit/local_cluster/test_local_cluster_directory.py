"""The files of a cluster: created once, read as the user has edited them, and never formatted again."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from kcli.config.properties import load
from kcli.local_cluster import directory as directory_module
from kcli.local_cluster.directory import (
    LocalCluster,
    check_agreement,
    check_startable,
    create_cluster,
    exists,
    held_by_this_process,
    load_cluster,
    lock_holder,
)
from kcli.local_cluster.layout import ClusterError, plan_nodes, ports_needed
from kcli.local_cluster.ports import free_ports, is_free
from kcli.local_cluster.supervisor import system_machine
from kcli.runtime.disk import SystemDisk
from kcli.storage.meta_properties import MetaProperties, read_meta_properties

HOLDER = """
import sys
from kcli.runtime.disk import SystemDisk
lock = SystemDisk().lock(sys.argv[1])
print("held", flush=True)
sys.stdin.read()
"""


def created(directory: Path, count: int = 3, overrides: Mapping[str, str] | None = None) -> LocalCluster:
    nodes = plan_nodes(count, free_ports(ports_needed(count)), ["r"])
    return create_cluster(directory, nodes, overrides or {}, system_machine())


def meta_properties(cluster: LocalCluster) -> list[MetaProperties | None]:
    return [read_meta_properties(SystemDisk(), node.config.metadata_log_dir) for node in cluster.nodes]


def test_all_nodes_are_formatted_for_one_cluster_with_its_voters(tmp_path: Path) -> None:
    cluster = created(tmp_path, 4, {"num.partitions": "7"})
    found = meta_properties(cluster)
    assert [each.node_id for each in found if each] == [1, 2, 3, 4]
    assert {each.cluster_id for each in found if each} == {cluster.cluster_id}
    assert all(node.config["num.partitions"] == 7 for node in cluster.nodes)
    checkpoints = {
        path.read_bytes()[61:] for path in tmp_path.glob("node-*/data/__cluster_metadata-0/*.checkpoint")
    }
    assert len(list(tmp_path.glob("node-*/data/__cluster_metadata-0/*.checkpoint"))) == 4
    assert all(each.directory_id.bytes in min(checkpoints) for each in found[:3])
    assert cluster.bootstrap == ",".join(node.address for node in cluster.nodes)


def test_files_are_read_as_the_user_has_edited_them(tmp_path: Path) -> None:
    before = meta_properties(created(tmp_path))
    file = tmp_path / "node-2" / "server.properties"
    file.write_text(file.read_text() + "num.partitions=9\n")
    cluster = load_cluster(tmp_path)
    assert [node.config["num.partitions"] for node in cluster.nodes] == [1, 9, 1]
    assert meta_properties(cluster) == before
    file.write_text(file.read_text() + "num.partitions=x\n")
    with pytest.raises(
        ClusterError, match=r"server.properties:\d+: Invalid value x for configuration num.partitions"
    ):
        load_cluster(tmp_path)


def test_a_directory_with_anything_else_is_refused(tmp_path: Path) -> None:
    assert not exists(tmp_path / "new")
    assert not exists(tmp_path)
    (tmp_path / "photo.jpg").touch()
    with pytest.raises(ClusterError, match=r"has no cluster.properties but contains photo.jpg"):
        exists(tmp_path)
    with pytest.raises(ClusterError, match="is not a directory"):
        exists(tmp_path / "photo.jpg")
    with pytest.raises(ClusterError, match="there is no cluster in"):
        load_cluster(tmp_path)


def test_a_cluster_whose_creation_was_interrupted_is_not_started(tmp_path: Path) -> None:
    created(tmp_path)
    (tmp_path / "cluster.properties").unlink()
    with pytest.raises(ClusterError, match="contains node-1: expected an empty directory"):
        exists(tmp_path)


def test_a_creation_that_was_killed_is_begun_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def killed(*_: object, **__: object) -> None:
        raise SystemExit

    with monkeypatch.context() as patch:
        patch.setattr(directory_module, "format_directories", killed)
        patch.setattr(shutil, "rmtree", killed)  # nothing is tidied up after a kill -9
        with pytest.raises(SystemExit):
            created(tmp_path)
    assert (tmp_path / "node-1").exists()
    assert not exists(tmp_path)
    (tmp_path / "photo.jpg").touch()
    with pytest.raises(ClusterError, match=r"contains photo\.jpg"):
        exists(tmp_path)
    (tmp_path / "photo.jpg").unlink()
    assert len(created(tmp_path).nodes) == 3
    assert not (tmp_path / "cluster.creating").exists()


def test_nothing_is_left_of_a_creation_that_ctrl_c_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = []

    def interrupted(*_: object) -> None:
        calls.append(1)
        if len(calls) == 2:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(directory_module, "format_directories", interrupted)
        with pytest.raises(KeyboardInterrupt):
            created(tmp_path)
    assert not list(tmp_path.iterdir())
    assert len(created(tmp_path).nodes) == 3


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ({"node.id": "4"}, "--override node.id: each node has its own value"),
        ({"log.dirs": "/x"}, "--override log.dirs: each node has its own value"),
        ({"num.partitions": "0"}, "Invalid value 0 for configuration num.partitions"),
        (
            {"remote.log.storage.system.enable": "true"},
            "remote.log.storage.system.enable is set, and what it asks for is not built yet",
        ),
    ],
)
def test_wrong_overrides_are_refused_before_a_file_is_written(
    tmp_path: Path, overrides: dict[str, str], message: str
) -> None:
    with pytest.raises(ClusterError, match=message):
        created(tmp_path / "c", overrides=overrides)
    assert not (tmp_path / "c").exists()


def test_a_comma_in_the_path_would_separate_log_directories(tmp_path: Path) -> None:
    with pytest.raises(ClusterError, match="expected a path without a comma"):
        created(tmp_path / "a,b")


def test_a_path_outside_ascii_is_written_as_java_reads_it(tmp_path: Path) -> None:
    cluster = created(tmp_path / "Größe \\ 1", 1)
    assert load(str(cluster.nodes[0].properties_file))["log.dirs"] == str(
        tmp_path / "Größe \\ 1" / "node-1" / "data"
    )


def test_options_must_agree_with_an_existing_cluster(tmp_path: Path) -> None:
    cluster = created(tmp_path, overrides={"num.partitions": "7"})
    check_agreement(cluster, None, {})
    check_agreement(cluster, 3, {2: {"num.partitions": "7", "broker.rack": "r"}})
    with pytest.raises(ClusterError, match=r"--nodes 4: the cluster in .* has 3 nodes"):
        check_agreement(cluster, 4, {})
    with pytest.raises(
        ClusterError, match=r"the options ask for broker.rack=b, and .*server.properties has r:"
    ):
        check_agreement(cluster, 3, {1: {"broker.rack": "b"}})


def test_a_port_that_another_program_has_is_named(tmp_path: Path) -> None:
    import socket

    cluster = created(tmp_path)
    check_startable(cluster)
    port = cluster.nodes[1].config.listeners[0].port
    with socket.create_server(("127.0.0.1", port)):
        assert not is_free(port)
        with pytest.raises(ClusterError, match=f"port {port} of node 2 is taken"):
            check_startable(cluster)
    assert is_free(port)


def test_two_nodes_with_one_id_are_refused(tmp_path: Path) -> None:
    created(tmp_path, 2)
    file = tmp_path / "node-2" / "server.properties"
    file.write_text(file.read_text().replace("node.id=2", "node.id=1"))
    with pytest.raises(ClusterError, match=r"have the same node.id 1"):
        load_cluster(tmp_path)


def test_the_holder_of_a_lock_is_named(tmp_path: Path) -> None:
    path = tmp_path / "cluster.lock"
    assert lock_holder(path) is None
    command = [sys.executable, "-c", HOLDER, str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None and holder.stdin is not None
        assert holder.stdout.readline() == b"held\n"
        assert lock_holder(path) == holder.pid
        with (
            pytest.raises(ClusterError, match=f"runs already, watched by process {holder.pid}"),
            held_by_this_process(tmp_path, system_machine()),
        ):
            pass
        holder.stdin.close()
    assert lock_holder(path) is None
    with held_by_this_process(tmp_path, system_machine()):
        assert path.exists()

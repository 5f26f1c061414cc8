"""The directory of a cluster: creates it, reads it again, and finds the processes that use it.

    DIR/cluster.properties          the cluster's id; written last, so it marks a complete cluster
    DIR/cluster.creating            the nodes of an incomplete cluster, which the next creation removes
    DIR/cluster.lock                held by the parent process while the cluster runs
    DIR/cluster.log                 the events of a parent in the background
    DIR/node-1/server.properties    for users to edit; plain `kcli server-start` takes it too
    DIR/node-1/server.log           the log of the node; controller.log and other files are beside it
    DIR/node-1/kafkaServer.out      what the node prints until it is ready
    DIR/node-1/data                 its log directory, formatted once, when the cluster is created

The functions never format a directory of an existing cluster, and never remove a file of the user.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import struct
import sys
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from kcli.config.broker import BrokerConfig
from kcli.config.definition import ConfigError
from kcli.config.features import FeatureError
from kcli.config.not_built import check_can_serve
from kcli.config.properties import editable, load
from kcli.config.start_up import node_config
from kcli.errors import StorageError
from kcli.local_cluster.layout import CONTROLLER, HOST, ClusterError, NodeLayout, node_properties
from kcli.local_cluster.ports import is_free
from kcli.model.addresses import Address
from kcli.model.ids import BrokerId
from kcli.model.uuids import uuid_to_text
from kcli.raft.voters import ReplicaKey, Voter, VoterSet
from kcli.runtime.disk import SystemDisk, make_durable_dir, replace_file
from kcli.security.acls.configured import node_authorizer
from kcli.server.formatting.format import FormatError, FormatRequest, Machine, format_directories
from kcli.storage.meta_properties import read_meta_properties
from kcli.storage.store.ownership import LOCK_FILE

CLUSTER_FILE = "cluster.properties"
CREATING_FILE = "cluster.creating"
CLUSTER_LOCK = "cluster.lock"
CLUSTER_LOG = "cluster.log"
PROPERTIES_FILE = "server.properties"
NODE_LOG = "server.log"
NODE_OUTPUT = "kafkaServer.out"
DATA = "data"
CLUSTER_ID_KEY = "cluster.id"
OWN_KEYS = frozenset(
    {
        "advertised.listeners", "broker.id", "broker.rack", "controller.quorum.bootstrap.servers",
        "controller.quorum.voters", "listeners", "log.dir", "log.dirs", "metadata.log.dir", "node.id", "process.roles",
    }
)  # fmt: skip
"""The keys whose values differ between nodes, or that belong to the layout. One value for all nodes would be wrong."""
_NODE_NAME = re.compile(r"node-\d+", re.ASCII)
HEADER = """\
# A node of the cluster in {directory}. After a change, start the cluster again, or only this node:
#   kcli server-start {file}
"""


@dataclass(frozen=True, slots=True)
class ClusterNode:
    """A node of a cluster, with its configuration as it is in its file now."""

    directory: Path
    config: BrokerConfig

    @property
    def node_id(self) -> int:
        return self.config.node_id

    @property
    def properties_file(self) -> Path:
        return self.directory / PROPERTIES_FILE

    @property
    def log_file(self) -> Path:
        return self.directory / NODE_LOG

    @property
    def output_file(self) -> Path:
        return self.directory / NODE_OUTPUT

    @property
    def address(self) -> str:
        """The address for clients."""
        listener = self.config.advertised_listeners[0]
        return str(Address(listener.host, listener.port))

    @property
    def directory_id(self) -> uuid.UUID | None:
        """The id of the directory with the metadata log. None if meta.properties is missing or invalid."""
        try:
            properties = read_meta_properties(SystemDisk(), self.config.metadata_log_dir)
        except (OSError, StorageError):
            return None
        return None if properties is None else properties.directory_id

    @property
    def pid(self) -> int | None:
        """The process that uses the node's log directory, or None if the node does not run."""
        return lock_holder(Path(self.config.all_dirs[0]) / LOCK_FILE)


@dataclass(frozen=True, slots=True)
class LocalCluster:
    """A cluster in a directory. The nodes are in the order of their ids."""

    directory: Path
    cluster_id: str
    nodes: tuple[ClusterNode, ...]

    @property
    def bootstrap(self) -> str:
        """The addresses for clients, as for --bootstrap-server."""
        return ",".join(node.address for node in self.nodes if node.config.is_broker)

    @property
    def parent_pid(self) -> int | None:
        """The process that watches the nodes, or None. This property opens and closes the file of the lock. The process
        with the lock must not read it, because the system would release the lock.
        """
        return lock_holder(self.directory / CLUSTER_LOCK)


def exists(directory: Path) -> bool:
    """Whether the directory has a complete cluster. If the creation of a cluster was interrupted, the cluster is not
    complete.

    Raises ClusterError if there is no cluster in the directory, but other files.
    """
    if (directory / CLUSTER_FILE).exists():
        return True
    if directory.is_dir():
        ours = {CLUSTER_LOCK, CREATING_FILE, *_incomplete_nodes(directory)}
        for name in sorted(os.listdir(directory)):
            if name not in ours:
                raise ClusterError(
                    f"{directory} has no {CLUSTER_FILE} but contains {name}: expected an empty directory, or one that "
                    "`kcli cluster up` has created completely"
                )
    elif directory.exists():
        raise ClusterError(f"{directory} is not a directory")
    return False


def create_cluster(
    directory: Path, nodes: Sequence[NodeLayout], overrides: Mapping[str, str], machine: Machine
) -> LocalCluster:
    """Writes the files of new nodes and formats their directories, as one cluster with a dynamic quorum (KIP-853).

    First removes the nodes that an interrupted creation has left. The caller must hold the lock of the cluster. Raises
    ClusterError if an override is invalid or a file cannot be written.
    """
    for key in sorted(OWN_KEYS & overrides.keys()):
        raise ClusterError(
            f"--override {key}: each node has its own value; edit {PROPERTIES_FILE} of the nodes"
        )
    if "," in str(directory):
        raise ClusterError(
            f"--dir {directory}: expected a path without a comma, which separates directories in log.dirs"
        )
    configured = {}
    for node in nodes:
        place = directory / f"node-{node.node_id}"
        properties = node_properties(node, nodes, place / DATA) | dict(overrides)
        configured[place] = properties, _checked(properties)
    cluster_id = uuid_to_text(machine.rng.uuid())
    voters = _voters(nodes, machine)
    for name in _incomplete_nodes(directory):
        shutil.rmtree(directory / name, ignore_errors=True)
    made = [place for place in configured if not place.exists()]
    try:
        make_durable_dir(machine.disk, str(directory))
        names = "".join(f"{place.name}\n" for place in made)
        replace_file(machine.disk, str(directory / CREATING_FILE), names.encode())
        for place, (properties, config) in configured.items():
            make_durable_dir(machine.disk, str(place))
            _write_properties(place, properties, machine)
            request = FormatRequest(cluster_id=cluster_id, voters=voters, dynamic_quorum=True)
            format_directories(config, request, machine, lambda _line: None)
        content = editable({CLUSTER_ID_KEY: cluster_id}).encode()
        replace_file(machine.disk, str(directory / CLUSTER_FILE), content)
        (directory / CREATING_FILE).unlink()
    except BaseException as error:
        # The incomplete nodes are removed, so that the next `kcli cluster up` can use the directory.
        for place in made:
            shutil.rmtree(place, ignore_errors=True)
        (directory / CREATING_FILE).unlink(missing_ok=True)
        if isinstance(error, FormatError | FeatureError | StorageError):
            raise ClusterError(str(error)) from error
        if isinstance(error, OSError):
            raise ClusterError(f"cannot write {error.filename or directory}: {error.strerror}") from error
        raise
    return load_cluster(directory)


def _incomplete_nodes(directory: Path) -> list[str]:
    """The names of the nodes that an interrupted creation has left."""
    try:
        names = (directory / CREATING_FILE).read_text().splitlines()
    except OSError:
        return []
    return [name for name in names if _NODE_NAME.fullmatch(name)]


def load_cluster(directory: Path) -> LocalCluster:
    """Reads the files of a cluster. Raises ClusterError if a file is missing or invalid."""
    try:
        cluster_id = load(str(directory / CLUSTER_FILE)).get(CLUSTER_ID_KEY, "")
        places = [path.parent for path in directory.glob(f"node-*/{PROPERTIES_FILE}")]
        nodes = [ClusterNode(place, node_config(load(str(place / PROPERTIES_FILE)))) for place in places]
    except FileNotFoundError:
        raise ClusterError(f"there is no cluster in {directory}: create one with `kcli cluster up`") from None
    except OSError as error:
        raise ClusterError(f"cannot read {error.filename}: {error.strerror}") from error
    except ConfigError as error:
        raise ClusterError(error.located()) from error
    nodes.sort(key=lambda node: node.node_id)
    for one, other in pairwise(nodes):
        if one.node_id == other.node_id:
            raise ClusterError(
                f"{one.properties_file} and {other.properties_file} have the same node.id {one.node_id}"
            )
    if not nodes:
        raise ClusterError(f"{directory} has no node: expected {directory}/node-1/{PROPERTIES_FILE}")
    return LocalCluster(directory, cluster_id, tuple(nodes))


def check_agreement(
    cluster: LocalCluster, nodes: int | None, properties_by_node: Mapping[int, Mapping[str, str]]
) -> None:
    """Compares the options of `up` with the files of an existing cluster. The files are not changed.

    `properties_by_node` has the properties that the options set, for each node. Raises ClusterError for a difference.
    """
    if nodes is not None and nodes != len(cluster.nodes):
        raise ClusterError(
            f"--nodes {nodes}: the cluster in {cluster.directory} has {len(cluster.nodes)} nodes"
        )
    for node in cluster.nodes:
        set_now = load(str(node.properties_file))
        for key, value in properties_by_node.get(node.node_id, {}).items():
            if set_now.get(key) != value:
                raise ClusterError(
                    f"the options ask for {key}={value}, and {node.properties_file} has "
                    f"{set_now.get(key, 'no such key')}: edit this file to change an existing cluster"
                )


def check_startable(cluster: LocalCluster) -> None:
    """Raises ClusterError if a node runs already, or if another program listens on one of its ports."""
    for node in cluster.nodes:
        if node.pid is not None:
            raise ClusterError(
                f"node {node.node_id} in {node.directory} runs already as process {node.pid}: "
                f"stop it with `kcli cluster down --dir {cluster.directory}`"
            )
        for listener in node.config.listeners:
            if not is_free(listener.port, listener.host):
                raise ClusterError(
                    f"port {listener.port} of node {node.node_id} is taken: another program listens on it; "
                    f"stop that program, or edit {node.properties_file}"
                )


@contextmanager
def held_by_this_process(directory: Path, machine: Machine) -> Iterator[None]:
    """Holds the lock of a cluster while the `with` block runs. Raises ClusterError if another process holds the
    lock."""
    path = directory / CLUSTER_LOCK
    try:
        make_durable_dir(machine.disk, str(directory))
        lock = machine.disk.lock(str(path))
    except BlockingIOError:
        raise ClusterError(
            f"the cluster in {directory} runs already, watched by process {lock_holder(path)}: "
            f"see `kcli cluster status --dir {directory}`"
        ) from None
    except OSError as error:
        raise ClusterError(f"cannot use {directory}: {error.strerror}") from error
    try:
        yield
    finally:
        lock.release()


def lock_holder(path: Path) -> int | None:
    """Returns the process that holds the lock on a file, or None.

    The lock is a POSIX record lock (`SystemDisk.lock`). The calling process must not hold it.
    """
    # The members of the C structure `flock`: type, whence, start, length and pid. macOS has another order.
    form, pid_at = ("qqihh", 2) if sys.platform == "darwin" else ("hhqqi", 4)
    lock = (
        struct.pack(form, 0, 0, 0, fcntl.F_WRLCK, 0)
        if pid_at == 2
        else struct.pack(form, fcntl.F_WRLCK, 0, 0, 0, 0)
    )
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        holder = struct.unpack(form, fcntl.fcntl(descriptor, fcntl.F_GETLK, lock))
    finally:
        os.close(descriptor)
    return holder[pid_at] or None


def _checked(properties: Mapping[str, str]) -> BrokerConfig:
    try:
        config = node_config(properties)
        check_can_serve(config)
        node_authorizer(config)
    except ConfigError as error:
        raise ClusterError(error.located()) from error
    return config


def _write_properties(place: Path, properties: Mapping[str, str], machine: Machine) -> None:
    file = place / PROPERTIES_FILE
    head = HEADER.format(directory=place.parent, file=file).encode("ascii", "replace")
    replace_file(machine.disk, str(file), head + editable(properties).encode())


def _voters(nodes: Sequence[NodeLayout], machine: Machine) -> VoterSet:
    return VoterSet(
        tuple(
            Voter(
                ReplicaKey(BrokerId(node.node_id), machine.rng.uuid()),
                {CONTROLLER: Address(HOST, node.controller_port)},
            )
            for node in nodes
            if node.controller_port is not None
        )
    )

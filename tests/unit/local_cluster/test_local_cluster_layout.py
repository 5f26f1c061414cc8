"""Which nodes are voters, and the ports, racks and properties of a new cluster."""

from __future__ import annotations

import pytest

from kcli.config.start_up import node_config
from kcli.local_cluster.layout import (
    MAX_NODES,
    ClusterError,
    consecutive_ports,
    node_properties,
    plan_nodes,
    ports_needed,
    replication,
    voters_of,
)


@pytest.mark.parametrize(
    ("nodes", "voters"), [(1, 1), (2, 1), (3, 3), (4, 3), (5, 5), (6, 5), (7, 5), (MAX_NODES, 5)]
)
def test_voters_are_an_odd_number_and_at_most_five(nodes: int, voters: int) -> None:
    assert voters_of(nodes) == voters
    planned = plan_nodes(nodes, range(1, ports_needed(nodes) + 1), ["r"])
    assert [node.controller_port is not None for node in planned] == [True] * voters + [False] * (
        nodes - voters
    )
    ports = [port for node in planned for port in node.ports]
    assert sorted(ports) == list(range(1, nodes + voters + 1))


def test_brokers_have_the_first_ports_and_voters_the_ports_after_those() -> None:
    nodes = plan_nodes(4, consecutive_ports(9092, 4), ["r"])
    assert [node.broker_port for node in nodes] == [9092, 9093, 9094, 9095]
    assert [node.controller_port for node in nodes] == [9096, 9097, 9098, None]


@pytest.mark.parametrize(("base", "nodes"), [(0, 3), (-1, 1), (65_531, 3), (70_000, 1)])
def test_ports_that_do_not_exist_are_refused(base: int, nodes: int) -> None:
    with pytest.raises(ClusterError, match=f"--port {base}: expected 1 to "):
        consecutive_ports(base, nodes)
    assert consecutive_ports(65_530, 3)[-1] == 65_535


def test_nodes_take_racks_in_turn() -> None:
    assert [node.rack for node in plan_nodes(5, range(10), ["a", "b"])] == ["a", "b", "a", "b", "a"]


@pytest.mark.parametrize("racks", [[], ["a", ""], ["a", "b", "c", "d"]])
def test_too_many_racks_and_racks_without_a_name_are_refused(racks: list[str]) -> None:
    with pytest.raises(ClusterError, match=r"--racks .*: expected 1 to 3 names"):
        plan_nodes(3, range(6), racks)


@pytest.mark.parametrize("nodes", [0, -1, MAX_NODES + 1])
def test_wrong_numbers_of_nodes_are_refused(nodes: int) -> None:
    with pytest.raises(ClusterError, match=f"--nodes {nodes}: expected 1 to {MAX_NODES}"):
        plan_nodes(nodes, range(500), ["r"])


def test_a_voter_is_broker_and_controller_and_the_others_are_brokers() -> None:
    nodes = plan_nodes(4, range(1, 8), ["r1"])
    configs = [node_config(node_properties(node, nodes, f"/d/{node.node_id}")) for node in nodes]
    assert [config.node_id for config in configs] == [1, 2, 3, 4]
    assert [config.is_controller for config in configs] == [True, True, True, False]
    assert all(config.is_broker and config.rack == "r1" for config in configs)
    for config in configs:
        assert [str(server) for server in config.quorum_bootstrap_servers] == [
            f"127.0.0.1:{port}" for port in (5, 6, 7)
        ]
        assert {listener.host for listener in config.listeners} == {"127.0.0.1"}
    assert configs[3].log_dirs == ("/d/4",)
    assert [config.is_set("default.replication.factor") for config in configs] == [True, True, True, False]
    assert [config.integer("metadata.max.idle.interval.ms") for config in configs] == [5000, 5000, 5000, 500]


@pytest.mark.parametrize(("brokers", "replicas", "min_isr"), [(1, 1, 1), (2, 2, 1), (3, 3, 2), (7, 3, 2)])
def test_three_replicas_if_there_are_brokers_for_them(brokers: int, replicas: int, min_isr: int) -> None:
    found = replication(brokers)
    assert found["offsets.topic.replication.factor"] == found["default.replication.factor"] == str(replicas)
    assert found["min.insync.replicas"] == found["transaction.state.log.min.isr"] == str(min_isr)

"""The fixtures of `kcli.testing.pytest_plugin`, as a program of a user takes them."""

from __future__ import annotations

from confluent_kafka.admin import AdminClient

from kcli.testing.cluster_processes import ClusterProcesses

pytest_plugins = ["kcli.testing.pytest_plugin"]


def brokers(cluster: ClusterProcesses) -> set[int]:
    return set(AdminClient({"bootstrap.servers": cluster.bootstrap}).list_topics(timeout=60).brokers)


def test_a_cluster_of_three_nodes_survives_the_loss_of_one(kcli_cluster: ClusterProcesses) -> None:
    assert brokers(kcli_cluster) == set(kcli_cluster.nodes) == {1, 2, 3}
    kcli_cluster.nodes[2].kill()
    assert brokers(kcli_cluster) >= {1, 3}
    kcli_cluster.nodes[2].start()
    assert brokers(kcli_cluster) == {1, 2, 3}

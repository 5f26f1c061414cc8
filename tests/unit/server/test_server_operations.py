"""The bit fields of authorized operations, against the numbers that Kafka 4.1 answers without an authorizer."""

from __future__ import annotations

from kcli.server.requests.operations import CLUSTER_OPERATIONS, GROUP_OPERATIONS, TOPIC_OPERATIONS


def test_each_resource_type_has_the_operations_of_kafka() -> None:
    assert TOPIC_OPERATIONS == 0b1101_1111_1000
    assert GROUP_OPERATIONS == 0b1101_0100_1000
    assert CLUSTER_OPERATIONS == 0b1_1111_1010_0000

"""The bit fields of authorized operations, against the numbers that Kafka 4.1 answers without an authorizer."""

from __future__ import annotations

from kcli.model.acl import ResourceType
from kcli.server.requests.operations import ALL_OPERATIONS


def test_each_resource_type_has_the_operations_of_kafka() -> None:
    assert ALL_OPERATIONS[ResourceType.TOPIC] == 0b1101_1111_1000
    assert ALL_OPERATIONS[ResourceType.GROUP] == 0b1101_0100_1000
    assert ALL_OPERATIONS[ResourceType.CLUSTER] == 0b1_1111_1010_0000

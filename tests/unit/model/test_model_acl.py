"""The numbers of access control on the wire, as Kafka's enums give them."""

from __future__ import annotations

from kcli.model.acl import AclOperation, AclPermissionType, PatternType, ResourceType


def test_every_number_is_the_place_in_kafka_s_list() -> None:
    names = {
        AclOperation: "UNKNOWN ANY ALL READ WRITE CREATE DELETE ALTER DESCRIBE CLUSTER_ACTION DESCRIBE_CONFIGS "
        "ALTER_CONFIGS IDEMPOTENT_WRITE CREATE_TOKENS DESCRIBE_TOKENS TWO_PHASE_COMMIT",
        ResourceType: "UNKNOWN ANY TOPIC GROUP CLUSTER TRANSACTIONAL_ID DELEGATION_TOKEN USER",
        PatternType: "UNKNOWN ANY MATCH LITERAL PREFIXED",
        AclPermissionType: "UNKNOWN ANY DENY ALLOW",
    }
    for kind, in_order in names.items():
        assert [kind(number).name for number in range(len(kind))] == in_order.split()

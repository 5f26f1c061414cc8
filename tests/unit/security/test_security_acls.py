"""The standard authorizer: who may do what, which rule decides, and the lines of the audit log."""

from __future__ import annotations

import logging
import uuid

import pytest

from kcli.config.definition import ConfigError
from kcli.config.start_up import node_config
from kcli.errors import UnknownServerException
from kcli.metadata.delta import MetadataDelta
from kcli.metadata.image import AclEntry, MetadataImage
from kcli.model.acl import AclOperation, AclPermissionType, PatternType, ResourceType
from kcli.protocol.records.metadata import AccessControlEntryRecord
from kcli.security.acls.audit import AUDIT_LOG, TRACE, report_left_out
from kcli.security.acls.configured import KEY, STANDARD, node_authorizer
from kcli.security.acls.entry import acl_text
from kcli.security.acls.index import KEPT_ANSWERS_MAX, AclIndex, Verdict
from kcli.security.acls.settings import AclSettings, acl_settings
from kcli.security.acls.standard import StandardAuthorizer
from kcli.security.authorizer import ALLOW_ALL, AUDIT_LINES_MAX, Asker, Audit, AuditedLines, Resource
from kcli.security.java_address import host_address
from kcli.security.principal import ANONYMOUS, Principal

ORDERS = Resource(ResourceType.TOPIC, "orders")
ALICE = Asker(Principal("User", "alice"), "10.0.0.1", "Produce")

MINIMAL = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.quorum.bootstrap.servers": "localhost:9093",
    "listeners": "PLAINTEXT://:9092,CONTROLLER://:9093",
    "controller.listener.names": "CONTROLLER",
    "log.dirs": "/a",
}


def acl(
    operation: AclOperation,
    *,
    name: str = "orders",
    pattern: PatternType = PatternType.LITERAL,
    principal: str = "User:alice",
    host: str = "*",
    permission: AclPermissionType = AclPermissionType.ALLOW,
) -> AclEntry:
    return AclEntry(ResourceType.TOPIC, name, pattern, principal, host, operation, permission)


def authorizer_of(*acls: AclEntry, settings: AclSettings | None = None) -> StandardAuthorizer:
    delta = MetadataDelta(MetadataImage())
    for number, each in enumerate(acls):
        delta.replay(
            AccessControlEntryRecord(
                id=uuid.UUID(int=number + 1),
                resource_type=each.resource_type,
                resource_name=each.resource_name,
                pattern_type=each.pattern_type,
                principal=each.principal,
                host=each.host,
                operation=each.operation,
                permission_type=each.permission_type,
            )
        )
    made = StandardAuthorizer(settings or AclSettings())
    made.metadata_changed(delta, delta.apply(1, 1, 0))
    return made


def test_before_the_metadata_only_super_users_pass() -> None:
    authorizer = StandardAuthorizer(AclSettings(frozenset({"User:alice"})))
    assert authorizer.authorize(ALICE, AclOperation.WRITE, ORDERS)
    with pytest.raises(UnknownServerException):
        authorizer.authorize(Asker(ANONYMOUS, "10.0.0.1", "Produce"), AclOperation.WRITE, ORDERS)
    with pytest.raises(UnknownServerException):
        authorizer.authorize_any(
            Asker(ANONYMOUS, "10.0.0.1", "InitProducerId"), AclOperation.WRITE, ResourceType.TOPIC
        )


def test_a_denial_of_every_topic_beats_a_permission_of_one() -> None:
    denied = acl(AclOperation.WRITE, name="*", principal="User:*", permission=AclPermissionType.DENY)
    authorizer = authorizer_of(acl(AclOperation.WRITE), denied)
    assert not authorizer.authorize(ALICE, AclOperation.WRITE, ORDERS)
    assert authorizer.explain(ALICE, AclOperation.WRITE, ORDERS).rule == denied
    # A denied Write does not deny Describe, which the allowed Write implies.
    assert authorizer.authorize(ALICE, AclOperation.DESCRIBE, ORDERS)


def test_the_bits_that_are_kept_have_a_limit() -> None:
    index = AclIndex()
    index.add(uuid.UUID(int=1), acl(AclOperation.READ, name="ord", pattern=PatternType.PREFIXED))
    for number in range(KEPT_ANSWERS_MAX + 1):
        host = f"10.0.{number // 256}.{number % 256}"
        verdict = index.decide("User:alice", host, AclOperation.READ, ResourceType.TOPIC, "orders")
        assert verdict is Verdict.ALLOWED
    assert len(index._types[ResourceType.TOPIC].of_principal["User:alice"].answers) <= KEPT_ANSWERS_MAX


def test_one_acl_closes_a_topic_that_was_open_to_all() -> None:
    settings = AclSettings(allow_everyone_if_no_acl_found=True)
    authorizer = authorizer_of(
        acl(AclOperation.READ, name="ord", pattern=PatternType.PREFIXED, principal="User:bob"),
        settings=settings,
    )
    assert not authorizer.authorize(ALICE, AclOperation.WRITE, ORDERS)
    assert authorizer.authorize(ALICE, AclOperation.WRITE, Resource(ResourceType.TOPIC, "bills"))
    assert authorizer.explain(ALICE, AclOperation.WRITE, Resource(ResourceType.TOPIC, "bills")).rule_text == (
        "DefaultAllow"
    )


def test_the_logged_rule_is_the_one_that_kafka_logs() -> None:
    """The longest name is read first, and the last permission counts. A denial ends the search."""
    everyone = acl(AclOperation.ALL, name="*", principal="User:*")
    prefix = acl(AclOperation.WRITE, name="or", pattern=PatternType.PREFIXED)
    literal = acl(AclOperation.WRITE)
    assert authorizer_of(literal, prefix).explain(ALICE, AclOperation.WRITE, ORDERS).rule == prefix
    assert authorizer_of(everyone, literal, prefix).explain(ALICE, AclOperation.WRITE, ORDERS).rule == (
        everyone
    )
    denials = [
        acl(AclOperation.WRITE, name=name, pattern=PatternType.PREFIXED, permission=AclPermissionType.DENY)
        for name in ("o", "orde", "or")
    ]
    decided = authorizer_of(everyone, *denials).explain(ALICE, AclOperation.WRITE, ORDERS)
    assert not decided.is_allowed
    assert decided.rule == denials[1]


def test_a_host_is_compared_in_the_form_of_java() -> None:
    authorizer = authorizer_of(acl(AclOperation.WRITE, host="0:0:0:0:0:0:0:1"))
    assert authorizer.authorize(Asker(ALICE.principal, "::1", "Produce"), AclOperation.WRITE, ORDERS)
    assert not authorizer.authorize(ALICE, AclOperation.WRITE, ORDERS)
    assert host_address("fe80::1%2") == "fe80:0:0:0:0:0:0:1%2"
    assert host_address("::ffff:10.0.0.1") == "10.0.0.1"
    assert host_address("10.0.0.1") == "10.0.0.1"
    assert host_address("not:an:address") == "not:an:address"


def lines(caplog: pytest.LogCaptureFixture) -> list[logging.LogRecord]:
    """The lines of the audit log. Threads of earlier tests may still write to other logs."""
    return [record for record in caplog.records if record.name == AUDIT_LOG.name]


@pytest.mark.parametrize(
    ("level", "audit", "operation", "expected"),
    [
        (logging.INFO, Audit.FULL, AclOperation.WRITE, []),
        (logging.INFO, Audit.FULL, AclOperation.READ, ["INFO"]),
        (logging.INFO, Audit.FILTER, AclOperation.READ, []),
        (logging.DEBUG, Audit.FULL, AclOperation.WRITE, ["DEBUG"]),
        (logging.DEBUG, Audit.FILTER, AclOperation.WRITE, ["DEBUG"]),
        (logging.DEBUG, Audit.QUERY, AclOperation.WRITE, []),
        (logging.DEBUG, Audit.QUERY, AclOperation.READ, []),
        (TRACE, Audit.QUERY, AclOperation.WRITE, ["Level 5"]),
        (TRACE, Audit.FILTER, AclOperation.READ, ["Level 5"]),
    ],
)
def test_the_level_of_a_line_depends_on_the_effect_of_the_check(
    caplog: pytest.LogCaptureFixture,
    level: int,
    audit: Audit,
    operation: AclOperation,
    expected: list[str],
) -> None:
    authorizer = authorizer_of(acl(AclOperation.WRITE))
    with caplog.at_level(level, AUDIT_LOG.name):
        authorizer.authorize(ALICE, operation, ORDERS, audit=audit)
    assert [record.levelname for record in lines(caplog)] == expected


def test_the_lines_of_one_request_are_bounded(caplog: pytest.LogCaptureFixture) -> None:
    authorizer = authorizer_of()
    asker = Asker(ALICE.principal, ALICE.host, ALICE.api, AuditedLines())
    with caplog.at_level(logging.INFO, AUDIT_LOG.name):
        for number in range(AUDIT_LINES_MAX):
            authorizer.authorize(asker, AclOperation.WRITE, Resource(ResourceType.TOPIC, f"t{number}"))
        report_left_out(asker)
        assert len(lines(caplog)) == AUDIT_LINES_MAX
        for number in range(3):
            assert not authorizer.authorize(
                asker, AclOperation.WRITE, Resource(ResourceType.TOPIC, f"u{number}")
            )
        report_left_out(asker)
    assert [each.getMessage() for each in lines(caplog)[AUDIT_LINES_MAX:]] == [
        "3 more checks of this request are not shown: Principal = User:alice from host = 10.0.0.1 for request = Produce"
    ]


def test_the_lines_are_those_of_kafka(caplog: pytest.LogCaptureFixture) -> None:
    authorizer = authorizer_of(acl(AclOperation.WRITE), settings=AclSettings(frozenset({"User:admin"})))
    with caplog.at_level(logging.DEBUG, AUDIT_LOG.name):
        authorizer.authorize(ALICE, AclOperation.WRITE, ORDERS, count=2)
        authorizer.authorize(ALICE, AclOperation.READ, Resource(ResourceType.TRANSACTIONAL_ID, "x"))
        admin = Asker(Principal("User", "admin"), "10.0.0.9", "BrokerHeartbeat")
        authorizer.authorize(
            admin, AclOperation.CLUSTER_ACTION, Resource(ResourceType.CLUSTER, "kafka-cluster")
        )
    assert [record.message for record in lines(caplog)] == [
        (
            "Principal = User:alice is Allowed operation = WRITE from host = 10.0.0.1 on resource = "
            "Topic:LITERAL:orders for request = Produce with resourceRefCount = 2 based on rule "
            "MatchingAcl(acl=StandardAcl(resourceType=TOPIC, resourceName=orders, patternType=LITERAL, "
            "principal=User:alice, host=*, operation=WRITE, permissionType=ALLOW))"
        ),
        (
            "Principal = User:alice is Denied operation = READ from host = 10.0.0.1 on resource = "
            "TransactionalId:LITERAL:x for request = Produce with resourceRefCount = 1 based on rule DefaultDeny"
        ),
        (
            "Principal = User:admin is Allowed operation = CLUSTER_ACTION from host = 10.0.0.9 on resource = "
            "Cluster:LITERAL:kafka-cluster for request = BrokerHeartbeat with resourceRefCount = 1 based on rule "
            "SuperUser"
        ),
    ]


def test_a_name_cannot_forge_a_line(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, AUDIT_LOG.name):
        authorizer_of().authorize(
            ALICE, AclOperation.READ, Resource(ResourceType.GROUP, "g\nPrincipal = User:x\x1b[0m")
        )
    (line,) = lines(caplog)
    assert "\n" not in line.message
    assert "g\\x0aPrincipal = User:x\\x1b[0m" in line.message


def test_an_acl_of_a_newer_release_has_a_text_and_denies_at_most() -> None:
    newer = AclEntry(99, "x", 7, "User:a", "*", 30, 9)
    assert "resourceType=UNKNOWN, resourceName=x, patternType=UNKNOWN" in acl_text(newer)
    authorizer = authorizer_of(
        AclEntry(ResourceType.TOPIC, "orders", PatternType.LITERAL, "User:alice", "*", AclOperation.WRITE, 9)
    )
    assert not authorizer.authorize(ALICE, AclOperation.WRITE, ORDERS)


@pytest.mark.parametrize(
    ("text", "users"),
    [
        ("", set()),
        ("User:a", {"User:a"}),
        (" User:a ; User:CN=x,OU=y;;", {"User:a", "User:CN=x,OU=y"}),
        ("User:a:b", {"User:a:b"}),
    ],
)
def test_super_users_are_split_at_semicolons(text: str, users: set[str]) -> None:
    assert acl_settings({"super.users": text}).super_users == users


def test_a_super_user_without_a_type_is_refused() -> None:
    with pytest.raises(
        ConfigError, match="expected a string in format principalType:principalName but got bob"
    ):
        node_authorizer(node_config(MINIMAL | {KEY: STANDARD, "super.users": "User:a;bob"}))


def test_the_configuration_names_the_authorizer() -> None:
    assert node_authorizer(node_config(MINIMAL)) is ALLOW_ALL
    made = node_authorizer(node_config(MINIMAL | {KEY: STANDARD, "allow.everyone.if.no.acl.found": " TRUE"}))
    assert isinstance(made, StandardAuthorizer)
    delta = MetadataDelta(MetadataImage())
    made.metadata_changed(delta, MetadataImage())
    assert made.authorize(ALICE, AclOperation.WRITE, ORDERS)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("x.Authorizer", "no installed package has the entry point x.Authorizer"),
        ("kafka.security.authorizer.AclAuthorizer", "was removed in Kafka 4"),
    ],
)
def test_an_unknown_authorizer_is_refused(name: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        node_authorizer(node_config(MINIMAL | {KEY: name}))

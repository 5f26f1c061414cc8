"""The line after an authorization error: which right is missing, and the command that gives it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kcli.cli import missing_rights
from kcli.cli.missing_rights import (
    SHOWN_MAX,
    consumer_lacks,
    forgive,
    lacks,
    producer_lacks,
    refused,
    set_client,
    shown_at_end,
    transaction_lacks,
    watch,
)
from kcli.client.config import ClientConfig, client_config
from kcli.errors import (
    ClusterAuthorizationException,
    ErrorCode,
    KafkaError,
    TimeoutException,
    TopicAuthorizationException,
    TransactionalIdAuthorizationException,
)
from kcli.model.acl import CLUSTER_NAME, AclOperation, ResourceType
from kcli.protocol.messages import create_delegation_token as cd
from kcli.protocol.messages import list_partition_reassignments as lp
from kcli.protocol.messages import metadata as md
from kcli.protocol.wire.api import ApiKey
from kcli.rdkafka.errors import TransactionError
from kcli.security.acls.grants import Right, granting

TOPIC, GROUP, CLUSTER = ResourceType.TOPIC, ResourceType.GROUP, ResourceType.CLUSTER
ALICE = {
    "security.protocol": "SASL_PLAINTEXT",
    "sasl.mechanism": "PLAIN",
    "sasl.jaas.config": 'PlainLoginModule required username="alice" password="secret";',
}


def config_of(properties: dict[str, str]) -> ClientConfig:
    return client_config(properties, bootstrap_servers="localhost:9092")


def shown(capsys: pytest.CaptureFixture[str], *acts: Callable[[], object]) -> list[str]:
    with shown_at_end():
        for act in acts:
            act()
    out, err = capsys.readouterr()
    assert out == ""
    return err.splitlines()


def test_the_command_names_principal_operation_and_resource() -> None:
    right = Right(AclOperation.ALTER_CONFIGS, TOPIC, "my topic")
    command = granting("User:CN=a b", right)
    assert command == (
        "kcli acls --add --allow-principal 'User:CN=a b' --operation AlterConfigs --topic 'my topic'"
    )
    cluster = granting("User:a", Right(AclOperation.ALTER, CLUSTER, CLUSTER_NAME))
    assert cluster == "kcli acls --add --allow-principal User:a --operation Alter --cluster"


@pytest.mark.parametrize("type", [kind for kind in ResourceType if kind > ResourceType.ANY])
def test_the_tool_accepts_its_own_command_for_each_type(type: ResourceType) -> None:
    from kcli.cli.syntax import jopt
    from kcli.cli.tools.acls.bindings import SUPPORTED, wanted_bindings
    from kcli.cli.tools.acls.command import command

    for operation in SUPPORTED[type]:
        name = CLUSTER_NAME if type is CLUSTER else "User:x" if type is ResourceType.USER else "x"
        words = granting("User:alice", Right(operation, type, name)).split()[2:]
        options = jopt.parse(command, ["--bootstrap-server", "localhost:9092", *words])
        ((pattern, (entry,)),) = wanted_bindings(options).items()
        assert (pattern.resource_type, pattern.name, entry.operation) == (type, name, operation)


def test_a_refused_topic_names_the_operation_of_the_api(capsys: pytest.CaptureFixture[str]) -> None:
    answer = md.MetadataResponse(
        topics=(
            md.MetadataResponseTopic(name="fine"),
            md.MetadataResponseTopic(name="orders", error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED),
        )
    )
    watched = watch(config_of(ALICE))
    (line,) = shown(capsys, lambda: watch(config_of(ALICE))(ApiKey.METADATA, md.MetadataRequest(), answer))
    assert line == (
        "User:alice may not Describe topic orders. This command allows it: "
        "kcli acls --add --allow-principal User:alice --operation Describe --topic orders"
    )
    watched(ApiKey.METADATA, md.MetadataRequest(), answer)  # outside of a tool, nothing is shown
    assert capsys.readouterr() == ("", "")


def test_a_token_for_another_user_names_the_user() -> None:
    request = cd.CreateDelegationTokenRequest(owner_principal_type="User", owner_principal_name="carol")
    answer = cd.CreateDelegationTokenResponse(error_code=ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED)
    assert list(refused(ApiKey.CREATE_DELEGATION_TOKEN, request, answer)) == [
        Right(AclOperation.CREATE_TOKENS, ResourceType.USER, "User:carol")
    ]


def test_other_errors_show_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    answer = md.MetadataResponse(
        topics=(md.MetadataResponseTopic(name="x", error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),)
    )
    assert not list(refused(ApiKey.METADATA, md.MetadataRequest(), answer))
    assert not shown(capsys, lambda: producer_lacks(TimeoutException(""), "t"))


def test_a_refusal_that_the_tool_works_around_is_not_shown(capsys: pytest.CaptureFixture[str]) -> None:
    answer = lp.ListPartitionReassignmentsResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    key = ApiKey.LIST_PARTITION_REASSIGNMENTS

    def refuse() -> None:
        watch(config_of(ALICE))(key, lp.ListPartitionReassignmentsRequest(), answer)

    assert len(shown(capsys, refuse)) == 1
    assert not shown(capsys, refuse, lambda: forgive(key))


@pytest.mark.parametrize(
    ("error", "command"),
    [
        (TopicAuthorizationException(), "--operation Write --topic t"),
        (ClusterAuthorizationException(), "--operation Write --topic t"),
        (TransactionalIdAuthorizationException(), "--operation Write --transactional-id x"),
    ],
)
def test_a_producer_lacks_the_right_of_its_error(
    capsys: pytest.CaptureFixture[str], error: KafkaError, command: str
) -> None:
    (line,) = shown(capsys, lambda: producer_lacks(error, "t", "x"), lambda: producer_lacks(error, "t", "x"))
    assert line.endswith(f"kcli acls --add --allow-principal User:ANONYMOUS {command}")


def test_transactions_that_cannot_begin_name_the_transactional_id(capsys: pytest.CaptureFixture[str]) -> None:
    def refuse() -> None:
        with pytest.raises(TransactionError), transaction_lacks("t", "x"):
            raise TransactionError("") from TransactionalIdAuthorizationException()

    (line,) = shown(capsys, refuse)
    assert line.endswith("--operation Write --transactional-id x")


def test_a_random_group_gets_a_prefix(capsys: pytest.CaptureFixture[str]) -> None:
    code = ErrorCode.GROUP_AUTHORIZATION_FAILED
    (line,) = shown(capsys, lambda: consumer_lacks(code, None, "console-consumer-75030"))
    assert line.endswith("--operation Read --group console-consumer- --resource-pattern-type prefixed")
    (line,) = shown(capsys, lambda: consumer_lacks(code, None, "g-7"))
    assert line.endswith("--operation Read --group g-7")


def test_many_refusals_are_counted(capsys: pytest.CaptureFixture[str]) -> None:
    def refuse() -> None:
        for number in range(SHOWN_MAX + 2):
            lacks(AclOperation.READ, TOPIC, f"t-{number}")

    lines = shown(capsys, refuse)
    assert len(lines) == SHOWN_MAX + 1
    assert lines[-1] == "2 more rights are missing."


@pytest.mark.parametrize(
    ("properties", "principal"),
    [
        ({}, "User:ANONYMOUS"),
        (ALICE, "User:alice"),
        ({**ALICE, "sasl.mechanism": "SCRAM-SHA-256"}, "User:alice"),
        (
            {
                **ALICE,
                "sasl.mechanism": "SCRAM-SHA-256",
                "sasl.jaas.config": 'M required username="id" password="hmac" tokenauth=true;',
            },
            "'User:<your name>'",
        ),
        (
            {
                **ALICE,
                "sasl.mechanism": "GSSAPI",
                "sasl.kerberos.service.name": "kafka",
                "sasl.jaas.config": 'M required useKeyTab=true keyTab="f" principal="bob/host@REALM";',
            },
            "User:bob",
        ),
    ],
)
def test_the_principal_is_the_one_of_the_login(
    capsys: pytest.CaptureFixture[str], properties: dict[str, str], principal: str
) -> None:
    (line,) = shown(
        capsys,
        lambda: set_client(config_of(properties)),
        lambda: lacks(AclOperation.READ, GROUP, "g"),
    )
    assert f"--allow-principal {principal} " in line


def test_arrays_without_errors_are_not_walked() -> None:
    # A description of 5,000 topics has hundreds of thousands of configs.
    from kcli.protocol.messages.describe_configs import DescribeConfigsResponse, DescribeConfigsResult

    assert missing_rights._arrays(DescribeConfigsResponse) == ("results",)
    assert missing_rights._arrays(DescribeConfigsResult) == ()

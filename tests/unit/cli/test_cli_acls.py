"""`kcli acls` against a server by script that keeps ACLs: requests, text, rules of the options, and checks."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from kcli.cli.main import run
from kcli.errors import ErrorCode
from kcli.metadata.image import AclEntry
from kcli.protocol.messages import create_acls as ca
from kcli.protocol.messages import delete_acls as da
from kcli.protocol.messages import describe_acls as de
from kcli.protocol.messages import metadata
from kcli.protocol.wire.api import ApiKey
from kcli.security.acls.filters import AclFilter
from rigs.scripted_cluster import Done
from rigs.scripted_server import ScriptedServer

ORDERS = "ResourcePattern(resourceType=TOPIC, name=orders, patternType=LITERAL)"


class AclServer:
    """A broker that keeps ACLs. If `error` is set, it refuses every request about them."""

    def __init__(self) -> None:
        self.acls: dict[AclEntry, None] = {}
        self.error = ErrorCode.NONE
        self.server = ScriptedServer(
            {
                ApiKey.METADATA: self.metadata,
                ApiKey.DESCRIBE_ACLS: self.describe,
                ApiKey.CREATE_ACLS: self.create,
                ApiKey.DELETE_ACLS: self.delete,
            }
        )

    def metadata(self, _request: Any, _version: int) -> metadata.MetadataResponse:
        broker = metadata.MetadataResponseBroker(node_id=1, host="127.0.0.1", port=self.server.port)
        return metadata.MetadataResponse(brokers=(broker,), controller_id=1)

    def describe(self, request: de.DescribeAclsRequest, _version: int) -> de.DescribeAclsResponse:
        acl_filter = AclFilter(
            request.resource_type_filter,
            request.resource_name_filter,
            request.pattern_type_filter,
            request.principal_filter,
            request.host_filter,
            request.operation,
            request.permission_type,
        )
        resources = tuple(
            de.DescribeAclsResource(
                resource_type=acl.resource_type,
                resource_name=acl.resource_name,
                pattern_type=acl.pattern_type,
                acls=(
                    de.AclDescription(
                        principal=acl.principal,
                        host=acl.host,
                        operation=acl.operation,
                        permission_type=acl.permission_type,
                    ),
                ),
            )
            for acl in self.acls
            if acl_filter.matches(acl)
        )
        return de.DescribeAclsResponse(error_code=self.error, resources=() if self.error else resources)

    def create(self, request: ca.CreateAclsRequest, _version: int) -> ca.CreateAclsResponse:
        for creation in request.creations:
            acl = AclEntry(
                creation.resource_type,
                creation.resource_name,
                creation.resource_pattern_type,
                creation.principal,
                creation.host,
                creation.operation,
                creation.permission_type,
            )
            if not self.error:
                self.acls[acl] = None
        result = ca.AclCreationResult(error_code=self.error, error_message="no" if self.error else "")
        return ca.CreateAclsResponse(results=(result,) * len(request.creations))

    def delete(self, request: da.DeleteAclsRequest, _version: int) -> da.DeleteAclsResponse:
        for requested in request.filters:
            acl_filter = AclFilter(
                requested.resource_type_filter,
                requested.resource_name_filter,
                requested.pattern_type_filter,
                requested.principal_filter,
                requested.host_filter,
                requested.operation,
                requested.permission_type,
            )
            for acl in [acl for acl in self.acls if acl_filter.matches(acl)]:
                del self.acls[acl]
        result = da.DeleteAclsFilterResult(error_code=self.error)
        return da.DeleteAclsResponse(filter_results=(result,) * len(request.filters))


@pytest.fixture
def broker() -> Iterator[AclServer]:
    scripted = AclServer()
    with scripted.server:
        yield scripted


@pytest.fixture
def call(broker: AclServer, capsys: pytest.CaptureFixture[str]) -> Callable[..., Done]:
    def acls(*arguments: str) -> Done:
        code = run(["acls", "--bootstrap-server", f"127.0.0.1:{broker.server.port}", *arguments])
        captured = capsys.readouterr()
        return Done(code, captured.out, captured.err)

    return acls


def test_an_acl_is_added_listed_and_removed(call: Callable[..., Done], broker: AclServer) -> None:
    added = call("--add", "--allow-principal", "User:a", "--operation", "Read", "--topic", "orders")
    assert added == Done(
        0,
        f"Adding ACLs for resource `{ORDERS}`: \n"
        " \t(principal=User:a, host=*, operation=READ, permissionType=ALLOW)\n\n",
        "",
    )
    assert call("--list", "--topic", "orders").out == (
        f"Current ACLs for resource `{ORDERS}`:\n"
        "\t(principal=User:a, host=*, operation=READ, permissionType=ALLOW)\n\n"
    )
    assert call("--list", "--principal", "User:b").out == "ACLs for principal `User:b`\n"
    assert call("--remove", "--force", "--topic", "orders") == Done(0, "", "")
    assert broker.acls == {}


def test_every_principal_gets_every_operation_from_every_host(
    call: Callable[..., Done], broker: AclServer
) -> None:
    call(
        *("--add", "--topic", "t", "--operation", "Read", "--operation", "AlterConfigs"),
        *("--allow-principal", "User:a", "--allow-principal", "User:b", "--allow-host", "10.0.0.1"),
        *("--deny-principal", "User:c", "--deny-host", "10.0.0.2", "--deny-host", "10.0.0.3"),
    )
    entries = {(acl.principal, acl.host, acl.operation, acl.permission_type) for acl in broker.acls}
    allowed = {(user, "10.0.0.1", operation, 3) for user in ("User:a", "User:b") for operation in (3, 11)}
    denied = {("User:c", host, operation, 2) for host in ("10.0.0.2", "10.0.0.3") for operation in (3, 11)}
    assert entries == allowed | denied


def test_the_short_cuts_of_producers_and_consumers(call: Callable[..., Done], broker: AclServer) -> None:
    call(
        *("--add", "--allow-principal", "User:a", "--producer", "--consumer", "--idempotent"),
        *("--topic", "t", "--group", "g", "--transactional-id", "x"),
    )
    entries = {(acl.resource_type, acl.resource_name, acl.operation) for acl in broker.acls}
    topic = {(2, "t", operation) for operation in (3, 4, 5, 8)}
    assert entries == topic | {(3, "g", 3), (5, "x", 4), (5, "x", 8), (4, "kafka-cluster", 12)}


def test_a_dry_run_changes_nothing(call: Callable[..., Done], broker: AclServer) -> None:
    right = ("--allow-principal", "User:a", "--operation", "Read", "--topic", "orders")
    assert "Adding ACLs" in call("--add", "--dry-run", *right).out
    assert broker.acls == {}
    call("--add", *right)
    shown = call("--remove", "--dry-run", "--topic", "orders").out
    assert shown.startswith(f"Would remove ACLs for resource `{ORDERS}`: \n \t(principal=User:a")
    assert len(broker.acls) == 1


def test_a_removal_asks_only_a_person(
    call: Callable[..., Done], broker: AclServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    call("--add", "--allow-principal", "User:a", "--topic", "orders")
    refused = call("--remove", "--topic", "orders")
    question = f"Are you sure you want to delete all ACLs for resource filter `{ORDERS}`? (y/n)\n"
    assert refused.code == 1
    assert refused.out.startswith(f"{question}Error while executing ACL command: there is no terminal")

    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setattr(sys, "stdin", Terminal("n\n"))
    assert call("--remove", "--topic", "orders") == Done(0, question, "")
    assert len(broker.acls) == 1
    monkeypatch.setattr(sys, "stdin", Terminal("Y\n"))
    assert call("--remove", "--topic", "orders") == Done(0, question, "")
    assert broker.acls == {}


@pytest.mark.usefixtures("kafkas_script")
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "Command must include exactly one action: --list, --add, --remove. "),
        (("--list", "--add"), "Command must include exactly one action: --list, --add, --remove. "),
        (("--bootstrap-controller", "h:1", "--list"), "Only one of --bootstrap-server or"),
        (("--list", "--producer"), 'Option "[list]" can\'t be used with option "[producer]"'),
        (
            ("--add", "--consumer", "--deny-principal", "User:a", "--deny-host", "h"),
            'Option "[consumer]" can\'t be used with option "[deny-principal]"',
        ),
        (("--add", "--principal", "User:a"), "The --principal option is only available if --list is set"),
        (("--add", "--producer"), "With --producer you must specify a --topic"),
        (("--add", "--idempotent"), "The --idempotent option is only available if --producer is set"),
        (("--add", "--consumer", "--topic", "t"), "With --consumer you must specify a --topic and a --group"),
        (("--add", "--allow-principal", "User:a"), "You must provide at least one resource: --topic <topic>"),
        (
            ("--add", "--topic", "t"),
            "You must specify one of: --allow-principal, --deny-principal when trying",
        ),
        (
            ("--add", "--topic", "t", "--allow-principal", "User:a", "--resource-pattern-type", "match"),
            "A '--resource-pattern-type' value of 'MATCH' is not valid when adding acls.",
        ),
        (
            ("--add", "--group", "g", "--allow-principal", "User:a", "--operation", "Write"),
            "ResourceType GROUP only supports operations [READ, DESCRIBE, DELETE, ",
        ),
        (
            ("--add", "--topic", "t", "--allow-principal", "User:a", "--operation", "Bogus"),
            "ResourceType TOPIC only supports operations [READ, WRITE, ",
        ),
        (("--check", "User:a", "Read"), "--check: expected an operation and a resource"),
    ],
)
def test_options_that_do_not_fit_together(
    call: Callable[..., Done], arguments: tuple[str, ...], message: str
) -> None:
    done = call(*arguments)
    assert (done.code, done.out) == (1, "")
    assert done.err.startswith(message)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ("--add", "--topic", "t", "--allow-principal", "bob"),
            "expected a string in format principalType:principalName but got bob",
        ),
        (
            ("--list", "--topic", "t", "--resource-pattern-type", "foo"),
            "Cannot parse argument 'foo' of option resource-pattern-type",
        ),
        (("--check", "User:a", "Read", "shop:t"), "--check: expected a resource of the type topic, group"),
        (("--check", "User:a", "Read", "topic"), "--check: expected topic:NAME, found topic"),
        (("--check", "User:a", "Fly", "topic:t"), "--check: expected an operation of topic (Read, Write"),
        (("--check", "alice", "Read", "topic:t"), "expected a string in format principalType:principalName"),
    ],
)
def test_wrong_values_are_reported_on_stdout(
    call: Callable[..., Done], arguments: tuple[str, ...], message: str
) -> None:
    done = call(*arguments)
    assert done.code == 1
    assert done.out.startswith(f"Error while executing ACL command: {message}")


def test_a_refusal_of_the_broker_ends_the_command(call: Callable[..., Done], broker: AclServer) -> None:
    broker.error = ErrorCode.SECURITY_DISABLED
    done = call("--add", "--allow-principal", "User:a", "--topic", "orders")
    assert done.code == 1
    assert done.out.endswith(
        "Error while executing ACL command: org.apache.kafka.common.errors.SecurityDisabledException: no\n\n"
    )
    assert call("--list").out.startswith("Error while executing ACL command: org.apache.kafka.common.errors.")


def test_a_check_names_the_acl_that_decides(call: Callable[..., Done]) -> None:
    call("--add", "--allow-principal", "User:alice", "--operation", "Write", "--topic", "ord", *PREFIXED)
    allowed = call("--check", "User:alice", "Describe", "topic:orders")
    assert allowed == Done(
        0,
        f"yes: User:alice may Describe on {ORDERS}\nallowed by (principal=User:alice, host=*, operation=WRITE, "
        "permissionType=ALLOW) on ResourcePattern(resourceType=TOPIC, name=ord, patternType=PREFIXED)\n",
        "",
    )
    unmatched = call("--check", "User:bob", "Write", "topic:orders")
    assert unmatched.code == 1
    assert unmatched.out.splitlines()[-1] == "the resource has ACLs, but none of them matches"
    assert "kcli acls --add --allow-principal User:bob --operation Write --topic orders" in unmatched.err
    assert "allow.everyone" not in unmatched.err
    open_to_all = call("--check", "User:bob", "Alter", "cluster")
    assert open_to_all.out.splitlines()[-1] == "the resource has no ACLs"
    assert "--operation Alter --cluster" in open_to_all.err
    assert "allow.everyone.if.no.acl.found=true" in open_to_all.err


PREFIXED = ("--resource-pattern-type", "prefixed")


def test_a_check_looks_at_the_host_and_the_denials(call: Callable[..., Done]) -> None:
    call("--add", "--allow-principal", "User:alice", "--allow-host", "10.0.0.1", "--topic", "orders")
    call("--add", "--deny-principal", "User:*", "--operation", "Delete", "--topic", "*")
    assert call("--check", "User:alice", "Write", "topic:orders").code == 1
    assert call("--check", "User:alice", "Write", "topic:orders", "--host", "10.0.0.1").code == 0
    denied = call(
        *("--check", "User:alice", "Delete", "topic:orders", "--host", "10.0.0.1", "--output", "json")
    )
    assert denied.code == 1
    assert json.loads(denied.out) == {
        "allowed": False,
        "principal": "User:alice",
        "operation": "DELETE",
        "resource_type": "TOPIC",
        "resource_name": "orders",
        "host": "10.0.0.1",
        "rule": "(principal=User:*, host=*, operation=DELETE, permissionType=DENY) on "
        "ResourcePattern(resourceType=TOPIC, name=*, patternType=LITERAL)",
    }


def test_a_list_as_json_and_tsv(call: Callable[..., Done]) -> None:
    call("--add", "--allow-principal", "User:alice", "--operation", "Read", "--topic", "orders")
    row = ("TOPIC", "orders", "LITERAL", "User:alice", "*", "READ", "ALLOW")
    (line,) = call("--list", "--output", "json").out.splitlines()
    assert tuple(json.loads(line).values()) == row
    header, line = call("--list", "--output", "tsv").out.splitlines()
    assert header.split("\t")[0] == "resource_type"
    assert tuple(line.split("\t")) == row


def test_the_operation_any_fails_on_stdout_before_the_resource_is_checked(call: Callable[..., Done]) -> None:
    for action in ("--add", "--remove"):
        done = call(action, "--allow-principal", "User:a", "--operation", "Any", "--topic", "t")
        assert done == Done(1, "Error while executing ACL command: operation must not be ANY\n\n", "")
    assert call("--add", "--operation", "Any", "--topic", "t").code == 1


def test_an_empty_host_is_stored(call: Callable[..., Done], broker: AclServer) -> None:
    assert call("--add", "--allow-principal", "User:a", "--allow-host", "", "--topic", "t").code == 0
    assert [acl.host for acl in broker.acls] == [""]

"""The options of kafka-acls, and the rules between them."""

from __future__ import annotations

from dataclasses import dataclass

from kcli.cli.connect import ClusterOptions
from kcli.cli.syntax.options import UsageError, flag, forbid, option


@dataclass(frozen=True, slots=True, kw_only=True)
class AclsOptions(ClusterOptions):
    bootstrap_controller: str | None = option(
        "The controllers to connect to first, as host:port,host:port.", metavar="controller to connect to"
    )
    add: bool = flag("Add ACLs.")
    remove: bool = flag("Remove ACLs.")
    list: bool = flag("List the ACLs of the given resources, or all ACLs.")
    check: str | None = option(
        "Check whether this principal may do an operation, and show the ACL that decides. The operation and the "
        "resource follow, for example: --check User:alice Write topic:orders.",
        metavar="principal",
    )
    host: str | None = option(
        "With --check: the IP address of the client. Without this option, the check ignores ACLs for single hosts.",
        metavar="host",
    )
    topic: tuple[str, ...] = option(
        "The topic to which the ACLs belong. * means every topic.", metavar="topic", repeatable=True
    )
    cluster: bool = flag("The ACLs belong to the cluster.")
    group: tuple[str, ...] = option(
        "The group to which the ACLs belong. * means every group.", metavar="group", repeatable=True
    )
    transactional_id: tuple[str, ...] = option(
        "The transactional id to which the ACLs belong. * means every transactional id.",
        metavar="transactional-id",
        repeatable=True,
    )
    delegation_token: tuple[str, ...] = option(
        "The delegation token to which the ACLs belong. * means every token.",
        metavar="delegation-token",
        repeatable=True,
    )
    user_principal: tuple[str, ...] = option(
        "The user to which the ACLs belong, as principalType:principalName. * means every user.",
        metavar="user-principal",
        repeatable=True,
    )
    resource_pattern_type: str = option(
        "literal: the names are exact. prefixed: the names are prefixes. The other two values are only for --list and "
        "--remove. any: all ACLs with exactly this name, literal or prefixed. match: all ACLs that apply to a resource "
        "with this name.",
        metavar="ANY|MATCH|LITERAL|PREFIXED",
        default="literal",
    )
    operation: tuple[str, ...] = option(
        "The operation that is allowed or denied: All, Alter, AlterConfigs, ClusterAction, Create, CreateTokens, "
        "Delete, Describe, DescribeConfigs, DescribeTokens, IdempotentWrite, Read, TwoPhaseCommit or Write.",
        metavar="String",
        default=("All",),
        repeatable=True,
    )
    allow_principal: tuple[str, ...] = option(
        "The principal that may do the operation, as principalType:principalName. User:* means every user.",
        metavar="allow-principal",
        repeatable=True,
    )
    deny_principal: tuple[str, ...] = option(
        "The principal that must not do the operation. A denial takes precedence over every permission.",
        metavar="deny-principal",
        repeatable=True,
    )
    allow_host: tuple[str, ...] = option(
        "The IP address from which the allowed principals have access. The default is every host.",
        metavar="allow-host",
        repeatable=True,
    )
    deny_host: tuple[str, ...] = option(
        "The IP address from which the denied principals have no access. The default is every host.",
        metavar="deny-host",
        repeatable=True,
    )
    principal: tuple[str, ...] = option(
        "With --list: list only the ACLs of this principal.", metavar="principal", repeatable=True
    )
    producer: bool = flag(
        "Add or remove the ACLs of a producer: WRITE, DESCRIBE and CREATE on the topics, WRITE and DESCRIBE on the "
        "transactional ids."
    )
    consumer: bool = flag(
        "Add or remove the ACLs of a consumer: READ and DESCRIBE on the topics, READ on the groups."
    )
    idempotent: bool = flag(
        "With --producer: also add or remove the permission of an idempotent producer on the cluster. Only brokers "
        "before Kafka 2.8 need this permission."
    )
    force: bool = flag("Do not ask before ACLs are removed.")
    dry_run: bool = flag("With --add and --remove: print the ACLs, but change nothing.")


ACTIONS = ("add", "remove", "list", "check")


def check_options(options: AclsOptions) -> None:
    """Raises UsageError, with Kafka's message, if the options do not fit together."""
    if options.has("bootstrap-server") and options.has("bootstrap-controller"):
        raise UsageError("Only one of --bootstrap-server or --bootstrap-controller must be specified")
    if options.bootstrap_server is None and options.bootstrap_controller is None:
        raise UsageError("One of --bootstrap-server or --bootstrap-controller must be specified")
    if sum(options.has(action) for action in ACTIONS) != 1:
        raise UsageError("Command must include exactly one action: --list, --add, --remove. ")
    denials = ("deny-principal", "deny-host")
    forbid(
        options,
        "list",
        "producer",
        "consumer",
        "allow-host",
        "allow-principal",
        "deny-host",
        "deny-principal",
    )
    forbid(options, "producer", "operation", *denials)
    forbid(options, "consumer", "operation", *denials)
    if options.principal and not options.list:
        raise UsageError("The --principal option is only available if --list is set")
    if options.producer and not options.topic:
        raise UsageError("With --producer you must specify a --topic")
    if options.idempotent and not options.producer:
        raise UsageError("The --idempotent option is only available if --producer is set")
    others = options.cluster or options.transactional_id
    if options.consumer and (not options.topic or not options.group or (others and not options.producer)):
        raise UsageError(
            "With --consumer you must specify a --topic and a --group and no --cluster or --transactional-id "
            "option should be specified."
        )

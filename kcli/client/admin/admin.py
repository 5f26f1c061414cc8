"""The admin client. Every admin call is a coroutine method, and all calls share the same connections.

    async with AdminClient(config) as admin:
        await admin.create_topics([NewTopic(name="orders", partitions=3)])

The calls are grouped by subject in the other modules of this package. Arguments and results are dataclasses of these
modules. A module is imported at the first use of one of its calls, because a command needs only a few of them.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import TYPE_CHECKING

from kcli.client.client import Client

if TYPE_CHECKING:
    from kcli.client.admin import (
        acls,
        cluster,
        configs,
        features,
        groups,
        log_dirs,
        offsets,
        quorum,
        quotas,
        reassignments,
        tokens,
        topics,
        transactions,
    )


class _Call:
    """A call of another module, which becomes a method of the class at its first use."""

    def __init__(self, module: str) -> None:
        self._module = module
        self._name = ""

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, instance: object, owner: type) -> Callable[..., object]:
        function = getattr(importlib.import_module(f"kcli.client.admin.{self._module}"), self._name)
        setattr(owner, self._name, function)
        bound: Callable[..., object] = getattr(instance or owner, self._name)
        return bound


class AdminClient(Client):
    """A client with all admin calls as methods."""

    if TYPE_CHECKING:
        list_topics = topics.list_topics
        describe_topics = topics.describe_topics
        describe_topics_by_id = topics.describe_topics_by_id
        create_topics = topics.create_topics
        delete_topics = topics.delete_topics
        create_partitions = topics.create_partitions
        list_reassignments = reassignments.list_reassignments
        elect_leaders = topics.elect_leaders
        alter_reassignments = reassignments.alter_reassignments
        alter_replica_log_dirs = log_dirs.alter_replica_log_dirs

        describe_configs = configs.describe_configs
        incremental_alter_configs = configs.incremental_alter_configs
        list_config_resources = configs.list_config_resources

        describe_client_quotas = quotas.describe_client_quotas
        alter_client_quotas = quotas.alter_client_quotas
        describe_user_scram_credentials = quotas.describe_user_scram_credentials
        alter_user_scram_credentials = quotas.alter_user_scram_credentials

        describe_acls = acls.describe_acls
        create_acls = acls.create_acls
        delete_acls = acls.delete_acls

        create_delegation_token = tokens.create_delegation_token
        renew_delegation_token = tokens.renew_delegation_token
        expire_delegation_token = tokens.expire_delegation_token
        describe_delegation_tokens = tokens.describe_delegation_tokens

        list_offsets = offsets.list_offsets
        delete_records = offsets.delete_records
        describe_log_dirs = log_dirs.describe_log_dirs

        describe_cluster = cluster.describe_cluster
        describe_registered = cluster.describe_registered
        authorized_operations = cluster.authorized_operations
        api_versions = cluster.api_versions
        unregister_broker = cluster.unregister_broker

        describe_features = features.describe_features
        update_features = features.update_features

        active_controller = quorum.active_controller
        describe_quorum = quorum.describe_quorum
        add_voter = quorum.add_voter
        remove_voter = quorum.remove_voter

        list_groups = groups.list_groups
        describe_groups = groups.describe_groups
        list_group_offsets = groups.list_group_offsets
        list_all_offsets = groups.list_all_offsets
        alter_group_offsets = groups.alter_group_offsets
        delete_group_offsets = groups.delete_group_offsets
        delete_groups = groups.delete_groups
        remove_members = groups.remove_members

        list_transactions = transactions.list_transactions
        describe_transactions = transactions.describe_transactions
        describe_producers = transactions.describe_producers
        abort_transaction = transactions.abort_transaction
        force_terminate_transaction = transactions.force_terminate_transaction
    else:
        list_topics = _Call("topics")
        describe_topics = _Call("topics")
        describe_topics_by_id = _Call("topics")
        create_topics = _Call("topics")
        delete_topics = _Call("topics")
        create_partitions = _Call("topics")
        list_reassignments = _Call("reassignments")
        elect_leaders = _Call("topics")
        alter_reassignments = _Call("reassignments")
        alter_replica_log_dirs = _Call("log_dirs")
        describe_configs = _Call("configs")
        incremental_alter_configs = _Call("configs")
        list_config_resources = _Call("configs")
        describe_client_quotas = _Call("quotas")
        alter_client_quotas = _Call("quotas")
        describe_user_scram_credentials = _Call("quotas")
        alter_user_scram_credentials = _Call("quotas")
        describe_acls = _Call("acls")
        create_acls = _Call("acls")
        delete_acls = _Call("acls")
        create_delegation_token = _Call("tokens")
        renew_delegation_token = _Call("tokens")
        expire_delegation_token = _Call("tokens")
        describe_delegation_tokens = _Call("tokens")
        list_offsets = _Call("offsets")
        delete_records = _Call("offsets")
        describe_log_dirs = _Call("log_dirs")
        describe_cluster = _Call("cluster")
        describe_registered = _Call("cluster")
        authorized_operations = _Call("cluster")
        api_versions = _Call("cluster")
        unregister_broker = _Call("cluster")
        describe_features = _Call("features")
        update_features = _Call("features")
        active_controller = _Call("quorum")
        describe_quorum = _Call("quorum")
        add_voter = _Call("quorum")
        remove_voter = _Call("quorum")
        list_groups = _Call("groups")
        describe_groups = _Call("groups")
        list_group_offsets = _Call("groups")
        list_all_offsets = _Call("groups")
        alter_group_offsets = _Call("groups")
        delete_group_offsets = _Call("groups")
        delete_groups = _Call("groups")
        remove_members = _Call("groups")
        list_transactions = _Call("transactions")
        describe_transactions = _Call("transactions")
        describe_producers = _Call("transactions")
        abort_transaction = _Call("transactions")
        force_terminate_transaction = _Call("transactions")

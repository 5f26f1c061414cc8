"""The part of a node's configuration that the controller needs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from kcli.config.definition import ConfigValue
from kcli.controller.policies import NO_POLICIES, Policies
from kcli.metadata.image import VersionRange


@dataclass(frozen=True, slots=True)
class TokenSettings:
    """The settings of delegation tokens. Without a secret key there are no tokens."""

    secret_key: str | None = field(default=None, repr=False)
    max_lifetime_ms: int = 604_800_000
    renewal_ms: int = 86_400_000
    """The lifetime of a token after its creation, and after each renewal."""


@dataclass(frozen=True, slots=True)
class ControllerSettings:
    """The settings that the decisions need.

    `static_config` has the keys of the node's own file, with their values as texts. `config` has the values of all
    keys.
    """

    node_id: int
    supported_features: Mapping[str, VersionRange]
    num_partitions: int = 1
    default_replication_factor: int = 1
    delete_topic_enable: bool = True
    broker_session_timeout_ms: int = 9_000
    unclean_leader_election_enable: bool = False
    remote_log_storage_system_enable: bool = False
    kraft_version: int = 1
    static_voters: frozenset[int] = frozenset()
    """The ids of controller.quorum.voters. Empty if the voters are in the metadata log."""
    tokens: TokenSettings = TokenSettings()
    policies: Policies = NO_POLICIES
    static_config: Mapping[str, str] = field(default_factory=dict)
    config: Mapping[str, ConfigValue] = field(default_factory=dict)

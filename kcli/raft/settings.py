"""The settings of a raft node, from the configuration of its server."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from kcli.model.addresses import Address


@dataclass(frozen=True, slots=True, kw_only=True)
class RaftSettings:
    """The settings of a raft node. The times have the same defaults as Kafka's `controller.quorum.*` keys.

    `default_listener`: the name of the listener that is used to connect to controllers. `bootstrap`: the servers that
    are asked for the leader (controller.quorum.bootstrap.servers). `can_vote`: the node has the controller role. A node
    without this role is always an observer. `flushes`: the node flushes its log before the next Fetch. `flushes` must
    be True for a node with the controller role. `own_endpoints`: the addresses of this node, by listener name.
    """

    election_timeout_s: float = 1.0
    fetch_timeout_s: float = 2.0
    election_backoff_max_s: float = 1.0
    request_timeout_s: float = 2.0
    retry_backoff_s: float = 0.02
    default_listener: str = "CONTROLLER"
    bootstrap: tuple[Address, ...] = ()
    can_vote: bool = True
    flushes: bool = True
    own_endpoints: Mapping[str, Address] = field(default_factory=dict)
    min_kraft_version: int = 0
    max_kraft_version: int = 1

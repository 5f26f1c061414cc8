"""The connections of a node to the active controller, by their purpose."""

from __future__ import annotations

from kcli.config.broker import BrokerConfig
from kcli.model.ids import NO_LEADER
from kcli.runtime.network import Network
from kcli.server.network.links import Secure
from kcli.server.quorum.channel import LocalController, NodeChannel
from kcli.server.quorum.remote_controller import RemoteController
from kcli.server.quorum.view import QuorumView


class ControllerChannels:
    """Opens the channels of a node. Each channel has a queue of its own, so that no heartbeat waits for the request of
    a client.

    `local` is the controller role of this node, or None.
    """

    def __init__(
        self,
        config: BrokerConfig,
        network: Network,
        view: QuorumView,
        local: LocalController | None,
        secure: Secure,
    ) -> None:
        self.by_purpose: dict[str, NodeChannel] = {}
        self._config = config
        self._network = network
        self._view = view
        self._local = local
        self._secure = secure

    def open(self, purpose: str, limit_s: float | None) -> NodeChannel:
        """Opens a channel. `purpose` is its name in the metrics. `limit_s` is the longest wait of a request, or
        None."""
        remote = RemoteController(
            self._network,
            lambda: self._view.leader_address,
            client_id=str(self._config.node_id),
            limit_s=limit_s,
            socket_timeout_s=self._config.integer("controller.socket.timeout.ms") / 1000,
            secure=self._secure,
        )
        channel = self.by_purpose[purpose] = NodeChannel(self._local, remote, self._leads_elsewhere)
        return channel

    async def stop(self) -> None:
        for channel in self.by_purpose.values():
            await channel.stop()

    def _leads_elsewhere(self) -> bool:
        return self._view.leader_id not in (NO_LEADER, self._config.node_id)

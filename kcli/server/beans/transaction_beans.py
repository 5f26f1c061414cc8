"""The beans of transactions: their coordinator, their markers, and the verification of partitions."""

from __future__ import annotations

from kcli.server.beans.sources import Beans
from kcli.server.handlers.ports import BrokerPorts


def transaction_beans(broker: BrokerPorts) -> Beans:
    yield from ()

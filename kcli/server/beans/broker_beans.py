"""All beans of a node, with the object names and attributes of Kafka 4.1.

Each file of this package has one group of beans. docs/metrics.md lists the beans of Kafka that do not exist here, with
the reasons. Kafka has beans for the idle ratio of its handler threads and network threads. Here, the values of these
beans are the idle ratio of the event loop: the share of the time in which the loop's thread used no CPU.
"""

from __future__ import annotations

from kcli.server.beans.bean import Kind, bean, gauge
from kcli.server.beans.channel_beans import channel_beans
from kcli.server.beans.cleaner_beans import cleaner_beans
from kcli.server.beans.controller_beans import controller_beans
from kcli.server.beans.fetcher_beans import fetcher_beans
from kcli.server.beans.group_beans import group_beans
from kcli.server.beans.lag_beans import lag_beans
from kcli.server.beans.listener_beans import listener_beans
from kcli.server.beans.log_beans import log_beans
from kcli.server.beans.metadata_beans import metadata_beans
from kcli.server.beans.partition_beans import partition_beans
from kcli.server.beans.purgatory_beans import purgatory_beans
from kcli.server.beans.quota_beans import quota_beans
from kcli.server.beans.raft_beans import raft_beans
from kcli.server.beans.replica_beans import replica_beans
from kcli.server.beans.request_beans import request_beans
from kcli.server.beans.server_beans import server_beans
from kcli.server.beans.sources import SERVER, Beans, BeanSources
from kcli.server.beans.traffic_beans import traffic_beans
from kcli.server.beans.transaction_beans import transaction_beans

__all__ = ["BeanSources", "broker_beans"]

_OF_EVERY_NODE = (
    server_beans,
    traffic_beans,
    request_beans,
    listener_beans,
    quota_beans,
    channel_beans,
    controller_beans,
    raft_beans,
    metadata_beans,
    log_beans,
    cleaner_beans,
)
_OF_BROKERS = (
    purgatory_beans,
    replica_beans,
    fetcher_beans,
    group_beans,
    lag_beans,
    transaction_beans,
    partition_beans,
)


def broker_beans(sources: BeanSources) -> Beans:
    """Yields all beans. Each bean is made only when the caller asks for the next one, so the caller can do other work
    between two beans. During long work between two beans, this function yields None, so that the caller can do other
    work then too.
    """
    objects = attributes = 0
    for next_bean in _every(sources):
        yield next_bean
        if next_bean is not None:
            is_sensor = next_bean.kind is Kind.SENSORS
            attributes += len(next_bean.attributes) if is_sensor else 0
            objects += len(next_bean.attributes) if next_bean.kind is Kind.GAUGES else not is_sensor
    owner = "KafkaServer" if sources.broker is not None else "ControllerServer"
    yield gauge(SERVER, owner, "yammer-metrics-count", objects + 1)
    yield bean(SERVER, "kafka-metrics-count", {"count": attributes + 1})


def _every(sources: BeanSources) -> Beans:
    for make in _OF_EVERY_NODE:
        yield from make(sources)
        yield None
    broker = sources.broker
    if broker is not None:
        for make_of_broker in _OF_BROKERS:
            yield from make_of_broker(broker)
            yield None

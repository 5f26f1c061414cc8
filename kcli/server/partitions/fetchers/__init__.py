"""The fetchers of a broker, which copy records from the leaders on other brokers into the logs of this broker."""

from kcli.server.partitions.fetchers.replica_fetchers import ReplicaFetchers

__all__ = ["ReplicaFetchers"]

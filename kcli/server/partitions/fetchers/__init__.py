"""The fetchers of a broker, which copy the records of other leaders into the logs of this broker."""

from kcli.server.partitions.fetchers.replica_fetchers import ReplicaFetchers

__all__ = ["ReplicaFetchers"]

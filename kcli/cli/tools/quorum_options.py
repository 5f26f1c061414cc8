"""The options of the tools that send requests to brokers or controllers: kafka-features and kafka-metadata-quorum."""

from __future__ import annotations

from dataclasses import dataclass

from kcli.cli.connect import ClusterOptions
from kcli.cli.syntax.options import option


@dataclass(frozen=True, slots=True, kw_only=True)
class QuorumOptions(ClusterOptions):
    bootstrap_server: str | None = option("The brokers to connect to first, as host:port,host:port.")
    bootstrap_controller: str | None = option("The controllers to connect to first, as host:port,host:port.")
    command_config: str | None = option("A properties file with settings of the admin client.")

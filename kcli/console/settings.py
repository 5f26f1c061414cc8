"""The settings of the console, which the command line has checked."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from kcli.http.connect_rest import ConnectRest
from kcli.model.addresses import Address

PORT = 8090
"""The default port. Most web consoles for Kafka use 8080, which is often taken."""

READ_MECHANISMS = ("SCRAM-SHA-512", "SCRAM-SHA-256", "PLAIN")
"""The SASL mechanisms with a name and a password, which a person can type into a page."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSettings:
    """One cluster: its name on the pages, and the properties of its clients with `bootstrap.servers`."""

    name: str
    properties: Mapping[str, str] = field(repr=False)
    config_file: str | None = None
    """The file of the properties, for the command lines that the pages show."""
    metrics: tuple[Address, ...] = ()
    """The metrics endpoints of the brokers, for the traffic on the first page."""
    schema_registry: str | None = field(default=None, repr=False)
    """The URL of the schema registry, which may contain a password."""
    traces: str | None = field(default=None, repr=False)
    """The URL of the store of traces (Jaeger or Tempo), which may contain a password."""
    spark_urls: tuple[str, ...] = field(default=(), repr=False)
    """The URLs of Spark's drivers and history servers. The URLs may contain passwords."""
    spark_checkpoints: tuple[str, ...] = ()
    """Directories with checkpoints of Spark's streaming queries."""
    connect: tuple[ConnectRest, ...] = ()
    """A worker of each group of Kafka Connect workers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsoleSettings:
    clusters: tuple[ClusterSettings, ...]
    host: str = "127.0.0.1"
    port: int = PORT
    base_path: str = ""
    """The path in front of every address, such as /kafka, without a slash at its end."""
    allowed_hosts: frozenset[str] = frozenset()
    """Names by which browsers reach the console, in addition to localhost and to IP addresses."""
    tls: ssl.SSLContext | None = None
    is_read_only: bool = False
    audit_file: str | None = None
    undo_directory: Path | None = None
    """The directory for the undo files of runs. None: the console writes no undo files."""

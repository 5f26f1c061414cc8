"""Measures a broker over TLS and SASL beside PLAINTEXT, and prints a table with goals, then one JSON line per figure.

    python bench/tls.py [--megabytes 200] [--connects 300] [--rounds 3] [--listeners PLAINTEXT,SSL] [--beside COMMAND]

librdkafka produces with acks=all and consumes over the listeners of one broker. COMMAND starts a broker of another
kind, with a properties file as its last argument. Both brokers have the same certificate, and serve in turns. Each
broker has the first core, and the client has the others. Figures are medians. The first round only warms up.

A connect is a TCP connection with the handshake of TLS, if there is one. A login is a connection with ApiVersions and
the requests of SASL.
"""

from __future__ import annotations

import argparse
import shlex
import socket
import ssl
import statistics
import sys
import tempfile
import uuid
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from measure import HEADER, Bench, Cost, Figure, pinned, print_json, timed
from parts.clients import Settings, consume, make_offsets_topic, produce

from kcli.config.properties import load
from kcli.config.start_up import node_config
from kcli.local_cluster.supervisor import system_machine
from kcli.security.client import ClientSecurity, client_security
from kcli.server.formatting.format import ensure_formatted
from kcli.spark.client.connection import Connection
from kcli.testing.broker_process import BrokerProcess, free_port

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from rigs.certificates import Certificates, make_certificates

PLAINTEXT, SSL, SASL = LISTENERS = ("PLAINTEXT", "SSL", "SASL_SSL")
MODULES = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
}
"""The mechanisms of SASL, and their login modules. The clients that write and read use the last one."""
USER = 'username="alice" password="secret"'
CONNECT_LIMIT_S = 30.0
VALUE_SIZES = (100, 1000)
OWN, BESIDE = "kcli", "beside"


@dataclass(frozen=True, slots=True)
class Server:
    """A running broker. `addresses` and `settings` are those of clients of each listener, `logins` those of each
    mechanism."""

    bench: Bench
    addresses: dict[str, str]
    settings: dict[str, Settings]
    logins: dict[str, ClientSecurity]
    trusted: str

    def works(self, listener: str, options: argparse.Namespace) -> Iterator[Work]:
        address, settings = self.addresses[listener], self.settings[listener]
        for size in VALUE_SIZES:
            topic, count = f"t-{uuid.uuid4().hex}", options.megabytes * 1_000_000 // size
            self.bench.topic(topic)
            yield Work(
                f"{size} B in", count, partial(produce, address, topic, size, count, settings=settings)
            )
            yield Work(f"{size} B out", count, partial(consume, address, topic, count, settings=settings))
            self.bench.delete(topic)
        if listener == SASL:
            for mechanism, security in self.logins.items():
                log_in = partial(logins, address, security, options.connects)
                yield Work(f"logins by {mechanism}", options.connects, partial(timed, log_in))
            return
        connect = partial(connects, address, self.trusted if listener == SSL else None, options.connects)
        yield Work("connects", options.connects, partial(timed, connect))


@dataclass(frozen=True, slots=True)
class Work:
    """Something to measure. `run` does it `amount` times, and returns the seconds."""

    name: str
    amount: int
    run: Callable[[], float]


Costs = dict[tuple[str, str, str], list[Cost]]
"""The costs of one record or connection in each round, by work, kind of broker and listener."""


def connects(address: str, trusted: str | None, count: int) -> None:
    """Connects one client after another. Each client sends nothing but its handshake (P-256)."""
    host, port = address.split(":")
    context = ssl.create_default_context(cafile=trusted) if trusted else None
    for _ in range(count):
        with socket.create_connection((host, int(port))) as opened:
            if context is not None:
                context.wrap_socket(opened, server_hostname="localhost").close()


def logins(address: str, security: ClientSecurity, count: int) -> None:
    """Logs in one client after another."""
    host, port = address.split(":")
    for _ in range(count):
        Connection(host, int(port), "bench", CONNECT_LIMIT_S, security).close()


def sasl_config() -> dict[str, str]:
    """The settings of a broker for the listener with SASL."""
    prefix = f"listener.name.{SASL.lower()}."
    plain, scram = MODULES.values()
    return {
        f"{prefix}sasl.enabled.mechanisms": ",".join(MODULES),
        f"{prefix}plain.sasl.jaas.config": f'{plain} required user_alice="secret";',
        f"{prefix}scram-sha-512.sasl.jaas.config": f"{scram} required;",
    }


def security_of(mechanism: str, certificates: Certificates) -> ClientSecurity:
    login = {"sasl.mechanism": mechanism, "sasl.jaas.config": f"{MODULES[mechanism]} required {USER};"}
    return client_security(certificates.client_config(protocol=SASL) | login)


def add_user(bootstrap: str) -> None:
    from confluent_kafka.admin import (
        AdminClient,
        ScramCredentialInfo,
        ScramMechanism,
        UserScramCredentialUpsertion,
    )

    info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
    credential = UserScramCredentialUpsertion("alice", info, b"secret")
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.alter_user_scram_credentials([credential])["alice"].result()


@contextmanager
def running(certificates: Certificates, command: Sequence[str] | None = None) -> Iterator[Server]:
    with tempfile.TemporaryDirectory(prefix="kcli-bench-") as directory:
        broker = BrokerProcess(directory, command=command)
        address, with_login = (f"127.0.0.1:{free_port()}" for _ in range(2))
        listeners = f"{broker.properties['listeners']},SSL://{address},{SASL}://{with_login}"
        broker.overrides |= {
            "listeners": listeners,
            "advertised.listeners": listeners,
            "group.initial.rebalance.delay.ms": "0",
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_SSL:SASL_SSL",
            **certificates.broker_config(),
            **sasl_config(),
        }
        ensure_formatted(node_config(load(str(broker.write_properties()))), system_machine(), lambda _: None)
        with broker, pinned(broker):
            make_offsets_topic(broker.bootstrap)
            add_user(broker.bootstrap)
            *_, mechanism = MODULES
            login = {"sasl.mechanism": mechanism, "sasl.username": "alice", "sasl.password": "secret"}
            yield Server(
                Bench(broker, 0),
                {PLAINTEXT: broker.bootstrap, SSL: address, SASL: with_login},
                {
                    PLAINTEXT: {},
                    SSL: certificates.librdkafka_config(),
                    SASL: certificates.librdkafka_config(protocol=SASL.lower()) | login,
                },
                {each: security_of(each, certificates) for each in MODULES},
                certificates.authority.pem,
            )


def measured(servers: dict[str, Server], options: argparse.Namespace) -> Costs:
    costs: Costs = defaultdict(list)
    for number in range(options.rounds + 1):
        for listener in options.listeners.split(","):
            for kind, server in servers.items():
                for work in server.works(listener, options):
                    cost = server.bench.cost(work.run)
                    if number:
                        each = Cost(cost.seconds / work.amount, cost.cpu_s / work.amount)
                        costs[work.name, kind, listener].append(each)
    return costs


def figures(costs: Costs) -> Iterator[Figure]:
    """The rate and the CPU time of each work, and those over TLS and SASL beside the other broker."""
    rates = {key: 1 / statistics.median(each.seconds for each in found) for key, found in costs.items()}
    cpu = {key: statistics.median(each.cpu_s for each in found) for key, found in costs.items()}
    for key, rate in rates.items():
        yield Figure(", ".join(key) + ": rate", rate / 1000, "k/s")
        yield Figure(", ".join(key) + ": broker CPU", cpu[key] * 1e6, "CPU-s/M")
    for name, kind, listener in costs:
        if kind == BESIDE and listener != PLAINTEXT:
            own, other = (name, OWN, listener), (name, BESIDE, listener)
            title = f"{name}, {listener}"
            yield Figure(f"{title}: rate, {OWN} over {BESIDE}", rates[own] / rates[other], "times", ">= 1")
            yield Figure(f"{title}: CPU, {OWN} over {BESIDE}", cpu[own] / cpu[other], "times", "<= 0.8")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--megabytes", type=int, default=200)
    parser.add_argument("--connects", type=int, default=300)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--listeners", default=",".join(LISTENERS))
    parser.add_argument("--beside", metavar="COMMAND", help="starts a broker of another kind")
    options = parser.parse_args()
    commands = {OWN: None} | ({BESIDE: shlex.split(options.beside)} if options.beside else {})
    with tempfile.TemporaryDirectory() as directory, ExitStack() as stack:
        certificates = make_certificates(directory)
        servers = {
            kind: stack.enter_context(running(certificates, command)) for kind, command in commands.items()
        }
        found = list(figures(measured(servers, options)))
    print(HEADER)
    for each in found:
        print(f"{each.name:<60}{each.value:>14,.3f} {each.unit:<16}{each.goal}")
    print_json(found)


if __name__ == "__main__":
    main()

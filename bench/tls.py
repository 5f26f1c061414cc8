"""Measures a broker over TLS beside PLAINTEXT, and prints a table with goals, then one JSON line per figure.

    python bench/tls.py [--megabytes 200] [--connects 300] [--rounds 3] [--beside COMMAND]

librdkafka produces with acks=all and consumes over both listeners of one broker. COMMAND starts a broker of another
kind, with a properties file as its last argument. Both brokers have the same certificate, and serve in turns. Each
broker has the first core, and the client has the others. Figures are medians. The first round only warms up.
"""

from __future__ import annotations

import argparse
import shlex
import socket
import ssl
import statistics
import tempfile
import uuid
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial

from measure import HEADER, Bench, Cost, Figure, pinned, print_json, timed
from parts.clients import Settings, consume, make_offsets_topic, produce

from kcli.config.properties import load
from kcli.config.start_up import node_config
from kcli.local_cluster.supervisor import system_machine
from kcli.server.formatting.format import ensure_formatted
from kcli.testing.broker_process import BrokerProcess, free_port
from kcli.testing.rigs.certificates import Certificates, make_certificates

PLAINTEXT, SSL = LISTENERS = ("PLAINTEXT", "SSL")
VALUE_SIZES = (100, 1000)
OWN, BESIDE = "kcli", "beside"


@dataclass(frozen=True, slots=True)
class Server:
    """A running broker with two listeners. `addresses` and `settings` are those of clients of each listener."""

    bench: Bench
    addresses: dict[str, str]
    settings: dict[str, Settings]
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


@contextmanager
def running(certificates: Certificates, command: Sequence[str] | None = None) -> Iterator[Server]:
    with tempfile.TemporaryDirectory(prefix="kcli-bench-") as directory:
        broker = BrokerProcess(directory, command=command)
        address = f"127.0.0.1:{free_port()}"
        listeners = f"{broker.properties['listeners']},SSL://{address}"
        broker.overrides |= {
            "listeners": listeners,
            "advertised.listeners": listeners,
            "group.initial.rebalance.delay.ms": "0",
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL",
            **certificates.broker_config(),
        }
        ensure_formatted(node_config(load(str(broker.write_properties()))), system_machine(), lambda _: None)
        with broker, pinned(broker):
            make_offsets_topic(broker.bootstrap)
            yield Server(
                Bench(broker, 0),
                {PLAINTEXT: broker.bootstrap, SSL: address},
                {PLAINTEXT: {}, SSL: certificates.librdkafka_config()},
                certificates.authority.pem,
            )


def measured(servers: dict[str, Server], options: argparse.Namespace) -> Costs:
    costs: Costs = defaultdict(list)
    for number in range(options.rounds + 1):
        for listener in LISTENERS:
            for kind, server in servers.items():
                for work in server.works(listener, options):
                    cost = server.bench.cost(work.run)
                    if number:
                        each = Cost(cost.seconds / work.amount, cost.cpu_s / work.amount)
                        costs[work.name, kind, listener].append(each)
    return costs


def figures(costs: Costs) -> Iterator[Figure]:
    """The rate and the CPU time of each work, and those over TLS beside the other broker."""
    rates = {key: 1 / statistics.median(each.seconds for each in found) for key, found in costs.items()}
    cpu = {key: statistics.median(each.cpu_s for each in found) for key, found in costs.items()}
    for key, rate in rates.items():
        yield Figure(", ".join(key) + ": rate", rate / 1000, "k/s")
        yield Figure(", ".join(key) + ": broker CPU", cpu[key] * 1e6, "CPU-s/M")
    for name, kind, listener in costs:
        if (kind, listener) == (BESIDE, SSL):
            own, other = (name, OWN, SSL), (name, BESIDE, SSL)
            yield Figure(
                f"{name}, {SSL}: rate, {OWN} over {BESIDE}", rates[own] / rates[other], "times", ">= 1"
            )
            yield Figure(f"{name}, {SSL}: CPU, {OWN} over {BESIDE}", cpu[own] / cpu[other], "times", "<= 0.8")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--megabytes", type=int, default=200)
    parser.add_argument("--connects", type=int, default=300)
    parser.add_argument("--rounds", type=int, default=3)
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

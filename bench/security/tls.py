"""Measures a broker over TLS beside PLAINTEXT, and prints a table, then one JSON line per figure.

    python bench/security/tls.py [--megabytes 300] [--connects 300]

librdkafka produces and consumes over both listeners of one broker. The CPU time is that of the broker's process, which
the kernel counts. The ratio of both listeners is the figure to compare, because the client needs CPU time too.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import ssl
import sys
import tempfile
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from kcli.testing.broker_process import BrokerProcess, free_port
from kcli.testing.rigs.certificates import make_certificates

LISTENERS = ("PLAINTEXT", "SSL")
VALUE_SIZES = (100, 1000)
TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
WAIT_S = 120


@dataclass(frozen=True, slots=True)
class Figure:
    """One result: its name, its listener, and seconds of time and of the broker's CPU for `amount` units."""

    name: str
    listener: str
    amount: float
    unit: str
    seconds: float
    cpu_seconds: float

    def line(self) -> str:
        return (
            f"{self.name:24} {self.listener:10} {self.amount / self.seconds:12,.1f} {self.unit}/s "
            f"{self.cpu_seconds / self.amount * 1000:10.2f} CPU ms per {self.unit}"
        )


Settings = dict[str, str | int | float | bool]


class Rig:
    """A broker with two listeners, and the settings of clients for each."""

    def __init__(self, directory: str) -> None:
        certificates = make_certificates(directory)
        self.ports = {"PLAINTEXT": 0, "SSL": free_port()}
        self.broker = BrokerProcess(Path(directory) / "broker")
        listeners = f"{self.broker.properties['listeners']},SSL://127.0.0.1:{self.ports['SSL']}"
        self.broker.overrides |= {
            "listeners": listeners,
            "advertised.listeners": listeners,
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL",
            **certificates.broker_config(),
        }
        self.ports["PLAINTEXT"] = self.broker.port
        self.trusted = certificates.authority.pem
        self.settings: dict[str, Settings] = {"PLAINTEXT": {}, "SSL": certificates.librdkafka_config()}

    def client(self, listener: str) -> Settings:
        bootstrap: Settings = {"bootstrap.servers": f"127.0.0.1:{self.ports[listener]}"}
        return bootstrap | self.settings[listener]

    def cpu_seconds(self) -> float:
        assert self.broker.process is not None
        fields = Path(f"/proc/{self.broker.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / TICKS_PER_SECOND

    def measured(
        self, name: str, listener: str, amount: float, unit: str, work: Callable[[], None]
    ) -> Figure:
        cpu, begun = self.cpu_seconds(), time.perf_counter()
        work()
        seconds = time.perf_counter() - begun
        return Figure(name, listener, amount, unit, seconds, self.cpu_seconds() - cpu)


def records(rig: Rig, listener: str, size: int, megabytes: int) -> list[Figure]:
    """Produces values to a new topic, and consumes them."""
    topic, count = f"t-{uuid.uuid4().hex}", megabytes * 1_000_000 // size
    admin = AdminClient(rig.client(listener))  # the result needs the client
    admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(WAIT_S)

    def produce() -> None:
        producer = Producer(
            {**rig.client(listener), "linger.ms": 5, "queue.buffering.max.messages": 1_000_000}
        )
        value = os.urandom(size)
        for _ in range(count):
            while True:
                try:
                    producer.produce(topic, value)
                    break
                except BufferError:
                    producer.poll(0.1)
        assert producer.flush(WAIT_S) == 0

    def consume() -> None:
        consumer = Consumer({**rig.client(listener), "group.id": topic, "fetch.message.max.bytes": 4_000_000})
        consumer.assign([TopicPartition(topic, 0, 0)])
        left = count
        while left:
            got = consumer.consume(min(left, 10_000), WAIT_S)
            assert got, f"{left} records are missing"
            left -= len(got)
        consumer.close()

    return [
        rig.measured(f"{size} B values in", listener, megabytes, "MB", produce),
        rig.measured(f"{size} B values out", listener, megabytes, "MB", consume),
    ]


def connects(rig: Rig, listener: str, count: int) -> Figure:
    """Connects one client after another. Each client sends nothing but its handshake."""
    context = ssl.create_default_context(cafile=rig.trusted)

    def work() -> None:
        for _ in range(count):
            with socket.create_connection(("127.0.0.1", rig.ports[listener])) as opened:
                if listener == "SSL":
                    context.wrap_socket(opened, server_hostname="localhost").close()

    return rig.measured("connects (P-256)", listener, count, "connect", work)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--megabytes", type=int, default=300)
    parser.add_argument("--connects", type=int, default=300)
    options = parser.parse_args()
    figures: list[Figure] = []
    with tempfile.TemporaryDirectory() as directory:
        rig = Rig(directory)
        with rig.broker:
            for size in VALUE_SIZES:
                for listener in LISTENERS:
                    figures += records(rig, listener, size, options.megabytes)
            figures += [connects(rig, listener, options.connects) for listener in LISTENERS]
    for figure in figures:
        print(figure.line())
    for figure in figures:
        print(json.dumps({name: getattr(figure, name) for name in Figure.__slots__}))


if __name__ == "__main__":
    main()

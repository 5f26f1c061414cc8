"""Writes and reads records as text and JSON with librdkafka, for tests of the streams library."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from rigs.librdkafka import consume, produce

if TYPE_CHECKING:
    from kcli.testing.broker_process import BrokerProcess

MINUTE_MS = 60_000
START_MS = 1_000 * MINUTE_MS


def send(
    broker: BrokerProcess, topic: str, *records: tuple[str | None, Any] | tuple[str | None, Any, int]
) -> None:
    """Sends rows of key, value (a text or a JSON value) and milliseconds since START_MS."""
    produce(
        broker.bootstrap,
        topic,
        [
            {
                "key": key,
                "value": value if value is None or isinstance(value, str) else json.dumps(value),
                **({"timestamp": START_MS + at[0]} if at else {}),
            }
            for key, value, *at in records
        ],
    )


def received(broker: BrokerProcess, topic: str, count: int) -> list[tuple[str | None, Any]]:
    """Key and value of the first `count` records that are committed."""
    found = consume(broker.bootstrap, topic, count)  # librdkafka reads committed records by default
    return [
        (None if each.key() is None else each.key().decode(), each.value() and each.value().decode())
        for each in found
    ]


def newest(records: list[tuple[str | None, Any]]) -> dict[str | None, Any]:
    return {key: value for key, value in dict(records).items() if value is not None}

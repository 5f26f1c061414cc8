"""The first page: figures about the cluster, its traffic, and the findings of the check-up."""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from kcli.client.diagnosis.checkup.finding import CheckupFinding
from kcli.client.diagnosis.checkup.gather import Looks, gather
from kcli.client.diagnosis.checkup.rules import check_up
from kcli.console.cache import Aged
from kcli.console.calls import Call
from kcli.console.failures import failure_of
from kcli.console.pages.storage import Storage, known_storage
from kcli.console.pages.topology import cached_topology
from kcli.console.routes import Read
from kcli.errors import KafkaError, KcliError, ProtocolError
from kcli.http.checkup_metrics import named_metrics
from kcli.http.client import get
from kcli.model.addresses import Address

CHECKUP_SECONDS = 600.0
"""The time for which the findings are shown before the check-up runs again. A check-up requests every config and
offset.
"""

FAILED_SECONDS = 10.0
"""The time after which a check-up that failed runs again."""

LOOKS = Looks()
"""The number of samples of groups, and their interval. They do not delay the page, because the check-up runs in the
background."""

TRAFFIC_SECONDS = 5.0
TRAFFIC_SAMPLES_MAX = 360
"""The most samples of traffic: half an hour, if a page asks every five seconds."""

TRAFFIC_MAX_BYTES = 256 * 1024
TRAFFIC_MAX_SECONDS = 3.0
_RATES = {
    "kafka.server:type=BrokerTopicMetrics,name=BytesInPerSec": "bytes_in",
    "kafka.server:type=BrokerTopicMetrics,name=BytesOutPerSec": "bytes_out",
    "kafka.server:type=BrokerTopicMetrics,name=MessagesInPerSec": "messages_in",
}
_TRAFFIC_QUERY = "/jmx?" + "&".join(f"qry={name}" for name in _RATES)


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkup:
    """The result of a check-up. `error` is set if the check-up failed."""

    findings: Sequence[CheckupFinding] = ()
    error: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Traffic:
    """The traffic at one time. `rates` has sums per second over the brokers that answered. `missing` is the number of
    the other brokers."""

    at_ms: int
    rates: dict[str, float] = field(default_factory=dict)
    missing: int = 0


async def show(call: Call) -> dict[str, object]:
    """GET /overview: the figures of the cluster."""
    answer = await cached_topology(call)
    topology, storage = answer.value, known_storage(call)
    topics = [topic for topic in topology.topics if not topic.is_internal]
    leaders = [topology.leaders[node.id] for node in topology.alive]
    return {
        "cluster_id": topology.cluster_id,
        "controller": topology.controller_id,
        "brokers": len(topology.alive),
        "fenced": [node.id for node in topology.brokers if node.is_fenced],
        "topics": len(topics),
        "internal_topics": len(topology.topics) - len(topics),
        "partitions": sum(topic.partitions for topic in topology.topics),
        "under_replicated": sum(topic.under_replicated for topic in topology.topics),
        "offline": sum(topic.offline for topic in topology.topics),
        "leaders_least": min(leaders, default=0),
        "leaders_most": max(leaders, default=0),
        "sizes": None if storage is None else _sizes(storage),
        "has_traffic": bool(call.rules.settings.metrics),
    }


async def show_contact(_: Call) -> dict[str, object]:
    """GET /contact: only what each answer has: which servers of the cluster do not answer."""
    return {}


def _sizes(answer: Aged[Storage]) -> dict[str, object]:
    """The bytes of records, and the fullest volume. `without` are the brokers whose sizes are unknown."""
    storage = answer.value
    directories = [directory for broker in storage.brokers for directory in storage.directories(broker)]
    volumes = [
        (directory.usable_bytes / directory.total_bytes, directory.usable_bytes, directory.total_bytes)
        for directory in directories
        if directory.total_bytes and directory.usable_bytes is not None
    ]
    _, usable, total = min(volumes, default=(0.0, None, None))
    return {
        "age_ms": answer.age_ms,
        "stale": answer.is_stale,
        "without": storage.without,
        "records_bytes": sum(directory.size_bytes for directory in directories) if directories else None,
        "usable_bytes": usable,
        "total_bytes": total,
        "failed_directories": sum(directory.error is not None for directory in directories),
    }


async def show_checkup(call: Call) -> dict[str, object]:
    """GET /checkup: the findings, or a note that the check-up is still running. A check-up can take longer than the
    time limit of a request."""
    cache, known = call.connection.cache, call.connection.cache.known("checkup")
    has_failed = isinstance(known, Checkup) and known.error is not None
    seconds = 1.0 if call.query("fresh") == "1" else FAILED_SECONDS if has_failed else CHECKUP_SECONDS
    checkup = cache.begin("checkup", seconds, lambda: _check(call))
    if checkup is None:
        return {"is_running": True}
    call.uses(checkup)
    return {
        "is_running": cache.is_loading("checkup"),
        "error": checkup.value.error,
        "findings": checkup.value.findings,
    }


async def _check(call: Call) -> Checkup:
    try:
        endpoints = call.rules.settings.metrics
        snapshot = await gather(
            call.admin, looks=LOOKS, metrics=named_metrics(endpoints) if endpoints else None
        )
    except (KafkaError, ProtocolError, OSError) as error:
        failure = failure_of(error)
        return Checkup(error=str(error) if failure is None else failure.message)
    servers = call.rules.settings.properties.get("bootstrap.servers", "")
    config_file = call.rules.settings.config_file
    findings = await asyncio.to_thread(check_up, snapshot, servers, config_file)
    return Checkup(findings=findings)


async def show_traffic(call: Call) -> dict[str, object]:
    """GET /traffic: the rates of the brokers' metrics endpoints (--metrics), one point for each answer."""
    samples: deque[Traffic] = call.connection.keep("traffic", lambda: deque(maxlen=TRAFFIC_SAMPLES_MAX))

    async def load() -> Traffic:
        traffic = await _traffic(call)
        samples.append(traffic)
        return traffic

    latest = (await call.cached("traffic", load, seconds=TRAFFIC_SECONDS)).value
    return {
        "missing": latest.missing,
        "series": {
            name: [[sample.at_ms, sample.rates.get(name)] for sample in samples] for name in _RATES.values()
        },
    }


async def _traffic(call: Call) -> Traffic:
    endpoints = call.rules.settings.metrics
    answers = await asyncio.gather(*map(_rates, endpoints))
    answered = [answer for answer in answers if answer is not None]
    rates = {name: sum(answer.get(name, 0.0) for answer in answered) for name in _RATES.values()}
    return Traffic(
        at_ms=call.clock.now_ms(), rates=rates if answered else {}, missing=len(endpoints) - len(answered)
    )


async def _rates(endpoint: Address) -> dict[str, float] | None:
    """The rates of one broker, or None if its metrics endpoint gives no valid answer."""
    try:
        async with asyncio.timeout(TRAFFIC_MAX_SECONDS):
            answer = await get(endpoint, _TRAFFIC_QUERY, body_max_bytes=TRAFFIC_MAX_BYTES)
        beans = json.loads(answer.body)["beans"]
        return {
            _RATES[bean["name"]]: float(bean["OneMinuteRate"]) for bean in beans if bean.get("name") in _RATES
        }
    except (OSError, KcliError, ValueError, KeyError, TypeError):
        return None


ROUTES = (
    Read("/overview", show),
    Read("/contact", show_contact, needs_cluster=False),
    Read("/checkup", show_checkup, needs_cluster=False),
    Read("/traffic", show_traffic, needs_cluster=False),
)

"""Rules about servers: brokers, controllers, clocks, configs, features and certificates."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from shlex import quote

from kcli.client.diagnosis.certificates import EXPIRES_SOON
from kcli.client.diagnosis.checkup.finding import CheckupFinding, Severity, listed
from kcli.client.diagnosis.checkup.snapshot import Snapshot
from kcli.model.amounts import counted
from kcli.model.configs import ConfigSource

VOTER_BEHIND_MS = 30_000
"""A voter that has not caught up for this time is down or cut off. A voter fetches at least each half second
(controller.quorum.fetch.timeout.ms is 2 s)."""
CLOCK_AHEAD_MS = 1_000
"""A larger difference of clocks is a fault, because NTP keeps clocks within milliseconds of each other."""

_OF_ONE_BROKER = (
    "node.id",
    "broker.id",
    "broker.rack",
    "process.roles",
    "listeners",
    "advertised.listeners",
    "log.dir",
    "log.dirs",
    "metadata.log.dir",
    "controller.quorum.voters",
    "kcli.metrics.listener",
)
_OF_ONE_BROKER_PARTS = ("ssl.keystore.", "sasl.jaas.config", "sasl.kerberos.")
"""Configs whose values differ between brokers in every cluster."""

_RAISED_TOGETHER = (
    "metadata.version",
    "transaction.version",
    "group.version",
    "eligible.leader.replicas.version",
)
"""Features that operators raise after each upgrade. Other features are optional."""


def brokers(snapshot: Snapshot) -> Iterator[CheckupFinding]:
    """Finds brokers that are registered but do not serve clients."""
    for node in snapshot.nodes:
        if node.is_fenced:
            held = sum(
                node.id in partition.replicas
                for topic in snapshot.topics.values()
                for partition in topic.partitions
            )
            yield CheckupFinding(
                Severity.WARNING,
                "fenced-broker",
                f"broker {node.id}",
                "The broker is registered but sends no heartbeats. Start it. Only if it never comes back: give its "
                f"replicas to other brokers (kcli reassign-partitions --decommission {node.id}), and then remove its "
                f"registration (kcli cluster unregister --id {node.id})",
                (
                    f"{node.host}:{node.port} is fenced",
                    f"{counted(held, 'partition has a replica', 'partitions have a replica')} on it",
                ),
                "kcli cluster list-endpoints --include-fenced-brokers",
            )


def controllers(snapshot: Snapshot) -> Iterator[CheckupFinding]:
    """Finds voters that do not follow the metadata log, and a quorum that would not survive the failure of one node."""
    quorum = snapshot.quorum
    assert quorum is not None, "the rule needs the quorum"
    if quorum.leader_id < 0:
        yield CheckupFinding(
            Severity.CRITICAL, "controllers", "quorum", "No controller is active, so nothing can be changed"
        )
        return
    leader = next((voter for voter in quorum.voters if voter.id == quorum.leader_id), None)
    now_ms = (leader.last_caught_up_ms if leader else None) or snapshot.time_ms
    behind = [
        voter
        for voter in quorum.voters
        if voter.id != quorum.leader_id
        and (voter.last_caught_up_ms is None or now_ms - voter.last_caught_up_ms > VOTER_BEHIND_MS)
    ]
    count = len(quorum.voters)
    alive = count - len(behind)
    if behind:
        yield CheckupFinding(
            Severity.CRITICAL if alive <= count // 2 + 1 and count > 1 else Severity.WARNING,
            "controllers",
            "quorum",
            f"{counted(len(behind), 'voter does', 'voters do')} not follow the metadata log. {alive} of {count} are "
            f"left, and {count // 2 + 1} are needed",
            listed(
                f"voter {voter.id}: {quorum.high_watermark - voter.log_end_offset} records behind"
                for voter in behind
            ),
            "kcli metadata-quorum describe --replication",
        )
    if count % 2 == 0 or (count == 1 and len(snapshot.nodes) > 2):
        yield CheckupFinding(
            Severity.ADVICE,
            "controllers",
            "size of the quorum",
            f"The quorum has {counted(count, 'voter')}, so it survives {counted((count - 1) // 2, 'failure')}. Three "
            "or five voters are usual",
            listed(f"voter {voter.id}" for voter in quorum.voters),
            "kcli metadata-quorum add-controller",
        )


def clocks(snapshot: Snapshot) -> Iterator[CheckupFinding]:
    """Checks the clock of the active controller. Kafka has no API for the clocks of other nodes."""
    ahead = snapshot.clock_ahead_ms
    rest = "No API shows the clocks of other brokers: compare them with `date`, or by NTP"
    if ahead is None:
        yield CheckupFinding(
            Severity.UNKNOWN, "clocks", "cluster", f"The controller did not report its time. {rest}"
        )
    elif abs(ahead) > CLOCK_AHEAD_MS + snapshot.clock_error_ms:
        yield CheckupFinding(
            Severity.WARNING,
            "clocks",
            f"controller {snapshot.quorum.leader_id if snapshot.quorum else snapshot.controller_id}",
            f"Its clock and the clock of this machine differ by {abs(ahead) / 1000:.1f} s. Retention, lag in seconds "
            f"and time-outs need equal clocks. {rest}",
            (
                f"the controller is {'ahead' if ahead > 0 else 'behind'}, measured to {snapshot.clock_error_ms} ms",
            ),
            "timedatectl timesync-status",
        )


def differing_configs(snapshot: Snapshot) -> Iterator[CheckupFinding]:
    """Finds configs in the files of brokers whose values differ between brokers."""
    values: dict[str, dict[int, str | None]] = {}
    for broker, entries in snapshot.broker_configs.items():
        for entry in entries:
            if not entry.is_sensitive and not _is_of_one_broker(entry.name):
                values.setdefault(entry.name, {})[broker] = entry.value
    differing = [
        f"{name}: {_shown(of)}"
        for name, of in sorted(values.items())
        if len(set(of.values())) > 1 or (len(of) < len(snapshot.broker_configs) and _is_set(snapshot, name))
    ]
    if differing:
        yield CheckupFinding(
            Severity.WARNING,
            "broker-configs",
            "cluster",
            f"{counted(len(differing), 'config differs', 'configs differ')} between brokers. A partition behaves "
            "differently after its leader moves",
            listed(differing),
            "kcli configs --describe --entity-type brokers --all",
        )


def features(snapshot: Snapshot) -> Iterator[CheckupFinding]:
    """Finds features that the brokers support but that were not raised after an upgrade."""
    low = [
        feature
        for feature in snapshot.features
        if feature.name in _RAISED_TOGETHER and feature.finalized < feature.max_supported
    ]
    if low:
        options = " ".join(f"--feature {feature.name}={feature.max_supported}" for feature in low)
        yield CheckupFinding(
            Severity.ADVICE,
            "features",
            "cluster",
            f"{counted(len(low), 'feature was', 'features were')} not raised after an upgrade",
            listed(
                f"{feature.name}: level {feature.finalized}, supported {feature.max_supported}"
                for feature in low
            ),
            f"kcli features upgrade {options}",
        )


def certificates(snapshot: Snapshot) -> Iterator[CheckupFinding]:
    """Finds certificates of brokers that expire soon."""
    now = datetime.fromtimestamp(snapshot.time_ms / 1000, UTC)
    for server, ends in sorted(snapshot.certificates.items()):
        left = ends - now
        if left < EXPIRES_SOON:
            yield CheckupFinding(
                Severity.CRITICAL if left.days < 7 else Severity.WARNING,
                "certificates",
                server,
                f"The certificate {'expires in ' + counted(left.days, 'day') if left.days >= 0 else 'has expired'}. "
                "Replace the file of the key store. The broker then reads it without a restart",
                (f"valid until {ends:%Y-%m-%d %H:%M} UTC",),
                f"openssl s_client -connect {quote(server)} </dev/null | openssl x509 -noout -dates",
            )


def _is_of_one_broker(name: str) -> bool:
    return (
        name in _OF_ONE_BROKER
        or name.startswith("listener.name.")
        or any(name.startswith(part) for part in _OF_ONE_BROKER_PARTS)
    )


def _is_set(snapshot: Snapshot, name: str) -> bool:
    """Whether the config has a value other than Kafka's default on at least one broker."""
    return any(
        entry.name == name and entry.source is not ConfigSource.DEFAULT_CONFIG
        for entries in snapshot.broker_configs.values()
        for entry in entries
    )


def _shown(values: Mapping[int, str | None]) -> str:
    return ", ".join(f"broker {broker}={value}" for broker, value in sorted(values.items()))

"""The rules of the check-up, and the parts of a snapshot that each rule needs."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from kcli.client.diagnosis.checkup import brokers, clients, disks, partitions
from kcli.client.diagnosis.checkup.finding import CheckupFinding, Severity, worst_first
from kcli.client.diagnosis.checkup.snapshot import (
    BROKER_CONFIGS,
    CERTIFICATES,
    FEATURES,
    GROUPS,
    HISTORY,
    LAST_RECORDS,
    LOG_DIRS,
    METRICS,
    QUORUM,
    REASSIGNMENTS,
    STOPPED,
    TOPIC_CONFIGS,
    TOPICS,
    TRANSACTIONS,
    Snapshot,
)

REASON_MAX = 300
"""The most characters of an error that a finding shows."""


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule, and the parts of a snapshot that it needs. If one of these parts is missing, the rule is not applied, and
    the report names the part."""

    check: Callable[[Snapshot], Iterator[CheckupFinding]]
    needs: tuple[str, ...] = ()


RULES = (
    Rule(partitions.leaderless, (TOPICS,)),
    Rule(partitions.below_min_isr, (TOPICS, TOPIC_CONFIGS)),
    Rule(partitions.under_replicated, (TOPICS, REASSIGNMENTS)),
    Rule(partitions.one_replica, (TOPICS,)),
    Rule(partitions.min_isr, (TOPICS, TOPIC_CONFIGS)),
    Rule(partitions.uneven_leaders, (TOPICS,)),
    Rule(brokers.brokers),
    Rule(brokers.controllers, (QUORUM,)),
    Rule(brokers.clocks, (QUORUM,)),
    Rule(brokers.differing_configs, (BROKER_CONFIGS,)),
    Rule(brokers.features, (FEATURES,)),
    Rule(brokers.certificates, (CERTIFICATES,)),
    Rule(disks.offline_dirs, (LOG_DIRS,)),
    Rule(disks.filling_disks, (LOG_DIRS, HISTORY)),
    Rule(disks.small_segments, (LOG_DIRS, METRICS)),
    Rule(clients.rebalancing_groups, (GROUPS,)),
    Rule(clients.stopped_groups, (GROUPS, STOPPED)),
    Rule(clients.hanging_transactions, (TRANSACTIONS,)),
    Rule(clients.long_transactions, (TRANSACTIONS,)),
    Rule(clients.unused_topics, (TOPICS, GROUPS, LAST_RECORDS)),
    Rule(clients.old_clients, (METRICS,)),
)


def check_up(
    snapshot: Snapshot, servers: str = "", config_file: str | None = None
) -> Sequence[CheckupFinding]:
    """Applies all rules. Returns the findings, the worst first. `servers` are the bootstrap servers for the commands in
    the findings, and `config_file` is the file with the client's settings.
    """
    findings = [
        _with_servers(finding, servers, config_file) for rule in RULES for finding in _applied(rule, snapshot)
    ]
    return worst_first([*findings, *_unknown(snapshot)])


def _applied(rule: Rule, snapshot: Snapshot) -> Iterator[CheckupFinding]:
    if any(part in snapshot.missing for part in rule.needs):
        return
    try:
        yield from list(rule.check(snapshot))
    except Exception as error:  # an answer that the rule did not foresee must not end the report
        yield CheckupFinding(
            Severity.UNKNOWN,
            "not-checked",
            _name(rule),
            "This check failed, and the others were made",
            (f"{type(error).__name__}: {error}"[:REASON_MAX],),
        )


def _name(rule: Rule) -> str:
    return rule.check.__name__.replace("_", "-")


def _unknown(snapshot: Snapshot) -> Iterator[CheckupFinding]:
    """One finding for each missing part, with the rules that need it."""
    for part, reason in snapshot.missing.items():
        names = sorted(_name(rule) for rule in RULES if part in rule.needs)
        if names:
            yield CheckupFinding(
                Severity.UNKNOWN,
                "not-checked",
                part,
                f"These checks were not made: {', '.join(names)}",
                (reason,),
            )
    if METRICS not in snapshot.missing and snapshot.metrics.without:
        yield CheckupFinding(
            Severity.UNKNOWN,
            "not-checked",
            METRICS,
            "Clients and segments of some brokers were not checked",
            tuple(f"broker {broker}: {why}" for broker, why in sorted(snapshot.metrics.without.items())),
        )


def _with_servers(finding: CheckupFinding, servers: str, config_file: str | None) -> CheckupFinding:
    """The finding with the bootstrap servers and the client's settings in its command."""
    if not servers or not finding.command.startswith("kcli "):
        return finding
    _, tool, rest = finding.command.split(" ", 2)
    if tool == "jmx":  # it connects to the metrics endpoint of a broker
        return finding
    option = f"--bootstrap-server {shlex.quote(servers)}"
    if config_file is not None:
        option += f" --command-config {shlex.quote(config_file)}"
    # Of the tools here, only `cluster` has the option after its sub-command.
    command = f"kcli {tool} {rest} {option}" if tool == "cluster" else f"kcli {tool} {option} {rest}"
    return replace(finding, command=command)

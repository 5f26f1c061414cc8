"""The bean of the quorum: kafka.server:type=raft-metrics."""

from __future__ import annotations

from kcli.model.ids import ZERO_ID
from kcli.model.uuids import uuid_to_text
from kcli.raft.states.follower import Follower
from kcli.raft.states.leader import Leader
from kcli.raft.states.prospective import Prospective
from kcli.raft.states.resigned import Resigned
from kcli.raft.states.unattached import Unattached
from kcli.server.beans.bean import bean
from kcli.server.beans.sources import SERVER, Beans, BeanSources
from kcli.server.metrics.meters import Attributes
from kcli.server.quorum.quorum import Quorum

_NOBODY = -1
_NANOSECONDS = 1_000_000_000


def raft_beans(sources: BeanSources) -> Beans:
    yield bean(SERVER, "raft-metrics", _standing(sources) | _progress(sources))


def _standing(sources: BeanSources) -> Attributes:
    quorum, node = sources.quorum, sources.raft.node
    # A leader has the votes of its epoch, and its own vote is one of them.
    voted = node.key if isinstance(node.state, Leader) else node.state.voted
    uncommitted = node.voters_at(node.log_end_offset).offset >= node.high_watermark
    return {
        "current-epoch": quorum.epoch,
        "current-leader": quorum.leader_id,
        "current-state": state_name(sources.raft),
        "current-vote": _NOBODY if voted is None else voted.id,
        "current-vote-directory-id": uuid_to_text(ZERO_ID if voted is None else voted.directory_id),
        "high-watermark": quorum.high_watermark,
        "log-end-epoch": quorum.log_epoch,
        "log-end-offset": quorum.log_end_offset,
        "number-of-observers": sum(not replica.is_voter for replica in quorum.replicas(sources.clock)),
        "number-of-voters": len(quorum.voters.voters),
        "uncommitted-voter-change": int(quorum.kraft_version > 0 and uncommitted),
    }


def state_name(quorum: Quorum) -> str:
    """The state of this node, by Kafka's name. A node that follows and cannot vote is an observer."""
    state = quorum.node.state
    name = type(state).__name__.lower()
    is_voter = quorum.node.voters.voter(quorum.node.key) is not None
    match state:
        case Resigned():
            return "unattached"
        case Follower() | Unattached() if not is_voter:
            return "observer"
        case Unattached() | Prospective() if state.voted is not None:
            return f"{name}-voted"
        case _:
            return name


def _progress(sources: BeanSources) -> Attributes:
    now, watches, driver = sources.now, sources.metrics.watches, sources.raft.driver
    counts = watches.counts(driver.counts)
    commit = watches.values(driver.times.commit_ms, now)
    election = watches.values(driver.times.election_ms, now)
    return {
        "append-records-rate": counts.rate(driver.counts, "appended_records", now),
        "fetch-records-rate": counts.rate(driver.counts, "fetched_records", now),
        "commit-latency-avg": commit.average,
        "commit-latency-max": commit.largest,
        "election-latency-avg": election.average,
        "election-latency-max": election.largest,
        "poll-idle-ratio-avg": min(counts.rate(driver.counts, "idle_ns", now) / _NANOSECONDS, 1.0),
    }

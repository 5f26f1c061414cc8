"""Jobs of Spark: streaming queries by their checkpoints, with their lag in the cluster, and applications.

The options --spark-checkpoint and --spark name the checkpoints and the servers of Spark.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field

from kcli.console.answers import Rows, whole_sum
from kcli.console.cache import Aged
from kcli.console.calls import Call
from kcli.console.contact import NoAnswer
from kcli.console.routes import Read
from kcli.console.spark.applications import Application, read_applications
from kcli.errors import ErrorCode, KafkaError, NetworkException, TimeoutException
from kcli.formats.spark_checkpoints import Checkpoint, NoCheckpoint, read_checkpoints
from kcli.http.urls import UrlError
from kcli.model.request_values import OffsetSpec
from kcli.model.topic_partition import TopicPartition

PARTITIONS_MAX = 10_000
"""The most partitions whose end offsets are requested for one page."""

Ends = dict[TopicPartition, int | KafkaError]
"""End offsets. A partition that is missing has no answer."""

_HIDDEN = frozenset(
    {
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.INVALID_TOPIC_EXCEPTION,
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicLag:
    """The lag of a query in one topic, in records. The lag is None if the end offset of a partition is unknown."""

    topic: str
    partitions: int
    lag: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryRow:
    """A streaming query. The lag is None if the lag of a topic is unknown.

    `hidden_topics` is the number of topics that the user may not see, or that do not exist. `unanswered_topics` is the
    number of topics of which the cluster has told nothing. Their names are not shown, because the user may not be
    allowed to see them.
    """

    name: str
    query_id: str
    directory: str
    batch: int | None
    committed_ms: int | None
    planned_ms: int | None
    watermark_ms: int | None
    lag: int | None
    topics: list[TopicLag] = field(default_factory=list)
    hidden_topics: int = 0
    unanswered_topics: int = 0
    other_sources: int = 0


@dataclass(frozen=True, slots=True)
class _Sources:
    """The checkpoints by directory, and the errors of directories that could not be read."""

    checkpoints: list[tuple[str, Checkpoint]]
    problems: list[str]


async def show_sources(call: Call) -> dict[str, object]:
    """GET /spark: the numbers of checkpoints and servers that the options name, and an error for each of these that
    cannot be read."""
    settings = call.rules.settings
    sources = (await _cached_checkpoints(call)).value
    applications = (await _cached_applications(call)).value
    return {
        "checkpoints": len(settings.spark_checkpoints),
        "servers": len(settings.spark_urls),
        "problems": [*sources.problems, *applications[1]],
    }


async def list_queries(call: Call) -> Rows:
    """GET /spark/queries: the streaming queries, with their lag."""
    answer = await _cached_checkpoints(call)
    ends = await _cached_ends(call, answer.value)
    rows = [_row(directory, checkpoint, ends) for directory, checkpoint in answer.value.checkpoints]
    return call.listing().rows(
        rows,
        text=lambda row: (
            f"{row.name} {row.query_id} {row.directory} {' '.join(topic.topic for topic in row.topics)}"
        ),
        columns={
            "name": lambda row: row.name,
            "batch": lambda row: row.batch,
            "committed_ms": lambda row: row.committed_ms,
            "lag": lambda row: row.lag,
        },
    )


async def list_applications(call: Call) -> Rows:
    """GET /spark/applications: the applications of Spark's servers."""
    answer = await _cached_applications(call)
    return call.listing().rows(
        list(answer.value[0]),
        text=lambda row: f"{row.name} {row.id} {row.user}",
        columns={
            "newest": lambda row: -(row.started_ms or 0),
            "name": lambda row: row.name,
            "started_ms": lambda row: row.started_ms,
            "is_running": lambda row: row.is_running,
        },
    )


async def _cached_checkpoints(call: Call) -> Aged[_Sources]:
    async def load() -> _Sources:
        return await asyncio.to_thread(_read, call.rules.settings.spark_checkpoints)

    return await call.cached(("spark-checkpoints",), load)


def _read(directories: Sequence[str]) -> _Sources:
    sources = _Sources([], [])
    for directory in directories:
        try:
            sources.checkpoints.extend((directory, checkpoint) for checkpoint in read_checkpoints(directory))
        except NoCheckpoint as error:
            sources.problems.append(str(error))
    return sources


async def _cached_applications(call: Call) -> Aged[tuple[list[Application], list[str]]]:
    async def load() -> tuple[list[Application], list[str]]:
        applications: list[Application] = []
        problems: list[str] = []
        for url in call.rules.settings.spark_urls:
            try:
                applications += await read_applications(url)
            except UrlError as error:
                problems.append(str(error))
        return applications, problems

    return await call.cached(("spark-applications",), load)


async def _cached_ends(call: Call, sources: _Sources) -> Ends:
    """Returns the end offsets, or an empty result if the cluster does not answer: the checkpoints are known without the
    cluster, but no lag is known."""
    contact = call.connection.contact
    try:
        answer = await contact.guarded(call.cached(("spark-ends",), lambda: _end_offsets(call, sources)))
    except (NoAnswer, NetworkException, TimeoutException, OSError):
        return {}
    return {} if answer.is_stale or contact.is_lost else answer.value


async def _end_offsets(call: Call, sources: _Sources) -> Ends:
    """Returns the end offset of each partition, or the reason why it is unknown."""
    parts = dict.fromkeys(part for _, checkpoint in sources.checkpoints for part in checkpoint.offsets)
    specs = dict.fromkeys(list(parts)[:PARTITIONS_MAX], int(OffsetSpec.LATEST))
    if not specs:
        return {}
    ends = await call.admin.list_offsets(specs, wait_for_leaders=False)
    return {part: end if isinstance(end, KafkaError) else end.offset for part, end in ends.items()}


def _row(directory: str, checkpoint: Checkpoint, ends: Ends) -> QueryRow:
    """Returns the row of a query. A topic without any known end offset has no name in the row, because the user may not
    be allowed to know the name.
    """
    lags: dict[str, list[int | None]] = {}
    hidden: set[str] = set()
    for part, offset in checkpoint.offsets.items():
        end = ends.get(part)
        lags.setdefault(part.topic, []).append(max(0, end - offset) if isinstance(end, int) else None)
        if isinstance(end, KafkaError) and end.code in _HIDDEN:
            hidden.add(part.topic)
    topics = [
        TopicLag(topic=topic, partitions=len(lags[topic]), lag=whole_sum(lags[topic]))
        for topic in sorted(lags)
        if any(lag is not None for lag in lags[topic])
    ]
    unnamed = lags.keys() - {topic.topic for topic in topics}
    unanswered = len(unnamed - hidden)
    return QueryRow(
        name=checkpoint.name,
        query_id=checkpoint.query_id,
        directory=directory,
        batch=checkpoint.batch,
        committed_ms=checkpoint.committed_ms,
        planned_ms=checkpoint.planned_ms,
        watermark_ms=checkpoint.watermark_ms,
        lag=whole_sum([topic.lag for topic in topics]) if topics and not unanswered else None,
        topics=topics,
        hidden_topics=len(unnamed) - unanswered,
        unanswered_topics=unanswered,
        other_sources=len(checkpoint.other_sources),
    )


ROUTES = (
    Read("/spark", show_sources, needs_cluster=False),
    Read("/spark/queries", list_queries, needs_cluster=False),
    Read("/spark/applications", list_applications, needs_cluster=False),
)

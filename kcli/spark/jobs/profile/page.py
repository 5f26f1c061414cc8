"""Makes the HTML page of profiles: one file with charts in SVG, without scripts and without requests to other servers.

Topic names and keys can contain any text, so the page escapes them.
"""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from html import escape

from kcli.model.amounts import counted
from kcli.spark.jobs.profile.figures import SIZE_LIMITS, TopicProfile, moment

WIDTH, HEIGHT = 640, 132
"""The units in which the bars of a chart are drawn. The browser fits the drawing to the screen."""

LINES_MAX = 4
"""The most steps of the scale of a chart."""

STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 1100px; padding: 0 1rem; color: #1c2733 }
h1 { font-size: 1.5rem } h2 { margin-top: 2.5rem; border-bottom: 2px solid #2b6cb0 } h3 { margin: 1rem 0 .3rem }
h1, h2, dd { overflow-wrap: anywhere }
dl { display: grid; grid-template-columns: max-content minmax(0, 1fr); gap: .1rem 1.5rem }
dt { color: #5a6b7b } dd { margin: 0 }
.wide { overflow-x: auto; margin-top: 1rem } table { border-collapse: collapse }
td, th { padding: .15rem .9rem; text-align: right; border-bottom: 1px solid #dde3ea; white-space: nowrap }
td:first-child, th:first-child { text-align: left; white-space: normal; overflow-wrap: anywhere; min-width: 6rem }
.charts { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 30rem), 1fr)); gap: 1rem 2rem }
.chart { display: grid; grid-template-columns: max-content minmax(0, 1fr); gap: .2rem .5rem }
.scale, .ends { display: flex; justify-content: space-between; font-size: 12px; color: #5a6b7b }
.scale { flex-direction: column; text-align: right; line-height: 1; margin: -6px 0 }
.ends { grid-column: 2; gap: 1rem; overflow-wrap: anywhere }
svg { width: 100%; height: 132px } svg path { stroke: #dde3ea; vector-effect: non-scaling-stroke }
rect { fill: #2b6cb0 } rect:hover { fill: #dd6b20 }
@media (max-width: 600px) {
  body { margin: 1rem auto } dl { grid-template-columns: minmax(0, 1fr) } dd { margin-bottom: .4rem }
  td, th { padding: .15rem .5rem }
}
@media (prefers-color-scheme: dark) {
  body { background: #12181f; color: #dbe4ee } rect { fill: #63a4e8 } td, th { border-color: #2c3947 }
  svg path { stroke: #2c3947 } dt, .scale, .ends { color: #93a4b5 }
}
"""


def page(profiles: Sequence[TopicProfile]) -> str:
    made = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC")
    body = "".join(_topic(profile) for profile in profiles) or "<p>No records.</p>"
    topics = counted(len(profiles), "topic")
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>Profile of {topics}</title><style>{STYLE}</style></head>"
        f"<body><h1>Profile of {topics}</h1><p>Made {made}.</p>{body}</body></html>\n"
    )


def _topic(profile: TopicProfile) -> str:
    records = profile.records
    figures = {
        "records": f"{records:,}",
        "time": f"{moment(profile.first_ms)} to {moment(profile.last_ms)}",
        "rate": f"{profile.records_per_second:,.1f} records/s on average",
        "longest silence": f"{profile.longest_silence_ms / 1000:,.0f} s",
        "values": f"{profile.value_bytes:,} bytes, {profile.value_bytes / records:,.0f} on average, "
        f"{profile.null_values:,} null",
        "keys": f"{'not counted' if profile.distinct_keys is None else f'{profile.distinct_keys:,} different'}, "
        f"{profile.null_keys:,} null",
        "offsets without a record": f"{profile.missing_offsets:,}",
        "fullest partition": f"{profile.partition_skew:.2f} times the average",
    }
    if profile.key_skew is not None:
        figures["most frequent key"] = f"{profile.key_skew:.1%} of the records"
    listed = "".join(f"<dt>{escape(name)}</dt><dd>{escape(value)}</dd>" for name, value in figures.items())
    starts = [moment(profile.first_ms + nth * profile.step_ms) for nth in range(len(profile.rate))]
    sizes = [f"up to {_size(limit)}" for limit in SIZE_LIMITS] + [f"above {_size(SIZE_LIMITS[-1])}"]
    partitions = [f"partition {partition.partition}" for partition in profile.partitions]
    charts = [
        ("Records over time", starts, list(profile.rate)),
        ("Records by size of the value", sizes, list(profile.sizes)),
        ("Records by partition", partitions, [partition.records for partition in profile.partitions]),
    ]
    if profile.top_keys:
        keys = [key.key for key in profile.top_keys]
        charts.append(("Most frequent keys", keys, [key.records for key in profile.top_keys]))
    drawn = "".join(
        f"<div><h3>{escape(title)}</h3>{chart(names, counts)}</div>" for title, names, counts in charts
    )
    return (
        f"<h2>{escape(profile.topic)}</h2><dl>{listed}</dl>"
        f'<div class="charts">{drawn}</div>{_partitions(profile)}{_keys(profile)}'
    )


def chart(names: Sequence[str], counts: Sequence[int]) -> str:
    """Returns a bar chart with a scale of round values. A tooltip of each bar shows its name and count.

    The texts are beside the drawing, so that they keep their size if the drawing is narrow.
    """
    step = round_step(max([*counts, 1]))
    lines = range(0, -(-max([*counts, 1]) // step) * step + 1, step)
    width = WIDTH / max(len(counts), 1)
    bars = []
    for nth, (name, count) in enumerate(zip(names, counts, strict=True)):
        height = count / lines[-1] * HEIGHT
        if count:
            height = max(height, 1)  # a bar of less than one pixel would be invisible
        bars.append(
            f'<rect x="{nth * width:.1f}" y="{HEIGHT - height:.1f}" width="{max(width - 1, 0.5):.1f}" '
            f'height="{height:.1f}"><title>{escape(name)}: {count:,}</title></rect>'
        )
    levels = [HEIGHT - line / lines[-1] * HEIGHT for line in lines]
    grid = "".join(f'<path d="M0 {level:.1f}H{WIDTH}"/>' for level in levels)
    scale = "".join(f"<span>{line:,}</span>" for line in reversed(lines))
    ends = "".join(
        f"<span>{escape(_short(name))}</span>" for name in dict.fromkeys((*names[:1], *names[-1:]))
    )
    return (
        f'<div class="chart"><div class="scale">{scale}</div>'
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" preserveAspectRatio="none" role="img">{grid}{"".join(bars)}</svg>'
        f'<div class="ends">{ends}</div></div>'
    )


def round_step(most: int) -> int:
    """The step of a scale from 0 to at least `most` in at most LINES_MAX steps: 1, 2 or 5 times a power of ten."""
    power = 1
    while True:
        for digit in (1, 2, 5):
            if digit * power * LINES_MAX >= most:
                return digit * power
        power *= 10


def _partitions(profile: TopicProfile) -> str:
    heads = ("partition", "records", "first offset", "last offset", "missing", "value bytes")
    rows = [
        (
            partition.partition,
            partition.records,
            partition.first_offset,
            partition.last_offset,
            partition.missing_offsets,
            partition.value_bytes,
        )
        for partition in profile.partitions
    ]
    return _table(heads, [[f"{cell:,}" for cell in row] for row in rows])


def _keys(profile: TopicProfile) -> str:
    if not profile.top_keys:
        return ""
    rows = [[key.key, f"{key.records:,}", f"{key.records / profile.records:.2%}"] for key in profile.top_keys]
    return _table(("key", "records", "share"), rows)


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    head = "".join(f"<th>{escape(title)}</th>" for title in heads)
    body = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    table = f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    return f'<div class="wide" tabindex="0">{table}</div>'


def _short(text: str) -> str:
    return text if len(text) <= 40 else text[:39] + "…"


def _size(limit: int) -> str:
    for unit, name in ((1 << 20, "MiB"), (1 << 10, "KiB")):
        if limit >= unit:
            return f"{limit // unit} {name}"
    return f"{limit} B"

"""Makes the HTML page of profiles: one file with charts in SVG, without scripts and without requests to other servers.

Topic names and keys can contain any text, so the page escapes them.
"""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from html import escape

from kcli.spark.jobs.profile.figures import SIZE_LIMITS, TopicProfile, moment

WIDTH, HEIGHT, MARGIN = 640, 180, 24
"""The width and height of a chart in pixels, and the margin for text above and below the bars."""

STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 1100px; padding: 0 1rem; color: #1c2733 }
h1 { font-size: 1.5rem } h2 { margin-top: 2.5rem; border-bottom: 2px solid #2b6cb0 } h3 { margin: 1rem 0 .3rem }
dl { display: grid; grid-template-columns: max-content auto; gap: .1rem 1.5rem } dt { color: #5a6b7b } dd { margin: 0 }
table { border-collapse: collapse }
td, th { padding: .15rem .9rem; text-align: right; border-bottom: 1px solid #dde3ea }
td:first-child, th:first-child { text-align: left; overflow-wrap: anywhere }
.charts { display: flex; flex-wrap: wrap; gap: 1rem 2rem } svg { max-width: 100%; height: auto }
rect { fill: #2b6cb0 } rect:hover { fill: #dd6b20 } text { font: 11px system-ui, sans-serif; fill: #5a6b7b }
@media (prefers-color-scheme: dark) {
  body { background: #12181f; color: #dbe4ee } rect { fill: #63a4e8 } td, th { border-color: #2c3947 }
}
"""


def page(profiles: Sequence[TopicProfile]) -> str:
    made = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC")
    body = "".join(_topic(each) for each in profiles) or "<p>No records.</p>"
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>Profile of {len(profiles)} topics</title><style>{STYLE}</style></head>"
        f"<body><h1>Profile of {len(profiles)} topics</h1><p>Made {made}.</p>{body}</body></html>\n"
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
    partitions = [f"partition {each.partition}" for each in profile.partitions]
    charts = [
        ("Records over time", starts, list(profile.rate)),
        ("Records by size of the value", sizes, list(profile.sizes)),
        ("Records by partition", partitions, [each.records for each in profile.partitions]),
    ]
    if profile.top_keys:
        keys = [each.key for each in profile.top_keys]
        charts.append(("Most frequent keys", keys, [each.records for each in profile.top_keys]))
    drawn = "".join(
        f"<div><h3>{escape(title)}</h3>{chart(names, counts)}</div>" for title, names, counts in charts
    )
    return (
        f"<h2>{escape(profile.topic)}</h2><dl>{listed}</dl>"
        f'<div class="charts">{drawn}</div>{_partitions(profile)}{_keys(profile)}'
    )


def chart(names: Sequence[str], counts: Sequence[int]) -> str:
    """Returns a bar chart. A tooltip of each bar shows its name and count."""
    most = max([*counts, 1])
    width = WIDTH / max(len(counts), 1)
    bars = []
    for nth, (name, count) in enumerate(zip(names, counts, strict=True)):
        height = count / most * (HEIGHT - 2 * MARGIN)
        if count:
            height = max(height, 1)  # a bar of less than one pixel would be invisible
        bars.append(
            f'<rect x="{nth * width:.1f}" y="{HEIGHT - MARGIN - height:.1f}" width="{max(width - 1, 0.5):.1f}" '
            f'height="{height:.1f}"><title>{escape(name)}: {count:,}</title></rect>'
        )
    ends = f'<text x="0" y="{HEIGHT - 6}">{escape(_short(names[0]))}</text>' if names else ""
    if len(names) > 1:
        ends += f'<text x="{WIDTH}" y="{HEIGHT - 6}" text-anchor="end">{escape(_short(names[-1]))}</text>'
    return (
        f'<svg width="{WIDTH}" height="{HEIGHT}" viewBox="0 0 {WIDTH} {HEIGHT}" role="img">'
        f'<text x="0" y="12">{most:,}</text>{"".join(bars)}{ends}</svg>'
    )


def _partitions(profile: TopicProfile) -> str:
    heads = ("partition", "records", "first offset", "last offset", "missing", "value bytes")
    rows = [
        (
            each.partition,
            each.records,
            each.first_offset,
            each.last_offset,
            each.missing_offsets,
            each.value_bytes,
        )
        for each in profile.partitions
    ]
    return _table(heads, [[f"{cell:,}" for cell in row] for row in rows])


def _keys(profile: TopicProfile) -> str:
    if not profile.top_keys:
        return ""
    rows = [
        [each.key, f"{each.records:,}", f"{each.records / profile.records:.2%}"] for each in profile.top_keys
    ]
    return _table(("key", "records", "share"), rows)


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    head = "".join(f"<th>{escape(each)}</th>" for each in heads)
    body = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _short(text: str) -> str:
    return text if len(text) <= 40 else text[:39] + "…"


def _size(limit: int) -> str:
    for unit, name in ((1 << 20, "MiB"), (1 << 10, "KiB")):
        if limit >= unit:
            return f"{limit // unit} {name}"
    return f"{limit} B"

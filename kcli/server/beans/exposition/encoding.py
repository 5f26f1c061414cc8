"""The formats of a scrape: Prometheus' text format, and OpenMetrics for clients that accept it."""

from __future__ import annotations

import json
import math
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice

from kcli.model.java_floats import java_double
from kcli.model.java_text import parse_double, trim
from kcli.server.beans.bean import Bean
from kcli.server.beans.exposition.profile import MetricType
from kcli.server.beans.exposition.writers import Family

LINES_PER_PART = 2_000
"""The lines that are encoded in one step. This takes about half a millisecond."""


GZIP_LEVEL = 1
"""The fastest level. A part of LINES_PER_PART lines takes about a millisecond."""
_GZIP_FORMAT = 16 + zlib.MAX_WBITS


@dataclass(frozen=True, slots=True)
class Format:
    """A format. `is_open` is True for OpenMetrics, which has exemplars and ends with the line `# EOF`."""

    content_type: str
    is_open: bool


TEXT = Format("text/plain; version=0.0.4; charset=utf-8", is_open=False)
OPEN_METRICS = Format("application/openmetrics-text; version=1.0.0; charset=utf-8", is_open=True)

_OPEN_TYPE = "application/openmetrics-text"
_TEXT_TYPES = {MetricType.UNKNOWN: "untyped", MetricType.INFO: "gauge"}


def accepted_format(accept: str) -> Format:
    """The format for the header Accept of a request: OpenMetrics if the client prefers it or has no preference between
    both formats, otherwise the text format."""
    weights = dict(map(_media_range, accept.split(",")))
    open_weight = weights.get(_OPEN_TYPE, 0.0)
    return OPEN_METRICS if open_weight > 0 and open_weight >= weights.get("text/plain", 0.0) else TEXT


def accepts_gzip(accept: str) -> bool:
    """Whether the header Accept-Encoding of a request allows gzip."""
    weights = dict(map(_media_range, accept.split(",")))
    return weights.get("gzip", weights.get("*", 0.0)) > 0


def gzipped(parts: Iterable[bytes]) -> Iterator[bytes]:
    """Yields the compressed text in parts. Many parts are small or empty, because the compressor collects
    text first.
    """
    packer = zlib.compressobj(GZIP_LEVEL, wbits=_GZIP_FORMAT)
    for part in parts:
        yield packer.compress(part)
    yield packer.flush()


def _media_range(text: str) -> tuple[str, float]:
    media, *parameters = [trim(part) for part in text.split(";")]
    weights = [parameter.partition("=")[2] for parameter in parameters if parameter.startswith("q=")]
    try:
        return media.lower(), parse_double(weights[0]) if weights else 1.0
    except ValueError:
        return media.lower(), 0.0


def encoded(families: Iterable[Family], format_: Format) -> Iterator[bytes]:
    """Yields the text of a scrape in parts of LINES_PER_PART lines.

    Removes the lines from the families while it runs. If 200,000 lines were freed together at the end, this would block
    the event loop for 8 ms.
    """
    lines = _lines(families, format_)
    while part := list(islice(lines, LINES_PER_PART)):
        yield ("\n".join(part) + "\n").encode()


def _lines(families: Iterable[Family], format_: Format) -> Iterator[str]:
    for family in families:
        if family.lines:
            yield _type_line(family, format_)
            yield from _taken(family.lines)
    if format_.is_open:
        yield "# EOF"


def _taken(lines: list[str]) -> Iterator[str]:
    """Yields the lines in their order, and removes them."""
    lines.reverse()
    while lines:
        yield lines.pop()


def _type_line(family: Family, format_: Format) -> str:
    if not format_.is_open:
        return f"# TYPE {family.name} {_TEXT_TYPES.get(family.type, family.type)}"
    name = family.name
    if family.type is MetricType.COUNTER:
        name = name.removesuffix("_total")
    elif family.type is MetricType.INFO:
        name = name.removesuffix("_info")
    return f"# TYPE {name} {family.type}"


_encode_json = json.JSONEncoder(ensure_ascii=False, allow_nan=False).encode


def json_bean(bean: Bean) -> str:
    """The JSON text of one bean, an element of the list `beans`. JSON has no NaN and no infinity, so these values are
    texts.
    """
    try:
        return _encode_json({"name": bean.object_name, **bean.attributes})
    except ValueError:
        attributes = {name: _json_value(value) for name, value in bean.attributes.items()}
        return _encode_json({"name": bean.object_name, **attributes})


def _json_value(value: str | float) -> str | float:
    return java_double(value) if isinstance(value, float) and not math.isfinite(value) else value


def json_parts(beans: list[str]) -> Iterator[bytes]:
    """Yields the JSON text of all beans in parts, and empties the list."""
    yield b'{"beans":['
    separator = "\n"
    taken = _taken(beans)
    while part := list(islice(taken, LINES_PER_PART)):
        yield (separator + ",\n".join(part)).encode()
        separator = ",\n"
    yield b"\n]}\n"

"""The envelope of the console tools: what is written is read back, and odd lines never break the reader."""

from __future__ import annotations

import contextlib
import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from kcli.cli.syntax.options import CommandError
from kcli.cli.tools.console import envelope

DATA = st.none() | st.binary(max_size=40) | st.text(max_size=20).map(str.encode)
NAMES = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=8)


class Message:
    """What librdkafka hands out, as far as the envelope asks."""

    def __init__(self, **parts: Any) -> None:
        self.parts = parts

    def __getattr__(self, name: str) -> Any:
        return lambda: self.parts[name]


@given(
    key=DATA,
    value=DATA,
    headers=st.none() | st.lists(st.tuples(st.sampled_from(["a", "b"]) | NAMES, DATA), max_size=4),
    timestamp=st.sampled_from([(0, -1)]) | st.tuples(st.sampled_from([1, 2]), st.integers(0, 2**63 - 1)),
    partition=st.integers(0, 2**31 - 1),
)
def test_an_envelope_is_read_back_as_it_was_written(
    key: bytes | None,
    value: bytes | None,
    headers: list[tuple[str, bytes | None]] | None,
    timestamp: tuple[int, int],
    partition: int,
) -> None:
    line = envelope.write(
        Message(
            topic="t",
            partition=partition,
            offset=1,
            timestamp=timestamp,
            headers=headers,
            key=key,
            value=value,
        )
    )
    assert line.endswith(b"\n") and b"\n" not in line[:-1] and b"\r" not in line, "one record is one line"
    assert envelope.read(line[:-1], 1) == envelope.JsonRecord(
        key=key,
        value=value,
        headers=headers or [],
        partition=partition,
        timestamp_ms=timestamp[1] if timestamp[0] else None,
    )


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) |
    st.dictionaries(st.sampled_from(envelope.FIELDS) | st.text(max_size=3), inner, max_size=4),
    max_leaves=8,
)  # fmt: skip


@given(st.binary(max_size=60) | JSON.map(lambda value: json.dumps(value).encode()))
def test_any_line_is_a_record_or_an_error_with_its_number(line: bytes) -> None:
    with contextlib.suppress(CommandError):
        envelope.read(line, 7)
        return
    try:
        envelope.read(line, 7)
    except CommandError as error:
        assert str(error).startswith("standard input, line 7: ")

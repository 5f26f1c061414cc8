"""Long JSON bodies: decoded as short ones are, in many turns of the event loop."""

from __future__ import annotations

import asyncio

import pytest

from kcli.http.rest import json_slices
from kcli.http.rest.json_bodies import KEYS_MAX, InvalidBody, parse_json, texts_of
from kcli.http.rest.json_slices import DEPTH_MAX, read_json
from rigs.loops import on_a_loop
from rigs.turn_counter import CALLS_PER_TURN_MAX, TurnCounter

VALID = (
    b'{"a": [1, -2.5e3, "t\\u00e4", true, null, {}, []], "b": {"c": {"d": [[]]}}, "a": "last"} trailing',
    b'\xef\xbb\xbf\n[ { "a\\n" : 1 } , 2 ]',
    b'"text"',
    b"12",
    b"[]",
    b'{"\xc3\xa4": "\\ud83d\\ude00"}',
)
INVALID = (
    b"[1,",
    b"[1 2]",
    b"[1,]",
    b'{"a" 1}',
    b'{"a": 1,}',
    b"{1: 2}",
    b'{"a": 1]',
    b"[1}",
    b"[NaN]",
    b"[\xff]",
    b'["\\ud800"]',
    b'{"\\ud800": 1}',
    b"[" * (DEPTH_MAX + 1),
)


@pytest.fixture(autouse=True)
def _always_in_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_slices, "PARTS_AT_ONCE", -1)


@pytest.mark.parametrize("body", VALID)
@pytest.mark.parametrize("numbers_as_text", [True, False])
def test_the_value_is_that_of_a_short_body(body: bytes, numbers_as_text: bool) -> None:
    value = asyncio.run(read_json(body, numbers_as_text=numbers_as_text))
    assert repr(value) == repr(parse_json(body, numbers_as_text=numbers_as_text))


@pytest.mark.parametrize("body", INVALID)
def test_a_body_that_is_no_json_is_refused(body: bytes) -> None:
    with pytest.raises(InvalidBody):
        asyncio.run(read_json(body))


@on_a_loop
async def test_a_long_body_takes_many_turns_and_has_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_slices, "PARTS_MAX", 20_000)
    with TurnCounter() as counter:
        assert await read_json(b"[" + b"0," * 19_000 + b"0]", numbers_as_text=True) == ["0"] * 19_001
    assert counter.calls_in_one_turn < CALLS_PER_TURN_MAX
    with pytest.raises(InvalidBody, match="more than 20000 values"):
        await read_json(b"[" + b"0," * 20_000 + b"0]")


def test_a_map_of_texts_has_a_limit() -> None:
    with pytest.raises(InvalidBody, match="the body has 10001 keys: expected at most 10000"):
        texts_of({str(number): "" for number in range(KEYS_MAX + 1)}, "the body")

"""Repeated elements are read once, and any bytes give what a reader without memory gives."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcli.model.pace import at_once, no_pause
from kcli.protocol.messages.describe_configs import (
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)
from kcli.protocol.wire.api import ApiKey
from kcli.protocol.wire.codec import decode_response, encode_response
from kcli.protocol.wire.repeated import KEPT_MAX, RepeatedElements


def described(*settings: dict[str, str]) -> DescribeConfigsResponse:
    return DescribeConfigsResponse(
        results=tuple(
            DescribeConfigsResult(
                resource_type=2,
                resource_name=f"t{number}",
                configs=tuple(
                    DescribeConfigsResourceResult(
                        name=name,
                        value=value,
                        config_source=5,
                        synonyms=(DescribeConfigsSynonym(name=name, value=value, source=5),),
                    )
                    for name, value in each.items()
                ),
            )
            for number, each in enumerate(settings)
        )
    )


def decoded(response: DescribeConfigsResponse, version: int = 4) -> DescribeConfigsResponse:
    frame = encode_response(response, ApiKey.DESCRIBE_CONFIGS, version, 1)
    found = decode_response(ApiKey.DESCRIBE_CONFIGS, version, frame[4:])[1]
    assert isinstance(found, DescribeConfigsResponse)
    return found


@pytest.mark.parametrize("version", [1, 4])
def test_resources_share_equal_settings(version: int) -> None:
    first, second, third = decoded(
        described({"a": "1", "b": "2"}, {"a": "1", "b": "3"}, {"a": "1", "b": "3", "c": "4"}), version
    ).results
    assert [[entry.value for entry in each.configs] for each in (first, second, third)] == [
        ["1", "2"],
        ["1", "3"],
        ["1", "3", "4"],
    ]
    assert first.configs[0] is second.configs[0] is third.configs[0]
    assert second.configs[1] is third.configs[1]


@given(st.lists(st.dictionaries(st.sampled_from("abc"), st.text(max_size=3)), max_size=8))
def test_any_settings_are_read_as_they_were_written(settings: list[dict[str, str]]) -> None:
    response = described(*settings)
    assert decoded(response) == response


def test_the_kept_elements_are_bounded() -> None:
    reads = []

    async def read(frame: bytes, at: int, _pace: object) -> tuple[int, int]:
        reads.append(at)
        return frame[at], at + 1

    elements = RepeatedElements(read)
    frame = bytes(index % 200 for index in range(KEPT_MAX + 100))
    for _ in range(2):
        reads.clear()
        for index in range(len(frame)):
            assert at_once(elements.read(frame, index, index, no_pause)) == (frame[index], index + 1)
    assert reads == list(range(KEPT_MAX, KEPT_MAX + 100))

"""The checked-in messages are what the generator writes, and the API table agrees with kio."""

from __future__ import annotations

from typing import Any

import pytest

from kcli.protocol.wire import schema
from kcli.protocol.wire.api import API, ApiKey, ApiSpec
from kcli.protocol.wire.generate import MESSAGES, expected_files


def test_messages_are_current() -> None:
    expected = expected_files()
    stale = [path.name for path, text in expected.items() if not path.exists() or path.read_text() != text]
    assert stale == [], "run python -m kcli.protocol.wire.generate"
    assert {path.name for path in MESSAGES.glob("*.py")} == {path.name for path in expected}


def test_every_api_has_a_row() -> None:
    assert list(API) == list(ApiKey)


@pytest.mark.parametrize("spec", API.values(), ids=lambda spec: spec.name)
def test_table_agrees_with_the_schema(spec: ApiSpec) -> None:
    versions = schema.versions(spec)
    assert versions == list(range(spec.min_version, spec.max_version + 1))
    for version in versions:
        for kind in schema.KINDS:
            payload: Any = schema.payload_class(spec, version, kind)
            assert payload.__flexible__ == spec.is_flexible(version)

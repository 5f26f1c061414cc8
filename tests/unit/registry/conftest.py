"""The registry of each test uses a small schema language, so that a test shows the rules and not a language."""

from __future__ import annotations

import pytest

from kcli.registry.decisions import schemas
from rigs.small_schemas import Topic, small_language


@pytest.fixture(autouse=True)
def small_languages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schemas, "language_of", small_language)


@pytest.fixture
def topic() -> Topic:
    return Topic()

from __future__ import annotations

from collections.abc import Iterator

import pytest

from rigs.time_zones import time_zone


@pytest.fixture
def utc() -> Iterator[None]:
    """The time zone of this process is UTC."""
    with time_zone("UTC"):
        yield

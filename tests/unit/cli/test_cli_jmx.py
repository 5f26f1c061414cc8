"""kafka-jmx: the text of values."""

from __future__ import annotations

import json

import pytest

from kcli.cli.tools.jmx import _text
from kcli.server.beans.bean import bean
from kcli.server.beans.exposition.encoding import json_bean


@pytest.mark.parametrize(
    ("value", "text"),
    [(float("nan"), "NaN"), (float("inf"), "Infinity"), (float("-inf"), "-Infinity"), (1.5, "1.5")],
)
def test_a_value_of_the_endpoint_is_printed_as_java_prints_it(value: float, text: str) -> None:
    found = json.loads(json_bean(bean("d", "T", {"a": value})))
    assert _text(found["a"]) == text

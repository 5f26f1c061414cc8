"""Transformations and predicates of Kafka Connect 4.1, beside the recorded results of the Java classes."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kcli.connectors.transformation import Predicate
from kcli.formats.connect.errors import JavaException
from rigs.connect_notation import comparable, written_error
from rigs.connect_records import read_record, written_record
from rigs.time_zones import time_zone
from rigs.transforms import CLASSES, Plugin

Json = Any

DIFFERENCES: dict[str, str] = {}
"""The ids of cases whose results differ, each with the reason."""

_HASH = re.compile(r"@[0-9a-f]+\b")


def transforms_file() -> Path:
    default = Path(__file__).resolve().parents[3] / "shared/golden3"
    return Path(os.environ.get("KCLI_GOLDEN3", default)) / "connect/transforms.jsonl"


def instance(java_class: str) -> Plugin:
    if java_class in CLASSES:
        return CLASSES[java_class]()
    # The class of both parts of a record is abstract in Java.
    raise JavaException("java.lang.InstantiationException", java_class)


def result_of(case: Json) -> Json:
    """The record or the truth that a transformation or predicate returns, or its error."""
    phase = "configure"
    try:
        plugin = instance(case["class"])
        plugin.configure(case["configs"])
        phase = "build"
        record = read_record(case["record"])
        phase = "apply"
        if isinstance(plugin, Predicate):
            return {"result": plugin.test(record)}
        changed = plugin.apply(record)
        return {"result": None if changed is None else written_record(changed)}
    except Exception as error:
        # The comparison shows every other exception as a wrong result.
        return {"error": json.loads(_HASH.sub("@{HASH}", json.dumps(written_error(phase, error))))}


def comparisons(case: Json) -> Iterator[tuple[Json, Json]]:
    """The recorded result and the actual one, for each time zone of the recording."""
    outcome = "error" if "error" in case else "result"
    yield {outcome: comparable(case[outcome])}, comparable(result_of(case))
    for zone, result in case.get("with_tz", {}).items():
        with time_zone(zone):
            yield {"result": comparable(result)}, comparable(result_of(case))


def test_transformations_and_predicates_return_what_those_of_kafka_return() -> None:
    file = transforms_file()
    if not file.is_file():
        pytest.skip(f"the recorded transformations are not here: {file}")
    different = {}
    with time_zone("UTC"):
        for line in file.read_text(encoding="utf-8").splitlines():
            case = json.loads(line)
            for expected, actual in comparisons(case):
                if expected != actual:
                    different[case["id"]] = f"expected {expected}\nactual {actual}"
    surprising = {case: text for case, text in different.items() if case not in DIFFERENCES}
    assert not surprising, "\n".join(f"{case}: {text}" for case, text in surprising.items())
    recorded_ids = {json.loads(line)["id"] for line in file.read_text(encoding="utf-8").splitlines()}
    stale = (DIFFERENCES.keys() & recorded_ids) - different.keys()
    assert not stale, f"no longer different: {sorted(stale)}"

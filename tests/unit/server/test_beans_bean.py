"""A bean: its name and its kind."""

from __future__ import annotations

import pytest

from kcli.server.beans.bean import Bean, Kind, bean, gauge, histogram, meter
from kcli.server.metrics.meters import Histogram, Meter

COUNTED = Meter(0.0).attributes("requests", 1.0)
OBSERVED = Histogram(0.0).attributes()


@pytest.mark.parametrize(
    ("made", "kind"),
    [
        (gauge("d", "T", "n", 1), Kind.GAUGE),
        (meter("d", "T", "n", COUNTED), Kind.METER),
        (histogram("d", "T", "n", OBSERVED), Kind.HISTOGRAM),
        (bean("d", "T", {"a-rate": 1.0}), Kind.SENSORS),
        (bean("d", "T", {"A": 1}, kind=Kind.COUNTERS), Kind.COUNTERS),
    ],
)
def test_a_bean_knows_its_kind(made: Bean, kind: Kind) -> None:
    assert made.kind is kind


def test_the_name_has_the_labels_that_have_a_value() -> None:
    made = bean("kafka.server", "Produce", {"byte-rate": 0.0}, user="ann", client_id="")
    assert made.object_name == "kafka.server:type=Produce,user=ann"

"""The settings that all logs of a store share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from kcli.storage.log.producer_ids import ProducerIds
from kcli.storage.log.record_validation import Validation


@dataclass(slots=True)
class StoreSettings:
    """The clock, the random numbers and the limits of all logs of a store. The expiration of producers may change at
    run time (KIP-854)."""

    now_ms: Callable[[], int]
    random_below: Callable[[int], int]
    producer_expiration_ms: int
    validation: Validation = Validation.ALL
    producer_ids: ProducerIds = field(default_factory=ProducerIds)

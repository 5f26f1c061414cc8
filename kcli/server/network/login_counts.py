"""The counts of logins on a listener, for its metrics."""

from __future__ import annotations

from dataclasses import dataclass, field

from kcli.model.observations import Observations


@dataclass(slots=True, eq=False, weakref_slot=True)
class LoginCounts:
    """The logins since the start. On PLAINTEXT listeners, clients do not log in, so all counts are 0.

    `succeeded_without_again` counts the clients that cannot log in again on the same connection (KIP-368). `expired`
    counts the connections that were closed because their session had expired. `again_ms` has the duration of each
    repeated login on the same connection, from its first request to its success.
    """

    succeeded: int = 0
    succeeded_without_again: int = 0
    succeeded_again: int = 0
    failed: int = 0
    failed_again: int = 0
    expired: int = 0
    again_ms: Observations = field(default_factory=Observations)

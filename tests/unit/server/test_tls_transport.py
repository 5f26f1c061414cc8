"""The line of TLS handshakes."""

from __future__ import annotations

import asyncio
from typing import Any, cast

from kcli.server.network.tls_transport import SharedTls, TlsTransport


class Joined:
    """A connection in the line of handshakes."""

    def __init__(self, error: Exception | None = None) -> None:
        self.error = error
        self.turns = 0
        self.is_aborted = False

    def shake_hands(self) -> None:
        self.turns += 1
        if self.error is not None:
            raise self.error

    def abort(self) -> None:
        self.is_aborted = True


def test_a_defect_in_one_handshake_does_not_stop_the_others() -> None:
    async def main() -> list[dict[str, Any]]:
        reported: list[dict[str, Any]] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: reported.append(context))
        line = SharedTls()
        for each in joined:
            line.join(cast(TlsTransport, each))
        for _ in range(2 * len(joined)):
            await asyncio.sleep(0)
        return reported

    joined = [Joined(RuntimeError("a defect")), Joined(), Joined()]
    (report,) = asyncio.run(main())
    assert str(report["exception"]) == "a defect"
    assert [each.turns for each in joined] == [1, 1, 1]
    assert [each.is_aborted for each in joined] == [True, False, False]

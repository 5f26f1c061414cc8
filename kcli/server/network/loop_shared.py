"""The parts that all connections of an event loop share."""

from __future__ import annotations

from kcli.server.network.answer_sender import SharedSending
from kcli.server.network.frame_buffers import FrameBuffers
from kcli.server.network.request_line import QUEUED_REQUESTS_MAX, RequestLine
from kcli.server.network.tls_transport import SharedTls


class LoopShared:
    """The buffers, the limits and the queue of requests that all connections of an event loop share."""

    __slots__ = ("frames", "line", "sending", "tls")

    def __init__(
        self, *, queued_bytes_max: int | None = None, queued_requests_max: int = QUEUED_REQUESTS_MAX
    ) -> None:
        """Makes the parts from queued.max.request.bytes (None: the limits of frame_buffers.py) and
        queued.max.requests."""
        self.frames = FrameBuffers(queued_bytes_max)
        self.sending = SharedSending()
        self.tls = SharedTls()
        self.line = RequestLine(queued_requests_max)

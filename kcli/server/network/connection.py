"""The connection of one client: splits its bytes into frames, serves them, and sends the answers in their order.

Reading. A frame is the bytes of one request. All connections of an event loop that have no unfinished frame read into
one shared scratch buffer. In the same callback, the event loop asks for the buffer and reports the received bytes. So
no other connection can use the buffer in between. Whole frames are served directly from the scratch buffer. An
unfinished frame gets a buffer of its size, and the rest of the frame is read into this buffer. When the handler has
returned, the next bytes overwrite the memory of the frame. If the handler suspends and still reads the frame, it keeps
the buffer, and the connections get another one. So no handler has to copy a frame.

Login. If a listener needs no login, a connection has a session from its beginning. On other listeners, the connection
begins with a phase (phase.py). The phase receives the frames until the client is logged in, and then returns the
session. Meanwhile no frame reaches the dispatch, so later requests need no check for a login.

Order. A request that cannot be answered immediately delays the requests after it, as in Kafka. There is one exception:
a Produce request is served while earlier Produce requests wait for their commit. Without this exception, a producer
with acks=all would have to wait for each commit. Appends and answers keep the order of the requests.

Limits. The connection reads nothing from the client while requests are delayed, or while the client does not read its
answers. So a connection keeps at most the content of one scratch buffer or one frame. frame_buffers.py limits the
frames of all connections, and answer_sender.py limits their unsent answers. If a client sends many requests together,
the node serves these requests alternately with the requests of other clients (request_line.py).

This file is long because the order and the limits depend on the state of one connection. connection_login.py contains
the login, and waiting.py contains the answers that are not ready.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from functools import partial
from struct import Struct
from typing import Protocol, cast

from kcli.errors import ProtocolError
from kcli.model.buffers import Buffer, Part
from kcli.protocol.wire.peer import speaks_tls
from kcli.runtime import log_text
from kcli.runtime.limited_lines import LimitedLines
from kcli.security.principal import ANONYMOUS_SESSION, Session
from kcli.server.network.answer_sender import WRITE_HIGH_WATER_BYTES, AnswerSender, size_in_memory
from kcli.server.network.connection_login import (
    LoginState,
    login_failed,
    serve_in_phase,
    serve_until_expiry,
    start_timer,
)
from kcli.server.network.frame_buffers import FrameLimit
from kcli.server.network.listener_counts import ListenerCounts
from kcli.server.network.login_counts import LoginCounts
from kcli.server.network.loop_shared import LoopShared
from kcli.server.network.phase import Phase
from kcli.server.network.request_facts import RequestFacts, Sent
from kcli.server.network.request_line import BYTES_PER_REQUEST_MIN
from kcli.server.network.tls_transport import TlsTransport
from kcli.server.network.waiting import Answer, Waiting

Serve = Callable[["Connection", memoryview], "Answer | Waiting"]
"""Serves one frame (without size prefix). Raises ProtocolError to close the connection."""

Authenticate = Callable[["Connection"], "Session | Phase"]
"""Returns the session of a new connection, or the phase that will yield a session. An exception closes the
connection."""


def anonymous(_connection: Connection) -> Session:
    """The `Authenticate` of a PLAINTEXT listener, which has no login."""
    return ANONYMOUS_SESSION


class Gate(Protocol):
    """Decides whether a new connection is served, and is notified when a connection is closed."""

    def opened(self, connection: Connection) -> None: ...

    def lost(self, connection: Connection) -> None: ...


_SIZE = Struct(">i")
_SIZE_BYTES = 4
_PRODUCE_KEY = b"\x00\x00"

# Answers of up to this size are given to the transport, which sends several answers in one call.
_SMALL_ANSWER_MAX_BYTES = WRITE_HIGH_WATER_BYTES
# The most Produce requests of one connection that wait for their commits. Java's producer has at most 5 unanswered
# requests by default. librdkafka has up to 1,000,000, so a limit is necessary.
OVERLAPPING_PRODUCES_MAX = 64

_log = logging.getLogger("kcli.server.Connection")


class Connection(asyncio.BufferedProtocol):
    """The protocol object of one accepted socket."""

    is_forwarded = False
    """Whether a broker has forwarded the requests of this client. False for a connection, because the client itself
    sends its requests here. True in a `ForwardedCaller` (requests/forwarding.py)."""

    def __init__(
        self,
        *,
        listener: str,
        serve: Serve,
        gate: Gate,
        shared: LoopShared,
        request_size_max_bytes: int,
        now: Callable[[], float],
        authenticate: Authenticate = anonymous,
        logins: LoginCounts | None = None,
        lines: LimitedLines | None = None,
        counts: ListenerCounts | None = None,
    ) -> None:
        self.listener = listener
        self.logins = logins or LoginCounts()
        self.facts = RequestFacts()
        self._counts = counts or ListenerCounts()
        self._lines = lines or LimitedLines()
        self.session = ANONYMOUS_SESSION
        self.peer_host = ""
        self.peer_port = 0
        self.last_active = now()
        self.transport: asyncio.Transport | None = None
        self._serve = serve  # the function for the next frame: the phase's function, then `_serve_requests`
        self._serve_requests = serve
        self._authenticate = authenticate
        self.login = LoginState()
        self._gate = gate
        self._shared = shared
        self._frames = shared.frames
        self._frame_size_max_bytes = self._request_size_max_bytes = request_size_max_bytes
        self.now = now
        self._carry = b""  # the first bytes of a size prefix that came in two reads
        self._rest: memoryview | None = None  # received frames that wait, and the beginning of another frame
        self._frame: memoryview | None = None  # a frame that does not fit into the scratch buffer
        self._frame_buffer: memoryview | None = None
        self._filled = 0
        self._is_frame_read = False  # a suspended handler still reads a frame that counts for a limit
        self._pending: deque[Waiting | Buffer | list[Part]] = deque()
        self._pending_is_produce = False
        self._in_line = False
        self._in_line_since = 0.0
        self._sending_since = 0.0
        self._sending: Sent | None = None
        self._waits_for_memory = False
        self._admitted = False
        self._reading_paused = False
        self._writing_paused = False
        self._sender: AnswerSender | None = None
        self.has_sent_request = False
        """Whether the client has sent a whole request. A client that logs in has done so."""
        self._when_sent: list[Callable[[], None]] = []
        self._unmute: asyncio.TimerHandle | None = None
        self._closed = False

    # Called by asyncio.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self.transport.set_write_buffer_limits(high=WRITE_HIGH_WATER_BYTES)
        peer = transport.get_extra_info("peername")
        if isinstance(peer, tuple) and len(peer) >= 2:
            self.peer_host, self.peer_port = str(peer[0]), int(peer[1])
        # The limits come first, so that a refused connection costs no login.
        self._gate.opened(self)
        if not isinstance(transport, TlsTransport):
            self.secured()

    def secured(self) -> None:
        """Begins the login. With TLS, the transport calls this method after the handshake."""
        if self._closed:
            return
        try:
            begun = self._authenticate(self)
        except Exception as error:
            self._refuse(str(login_failed(self, error)))
            return
        if isinstance(begun, Session):
            if isinstance(self.transport, TlsTransport):
                # The handshake was the login, and it cannot be repeated on the same connection.
                self.logins.succeeded += 1
                self.logins.succeeded_without_again += 1
            self.open(begun)
        else:
            self.enter(begun)

    def connection_lost(self, exc: Exception | None) -> None:
        self._closed = True
        if self._unmute is not None:
            self._unmute.cancel()
        self.login.drop()
        self._rest = None
        self._drop_frame()
        if self._sender is not None:
            self._sender.clear()
            self._sender = None
        for entry in self._pending:
            if isinstance(entry, Waiting):
                entry.drop()
        self._pending.clear()
        self._gate.lost(self)
        # The TLS transport has a reference to this connection, so two references would be a cycle.
        self.transport = None

    def get_buffer(self, sizehint: int) -> memoryview:
        if self._frame is not None:
            return self._frame[self._filled :]
        scratch = self._frames.scratch
        carried = len(self._carry)
        if carried:
            scratch[:carried] = self._carry
            return scratch[carried:]
        return scratch

    def buffer_updated(self, nbytes: int) -> None:
        if self._closed:
            return
        self.last_active = self.now()
        counts = self._counts
        counts.reads += 1
        counts.bytes_in += nbytes
        if self._frame is None:
            end = len(self._carry) + nbytes
            self._carry = b""
            line = self._shared.line
            line.count(self._serve_frames(self._frames.scratch[:end], line.allowance))
            return
        self._filled += nbytes
        if self._filled == len(self._frame):
            if self._must_wait(self._frame):
                self._pause_reading()
            else:
                self._serve_large_frame()

    def eof_received(self) -> bool:
        """Returns True if an answer is unsent. The connection then stays open until the answer is sent."""
        if not self.is_sending:
            return False
        self.close()
        return True

    def pause_writing(self) -> None:
        self._writing_paused = True

    def resume_writing(self) -> None:
        self._writing_paused = False
        if self._sender is not None and self._sender.is_busy:
            self._sender.go_on()
        else:
            self._go_on()

    # Called by the listener, the login and the handlers.

    def admit(self) -> None:
        """Begins to serve a connection that `hold` delayed."""
        self._admitted = True
        if isinstance(self.transport, TlsTransport):
            self.transport.begin()
        if self.login.phase is not None:
            start_timer(self, self.login.phase)
        self._go_on()

    def enter(self, phase: Phase) -> None:
        """Gives the next requests to `phase` until the login is complete. Until then, the old session is valid."""
        self.login.phase = self.login.last = phase
        self._serve = serve_in_phase
        self._frame_size_max_bytes = min(phase.frame_size_max_bytes, self._request_size_max_bytes)
        if self._admitted:
            start_timer(self, phase)

    def open(self, session: Session) -> None:
        """Begins to serve requests with this session. If the session has an expiry time, this time is checked before
        each request."""
        self.session = session
        self.login.phase = None
        self.login.stop_timer()
        self._serve = self._serve_requests if session.expires_at is None else serve_until_expiry
        self._frame_size_max_bytes = self._request_size_max_bytes

    def serve_request(self, frame: memoryview) -> Answer | Waiting:
        """Serves a frame of a client that is logged in."""
        return self._serve_requests(self, frame)

    def send_last(self, answer: bytes | None) -> None:
        """Closes the connection after this answer. The caller must make sure that all earlier answers have
        been sent.
        """
        if answer is not None:
            self._write(answer)
        self.close()

    def hold(self) -> None:
        """Leaves the client's bytes in the kernel until `admit`.

        The effect begins in the next iteration of the event loop, because uvloop always begins to read after
        `connection_made`.
        """
        asyncio.get_running_loop().call_soon(self._pause_unless_admitted)

    def mute(self, seconds: float) -> None:
        """Serves no new request for `seconds`, because a quota is exceeded (KIP-219). Answers are still sent."""
        loop = asyncio.get_running_loop()
        if self._closed or (self._unmute is not None and self._unmute.when() >= loop.time() + seconds):
            return
        if self._unmute is not None:
            self._unmute.cancel()
        self._unmute = loop.call_later(seconds, self._unmuted)
        self.facts.throttled(seconds)
        self._pause_reading()

    @property
    def is_waiting(self) -> bool:
        """Whether a request is being served or waits to be served.

        While the connection is muted, the value is False, so that the connection can be closed as idle. A mute may last
        for days, and a muted connection does not read. So the connection does not notice that its client has
        disconnected.
        """
        if self._pending or not self._admitted:
            return True
        return self._has_request() and self._unmute is None and not self._has_unsent

    @property
    def held_back_count(self) -> int:
        """The number of requests that were received and wait to be served."""
        if self._rest is None:
            return int(self._frame is not None and self._filled == len(self._frame))
        count, at, end = 0, 0, len(self._rest)
        while end - at >= _SIZE_BYTES:
            at += _SIZE_BYTES + _SIZE.unpack_from(self._rest, at)[0]
            count += at <= end
        return count

    @property
    def unanswered_count(self) -> int:
        """The number of answers that are not ready or wait for earlier answers."""
        return len(self._pending)

    @property
    def is_sending(self) -> bool:
        """Whether an answer or a part of an answer is unsent, because the client has not read earlier bytes."""
        return self._sender is not None and self._sender.is_busy

    def when_sent(self, callback: Callable[[], None]) -> None:
        """Calls `callback` when all unsent answers are sent. If the client disconnects before, `callback` is not
        called.
        """
        self._when_sent.append(callback)

    def close(self) -> None:
        """Closes the connection after the written answers have been sent."""
        self._closed = True
        self._rest = None
        if self.transport is None:
            return
        if self.is_sending:
            if not self._reading_paused:
                self.transport.pause_reading()
        else:
            self.transport.close()

    def abort(self) -> None:
        """Closes the connection immediately. Unsent bytes are lost."""
        self._closed = True
        if self.transport is not None:
            self.transport.abort()

    # Frames. The frame limits and the request line call the first four methods.

    @property
    def missing_bytes(self) -> int:
        if self._frame is None or self._reading_paused or self._is_frame_read:
            return 0
        return len(self._frame) - self._filled

    def memory_is_free(self) -> None:
        self._waits_for_memory = False
        self._go_on()

    def too_slow(self) -> None:
        self._drop_frame()
        self._refuse("the client sends its request too slowly, while the requests of others wait for memory")

    def serve_turn(self, bytes_max: int) -> int:
        self._in_line = False
        self.facts.queued(self.now() - self._in_line_since)
        if self._rest is not None:
            rest, self._rest = self._rest, None
            return self._serve_frames(rest, bytes_max)
        if self._frame is not None and not self._closed and not self._must_wait(self._frame):
            return self._serve_large_frame()
        return 0

    def _serve_frames(self, received: memoryview, left: int) -> int:
        """Serves frames until the frames and their answers are larger than `left` bytes. Keeps the other frames.
        Returns the size of the served frames and their answers.

        `received` is a part of the scratch buffer, or the frames that an earlier call kept.
        """
        at, end, served = 0, len(received), 0
        # A handler that suspends may take the scratch buffer. Then its other frames must be copied too.
        is_shared = received.obj is self._frames.scratch.obj
        while end - at >= _SIZE_BYTES:
            (size,) = _SIZE.unpack_from(received, at)
            if not 0 <= size <= self._frame_size_max_bytes:
                self._refuse_size(size, bytes(received[at : at + _SIZE_BYTES]))
                return served
            begin = at + _SIZE_BYTES
            if end - begin < size:
                if not self._begin_frame(size, received[begin:end]):
                    self._keep(received[at:], is_shared)
                return served
            frame = received[begin : begin + size]
            if served >= left or self._must_wait(frame):
                self._keep(received[at:], is_shared)
                return served
            served += self._answer(frame)
            if self._closed:
                return served
            at = begin + size
        self._carry = bytes(received[at:end])
        self._go_on()
        return served

    def _keep(self, rest: memoryview, is_shared: bool) -> None:
        """Keeps the frames that wait. Frames in a scratch buffer are copied, because other connections overwrite that
        buffer."""
        self._rest = memoryview(bytearray(rest)) if is_shared else rest
        self._pause_reading()
        self._go_on()

    def _begin_frame(self, size: int, head: memoryview) -> bool:
        """Makes a buffer for the frame. Returns False if the frame must first wait for earlier requests or for
        memory."""
        limit = self._frames.limit_of(size)
        if limit is not None:
            if self._must_wait(head):
                return False
            if not limit.allows(self, size):
                self._waits_for_memory = True
                return False
        self._frame_buffer = self._frames.take(size)
        self._frame = self._frame_buffer[:size]
        self._filled = len(head)
        self._frame[: self._filled] = head
        self._go_on()
        return True

    def _serve_large_frame(self) -> int:
        assert self._frame is not None
        frame, buffer = self._frame, self._frame_buffer
        self._frame = self._frame_buffer = None
        served = self._answer(frame)
        assert buffer is not None
        last = self._pending[-1] if self._pending else None
        limit = self._frames.limit_of(len(frame))
        if isinstance(last, Waiting) and last.reads_frame:
            self._leave_to_handler(last, buffer, limit)
        else:
            self._read_to_the_end(buffer, limit)
        self._go_on()
        return served

    def _leave_to_handler(self, waiting: Waiting, buffer: memoryview, limit: FrameLimit | None) -> None:
        """Leaves a buffer to a suspended handler, which still reads a frame in it."""
        self._is_frame_read = True
        waiting.on_read.append(partial(self._read_to_the_end, buffer, limit))

    def _read_to_the_end(self, buffer: memoryview, limit: FrameLimit | None) -> None:
        """Gives back the buffer of a frame, because no handler reads it any longer."""
        self._is_frame_read = False
        self._frames.give_back(buffer)
        if limit is not None:
            limit.release(self)

    def _drop_frame(self) -> None:
        """Drops the unfinished frame. If a frame waits for memory, ends this wait. A frame that a
        handler still reads counts until the handler ends."""
        self._frame = self._frame_buffer = None
        if self._is_frame_read:
            return
        self._frames.small.release(self)
        self._frames.large.release(self)

    def _must_wait(self, frame: memoryview) -> bool:
        if self._has_unsent or not self._admitted or self._unmute is not None:
            return True
        if not self._pending:
            return False
        overlaps = self._pending_is_produce and frame[:2] == _PRODUCE_KEY
        return not overlaps or len(self._pending) >= OVERLAPPING_PRODUCES_MAX

    @property
    def _has_unsent(self) -> bool:
        return self._writing_paused or self.is_sending

    def _has_request(self) -> bool:
        return self._rest is not None or (self._frame is not None and self._filled == len(self._frame))

    def _go_on(self) -> None:
        """Adds this connection to the queue (request_line.py) if a received request can be served now. Resumes reading
        if no request waits.
        """
        if self._closed or self._in_line or self._waits_for_memory:
            return
        if not self._has_request():
            if not self._has_unsent and self._unmute is None:
                self._resume_reading()
            return
        next_frame = self._rest[_SIZE_BYTES:] if self._rest is not None else self._frame
        assert next_frame is not None
        if not self._must_wait(next_frame):
            self._in_line = True
            self._in_line_since = self.now()
            self._shared.line.join(self)

    def _unmuted(self) -> None:
        self._unmute = None
        self._go_on()

    # Answers.

    def _answer(self, frame: memoryview) -> int:
        """Serves a frame. Returns the bytes of the frame and of its answer, which count towards BYTES_PER_TURN."""
        served = len(frame)
        self._counts.requests += 1
        self.has_sent_request = True
        try:
            answer = self._serve(self, frame)
        except Exception as error:
            self._refuse_after(error)
            return served
        if isinstance(answer, Waiting):
            self._pending_is_produce = False
            # Frames of a login never overlap, even if a frame begins with the key of Produce.
            if frame[:2] == _PRODUCE_KEY and self.login.phase is None:
                self._pending_is_produce = answer.only_waits
                answer.on_wait = self._produce_waits
            self._pending.append(answer)
            if answer.reads_frame and frame.obj is self._frames.scratch.obj:
                scratch, limit = self._frames.take_scratch(), self._frames.small
                limit.hold(self, len(scratch))
                self._leave_to_handler(answer, scratch, limit)
            if answer.reads_frame:
                answer.task.add_done_callback(answer.frame_is_read)
            answer.task.add_done_callback(self._send_ready)
        elif answer is not None:
            if self._pending:
                self._pending.append(answer)
            else:
                served += self._write(answer)
        return max(served, BYTES_PER_REQUEST_MIN)

    def _produce_waits(self) -> None:
        """Lets the next Produce request be served, because the last pending one only waits for its commit now."""
        self._pending_is_produce = True
        self._go_on()

    def _send_ready(self, task: asyncio.Future[Answer]) -> None:
        """Sends the answers in order, up to the first answer that is not ready."""
        if not task.cancelled():
            # This marks the exception as retrieved, because no other code reads it if the client has disconnected.
            task.exception()
        if self._closed:
            return
        while self._pending and not self._closed:
            entry = self._pending[0]
            answer: Answer
            if isinstance(entry, Waiting):
                if not entry.task.done():
                    break
                try:
                    answer = entry.take()
                except Exception as error:
                    self._refuse_after(error)
                    error.__traceback__ = (
                        None  # it refers to this frame, and so to the task, which keeps the error
                    )
                    return
            else:
                answer = entry
            self._pending.popleft()
            if answer is not None:
                self._write(answer)
        self._go_on()

    def _write(self, answer: Buffer | list[Part]) -> int:
        """Sends an answer, or gives it to the sender of large answers. Returns the bytes that count towards
        BYTES_PER_TURN.
        """
        transport = self.transport
        if transport is None or self._closed:
            return 0
        self.last_active = self.now()
        sender = self._sender
        if sender is None or not sender.is_busy:
            if not isinstance(answer, list):
                if len(answer) <= _SMALL_ANSWER_MAX_BYTES:
                    transport.write(answer)
                    self._count_answer(len(answer))
                    return len(answer)
            elif (size := size_in_memory(answer)) is not None and size <= _SMALL_ANSWER_MAX_BYTES:
                transport.writelines(cast("list[Buffer]", answer))
                self._count_answer(size)
                return size
            if sender is None:
                sender = self._sender = AnswerSender(
                    transport,
                    self._shared.sending,
                    progressed=self._sent_some,
                    sent_all=self._sent_all,
                    failed=self._answer_failed,
                )
        parts: list[Part] = answer if isinstance(answer, list) else [answer]
        self._count_answer(sum(map(len, parts)))
        if not sender.is_busy:
            self._sending, self._sending_since = self.facts.answering, self.last_active
        before = sender.unsent_bytes
        sender.send(parts)
        return max(0, sender.unsent_bytes - before)

    def _count_answer(self, size_bytes: int) -> None:
        counts = self._counts
        counts.answers += 1
        counts.bytes_out += size_bytes
        counts.largest_answer.add(size_bytes)

    def _sent_some(self) -> None:
        self.last_active = self.now()

    def _sent_all(self) -> None:
        if self._when_sent:
            callbacks, self._when_sent = self._when_sent, []
            for callback in callbacks:
                callback()
        if self._sending is not None:
            self._sending.sent(self.now() - self._sending_since)
            self._sending = None
        if not self._closed:
            self._go_on()
        elif self.transport is not None:
            self.transport.close()

    def _answer_failed(self, reason: str) -> None:
        """Closes the connection, because the client has received only a part of an answer, and the rest
        cannot be read.
        """
        self.warn(reason)
        self.abort()

    # Refusals and flow control.

    def _refuse_size(self, size: int, prefix: bytes) -> None:
        limit = "socket.request.max.bytes" if self.login.phase is None else "sasl.server.max.receive.size"
        self._refuse(
            f"Invalid receive (size = {size} is not within 0 and {self._frame_size_max_bytes}, "
            f"{limit}){_speaks(prefix)}"
        )

    def tls_failed(self, reason: str) -> None:
        """Logs why the TLS transport closes the connection."""
        if not self._closed:
            self._closed = True
            self.logins.failed += 1
            self.warn(reason)

    def _refuse(self, reason: str) -> None:
        self.warn(reason)
        self.close()

    def _refuse_after(self, error: Exception) -> None:
        """Closes the connection after an error. Logs the traceback of an unexpected error, because asyncio would close
        the connection silently after an OSError.
        """
        if isinstance(error, ProtocolError):
            self._refuse(str(error))
        else:
            self.warn("unexpected error", defect=error)
            self.close()

    def warn(self, reason: str, defect: BaseException | None = None) -> None:
        """Logs why the connection is closed. The lines of a listener are limited."""
        ending = self._lines.ending(self.now())
        if ending is not None:
            _log.log(
                logging.WARNING if defect is None else logging.ERROR,
                "Closing connection from %s:%d on listener %s: %s%s",
                self.peer_host,
                self.peer_port,
                self.listener,
                log_text.reason(reason),
                ending,
                exc_info=defect,
            )

    def _pause_reading(self) -> None:
        if not self._reading_paused and self.transport is not None and not self._closed:
            self._reading_paused = True
            self.transport.pause_reading()

    def _pause_unless_admitted(self) -> None:
        if not self._admitted:
            self._pause_reading()

    def _resume_reading(self) -> None:
        if self._reading_paused and self.transport is not None and not self._closed:
            self._reading_paused = False
            self.transport.resume_reading()


def _speaks(prefix: bytes) -> str:
    """Returns the end of an error message, with the protocol that the client uses. The result is empty if the first
    bytes of the client do not show the protocol."""
    if speaks_tls(prefix):
        return "; the client speaks TLS, this listener is PLAINTEXT"
    if prefix in (b"GET ", b"POST", b"HEAD", b"PUT ", b"OPTI", b"PRI "):
        return "; the client speaks HTTP, this is a Kafka port"
    return ""

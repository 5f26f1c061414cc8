"""TLS for accepted connections: a transport between the socket and the connection.

    socket  <-- ciphertext -->  TlsTransport  <-- plain bytes -->  Connection

The TLS transports of asyncio and uvloop report a connection only after its handshake, and have their own buffers. With
this transport, a connection begins before its handshake, so that the limits on connections apply to the handshake.
Plain bytes go from OpenSSL directly into the buffers of the connection. A written answer is encrypted immediately, so
that the transport holds no more bytes than without TLS.

Memory. If the connection stops reading, this transport also stops receiving bytes from the socket. It then holds at
most the ciphertext that it received last (READ_SIZE_BYTES) and one TLS record. If a client sends key updates and does
not read the answers to them, this transport does not read from the client either.

Time. A handshake takes up to a millisecond of CPU. All handshakes of an event loop wait in one queue. Each iteration of
the loop runs one step of one handshake, and then serves other clients. So a large number of new clients does not block
the other clients. If a client sends many key updates and few other bytes, its connection is closed.
"""

from __future__ import annotations

import asyncio
import os
import ssl
import time
from collections import deque
from contextlib import suppress
from typing import Any, Protocol, cast

from kcli.model.buffers import Buffer

READ_SIZE_BYTES = 32 * 1024
"""The most ciphertext of one read. OpenSSL keeps a buffer of a little more than this size for each connection. Larger
reads save little: to decrypt 1 MB took 0.80 ms of CPU with 32 KiB, 0.72 with 64 KiB, and 0.70 with 128 KiB."""
FIRST_READS_SIZE_BYTES = 4 * 1024
"""The most ciphertext of one read of a new client. OpenSSL handles all records of a read in one call. A read of 32 KB
can have 1,200 key updates, which take 20 ms."""
FIRST_READS_PLAIN_BYTES = 256 * 1024
"""The plain bytes after which a client is no longer new."""
KEY_UPDATE_ANSWERS_MAX_BYTES = 1024
"""The most bytes of answers to key updates (RFC 8446, section 4.6.3) that a client may cause before it must send plain
bytes. An answer has 27 bytes. A key update takes 16 µs of CPU and moves no data. OpenSSL's clients never send a key
update, and Java's clients send one after 128 GB."""
PLAIN_BYTES_PER_ANSWER_BYTE = 64
"""The limit KEY_UPDATE_ANSWERS_MAX_BYTES counts one byte of answers less each time the client has sent this number of
plain bytes. So a client may send one key update with each 1.7 KB."""
RECORD_SIZE_BYTES = 16 * 1024
"""The most plain bytes of one record of TLS (RFC 8446, section 5.1)."""
DIRECT_WRITE_MIN_BYTES = 16 * 1024
"""An answer of this size or more is written directly to the socket. Smaller answers go to the socket's transport, which
sends several of them in one call."""
HANDSHAKE_LIMIT_SECONDS = 30.0
"""The longest time of a handshake. Java's clients wait at most 30 s for a connection
(socket.connection.setup.timeout.max.ms)."""

_HANDSHAKE_RECORD = 0x16
_now = time.time
_PLAIN_CLIENT = (
    "the client does not speak TLS, this listener does (security.protocol must be SSL or SASL_SSL)"
)
_HTTP_STARTS = (b"GET ", b"POST", b"HEAD", b"PUT ", b"OPTI", b"PRI ")


class Secured(Protocol):
    """The connection that uses the transport."""

    def connection_made(self, transport: asyncio.BaseTransport, /) -> None: ...

    def secured(self) -> None:
        """Begins the login. Called when the handshake is complete."""

    def tls_failed(self, reason: str, /) -> None:
        """Logs why the transport closes the connection."""

    def connection_lost(self, exc: Exception | None, /) -> None: ...

    def get_buffer(self, sizehint: int, /) -> memoryview: ...

    def buffer_updated(self, nbytes: int, /) -> None: ...

    def eof_received(self) -> bool | None: ...

    def pause_writing(self) -> None: ...

    def resume_writing(self) -> None: ...


class ServerTls:
    """The TLS context of a listener. New connections use the current context, and open connections keep the context
    with which they began.
    """

    __slots__ = ("context",)

    def __init__(self, context: ssl.SSLContext) -> None:
        self.context = context


class SharedTls:
    """The parts that all TLS connections of an event loop share: the buffer for ciphertext, and the queue of
    handshakes."""

    __slots__ = ("_is_due", "_line", "scratch")

    def __init__(self) -> None:
        self.scratch = memoryview(bytearray(READ_SIZE_BYTES))
        self._line: deque[TlsTransport] = deque()
        self._is_due = False

    def join(self, transport: TlsTransport) -> None:
        """Runs the next step of a handshake in one of the next iterations of the loop."""
        self._line.append(transport)
        self._run_soon()

    def _run_soon(self) -> None:
        if not self._is_due:
            self._is_due = True
            asyncio.get_running_loop().call_soon(self._turn)

    def _turn(self) -> None:
        self._is_due = False
        transport = self._line.popleft()
        try:
            transport.shake_hands()
        except BaseException:
            transport.abort()
            raise
        finally:
            if self._line:  # a defect in one connection must not stop the others
                self._run_soon()


class TlsTransport(asyncio.Transport, asyncio.BufferedProtocol):
    """The protocol of an accepted socket, and the transport of its connection."""

    def __init__(self, connection: Secured, tls: ServerTls, shared: SharedTls) -> None:
        super().__init__()
        self._connection = connection
        self._tls = tls
        self._shared = shared
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._ssl: ssl.SSLObject | None = None  # None until `begin`
        self._raw: asyncio.Transport | None = None
        self._fd: int | None = None
        self._is_secure = False
        self._in_line = False
        self._is_paused = False  # whether the connection does not read
        self._raw_is_paused = False
        self._raw_is_full = False  # whether the client leaves many bytes unread
        self._plain_bytes = 0  # received, counted until the client is no longer new
        self._has_key_updates = False
        self._update_debt = 0  # the plain bytes after which no key update of the client counts
        self._is_due = False  # whether `_decrypt` runs soon
        self._has_bytes = False  # whether the client has sent anything
        self._timer: asyncio.TimerHandle | None = None

    # The side of the socket.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._raw = cast(asyncio.Transport, transport)
        opened = transport.get_extra_info("socket")
        self._fd = None if opened is None else opened.fileno()
        self._connection.connection_made(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._end_handshake()
        self._connection.connection_lost(exc)

    def get_buffer(self, sizehint: int) -> memoryview:
        if self._plain_bytes < FIRST_READS_PLAIN_BYTES:
            return self._shared.scratch[:FIRST_READS_SIZE_BYTES]
        return self._shared.scratch

    def buffer_updated(self, nbytes: int) -> None:
        received = self._shared.scratch[:nbytes]
        if not self._has_bytes:
            self._has_bytes = True
            if received[0] != _HANDSHAKE_RECORD:
                self._refuse_plain(bytes(received[:4]))
                return
        self._incoming.write(received)
        if self._is_secure:
            self._decrypt()
        elif self._ssl is not None:
            self._shake_hands_soon()
        self._update_reading()

    def eof_received(self) -> bool | None:
        if self._is_secure:
            return self._connection.eof_received()
        if self._has_bytes:  # a connection without bytes is the check of a load balancer
            self._connection.tls_failed("the client left during the TLS handshake")
        return False

    def pause_writing(self) -> None:
        self._raw_is_full = True
        self._connection.pause_writing()
        self._update_reading()

    def resume_writing(self) -> None:
        self._raw_is_full = False
        self._connection.resume_writing()
        self._update_reading()

    # The handshake.

    def begin(self) -> None:
        """Begins the handshake. Called when the limits on connections permit this connection."""
        if self._ssl is not None or self.is_closing():
            return
        self._ssl = self._tls.context.wrap_bio(self._incoming, self._outgoing, server_side=True)
        self._timer = asyncio.get_running_loop().call_later(HANDSHAKE_LIMIT_SECONDS, self._too_slow)
        if self._incoming.pending:
            self._shake_hands_soon()

    def _shake_hands_soon(self) -> None:
        if not self._in_line:
            self._in_line = True
            self._shared.join(self)

    def shake_hands(self) -> None:
        """Runs one step of the handshake. The queue of handshakes calls this method."""
        self._in_line = False
        if self.is_closing():
            return
        assert self._ssl is not None
        try:
            self._ssl.do_handshake()
        except ssl.SSLWantReadError:
            self._flush()
            self._update_reading()
            return
        except ssl.SSLError as error:
            self._flush()  # the alert, which tells the client the reason
            self._fail(handshake_failure(error))
            return
        self._end_handshake()
        if self._ssl.session_reused and (wrong := _date_failure(self._ssl)):
            # If a client resumes a session of TLS 1.2 by its id, OpenSSL does not check the client's certificate again.
            self._fail(f"{_INVALID_CERTIFICATE}: {wrong}")
            return
        self._is_secure = True
        self._flush()
        self._connection.secured()
        self._decrypt()

    def _end_handshake(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _too_slow(self) -> None:
        self._fail(f"the TLS handshake took more than {HANDSHAKE_LIMIT_SECONDS:.0f} s")

    def _refuse_plain(self, first: bytes) -> None:
        http = "; the client speaks HTTP, this is a Kafka port" if first in _HTTP_STARTS else ""
        # No alert is sent: a client without TLS would read an alert as a response of 352 MB.
        self._fail(_PLAIN_CLIENT + http)

    def _fail(self, reason: str) -> None:
        self._connection.tls_failed(reason)
        assert self._raw is not None
        self._raw.close()

    # Reading.

    def _decrypt(self) -> None:
        """Gives plain bytes to the connection until the connection pauses, or until OpenSSL needs more ciphertext."""
        tls, incoming = self._ssl, self._incoming
        assert tls is not None
        is_dry = False
        while not is_dry and not self._is_paused and not self.is_closing():
            if not incoming.pending and not tls.pending():
                break
            buffer = self._connection.get_buffer(-1)
            filled, room = 0, len(buffer)
            try:
                while filled < room and (incoming.pending or tls.pending()):
                    got = cast(int, tls.read(room - filled, cast(bytearray, buffer[filled:])))
                    if got == 0:
                        is_dry = True
                        self._ended()
                        break
                    filled += got
            except ssl.SSLWantReadError:
                is_dry = True  # the rest of a record has not arrived
            except ssl.SSLError as error:
                self._flush()
                self._fail(f"TLS failed: {_reason(error)}")
                return
            if self._outgoing.pending and not self._may_update_keys():
                return
            if filled:
                self._plain_bytes = min(self._plain_bytes + filled, FIRST_READS_PLAIN_BYTES)
                self._update_debt = max(0, self._update_debt - filled)
                self._connection.buffer_updated(filled)
        self._update_reading()

    def _may_update_keys(self) -> bool:
        """Sends the answers to key updates. Returns False if there were too many key updates. The connection is then
        closed."""
        self._has_key_updates = True
        self._update_debt += self._outgoing.pending * PLAIN_BYTES_PER_ANSWER_BYTE
        if self._update_debt > KEY_UPDATE_ANSWERS_MAX_BYTES * PLAIN_BYTES_PER_ANSWER_BYTE:
            self._fail("the client sends too many key updates of TLS")
            return False
        self._flush()
        return True

    def _ended(self) -> None:
        """Called when the client has sent its last byte and has closed its side of the connection."""
        if not self._connection.eof_received():
            self.close()

    def pause_reading(self) -> None:
        self._is_paused = True
        self._update_reading()

    def resume_reading(self) -> None:
        self._is_paused = False
        if self._is_secure and (self._incoming.pending or (self._ssl is not None and self._ssl.pending())):
            # In the next iteration of the loop, because the caller may be in the middle of its work.
            if not self._is_due:
                self._is_due = True
                asyncio.get_running_loop().call_soon(self._decrypt_now)
        else:
            self._update_reading()

    def _decrypt_now(self) -> None:
        self._is_due = False
        self._decrypt()

    def _update_reading(self) -> None:
        """Reads from the socket only if all received ciphertext is decrypted, so that at most one read is in memory."""
        if self._raw is None or self._raw.is_closing():
            return
        pauses = (
            self._is_paused
            or self._in_line
            or (self._ssl is None and self._incoming.pending > 0)
            or (self._raw_is_full and self._has_key_updates)
        )
        if pauses != self._raw_is_paused:
            self._raw_is_paused = pauses
            if pauses:
                self._raw.pause_reading()
            else:
                self._raw.resume_reading()

    # Writing.

    def write(self, data: Buffer) -> None:
        """Encrypts the bytes and sends them. The caller may change the buffer afterwards."""
        if self.is_closing():
            return
        assert self._ssl is not None, "answers come after the handshake"
        left = memoryview(data)
        if len(left) < DIRECT_WRITE_MIN_BYTES:
            self._ssl.write(left)
            self._flush()
            return
        # Each record is taken from OpenSSL before the next is encrypted, because OpenSSL's buffer for ciphertext never
        # shrinks.
        records = []
        while left:
            left = left[self._ssl.write(left[:RECORD_SIZE_BYTES]) :]
            records.append(self._outgoing.read())
        self._send(records)

    def writelines(self, list_of_data: Any) -> None:
        self.write(b"".join(list_of_data))

    def _flush(self) -> None:
        """Sends the ciphertext that OpenSSL has made."""
        raw = self._raw
        if raw is None or raw.is_closing() or not self._outgoing.pending:
            return
        raw.write(self._outgoing.read())

    def _send(self, records: list[bytes]) -> None:
        """Sends TLS records immediately, as far as the socket accepts them. The transport of the socket gets
        the rest.
        """
        raw = self._raw
        assert raw is not None
        sent = 0
        if self._fd is not None and not raw.get_write_buffer_size():
            try:
                sent = os.writev(self._fd, records)
            except BlockingIOError:
                sent = 0
            except OSError:
                raw.abort()  # the client has closed the connection
                return
        for record in records:
            if sent < len(record):
                raw.write(memoryview(record)[sent:])
            sent = max(0, sent - len(record))

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        assert self._raw is not None
        self._raw.set_write_buffer_limits(high=high, low=low)

    def get_write_buffer_size(self) -> int:
        return 0 if self._raw is None else self._raw.get_write_buffer_size()

    # The rest of a transport.

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        if name == "ssl_object":
            return self._ssl
        if name == "sslcontext":
            return self._tls.context
        return default if self._raw is None else self._raw.get_extra_info(name, default)

    def is_closing(self) -> bool:
        return self._raw is None or self._raw.is_closing()

    def close(self) -> None:
        """Closes the connection after the written bytes have been sent."""
        if self.is_closing():
            return
        assert self._raw is not None
        if self._is_secure and self._ssl is not None:
            with suppress(ssl.SSLError):  # the client has not ended its side yet
                self._ssl.unwrap()
            self._flush()
        self._raw.close()

    def abort(self) -> None:
        if self._raw is not None:
            self._raw.abort()


_INVALID_CERTIFICATE = "SSL handshake failed: the certificate of the client is not valid"
_FAILURES = {
    "PEER_DID_NOT_RETURN_A_CERTIFICATE": "the client has sent no certificate (ssl.client.auth is required)",
    "TLSV1_ALERT_UNKNOWN_CA": "the client does not trust the authority of this broker's certificate",
    "SSLV3_ALERT_CERTIFICATE_EXPIRED": "the client reports that this broker's certificate has expired",
    "SSLV3_ALERT_BAD_CERTIFICATE": "the client has refused this broker's certificate",
    "SSLV3_ALERT_CERTIFICATE_UNKNOWN": "the client has refused this broker's certificate",
    "UNSUPPORTED_PROTOCOL": "the client has no version of TLS that ssl.enabled.protocols has",
    "NO_SHARED_CIPHER": "the client has no cipher suite that ssl.cipher.suites and the certificate allow",
}


def handshake_failure(error: ssl.SSLError) -> str:
    """Returns the reason why a handshake failed, in one line."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"{_INVALID_CERTIFICATE}: {error.verify_message}"
    return f"SSL handshake failed: {_FAILURES.get(error.reason or '', _reason(error))}"


def _date_failure(tls: ssl.SSLObject) -> str | None:
    """Returns OpenSSL's error text if the client's certificate has expired or is not valid yet. Returns None if the
    certificate is valid, or if the client has sent none.
    """
    certificate = tls.getpeercert()
    if not certificate:
        return None
    now = _now()
    if now > ssl.cert_time_to_seconds(str(certificate["notAfter"])):
        return "certificate has expired"
    if now < ssl.cert_time_to_seconds(str(certificate["notBefore"])):
        return "certificate is not yet valid"
    return None


def _reason(error: ssl.SSLError) -> str:
    return (error.reason or str(error)).replace("_", " ").lower()

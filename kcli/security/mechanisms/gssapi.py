"""The GSSAPI mechanism (RFC 4752), which is Kerberos 5 in Kafka.

First both sides exchange messages of Kerberos, which are called tokens. Then the server sends four bytes, protected by
Kerberos: a bit mask of the security layers that it offers, and the largest size of a message. The client answers with
four protected bytes and the identity for authorization. Kafka uses no security layer, so Kerberos does not protect the
requests after the login.

The Python library `gssapi` calls the C library MIT krb5, which reads files and may call the Kerberos server. So each
part of the login runs in a thread. `gssapi` is an optional extra of kcli.
"""

from __future__ import annotations

import importlib
import secrets
from collections.abc import Callable
from enum import Enum, auto
from typing import TYPE_CHECKING

from kcli.errors import SaslAuthenticationException
from kcli.security.kerberos_names import NoName
from kcli.security.mechanisms.server import (
    Challenge,
    InThread,
    LoginInterrupted,
    LoginRefused,
    Outcome,
    Success,
)

if TYPE_CHECKING:
    import gssapi

NAME = "GSSAPI"

TOKEN_BYTES_MAX = 65_536
"""The longest token that is passed to Kerberos. The token of a user with many groups has up to 48 KiB."""
STEPS_MAX = 8
"""The most tokens of one login. Kerberos needs three."""

_CACHE_NAME_BYTES = 16
_NO_LAYER = b"\x01\x00\x00\x00"
_NO_LAYER_BIT = 0x01
_OFFER_BYTES = 4

# Errors of Kerberos after which a client may try again, as in Kafka: the client or its ticket is not valid yet, or the
# request seems to be a replay.
_KRB5_ERROR_BASE = -1765328384
_RETRIABLE = frozenset({21, 33, 34})


class KerberosMissing(Exception):
    """Raised if the library `gssapi` is not installed."""

    def __init__(self) -> None:
        super().__init__(
            "GSSAPI needs the library gssapi, which is not installed: pip install 'kcli-streaming[kerberos]'"
        )


class KerberosClient:
    """The client's side of one login (see `ClientExchange`). Each call may wait for the Kerberos server."""

    def __init__(
        self, service: str, host: str, principal: str | None = None, keytab: str | None = None
    ) -> None:
        """Begins a login at `service` on `host`. Without a keytab, the tickets of the user's credential cache are used.

        Raises KerberosMissing.
        """
        library = _library()
        try:
            self._context = _client_context(library, service, host, principal, keytab)
        except library.exceptions.GSSError as error:
            raise SaslAuthenticationException(f"GSSAPI: {error.gen_message()}") from error
        self._library = library
        self._is_negotiated = False

    def respond(self, received: bytes) -> bytes | None:
        if self._is_negotiated:
            return None
        try:
            if not self._context.complete:
                return self._context.step(received or None) or b""
            offer = self._context.unwrap(received).message
        except self._library.exceptions.GSSError as error:
            raise SaslAuthenticationException(f"GSSAPI: {error.gen_message()}") from error
        if len(offer) != _OFFER_BYTES or not offer[0] & _NO_LAYER_BIT:
            raise SaslAuthenticationException("GSSAPI: the server does not offer to use no security layer")
        self._is_negotiated = True
        wrapped: bytes = self._context.wrap(_NO_LAYER, False).message
        return wrapped


class _State(Enum):
    ESTABLISH = auto()
    OFFER = auto()
    NEGOTIATE = auto()
    ENDED = auto()


class KerberosServer:
    """The server's side of one login (see `ServerExchange`)."""

    def __init__(self, credentials: gssapi.Credentials, short_name: Callable[[str], str]) -> None:
        """`credentials` are the credentials of the node (`server_credentials`). `short_name` returns the user name for
        a Kerberos principal. It raises NoName if no rule gives a name.
        """
        self._library = _library()
        self._context = self._library.SecurityContext(creds=credentials, usage="accept")
        self._short_name = short_name
        self._state = _State.ESTABLISH
        self._steps = 0

    def step(self, token: bytes) -> InThread:
        self._steps += 1
        if len(token) > TOKEN_BYTES_MAX or self._steps > STEPS_MAX:
            raise LoginRefused("the token is too long, or there are too many tokens")
        return InThread(lambda: self._step(token))

    def _step(self, token: bytes) -> Outcome:
        state, self._state = self._state, _State.ENDED
        try:
            match state:
                case _State.ESTABLISH:
                    return self._establish(token)
                case _State.OFFER:
                    if token:
                        raise LoginRefused("expected an empty token before the offer")
                    return self._offer()
                case _State.NEGOTIATE:
                    return self._negotiated(token)
                case _State.ENDED:
                    raise LoginRefused("the login has already ended")
        except self._library.exceptions.GSSError as error:
            if _code(error) in _RETRIABLE:
                raise LoginInterrupted(error.gen_message()) from error
            raise LoginRefused(error.gen_message()) from error

    def _establish(self, token: bytes) -> Outcome:
        answer = self._context.step(token)
        if not self._context.complete:
            self._state = _State.ESTABLISH
            return Challenge(answer or b"")
        if not answer:
            return self._offer()
        self._state = _State.OFFER
        return Challenge(answer)

    def _offer(self) -> Outcome:
        self._state = _State.NEGOTIATE
        return Challenge(self._context.wrap(_NO_LAYER, False).message)

    def _negotiated(self, token: bytes) -> Outcome:
        answer = self._context.unwrap(token).message
        # The rest of the answer is the identity for authorization. Kafka ignores it, and uses the authenticated name.
        if len(answer) < _OFFER_BYTES or answer[0] != _NO_LAYER_BIT:
            raise LoginRefused("the client did not choose to use no security layer")
        try:
            return Success(self._short_name(str(self._context.initiator_name)))
        except NoName as error:
            raise LoginRefused(str(error)) from error


def server_credentials(principal: str, keytab: str | None) -> gssapi.Credentials:
    """Returns the Kerberos credentials of a node. Raises KerberosMissing, or ValueError if the keytab does not contain
    the principal.
    """
    library = _library()
    store = {} if keytab is None else {"keytab": keytab}
    try:
        name = library.Name(principal, library.NameType.kerberos_principal)
        # Without this list, the library would also accept its other mechanisms, such as SPNEGO.
        mechanisms = [library.MechType.kerberos]
        return library.Credentials(name=name, usage="accept", store=store, mechs=mechanisms)
    except library.exceptions.GSSError as error:
        raise ValueError(error.gen_message()) from error


def _client_context(
    library: gssapi, service: str, host: str, principal: str | None, keytab: str | None
) -> gssapi.SecurityContext:
    kerberos = library.MechType.kerberos
    name = None if principal is None else library.Name(principal, library.NameType.kerberos_principal)
    credentials = None
    if name is not None or keytab is not None:
        # A cache in memory, so that no other process finds the ticket.
        cache = f"MEMORY:{secrets.token_hex(_CACHE_NAME_BYTES)}"
        store = {} if keytab is None else {"client_keytab": keytab, "ccache": cache}
        credentials = library.Credentials(name=name, usage="initiate", store=store, mechs=[kerberos])
    target = library.Name(f"{service}@{host}", library.NameType.hostbased_service)
    flags = library.RequirementFlag.mutual_authentication | library.RequirementFlag.integrity
    return library.SecurityContext(
        name=target, creds=credentials, usage="initiate", mech=kerberos, flags=flags
    )


def _library() -> gssapi:
    try:
        return importlib.import_module("gssapi")
    except (ImportError, OSError) as error:
        raise KerberosMissing from error


def _code(error: gssapi.exceptions.GSSError) -> int:
    """The Kerberos error code (RFC 4120) in the minor status of a GSSAPI error."""
    signed = (error.min_code + 2**31) % 2**32 - 2**31
    return int(signed) - _KRB5_ERROR_BASE

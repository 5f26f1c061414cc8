"""The server's side of a SASL login, with any mechanism.

The caller owns the connection. The messages of a SASL login are called tokens. The caller passes each token of the
client to `step`, until the outcome is a `Success`. A failed login raises one of these exceptions:

- SaslAuthenticationException: the client gets the text of the exception;
- LoginRefused: the client gets a text that contains only the name of the mechanism, so that a stranger learns nothing;
- LoginInterrupted: the client gets no answer, and may try again.

`step` never waits. If a step needs much time or another server, `step` returns `InThread`. Then the caller runs the
work of this object in a thread.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from kcli.security.principal import Principal


class LoginRefused(Exception):
    """A failed login whose reason the client must not read. The reason is for the log of the broker."""


class LoginInterrupted(Exception):
    """A login that may succeed if the client tries again, for example because the Kerberos server did not answer."""


@dataclass(frozen=True, slots=True)
class Challenge:
    """The server's token, to which the client must answer."""

    token: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class Success:
    """The end of a login. `token` is the server's last token, which may be empty.

    `authorization_id` is the name of the user. `expires_at_ms` is the time in milliseconds since the Unix epoch at
    which the client's credential expires, or None. `owner` is the owner of the delegation token with which the client
    has logged in, or None (KIP-48).
    """

    authorization_id: str
    token: bytes = field(default=b"", repr=False)
    expires_at_ms: int | None = None
    owner: Principal | None = None

    @property
    def by_token(self) -> bool:
        return self.owner is not None


Outcome = Challenge | Success


@dataclass(frozen=True, slots=True)
class InThread:
    """Work that would block the event loop. `work` returns the outcome of the step, or raises an exception of a failed
    login.
    """

    work: Callable[[], Outcome] = field(repr=False)


class ServerExchange(Protocol):
    """The server's side of one login. A second login needs a new exchange."""

    def step(self, token: bytes) -> Outcome | InThread:
        """Handles the client's next token. After an outcome `InThread`, this method is not called again before the work
        in the thread has ended.
        """


@dataclass(frozen=True, slots=True)
class ServerMechanism:
    """A mechanism that a listener offers. `begin` begins a login of a client."""

    name: str
    begin: Callable[[], ServerExchange] = field(repr=False)


DIFFERENT_AUTHORIZATION_ID = (
    "Authentication failed: Client requested an authorization id that is different from username"
)

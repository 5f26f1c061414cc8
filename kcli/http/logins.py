"""Users of an HTTP server: their passwords, and the check of an Authorization header (HTTP Basic, RFC 7617)."""

from __future__ import annotations

import asyncio
import base64
import binascii
import hmac
import secrets
from collections import OrderedDict
from collections.abc import Callable, Mapping

from kcli.errors import KcliError
from kcli.model.java_text import trim
from kcli.security.login_delays import LoginDelays, address_of

REALM = "kcli"

CREDENTIALS_MAX_BYTES = 1024
"""The longest user and password together. A longer header is refused before it is decoded."""


FAILURES_MAX = 20
"""The number of wrong logins that an address may have before its logins must wait. A person with a wrong password, or a
scraper with an old one, seldom reaches this number in a short time."""
INTERVAL_SECONDS = 0.5
"""The time between two logins of an address after FAILURES_MAX failures. So a client can try two passwords per
second."""
WAIT_MAX_SECONDS = 5.0
"""The longest wait of a login. A login that would wait longer is refused."""
REFUSAL_SECONDS = 1.0
"""The delay of the response to a refused login."""
KNOWN_MAX = 1000
"""The most correct logins that are remembered, each with its address."""


class TooManyFailures(KcliError):
    """Raised for a login from an address with too many wrong logins."""

    def __init__(self) -> None:
        super().__init__("too many wrong logins came from your address: try again later")


class LoginGuard:
    """Delays the logins of an address after wrong logins. A login that was correct before, from the same address, never
    waits. So a stranger cannot lock out a user who has the same address.
    """

    def __init__(
        self, *, failures_max: int = FAILURES_MAX, interval_seconds: float = INTERVAL_SECONDS
    ) -> None:
        self._delays = LoginDelays(
            failures_max=failures_max, interval_seconds=interval_seconds, wait_max_seconds=WAIT_MAX_SECONDS
        )
        self._key = secrets.token_bytes(32)
        self._known: OrderedDict[bytes, None] = OrderedDict()

    def is_known(self, address: str, login: str) -> bool:
        """Whether this login was correct before. `login` contains the user and the password."""
        return self._digest(address, login) in self._known

    async def wait(self, address: str) -> None:
        """Waits until a login of this address may be checked. Raises TooManyFailures if the wait is too long."""
        seconds = self._delays.wait_seconds(address, asyncio.get_running_loop().time())
        if seconds == float("inf"):
            # A client that is refused immediately would try again immediately.
            await asyncio.sleep(REFUSAL_SECONDS)
            raise TooManyFailures
        if seconds > 0:
            await asyncio.sleep(seconds)

    def failed(self, address: str) -> None:
        """Counts a wrong login."""
        self._delays.failed(address, asyncio.get_running_loop().time())

    def succeeded(self, address: str, login: str) -> None:
        """Remembers a correct login."""
        digest = self._digest(address, login)
        self._known[digest] = None
        self._known.move_to_end(digest)
        if len(self._known) > KNOWN_MAX:
            self._known.popitem(last=False)

    def _digest(self, address: str, login: str) -> bytes:
        text = f"{address_of(address)}\0{login}"
        return hmac.digest(self._key, text.encode(errors="surrogatepass"), "sha256")


Matches = Callable[[bytes, bytes], bool]
"""Whether the password of a user, which may be stored in another form, is the one of a login."""


def _is_everywhere(method: str, path: str) -> bool:
    return True


class Logins:
    """The users of a server, who log in with a password."""

    def __init__(
        self,
        users: Mapping[str, str],
        *,
        matches: Matches = hmac.compare_digest,
        are_needed: Callable[[str, str], bool] = _is_everywhere,
    ) -> None:
        """`users` has the password of each user. `are_needed` returns whether a method and a path need a login."""
        self._passwords = {name.encode(): password.encode() for name, password in users.items()}
        self._matches = matches
        self.are_needed = are_needed

    def __repr__(self) -> str:
        return f"Logins({len(self._passwords)} users)"

    def accepts(self, header: str | None) -> bool:
        """Whether the value of an Authorization header has a user with the correct password. The time of the check does
        not depend on the position of the first wrong character, or on the name of the user.
        """
        name, password = _credentials(header)
        expected = self._passwords.get(name)
        is_equal = self._matches(b"" if expected is None else expected, password)
        return is_equal and expected is not None


def user_of(header: str | None) -> str:
    """The user of an Authorization header, or an empty text. The password is not checked."""
    return _credentials(header)[0].decode(errors="replace")


def _credentials(header: str | None) -> tuple[bytes, bytes]:
    scheme, _, encoded = (header or "").partition(" ")
    if scheme.lower() != "basic" or len(encoded) > CREDENTIALS_MAX_BYTES * 4 // 3:
        return b"", b""
    try:
        decoded = base64.b64decode(trim(encoded), validate=True)
    except (binascii.Error, ValueError):
        return b"", b""
    name, _, password = decoded.partition(b":")
    return name, password

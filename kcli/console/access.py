"""Decides which requests are allowed: checks the Host header, the session, the token against CSRF, and the user's
login."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from http import HTTPStatus
from urllib.parse import urlsplit

from kcli.client.config import ClientConfigError
from kcli.console.connection import ClusterConnection
from kcli.console.failures import LOGIN_NEEDED, ConsoleError
from kcli.console.identity import LoginRules
from kcli.console.sessions import Session, Sessions
from kcli.http.server import HttpError, Request, Response
from kcli.model.java_text import trim
from kcli.runtime.clock import Clock
from kcli.runtime.network import Network

CSRF_HEADER = "X-Kcli-Csrf"

POLICY = (
    "default-src 'self'; object-src 'none'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; "
    "img-src 'self' data:"
)
"""The content security policy: no script, style or frame from another server, and no script or style inside a page."""

HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}


NAME_SHOWN_CHARACTERS = 100


class HostCheck:
    """Refuses requests with a host name that the operator has not allowed.

    A page of an attacker can let its own name point to 127.0.0.1 (DNS rebinding). The browser then sends this name in
    the Host header. An IP address cannot point elsewhere, so every IP address is allowed.
    """

    def __init__(self, names: frozenset[str]) -> None:
        self._names = frozenset(name.lower() for name in names) | {"localhost"}

    def __call__(self, request: Request) -> None:
        """Raises HttpError if the host name is not allowed, or if another website has started the request."""
        name = _host_name(request.headers.get("Host", ""))
        if name not in self._names and not _is_ip(name):
            raise HttpError(
                HTTPStatus.MISDIRECTED_REQUEST,
                f"this console does not allow the name {name[:NAME_SHOWN_CHARACTERS]!r}: see --allowed-host",
                close=True,
            )
        is_call = request.method == "POST" or "/api/" in request.path
        if is_call and not self._is_own_page(request):
            raise HttpError(HTTPStatus.FORBIDDEN, "another website has sent this request", close=True)

    def _is_own_page(self, request: Request) -> bool:
        """Whether the request comes from a page of this console, or from an address that the user typed. A browser
        shows this in two headers. Other programs do not send these headers."""
        sites = ("same-origin",) if request.method == "POST" else ("same-origin", "none")
        if request.headers.get("Sec-Fetch-Site", "same-origin") not in sites:
            return False
        origin = request.headers.get("Origin")
        if origin is None:
            return True
        place = urlsplit(origin).netloc
        if place == request.headers.get("Host"):
            return True
        # A proxy may change the Host header, but not the Origin. So the Origin may also be an allowed name. localhost
        # and IP addresses are refused here, because other programs serve pages there too.
        name = _host_name(place)
        return name in self._names and name != "localhost" and not _is_ip(name)


class Visitors:
    """The sessions of browsers, and the connections to clusters that each session may use."""

    def __init__(
        self, rules: Mapping[str, LoginRules], network: Network, clock: Clock, cookie: str, cookie_path: str
    ) -> None:
        self.rules = rules
        self.sessions = Sessions(clock.monotonic)
        self._network = network
        self._clock = clock
        self._cookie = cookie
        self._cookie_path = cookie_path
        self._shared: dict[str, ClusterConnection] = {}

    def session(self, request: Request) -> Session | None:
        """The session of the browser that sent the request, or None."""
        return self.sessions.find(request.cookies.get(self._cookie))

    def is_known(self, request: Request) -> bool:
        """Whether the browser is logged in, or has opened the secret address."""
        session = self.session(request)
        return session is not None and session in self.sessions

    def set_cookie(self, request: Request, response: Response, session: Session) -> None:
        """Gives the browser its session. Scripts cannot read the cookie, and other websites cannot send it."""
        response.set_cookie(
            self._cookie,
            session.id,
            path=self._cookie_path,
            httponly=True,
            samesite="Strict",
            secure=request.secure or request.headers.get("X-Forwarded-Proto") == "https",
        )

    def check_csrf(self, request: Request) -> Session:
        """Returns the session. Raises HttpError if the request does not have the session's token against CSRF, which
        only the console's own pages can read."""
        session = self.session(request)
        if session is None or not session.accepts(request.headers.get(CSRF_HEADER)):
            raise ConsoleError(HTTPStatus.FORBIDDEN, "CSRF", "the session has ended: reload the page")
        return session

    def rules_of(self, name: str) -> LoginRules:
        """The login rules of a cluster. Raises HttpError if no cluster has this name."""
        if (rules := self.rules.get(name)) is None:
            raise ConsoleError(
                HTTPStatus.NOT_FOUND, "UNKNOWN_CLUSTER", "the console has no cluster of this name"
            )
        return rules

    def connection(self, session: Session | None, name: str) -> ClusterConnection:
        """The connection of a session to a cluster. Raises HttpError if the user must log in first."""
        rules = self.rules_of(name)
        if session is not None and (own := session.connections.get(name)) is not None:
            return own
        if rules.is_open or (rules.serves_given and session is not None and session.is_owner):
            return self._shared_connection(rules)
        raise ConsoleError(HTTPStatus.UNAUTHORIZED, LOGIN_NEEDED, f"log in to the cluster {name}")

    async def log_in(
        self, session: Session, name: str, user: str, password: str, mechanism: str
    ) -> ClusterConnection:
        """Logs a user in to a cluster, and replaces an earlier login. Raises the errors of the cluster."""
        rules, was_kept = self.rules_of(name), session in self.sessions
        if not rules.needs_login:
            raise ConsoleError(HTTPStatus.BAD_REQUEST, "NO_LOGIN", f"the cluster {name} has no logins")
        connection = ClusterConnection(
            rules.user_identity(user, password, mechanism), self._network, self._clock.monotonic
        )
        try:
            await connection.admin.describe_cluster()
        except BaseException:
            await connection.close()
            raise
        before = session.connections.pop(name, None)
        session.connections[name] = connection
        if before is not None:
            await before.close()
        if was_kept and session not in self.sessions:  # the session ended during the login
            await self.sessions.end(session)
        else:
            await self.sessions.renew(session)
        return connection

    async def log_out(self, session: Session, name: str) -> None:
        """Ends the login of a session to a cluster, if it has one."""
        if (connection := session.connections.pop(name, None)) is not None:
            self.sessions.forget(session)
            await connection.close()

    async def sweep(self) -> None:
        """Ends expired sessions, and forgets old answers."""
        await self.sessions.sweep()
        for connection in self._shared.values():
            connection.cache.sweep()

    async def close(self) -> None:
        """Ends all sessions and connections."""
        await self.sessions.close()
        for connection in self._shared.values():
            await connection.close()

    def _shared_connection(self, rules: LoginRules) -> ClusterConnection:
        name = rules.settings.name
        if name not in self._shared:
            identity = rules.open_identity() if rules.is_open else rules.given_identity()
            try:
                self._shared[name] = ClusterConnection(identity, self._network, self._clock.monotonic)
            except ClientConfigError as error:
                raise ConsoleError(HTTPStatus.BAD_GATEWAY, "INVALID_SETTING", str(error)) from error
        return self._shared[name]


def _host_name(value: str) -> str:
    """The name or address in a Host header, without the port."""
    value = trim(value).lower()
    if value.startswith("["):
        return value[1:].partition("]")[0]
    return value.rpartition(":")[0] if ":" in value else value


def _is_ip(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True

"""The session of a browser: the clusters, the logins, and the token against CSRF."""

from __future__ import annotations

import asyncio
import json
import logging
from http import HTTPStatus

from kcli.console.access import Visitors
from kcli.console.answers import json_response
from kcli.console.audit import AuditLog, Deed
from kcli.console.calls import bad_request
from kcli.console.failures import ConsoleError, failure_of
from kcli.console.identity import Given, LoginRules
from kcli.console.page_handlers import PageHandlers
from kcli.console.sessions import Session
from kcli.console.settings import READ_MECHANISMS, ConsoleSettings
from kcli.http.bodies import read_object
from kcli.http.logins import LoginGuard, TooManyFailures
from kcli.http.server import HttpError, Request, Response, RouteDef, connection_of, get, post
from kcli.runtime.limited_lines import LimitedLines

_log = logging.getLogger("kcli.console")

LOGIN_MAX_BYTES = 4096
LOGIN_MAX_SECONDS = 20.0
LOGINS_AT_ONCE = 4
"""The most logins in progress at the same time. The limit protects the brokers from too many logins."""

STRANGERS_FAILURES_MAX = 50
"""The number of wrong logins that all addresses together may have before logins must wait. A broker delays the logins
of the console's address after 100 wrong logins, so the console must stop earlier."""
STRANGERS_INTERVAL_SECONDS = 0.2
"""The time between two logins after STRANGERS_FAILURES_MAX failures. A broker allows twice this rate."""


EVERYBODY = "all addresses"
"""The name under which the failures of all addresses are counted together."""


class SessionPages:
    """GET /api/session, POST /api/session/login and POST /api/session/logout."""

    def __init__(self, settings: ConsoleSettings, visitors: Visitors, audit: AuditLog) -> None:
        self._settings = settings
        self._visitors = visitors
        self._audit = audit
        self._logins = asyncio.Semaphore(LOGINS_AT_ONCE)
        self._guard = LoginGuard()
        self._strangers = LoginGuard(
            failures_max=STRANGERS_FAILURES_MAX, interval_seconds=STRANGERS_INTERVAL_SECONDS
        )
        self._failures = LimitedLines()

    def routes(self, prefix: str) -> list[RouteDef]:
        """The routes of the HTTP server."""
        return [
            get(f"{prefix}/session", PageHandlers.guarded(self._show)),
            post(f"{prefix}/session/login", PageHandlers.guarded(self._log_in)),
            post(f"{prefix}/session/logout", PageHandlers.guarded(self._log_out)),
        ]

    async def _show(self, request: Request) -> Response:
        session = self._visitors.session(request)
        if session is not None:
            return json_response(self._shown(session))
        session = self._visitors.sessions.visit()
        response = json_response(self._shown(session))
        self._visitors.set_cookie(request, response, session)
        return response

    async def _log_in(self, request: Request) -> Response:
        session = self._visitors.check_csrf(request)
        body = await read_object(request, body_max_bytes=LOGIN_MAX_BYTES)
        cluster, user, password, mechanism = (
            _text(body, name) for name in ("cluster", "username", "password", "mechanism")
        )
        if mechanism not in READ_MECHANISMS:
            raise bad_request(f"mechanism: expected {', '.join(READ_MECHANISMS)}")
        self._visitors.rules_of(cluster)
        client = connection_of(request)
        login = json.dumps([cluster, user, password, mechanism])
        deed = Deed(user=user, client=client.address, cluster=cluster, action="login", target=cluster)
        # A stranger gives way to other clients while the login waits. The address is delayed, and not a place.
        with client.on_hold():
            await self._wait(client.address, login)
            try:
                async with asyncio.timeout(LOGIN_MAX_SECONDS), self._logins:
                    await self._visitors.log_in(session, cluster, user, password, mechanism)
            except Exception as error:
                self._login_failed(deed, error)
                raise
        self._guard.succeeded(client.address, login)
        try:
            self._audit.begin(deed)
        except HttpError:
            await self._visitors.log_out(session, cluster)
            raise
        self._audit.end(deed, "ok")
        response = json_response(self._shown(session))
        self._visitors.set_cookie(request, response, session)
        return response

    async def _wait(self, address: str, login: str) -> None:
        """Waits until a login may be tried. A login that was correct before does not wait."""
        if self._guard.is_known(address, login):
            return
        try:
            await self._guard.wait(address)
            await self._strangers.wait(EVERYBODY)
        except TooManyFailures as error:
            raise ConsoleError(HTTPStatus.TOO_MANY_REQUESTS, "TOO_MANY_FAILURES", str(error)) from None

    def _login_failed(self, deed: Deed, error: Exception) -> None:
        """Counts a wrong login. Writes a failed login to the audit log, if the last such line is old enough."""
        failure = failure_of(error)
        is_wrong = failure is not None and failure.status is HTTPStatus.UNAUTHORIZED
        if is_wrong:
            self._guard.failed(deed.client)
            self._strangers.failed(EVERYBODY)
        ending = self._failures.ending(asyncio.get_running_loop().time())
        if ending is not None:
            result = "BROKEN" if failure is None else failure.error
            self._audit.end(deed, result, ending.removeprefix("; "))
        if failure is not None and is_wrong:
            raise ConsoleError(HTTPStatus.UNAUTHORIZED, failure.error, failure.message) from error

    async def _log_out(self, request: Request) -> Response:
        session = self._visitors.check_csrf(request)
        body = await read_object(request, body_max_bytes=LOGIN_MAX_BYTES)
        await self._visitors.log_out(session, _text(body, "cluster"))
        return json_response(self._shown(session))

    def _shown(self, session: Session) -> dict[str, object]:
        return {
            "csrf": session.csrf,
            "read_only": self._settings.is_read_only,
            "clusters": [_cluster(rules, session) for rules in self._visitors.rules.values()],
        }


def _cluster(rules: LoginRules, session: Session) -> dict[str, object]:
    """A cluster as the page shows it. `state` is open (no login), given (the login of the settings), user (logged in)
    or login (the user must log in)."""
    own = session.connections.get(rules.settings.name)
    uses_given = own is None and session.is_owner and rules.serves_given
    if own is not None:
        state, user = "user", own.identity.name
    elif uses_given:
        state, user = "given", rules.given_identity().name
    elif rules.is_open:
        state, user = "open", ""
    else:
        state, user = "login", ""
    return {
        "name": rules.settings.name,
        "servers": rules.settings.properties.get("bootstrap.servers", ""),
        "state": state,
        "user": user,
        "can_log_in": rules.needs_login,
        "mechanisms": [
            rules.mechanism,
            *(mechanism for mechanism in READ_MECHANISMS if mechanism != rules.mechanism),
        ]
        if rules.needs_login
        else [],
        "needs_secret_address": rules.given is Given.CERTIFICATE and state == "login",
    }


def _text(body: dict[str, object], name: str) -> str:
    value = body.get(name)
    if not isinstance(value, str) or not value:
        raise bad_request(f"{name}: expected a text")
    return value

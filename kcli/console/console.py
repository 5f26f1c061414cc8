"""The whole console, from `start` to `stop`."""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import logging
import secrets
from http import HTTPStatus
from pathlib import Path

from kcli.client.config import ClientConfigError
from kcli.console.access import HEADERS, HostCheck, Visitors
from kcli.console.audit import AuditLog
from kcli.console.failures import http_failure
from kcli.console.identity import LoginRules, is_loopback
from kcli.console.page_handlers import PageHandlers
from kcli.console.pages import PAGES
from kcli.console.pages.session import SessionPages
from kcli.console.settings import ConsoleSettings
from kcli.http.server import HttpError, HttpServer, Request, Response, RouteDef, Rules, get
from kcli.http.static_files import StaticFiles
from kcli.runtime.clock import Clock
from kcli.runtime.network import Network

_log = logging.getLogger("kcli.console")

CONNECTIONS_MAX = 256
"""The most connections. A browser has up to six, so forty people can use the console at the same time."""

SWEEP_SECONDS = 30.0
"""The pause between two searches for sessions whose time is over."""

STATIC = Path(__file__).parent / "static"

_INDEX = "index.html"


class Console:
    """Serves the pages and the API. Raises ClientConfigError or AuditError if the settings are invalid."""

    def __init__(self, settings: ConsoleSettings, network: Network, clock: Clock) -> None:
        self._settings = settings
        self._network = network
        self._clock = clock
        self._audit = AuditLog(settings.audit_file, clock.now_ms)
        self._rules = _rules_by_name(settings)
        self._files = StaticFiles(STATIC)
        # Only the person who started the console has this secret. It lets a browser use the logins of the settings
        # files.
        self._secret = secrets.token_urlsafe(24)
        self._visitors: Visitors | None = None
        self._page_handlers: PageHandlers | None = None
        self._server: HttpServer | None = None
        self._sweeper: asyncio.Task[None] | None = None

    async def start(self) -> str:
        """Starts to listen, and returns the address that the user opens. Raises OSError if the port is not free."""
        settings = self._settings
        base = settings.base_path
        # Browsers do not separate cookies by port, so the name of the cookie has the port.
        self._visitors = Visitors(
            self._rules, self._network, self._clock, f"kcli-console-{settings.port}", f"{base}/"
        )
        self._page_handlers = PageHandlers(settings, self._visitors, self._audit, self._clock)
        rules = Rules(
            check=HostCheck(settings.allowed_hosts | {settings.host}),
            headers=HEADERS,
            error_response=http_failure,
            connections_max=CONNECTIONS_MAX,
            is_known=self._visitors.is_known,
        )
        context = settings.tls
        tls = None if context is None else lambda: context
        self._server = HttpServer(self._routes(), self._network, tls=tls, rules=rules)
        port = await self._server.start(settings.host, settings.port)
        self._sweeper = asyncio.create_task(self._sweep())
        return self._address(port)

    async def stop(self) -> None:
        """Ends the requests, the sessions and the clients."""
        if self._sweeper is not None:
            self._sweeper.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._sweeper
        if self._server is not None:
            await self._server.stop()
        if self._page_handlers is not None:
            await self._page_handlers.close()
        if self._visitors is not None:
            await self._visitors.close()
        self._audit.close()

    @property
    def uses_given_login(self) -> bool:
        """Whether the browser that opens the address from `start` gets the permissions of a login in a settings
        file."""
        return any(rules.serves_given for rules in self._rules.values())

    def _address(self, port: int) -> str:
        settings = self._settings
        scheme = "http" if settings.tls is None else "https"
        host = f"[{settings.host}]" if ":" in settings.host else settings.host
        query = f"?secret={self._secret}" if self.uses_given_login else ""
        return f"{scheme}://{host}:{port}{settings.base_path}/{query}"

    def _routes(self) -> list[RouteDef]:
        assert self._page_handlers is not None and self._visitors is not None
        base = self._settings.base_path
        api = f"{base}/api"
        routes = SessionPages(self._settings, self._visitors, self._audit).routes(api)
        for page in PAGES:
            routes += [self._page_handlers.route(handler, f"{api}/clusters/{{cluster}}") for handler in page]
        routes.append(get(f"{base}/", self._index))
        routes.append(get(f"{base}/static/{{path:.+}}", self._static))
        if base:
            routes.append(get(base, self._redirect))
        return routes

    async def _index(self, request: Request) -> Response:
        secret = request.query.get("secret")
        if secret is None:
            return self._files.respond(request, _INDEX)
        if not hmac.compare_digest(secret.encode(errors="replace"), self._secret.encode()):
            raise HttpError(
                HTTPStatus.FORBIDDEN, "this address is old: use the address that kcli console printed"
            )
        assert self._visitors is not None
        before = self._visitors.session(request)
        if before is not None:
            await self._visitors.sessions.end(before)
        session = await self._visitors.sessions.begin_owner()
        response = self._redirection()
        self._visitors.set_cookie(request, response, session)
        return response

    async def _redirect(self, _: Request) -> Response:
        return self._redirection()

    def _redirection(self) -> Response:
        return Response(status=HTTPStatus.SEE_OTHER, headers={"Location": f"{self._settings.base_path}/"})

    async def _static(self, request: Request) -> Response:
        return self._files.respond(request, request.match_info["path"])

    async def _sweep(self) -> None:
        assert self._visitors is not None
        while True:
            await asyncio.sleep(SWEEP_SECONDS)
            try:
                await self._visitors.sweep()
            except Exception:
                _log.exception("the end of old sessions failed")


def _rules_by_name(settings: ConsoleSettings) -> dict[str, LoginRules]:
    local = is_loopback(settings.host)
    rules = {cluster.name: LoginRules(cluster, is_loopback=local) for cluster in settings.clusters}
    if len(rules) < len(settings.clusters):
        raise ClientConfigError("two clusters have the same name")
    return rules

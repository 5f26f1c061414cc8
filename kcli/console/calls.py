"""The arguments of the handlers: the user's clients, the parameters of the URL, and the body of an action."""

from __future__ import annotations

import contextlib
import dataclasses
import shlex
from collections.abc import Awaitable, Callable, Hashable, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import TypeVar

from kcli.client.admin.admin import AdminClient
from kcli.console.answers import as_json
from kcli.console.cache import Aged
from kcli.console.connection import ClusterConnection
from kcli.console.failures import Failure
from kcli.console.identity import LoginRules
from kcli.console.listing import ROWS_DEFAULT, ROWS_MAX, SEARCH_CHARACTERS_MAX, Listing
from kcli.console.settings import ConsoleSettings
from kcli.console.shared import Shared
from kcli.http.server import HttpError, Request
from kcli.model.java_text import parse_long, trim
from kcli.runtime.clock import Clock

T = TypeVar("T")

LIST_SECONDS = 10.0
"""The time for which the answer behind a list is reused. Pages show the age of the answer, and have a button that
requests a new answer."""

FRESH_SECONDS = 1.0
"""The time for which an answer is reused if the user asks for a fresh list. So a user who holds down the refresh key
does not flood the cluster with requests.
"""

OFFSET_MAX = 10_000_000


@dataclass(slots=True, kw_only=True)
class Call:
    """A request of a page for one cluster, with the permissions of the session's user."""

    request: Request
    settings: ConsoleSettings
    rules: LoginRules
    connection: ClusterConnection
    clock: Clock
    shared: Shared
    """The objects that live as long as the console, for all users and clusters."""
    age_ms: int = 0
    """The age of the oldest value of the cache in the answer."""
    is_stale: bool = False

    @property
    def admin(self) -> AdminClient:
        return self.connection.admin

    @property
    def cluster(self) -> str:
        """The name of the cluster on the pages."""
        return self.rules.settings.name

    def part(self, name: str) -> str:
        """A part of the path, such as the topic in /topics/{topic}."""
        return self.request.match_info[name]

    def query(self, name: str, default: str = "") -> str:
        """A parameter of the query."""
        return self.request.query.get(name, default)

    def integer(self, name: str, default: int, *, least: int = 0, most: int = 2**63 - 1) -> int:
        """Returns a parameter of the query as a number. Raises HttpError if the parameter is not a number in this
        range."""
        return _integer(name, self.request.query.get(name, default), least, most)

    def listing(self) -> Listing:
        """The parameters `search, sort, order, offset, limit` of a list."""
        search = self.query("search")
        if len(search) > SEARCH_CHARACTERS_MAX:
            raise bad_request(f"search has more than {SEARCH_CHARACTERS_MAX} characters")
        return Listing(
            search=search,
            sort=self.query("sort"),
            is_descending=self.query("order") == "desc",
            offset=self.integer("offset", 0, most=OFFSET_MAX),
            limit=self.integer("limit", ROWS_DEFAULT, least=1, most=ROWS_MAX),
        )

    async def cached(
        self,
        key: Hashable,
        load: Callable[[], Awaitable[T]],
        *,
        seconds: float = LIST_SECONDS,
        older_seconds: float = 0.0,
    ) -> Aged[T]:
        """Returns an answer of the cluster that may be some seconds old. With ?fresh=1, it is at most one second old.

        An answer that is up to `older_seconds` older is returned too, and a new answer is loaded in the background."""
        if self.query("fresh") == "1":
            seconds, older_seconds = min(seconds, FRESH_SECONDS), 0.0
        return self.uses(await self.connection.cache.get(key, seconds, load, older_seconds=older_seconds))

    def uses(self, answer: Aged[T]) -> Aged[T]:
        """Notes that the answer to the page contains a value of the cache, whose age the page shows."""
        self.age_ms = max(self.age_ms, answer.age_ms)
        self.is_stale = self.is_stale or answer.is_stale
        return answer

    def dated(self, content: object) -> object:
        """Adds to the answer for a page: the time and the age of its oldest value, and the servers that do not answer.

        `stale` is True if the oldest value is older than it should be.
        """
        answer = as_json(content) if dataclasses.is_dataclass(content) else content
        if not isinstance(answer, dict):
            return answer
        return answer | {
            "as_of": self.clock.now_ms() - self.age_ms,
            "age_ms": self.age_ms,
            "stale": self.is_stale or self.connection.contact.is_lost,
            "unreachable": self.connection.contact.silence(),
        }

    def command(self, tool: str, *arguments: str) -> str:
        """The command line of a tool, with the options that connect the tool to the cluster."""
        properties = self.rules.settings.properties
        words = ["kcli", tool, "--bootstrap-server", properties.get("bootstrap.servers", "")]
        if self.rules.settings.config_file is not None:
            words += ["--command-config", self.rules.settings.config_file]
        return shlex.join([*words, *arguments])


@dataclass(slots=True, kw_only=True)
class Action(Call):
    """A request that changes the cluster. With `is_preview`, it changes nothing and returns what would change."""

    body: dict[str, object] = field(default_factory=dict)
    target: str = ""
    """The thing that changes, for the audit log, such as "topic orders". The handler sets it before it acts."""
    work_ended: Callable[[Failure | None], None]
    """Called at the end of work that continues after the action. Writes the end and the failure, or None, to the audit
    log."""

    @property
    def is_preview(self) -> bool:
        return self.body.get("preview") is True

    def text(self, name: str, default: str | None = None) -> str:
        """A field of the body that is a text. Raises HttpError if the field is missing, or is not a text."""
        value = self.body.get(name, default)
        if not isinstance(value, str):
            raise bad_request(f"{name}: expected a text")
        return value

    def number(self, name: str, default: int | None = None, *, least: int = 0, most: int = 2**63 - 1) -> int:
        """A field of the body that is a number. Raises HttpError if the field is missing, or is not a number in this
        range."""
        return _integer(name, self.body.get(name, default), least, most)

    def flag(self, name: str) -> bool:
        """A field of the body that is a boolean. A missing field is false."""
        value = self.body.get(name, False)
        if not isinstance(value, bool):
            raise bad_request(f"{name}: expected true or false")
        return value

    def texts(self, name: str) -> Sequence[str]:
        """A field of the body that is a list of texts. A missing field is an empty list."""
        values = self.body.get(name, [])
        if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
            raise bad_request(f"{name}: expected a list of texts")
        return values

    def settings_of(self, name: str) -> dict[str, str | None]:
        """A field of the body that is an object whose values are texts or null. A missing field is an empty object."""
        settings = self.body.get(name, {})
        if not isinstance(settings, dict) or not all(
            value is None or isinstance(value, str) for value in settings.values()
        ):
            raise bad_request(f"{name}: expected an object of texts")
        return settings


def bad_request(message: str) -> HttpError:
    """The error for an invalid request."""
    return HttpError(HTTPStatus.BAD_REQUEST, message)


def _integer(name: str, value: object, least: int, most: int) -> int:
    if isinstance(value, str):
        with contextlib.suppress(ValueError):
            value = parse_long(trim(value))
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        raise bad_request(f"{name}: expected a number from {least} to {most}")
    return value

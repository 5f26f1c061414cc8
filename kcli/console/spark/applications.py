"""Applications of Spark, from its REST API: of a driver (port 4040), or of a history server (port 18080)."""

from __future__ import annotations

import json
from dataclasses import dataclass
from http import HTTPStatus
from urllib.parse import quote

from kcli.http.urls import UrlError, get_url, shown_url

APPLICATIONS_MAX = 50
"""The most applications that are listed, the newest first."""
DETAILS_MAX = 10
"""The most running applications whose jobs are counted. Each of them needs one more request."""
ANSWER_MAX_BYTES = 8 << 20
ANSWER_MAX_SECONDS = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Application:
    """An application, in its newest attempt. Times are in milliseconds since 1970.

    The numbers of jobs are None if they were not requested.
    """

    id: str
    name: str
    user: str
    version: str
    started_ms: int | None
    ended_ms: int | None
    is_running: bool
    running_jobs: int | None = None
    failed_jobs: int | None = None
    source: str = ""


async def read_applications(url: str) -> list[Application]:
    """Returns the applications that a server of Spark lists, newest first. Raises UrlError."""
    documents = await _json(url, f"/api/v1/applications?limit={APPLICATIONS_MAX}")
    read = [
        _application(document, shown_url(url))
        for document in documents[:APPLICATIONS_MAX]
        if isinstance(document, dict)
    ]
    running = [application for application in read if application.is_running][:DETAILS_MAX]
    counted = {application.id: await _with_jobs(url, application) for application in running}
    return [counted.get(application.id, application) for application in read]


async def _with_jobs(url: str, application: Application) -> Application:
    from dataclasses import replace

    jobs = await _json(url, f"/api/v1/applications/{quote(application.id, safe='')}/jobs")
    states = [job.get("status") for job in jobs if isinstance(job, dict)]
    return replace(application, running_jobs=states.count("RUNNING"), failed_jobs=states.count("FAILED"))


async def _json(url: str, target: str) -> list[object]:
    response = await get_url(url, target, body_max_bytes=ANSWER_MAX_BYTES, max_seconds=ANSWER_MAX_SECONDS)
    if response.status != HTTPStatus.OK:
        raise UrlError(
            f"{shown_url(url)} answered with the status {response.status}: it is not Spark's REST API"
        )
    try:
        document = json.loads(response.body)
    except (ValueError, RecursionError) as error:
        raise UrlError(f"{shown_url(url)} is not Spark's REST API: its answer is not JSON") from error
    if not isinstance(document, list):
        raise UrlError(f"{shown_url(url)} is not Spark's REST API: its answer is not a list")
    return document


def _application(document: dict[str, object], source: str) -> Application:
    attempts = document.get("attempts")
    newest = attempts[0] if isinstance(attempts, list) and attempts and isinstance(attempts[0], dict) else {}
    is_running = newest.get("completed") is False
    return Application(
        id=_text(document.get("id")),
        name=_text(document.get("name")),
        user=_text(newest.get("sparkUser")),
        version=_text(newest.get("appSparkVersion")),
        started_ms=_time(newest.get("startTimeEpoch")),
        ended_ms=None if is_running else _time(newest.get("endTimeEpoch")),
        is_running=is_running,
        source=source,
    )


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _time(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None

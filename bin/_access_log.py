"""Prints lines of a web server's access log, for bin/quickstart. The same arguments always give the same lines.

Usage: _access_log.py LINES. The lines cover one day and have the combined format of Apache and nginx.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator
from itertools import accumulate

SEED = 2011
DAY = "21/Nov/2026"
REQUESTS_BY_HOUR = (5, 3, 2, 2, 2, 3, 6, 11, 17, 22, 24, 25, 27, 24, 23, 24, 26, 28, 31, 35, 36, 28, 17, 9)
"""The relative number of requests in each hour of the day."""

PATHS = {
    "/": 30,
    "/products": 22,
    "/products/17": 9,
    "/products/42": 14,
    "/search?q=teapot": 8,
    "/cart": 7,
    "/checkout": 4,
    "/login": 5,
    "/static/site.css": 18,
    "/static/logo.svg": 16,
    "/old/index.php": 2,
}
"""The paths and their relative frequency."""

STATUSES = {200: 88, 304: 8, 404: 2, 302: 1, 500: 1}
AGENTS = ("Mozilla/5.0 (X11; Linux x86_64)", "Mozilla/5.0 (iPhone)", "curl/8.5.0", "kube-probe/1.31")


def lines(count: int) -> Iterator[str]:
    """Yields the lines in the order of their times."""
    rng = random.Random(SEED)
    paths, path_weights = tuple(PATHS), tuple(accumulate(PATHS.values()))
    statuses, status_weights = tuple(STATUSES), tuple(accumulate(STATUSES.values()))
    done, total = 0, sum(REQUESTS_BY_HOUR)
    for hour, until in enumerate(accumulate(REQUESTS_BY_HOUR)):
        in_this_hour = count * until // total - done
        done += in_this_hour
        for second in sorted(rng.randrange(3600) for _ in range(in_this_hour)):
            [path] = rng.choices(paths, cum_weights=path_weights)
            [status] = rng.choices(statuses, cum_weights=status_weights)
            method = "POST" if path in ("/checkout", "/login") else "GET"
            client = f"10.{rng.randrange(4)}.{rng.randrange(256)}.{rng.randrange(1, 255)}"
            size = 0 if status == 304 else rng.randrange(200, 40_000)
            at = f"{DAY}:{hour:02}:{second // 60:02}:{second % 60:02} +0000"
            yield f'{client} - - [{at}] "{method} {path} HTTP/1.1" {status} {size} "-" "{rng.choice(AGENTS)}"'


if __name__ == "__main__":
    sys.stdout.writelines(f"{line}\n" for line in lines(int(sys.argv[1])))

"""Measures decisions of the authorizer, and prints a table, then one JSON line per figure.

    python bench/security/acls.py [--rules 10,1000,10000] [--decisions 20000]

Each decision is timed alone, because the goal is a limit for one decision: a median of at most 5 µs, and at most 20 µs
for 99 of 100 decisions. The questions mix names that a literal ACL, a prefix, a wildcard or no ACL matches. The last
lines show the cost of the check of one topic, as a Produce or Fetch request makes it.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from kcli.metadata.delta import MetadataDelta
from kcli.metadata.image import MetadataImage
from kcli.model.acl import AclOperation, AclPermissionType, PatternType, ResourceType
from kcli.protocol.records.metadata import AccessControlEntryRecord
from kcli.protocol.wire.api import ApiKey
from kcli.security.acls.settings import AclSettings
from kcli.security.acls.standard import StandardAuthorizer
from kcli.security.authorizer import ALLOW_ALL, Asker, Authorizer, Resource
from kcli.security.principal import Principal, Session
from kcli.server.requests.access import WRITE_TOPIC
from kcli.server.requests.context import RequestContext

MEDIAN_GOAL_US = 5.0
P99_GOAL_US = 20.0
USERS = 200
OPERATIONS = (AclOperation.READ, AclOperation.WRITE, AclOperation.DESCRIBE, AclOperation.ALL)
HOSTS = ("*", "10.0.0.1", "10.0.0.2")


@dataclass(frozen=True, slots=True)
class Figure:
    name: str
    value: float
    unit: str
    goal: float | None = None


def mixed(count: int, rng: random.Random) -> list[AccessControlEntryRecord]:
    """ACLs as clusters have them: most for one topic, some for prefixes, a few for every topic, a tenth denials."""
    return [
        _acl(
            name := rng.choice((f"topic-{rng.randrange(count)}", f"team{rng.randrange(50)}-", "*")),
            PatternType.PREFIXED if name.startswith("team") else PatternType.LITERAL,
            f"User:u{rng.randrange(USERS)}" if name == "*" or rng.random() < 0.9 else "User:*",
            rng,
        )
        for _ in range(count)
    ]


def on_one_topic(count: int, rng: random.Random) -> list[AccessControlEntryRecord]:
    """ACLs of many users for one topic."""
    return [_acl("topic-1", PatternType.LITERAL, f"User:u{number}", rng) for number in range(count)]


def nested(count: int, rng: random.Random) -> list[AccessControlEntryRecord]:
    """Hundreds of prefixes match one name, each for another user."""
    return [
        _acl("t" * (1 + number % 200), PatternType.PREFIXED, f"User:u{number % USERS}", rng)
        for number in range(count)
    ]


def _acl(name: str, pattern: PatternType, principal: str, rng: random.Random) -> AccessControlEntryRecord:
    return AccessControlEntryRecord(
        id=uuid.UUID(int=rng.getrandbits(128)),
        resource_type=ResourceType.TOPIC,
        resource_name=name,
        pattern_type=pattern,
        principal=principal,
        host=rng.choice(HOSTS),
        operation=rng.choice(OPERATIONS),
        permission_type=AclPermissionType.DENY if rng.random() < 0.1 else AclPermissionType.ALLOW,
    )


def authorizer_of(records: Sequence[AccessControlEntryRecord]) -> tuple[StandardAuthorizer, float]:
    """The authorizer, and the milliseconds that its index took."""
    delta = MetadataDelta(MetadataImage())
    for record in records:
        delta.replay(record)
    image = delta.apply(1, 1, 0)
    authorizer = StandardAuthorizer(AclSettings(frozenset({"User:admin"})))
    began = time.thread_time()
    authorizer.metadata_changed(delta, image)
    return authorizer, (time.thread_time() - began) * 1000


def decisions(
    authorizer: Authorizer, names: Sequence[str], count: int, rng: random.Random, users: int = USERS
) -> list[float]:
    """The microseconds of each decision."""
    askers = [Asker(Principal("User", f"u{number}"), "10.0.0.1", "Produce") for number in range(users)]
    took = []
    for _ in range(count):
        asker, operation = rng.choice(askers), rng.choice(OPERATIONS[:3])
        resource = Resource(ResourceType.TOPIC, rng.choice(names))
        began = time.perf_counter_ns()
        authorizer.authorize(asker, operation, resource)
        took.append((time.perf_counter_ns() - began) / 1000)
    return took


Making = Callable[[int, random.Random], list[AccessControlEntryRecord]]


def measure(name: str, make: Making, rules: int, count: int) -> list[Figure]:
    rng = random.Random(7)
    authorizer, index_ms = authorizer_of(make(rules, rng))
    names = [f"topic-{number}" for number in range(50)]
    names += [f"team{number}-orders" for number in range(50)] + ["t" * 249, "absent"]
    took = decisions(authorizer, names, count, rng)
    title = f"{rules} rules, {name}"
    # Nested prefixes are the worst case of the index, which no cluster has.
    median_goal, p99_goal = (None, None) if make is nested else (MEDIAN_GOAL_US, P99_GOAL_US)
    return [
        Figure(f"{title}: median", statistics.median(took), "µs", median_goal),
        Figure(f"{title}: p99", statistics.quantiles(took, n=100)[98], "µs", p99_goal),
        Figure(f"{title}: index", index_ms, "ms"),
    ]


def nested_of_one(count: int) -> list[Figure]:
    """The worst case of the index: one user has 200 prefixes of one name. Half of the names match all of them, and
    half of the names match none, although they are long enough for each.
    """
    rng = random.Random(7)
    records = [_acl("t" * (1 + number), PatternType.PREFIXED, "User:u0", rng) for number in range(200)]
    authorizer, _ = authorizer_of(records)
    names = [f"{letter * 240}{number}" for letter in "tx" for number in range(500)]
    took = decisions(authorizer, names, count, rng, users=1)
    title = "200 nested prefixes of one user"
    return [
        Figure(f"{title}: median", statistics.median(took), "µs", P99_GOAL_US),
        Figure(f"{title}: p99", statistics.quantiles(took, n=100)[98], "µs", P99_GOAL_US),
    ]


def request_cost(count: int) -> list[Figure]:
    """The cost of the check of one topic in a request, with 1,000 rules and without an authorizer."""
    secured, _ = authorizer_of(mixed(1000, random.Random(7)))
    found = []
    for name, authorizer in (("no authorizer", ALLOW_ALL), ("1000 rules", secured)):
        context = RequestContext(
            None,
            ApiKey.PRODUCE,
            9,
            1,
            "c",
            "SASL",
            "10.0.0.1",
            Session(Principal("User", "u1")),
            authorizer=authorizer,
        )
        began = time.thread_time_ns()
        for _ in range(count):
            rights = context.rights
            if not rights.is_open:
                rights.allows(WRITE_TOPIC, "topic-1")
        spent = time.thread_time_ns() - began
        found.append(Figure(f"check of a request, {name}", spent / count / 1000, "µs"))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rules", default="10,1000,10000")
    parser.add_argument("--decisions", type=int, default=20_000)
    options = parser.parse_args()
    figures: list[Figure] = []
    for rules in map(int, options.rules.split(",")):
        figures += measure("mixed", mixed, rules, options.decisions)
        figures += measure("one topic", on_one_topic, rules, options.decisions)
        figures += measure("nested prefixes", nested, rules, options.decisions)
    figures += nested_of_one(options.decisions)
    figures += request_cost(options.decisions)
    for figure in figures:
        goal = (
            ""
            if figure.goal is None
            else f"goal {figure.goal:g}: {'ok' if figure.value <= figure.goal else 'MISSED'}"
        )
        print(f"{figure.name:40} {figure.value:10.2f} {figure.unit:3} {goal}")
    for figure in figures:
        print(json.dumps({"name": figure.name, "value": round(figure.value, 3), "unit": figure.unit}))


if __name__ == "__main__":
    main()

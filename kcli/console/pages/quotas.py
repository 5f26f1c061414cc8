"""The quotas of users, clients and addresses: the list, and changes."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass

from kcli.client.admin.quotas import CLIENT_ID, IP, USER, ClientQuota, QuotaEntity
from kcli.console.answers import Outcome, Rows
from kcli.console.calls import Action, Call, bad_request
from kcli.console.routes import Change, Read
from kcli.model.command_words import option

NAME_MAX = 1000
KEYS = {
    USER: ("producer_byte_rate", "consumer_byte_rate", "request_percentage", "controller_mutation_rate"),
    CLIENT_ID: ("producer_byte_rate", "consumer_byte_rate", "request_percentage", "controller_mutation_rate"),
    IP: ("connection_creation_rate",),
}
"""The limits that an entity of a type can have."""
_TYPES = {USER: "users", CLIENT_ID: "clients", IP: "ips"}
"""The types of entities, as `kcli configs` names them."""
_ORDER = tuple(_TYPES)
_WHOLE_MAX = 1e15
"""Below this number, a double has all digits of a whole number."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaRow:
    """The limits of an entity. An entity has a user, a client id, both, or an IP address. If it has no user, `has_user`
    is False. If `has_user` is True and `user` is None, these are the limits of the default user."""

    user: str | None
    has_user: bool
    client_id: str | None
    has_client_id: bool
    ip: str | None
    has_ip: bool
    limits: dict[str, float]


async def list_quotas(call: Call) -> Rows:
    """GET /quotas: all quotas."""

    async def load() -> list[QuotaRow]:
        return [_row(quota) for quota in await call.admin.describe_client_quotas({}, strict=False)]

    return call.listing().rows(
        (await call.cached("quotas", load)).value,
        text=lambda row: f"{entity_text(_entity_of(row))} {' '.join(row.limits)}",
        columns={
            "entity": lambda row: entity_text(_entity_of(row)),
            **{key: _limit(key) for keys in KEYS.values() for key in keys},
        },
    )


async def change_quota(action: Action) -> Outcome:
    """POST /quotas {entity: {type: name, or null for the default}, limits: {key: number, or null}}: sets limits."""
    entity, limits = _entity(action), _limits(action)
    allowed = {key for kind in entity for key in KEYS[kind]}
    wrong = sorted(set(limits) - allowed)
    if wrong:
        raise bad_request(f"limits: {wrong[0][:40]!r} is not one of {', '.join(sorted(allowed))}")
    shown = entity_text(entity)
    action.target = f"quota of {shown}"
    result = await action.admin.alter_client_quotas([(entity, limits)], validate_only=action.is_preview)
    for error in result.values():
        if error is not None:
            raise error
    return Outcome(
        command=action.command("configs", "--alter", *_entity_words(entity), *_limit_words(limits)),
        summary=f"{'The cluster accepts the quota' if action.is_preview else 'Changed the quota'} of {shown}.",
    )


def entity_text(entity: QuotaEntity) -> str:
    """The entity as a person reads it, such as `user alice, any client id`."""
    shown = {USER: "user", CLIENT_ID: "client id", IP: "address"}
    return ", ".join(
        f"any other {shown[kind]}" if entity[kind] is None else f"{shown[kind]} {entity[kind]}"
        for kind in _ORDER
        if kind in entity
    )


def _entity(action: Action) -> dict[str, str | None]:
    """The entity in the body. Raises HttpError if its types do not fit together."""
    entity = action.settings_of("entity")
    if not entity or not entity.keys() <= _TYPES.keys() or (IP in entity and len(entity) > 1):
        raise bad_request("entity: expected a user, a client id, both, or an address")
    if any(name is not None and not 0 < len(name) <= NAME_MAX for name in entity.values()):
        raise bad_request(f"entity: expected names of 1 to {NAME_MAX} characters")
    return entity


def _limits(action: Action) -> dict[str, float | None]:
    document = action.body.get("limits", {})
    if not isinstance(document, dict) or not document:
        raise bad_request("limits: expected at least one limit")
    limits: dict[str, float | None] = {}
    for key, value in document.items():
        if value is not None and (
            isinstance(value, bool)
            or not isinstance(value, int | float)
            or not 0 < value <= sys.float_info.max
        ):
            raise bad_request(f"{key[:40]}: expected a number above 0, or null")
        limits[key] = None if value is None else float(value)
    return limits


def _entity_words(entity: QuotaEntity) -> list[str]:
    words = []
    for kind in _ORDER:
        if kind in entity:
            name = entity[kind]
            words += ["--entity-type", _TYPES[kind]]
            words += ["--entity-default"] if name is None else option("entity-name", name)
    return words


def _number(value: float) -> str:
    """The number with all its digits, as a whole number if it is one."""
    return f"{value:.0f}" if value.is_integer() and value < _WHOLE_MAX else repr(value)


def _limit_words(limits: dict[str, float | None]) -> list[str]:
    added = [f"{key}={_number(value)}" for key, value in _set(limits)]
    deleted = [key for key, value in limits.items() if value is None]
    return [
        *(["--add-config", ",".join(added)] if added else []),
        *(["--delete-config", ",".join(deleted)] if deleted else []),
    ]


def _set(limits: dict[str, float | None]) -> list[tuple[str, float]]:
    return [(key, value) for key, value in limits.items() if value is not None]


def _row(quota: ClientQuota) -> QuotaRow:
    entity = quota.entity
    return QuotaRow(
        user=entity.get(USER),
        has_user=USER in entity,
        client_id=entity.get(CLIENT_ID),
        has_client_id=CLIENT_ID in entity,
        ip=entity.get(IP),
        has_ip=IP in entity,
        limits=dict(sorted(quota.values.items())),
    )


def _entity_of(row: QuotaRow) -> QuotaEntity:
    parts = (
        (USER, row.has_user, row.user),
        (CLIENT_ID, row.has_client_id, row.client_id),
        (IP, row.has_ip, row.ip),
    )
    return {kind: name for kind, is_part, name in parts if is_part}


def _limit(key: str) -> Callable[[QuotaRow], float | None]:
    return lambda row: row.limits.get(key)


ROUTES = (
    Read("/quotas", list_quotas),
    Change("/quotas", "change quota", change_quota),
)

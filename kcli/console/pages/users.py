"""The users with SCRAM credentials: the list, setting a password, and removing a credential."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass

from kcli.client.admin.quotas import ScramDeletion, ScramUpsertion
from kcli.console.answers import Outcome, Rows
from kcli.console.calls import Action, Call, bad_request
from kcli.console.routes import Change, Read
from kcli.errors import KafkaError
from kcli.model.command_words import option
from kcli.model.java_text import trim
from kcli.security.mechanisms.scram import MAX_ITERATIONS, MECHANISMS, MIN_ITERATIONS, Mechanism

NAME_MAX = 1000
PASSWORD_MAX = 1000
"""The longest password. A longer password would only take more time, because SCRAM hashes it first."""
ITERATIONS_DEFAULT = 8192


@dataclass(frozen=True, slots=True, kw_only=True)
class UserRow:
    """A user, the mechanisms and iterations of the user's credentials, and the number of ACLs for the user.

    `acls` is None if the session may not see ACLs.
    """

    name: str
    mechanisms: dict[str, int]
    acls: int | None
    error: str | None = None


async def list_users(call: Call) -> Rows:
    """GET /users: the users with SCRAM credentials."""

    async def load() -> list[UserRow]:
        credentials, acls = await asyncio.gather(
            call.admin.describe_user_scram_credentials(), _acls_by_principal(call)
        )
        return [
            UserRow(
                name=name,
                mechanisms={}
                if isinstance(infos, KafkaError)
                else {info.mechanism.name if info.mechanism else "?": info.iterations for info in infos},
                acls=None if acls is None else acls[f"User:{name}"],
                error=infos.message if isinstance(infos, KafkaError) else None,
            )
            for name, infos in credentials.items()
        ]

    return call.listing().rows(
        (await call.cached("users", load)).value,
        text=lambda row: f"{row.name} {' '.join(row.mechanisms)}",
        columns={"name": lambda row: row.name, "acls": lambda row: row.acls},
    )


async def set_password(action: Action) -> Outcome:
    """POST /users {name, mechanism, password, iterations}: stores a credential, for a new or known user."""
    name, mechanism = _name(action), _mechanism(action)
    action.target = f"user {name}"
    password = action.text("password")
    if not password or len(password) > PASSWORD_MAX:
        raise bad_request(f"password: expected 1 to {PASSWORD_MAX} characters")
    iterations = action.number("iterations", ITERATIONS_DEFAULT, least=MIN_ITERATIONS, most=MAX_ITERATIONS)
    known = await _known(action, name)
    if not action.is_preview:
        change = ScramUpsertion(
            user=name, mechanism=mechanism, iterations=iterations, password=password.encode()
        )
        await _alter(action, change)
    did = "Replaces" if mechanism.name in known else "Adds"
    verb = did if action.is_preview else did.replace("Adds", "Added").replace("Replaces", "Replaced")
    setting = f"{mechanism.name}=[iterations={iterations},password=PASSWORD]"
    return Outcome(
        command=action.command("configs", "--alter", *_entity(name), "--add-config", setting),
        summary=f"{verb} the {mechanism.name} credential of user {name}.",
    )


async def remove_credential(action: Action) -> Outcome:
    """POST /users/remove {name, mechanism}: deletes a credential."""
    name, mechanism = _name(action), _mechanism(action)
    action.target = f"user {name}"
    known = await _known(action, name)
    if mechanism.name not in known:
        raise bad_request(f"user {name} has no {mechanism.name} credential")
    if not action.is_preview:
        await _alter(action, ScramDeletion(user=name, mechanism=mechanism))
    last = len(known) == 1
    return Outcome(
        command=action.command("configs", "--alter", *_entity(name), "--delete-config", mechanism.name),
        summary=f"{'Removes' if action.is_preview else 'Removed'} the {mechanism.name} credential of user {name}."
        + (" The user cannot log in by SCRAM afterwards. Its open connections stay." if last else ""),
    )


async def _alter(action: Action, change: ScramUpsertion | ScramDeletion) -> None:
    (error,) = (await action.admin.alter_user_scram_credentials([change])).values()
    if error is not None:
        raise error


async def _known(action: Action, name: str) -> frozenset[str]:
    """The mechanisms for which the user has a credential."""
    infos = (await action.admin.describe_user_scram_credentials([name])).get(name, ())
    if isinstance(infos, KafkaError):
        return frozenset()
    return frozenset(info.mechanism.name for info in infos if info.mechanism is not None)


async def _acls_by_principal(call: Call) -> Counter[str] | None:
    try:
        return Counter(acl.principal for acl in await call.admin.describe_acls())
    except KafkaError:
        return None  # there is no authorizer, or no right to see ACLs


def _entity(name: str) -> tuple[str, ...]:
    return ("--entity-type", "users", *option("entity-name", name))


def _name(action: Action) -> str:
    name = action.text("name")
    if not trim(name) or len(name) > NAME_MAX:
        raise bad_request(f"name: expected 1 to {NAME_MAX} characters")
    return name


def _mechanism(action: Action) -> Mechanism:
    mechanism = MECHANISMS.get(action.text("mechanism"))
    if mechanism is None:
        raise bad_request(f"mechanism: expected {' or '.join(MECHANISMS)}")
    return mechanism


ROUTES = (
    Read("/users", list_users),
    Change("/users", "set password", set_password),
    Change("/users/remove", "remove credential", remove_credential),
)

"""Configurations of connectors: a form from the keys of the plugin, validation while the user types, and changes."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from urllib.parse import quote

from kcli.console.answers import Outcome
from kcli.console.calls import Action, Call, bad_request
from kcli.console.cluster_rights import check_rights
from kcli.console.connect.secrets import HIDDEN, hidden, restored, secrets_of, without
from kcli.console.connect.workers import Json, read, send, worker_of
from kcli.console.failures import ConsoleError
from kcli.console.routes import Change, Read
from kcli.http.connect_rest import ConnectRest, connector_path
from kcli.model.acl import AclOperation

NAME, CLASS = "name", "connector.class"
NAME_MAX = 1000
_ERRORS_SHOWN = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyRow:
    """A key of a configuration, for a form. `errors` are the errors of its present value."""

    name: str
    title: str
    type: str
    group: str
    importance: str
    documentation: str
    is_required: bool
    default: str | None
    recommended: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class Validation:
    """The keys of a configuration. `problem` is the error of the whole configuration, such as an unknown class."""

    keys: list[KeyRow] = field(default_factory=list)
    problem: str | None = None
    secret_keys: tuple[str, ...] = ()

    @property
    def errors(self) -> list[str]:
        """All errors. A key that is not in the form has its error here too."""
        own = [f"{key.name}: {error}" for key in self.keys for error in key.errors]
        return ([self.problem] if self.problem else []) + own


async def list_plugins(call: Call) -> dict[str, object]:
    """GET /connect/{worker}/plugins: the classes of connectors that the worker has."""
    await check_rights(call, AclOperation.DESCRIBE_CONFIGS)
    answer = await read(worker_of(call), "/connector-plugins")
    plugins = [item for item in answer if isinstance(item, dict)] if isinstance(answer, list) else []
    return {
        "plugins": [
            {"class": str(item.get("class")), "type": str(item.get("type")), "version": item.get("version")}
            for item in plugins
            if item.get("type") in ("source", "sink")
        ]
    }


async def show_config(call: Call) -> dict[str, object]:
    """GET /connect/{worker}/connectors/{connector}/config: the configuration, whose secrets are hidden."""
    await check_rights(call, AclOperation.DESCRIBE_CONFIGS)
    rest = worker_of(call)
    config = await _stored(rest, call.part("connector"))
    validation = await _validate(rest, config)
    return {"config": hidden(config, secrets_of(config, validation.secret_keys))}


async def change_config(action: Action) -> Outcome:
    """POST /connect/{worker}/configs {name, config}: creates or changes a connector.

    The preview validates the configuration, and has the keys of the form in its details.
    """
    await check_rights(action, AclOperation.ALTER_CONFIGS)
    rest, name = worker_of(action), action.text("name")
    action.target = f"connector {name} at {rest.place}"
    if not 0 < len(name) <= NAME_MAX:
        raise bad_request(f"name: expected 1 to {NAME_MAX} characters")
    stored = await _stored_or_none(rest, name)
    config = restored(_config_of(action), stored or {}) | {NAME: name}
    if unknown := sorted(key for key, value in config.items() if value == HIDDEN):
        raise bad_request(f"{', '.join(unknown)}: write the secret, because the worker has stored none")
    command = shlex.join(["kcli", "connect", "apply", f"{name}.json", "--url", rest.url])
    if action.is_preview:
        return await _preview(rest, name, config, stored, command)
    if stored is not None and action.flag("is_new"):
        raise ConsoleError(HTTPStatus.CONFLICT, "CONNECTOR_EXISTS", f"the connector {name} exists already")
    await send(rest, "PUT", connector_path(name, "/config"), config)
    done = "Created" if stored is None else "Changed"
    return Outcome(command=command, summary=f"{done} the connector {name}.")


async def _preview(
    rest: ConnectRest, name: str, config: Mapping[str, str], stored: Mapping[str, str] | None, command: str
) -> Outcome:
    validation = await _validate(rest, config)
    secrets = secrets_of(config, validation.secret_keys)
    errors = [without(error, secrets) for error in validation.errors]
    if errors:
        more = f" and {len(errors) - _ERRORS_SHOWN} more" if len(errors) > _ERRORS_SHOWN else ""
        summary = f"The configuration is invalid: {'; '.join(errors[:_ERRORS_SHOWN])}{more}"
    else:
        summary = _changes(name, config, stored)
    keys = [_without_secrets(key, secrets) for key in validation.keys]
    return Outcome(command=command, summary=summary, details={"keys": keys, "errors": errors})


def _changes(name: str, config: Mapping[str, str], stored: Mapping[str, str] | None) -> str:
    if stored is None:
        return f"The connector {name} will be created. Its configuration is valid."
    keys = sorted(key for key in {*config, *stored} if config.get(key) != stored.get(key))
    if not keys:
        return f"The connector {name} has this configuration already."
    return f"These keys of the connector {name} will change: {', '.join(keys)}. The connector and its tasks restart."


def _without_secrets(key: KeyRow, secrets: Mapping[str, str]) -> dict[str, object]:
    return {
        "name": key.name,
        "title": key.title,
        "type": key.type,
        "group": key.group,
        "importance": key.importance,
        "documentation": key.documentation,
        "is_required": key.is_required,
        "is_secret": key.name in secrets or key.type == "PASSWORD",
        "default": key.default,
        "recommended": key.recommended,
        "errors": [without(error, secrets) for error in key.errors],
    }


def _config_of(action: Action) -> dict[str, str]:
    """The configuration in the body, without the keys whose value is null."""
    config = {key: value for key, value in action.settings_of("config").items() if value is not None}
    if config.get(NAME, action.text("name")) != action.text("name"):
        raise bad_request(f"the configuration has another name: {config[NAME][:NAME_MAX]}")
    return config


async def _stored(rest: ConnectRest, name: str) -> dict[str, str]:
    answer = await read(rest, connector_path(name, "/config"))
    config = answer if isinstance(answer, dict) else {}
    return {str(key): str(value) for key, value in config.items() if value is not None}


async def _stored_or_none(rest: ConnectRest, name: str) -> dict[str, str] | None:
    try:
        return await _stored(rest, name)
    except ConsoleError as error:
        if error.status is HTTPStatus.NOT_FOUND:
            return None
        raise


async def _validate(rest: ConnectRest, config: Mapping[str, str]) -> Validation:
    """Validates a configuration. Raises HttpError only if the worker does not answer."""
    plugin = config.get(CLASS, "")
    if not plugin:
        return Validation(problem=f"{CLASS} is missing")
    path = f"/connector-plugins/{quote(plugin, safe='')}/config/validate"
    try:
        answer = await send(rest, "PUT", path, dict(config))
    except ConsoleError as error:
        if error.name == "NO_WORKER":
            raise
        return Validation(problem=str(error))
    configs = answer.get("configs") if isinstance(answer, dict) else None
    rows = [_key(item) for item in configs if isinstance(item, dict)] if isinstance(configs, list) else []
    keys = [row for row in rows if row is not None]
    return Validation(keys=keys, secret_keys=tuple(key.name for key in keys if key.type == "PASSWORD"))


def _key(item: Json) -> KeyRow | None:
    """The row of a key. Returns None if a recommender hides the key, and its value has no error."""
    definition, value = _object(item.get("definition")), _object(item.get("value"))
    errors = _texts(value.get("errors"))
    if value.get("visible") is False and not errors:
        return None
    name = str(value.get("name") or definition.get("name"))
    default = definition.get("default_value")
    return KeyRow(
        name=name,
        title=str(definition.get("display_name") or name),
        type=str(definition.get("type") or "STRING"),
        group=str(definition.get("group") or "Connector"),
        importance=str(definition.get("importance") or "LOW"),
        documentation=str(definition.get("documentation") or ""),
        is_required=definition.get("required") is True,
        default=None if default is None else str(default),
        recommended=_texts(value.get("recommended_values")),
        errors=errors,
    )


def _object(value: object) -> Json:
    return value if isinstance(value, dict) else {}


def _texts(value: object) -> list[str]:
    return [str(item) for item in value] if isinstance(value, Sequence) and not isinstance(value, str) else []


ROUTES = (
    Read("/connect/{worker}/plugins", list_plugins),
    Read("/connect/{worker}/connectors/{connector}/config", show_config),
    Change("/connect/{worker}/configs", "change connector", change_config),
)

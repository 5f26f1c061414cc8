"""The registry of a command: its options, and the errors of registries with fewer features than Confluent's."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from http import HTTPStatus
from typing import TypeVar

from kcli.cli.client_properties import client_properties
from kcli.cli.output import Output
from kcli.cli.syntax.options import CommandError, ConnectingOptions, Kind, Run, option
from kcli.config.definition import ConfigError
from kcli.formats.registry.catalog import is_missing
from kcli.formats.registry.client import LATEST, RegistryClient, Version
from kcli.formats.registry.documents import ConfigDocument
from kcli.formats.registry.errors import RegistryRefused
from kcli.formats.registry.settings import URL, RegistrySettings
from kcli.model.java_text import parse_int

T = TypeVar("T")
AnyOptions = TypeVar("AnyOptions", bound="RegistryOptions")

URL_VARIABLE = "KCLI_SCHEMA_REGISTRY_URL"
DEFAULT_URL = "http://localhost:8081"


@dataclass(frozen=True, slots=True, kw_only=True)
class RegistryOptions(ConnectingOptions):
    registry: str | None = option(
        f"The URLs of the registry, separated by commas. A URL may have user:password@ before the host. Default: "
        f"${URL_VARIABLE}, {URL} in the properties, or {DEFAULT_URL}.",
        metavar="URL",
    )
    command_config: str | None = option(
        "A properties file for the registry, with Confluent's keys: basic.auth.*, bearer.auth.*, "
        "schema.registry.ssl.*, and so on.",
        metavar="file",
    )
    timeout: int | None = option(
        "The time limit for a request to the registry, in milliseconds.", Kind.INTEGER, metavar="ms"
    )


class NotOffered(CommandError):
    """The registry does not have a resource that the command needs."""


def client_of(options: RegistryOptions) -> RegistryClient:
    """The client of the command's registry. Raises CommandError."""
    return client_at(options.registry or os.environ.get(URL_VARIABLE), options)


def client_at(url: str | None, options: RegistryOptions, config_file: str | None = None) -> RegistryClient:
    """The client of a registry. Without a URL, the properties name it. Raises CommandError."""
    file = config_file or options.command_config
    properties = client_properties(file, (), options.client_properties)
    properties[URL] = url or properties.get(URL) or DEFAULT_URL
    if options.timeout is not None:
        if options.timeout <= 0:
            raise CommandError(f"--timeout {options.timeout}: expected a positive number")
        properties |= {"http.connect.timeout.ms": "1", "http.read.timeout.ms": str(options.timeout)}
    try:
        return RegistryClient(RegistrySettings.of(properties))
    except ConfigError as error:
        raise CommandError(error.located()) from None


def advised(run: Callable[[AnyOptions, Output], Awaitable[int | None]]) -> Run:
    """Returns a command whose refusals by the registry say what to change."""

    async def advised_run(options: AnyOptions, output: Output) -> int | None:
        try:
            return await run(options, output)
        except RegistryRefused as error:
            raise CommandError(f"{error}{_advice(error)}") from None

    return advised_run


def _advice(error: RegistryRefused) -> str:
    if error.status == HTTPStatus.UNAUTHORIZED:
        return ". Check the login in --registry or in the properties"
    if is_missing(error):
        return ". The registry does not have this resource, or the URL is not that of a registry"
    return ""


async def feature(client: RegistryClient, request: Awaitable[T], name: str, advice: str = "") -> T:
    """Sends a request that some registries cannot answer. Raises NotOffered for these, and RegistryError.

    `name` completes the sentence "the registry has no …".
    """
    try:
        return await request
    except RegistryRefused as error:
        if not is_missing(error):
            raise
        text = f"the registry {client.settings.shown} has no {name}"
        raise NotOffered(f"{text}. {advice}" if advice else text) from None


async def own_config(client: RegistryClient, subject: str) -> ConfigDocument | None:
    """The config that a subject has itself. None: the config of its context or of the registry counts."""
    try:
        return await client.config(subject)
    except RegistryRefused as error:
        if error.status == HTTPStatus.NOT_FOUND:
            return None
        raise


async def own_mode(client: RegistryClient, subject: str | None) -> str | None:
    """The mode that a subject, a context or (None) the registry has itself, or None. A registry may have no modes."""
    try:
        return (await client.mode(subject)).mode
    except RegistryRefused as error:
        if is_missing(error) or error.status == HTTPStatus.NOT_FOUND:
            return None
        raise


def version_number(text: str) -> Version:
    """A version on a command line. Raises CommandError."""
    if text in (LATEST, "-1"):
        return LATEST
    try:
        number = parse_int(text.removeprefix("v"))
    except ValueError:
        number = 0
    if number < 1:
        raise CommandError(f"{text}: expected a version, such as 3 or {LATEST}")
    return number

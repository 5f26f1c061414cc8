"""The users of a REST API, from the files that a JAAS file names, as Java's servers find them."""

from __future__ import annotations

import os
from collections.abc import Mapping

from kcli.config.definition import ConfigError
from kcli.config.environment import jaas_file
from kcli.config.properties import load
from kcli.security.jaas import JaasError, login_sections


def users_of_section(section: str, environment: Mapping[str, str] | None = None) -> Mapping[str, str]:
    """The lines of the files that the login modules of a section name with the option `file`, by user.

    Raises ConfigError if the section or a file is missing. A file may be empty.
    """
    path = jaas_file(os.environ if environment is None else environment)
    if path is None:
        raise ConfigError(
            f"HTTP Basic needs a JAAS file with the section {section}: set KAFKA_OPTS to "
            "-Djava.security.auth.login.config=FILE"
        )
    try:
        with open(path, encoding="utf-8") as file:
            modules = login_sections(file.read()).get(section, ())
        files = [module.options.get("file", "") for module in modules]
        if not any(files):
            raise ConfigError(f"{path} has no section {section} with a login module that has the option file")
        users: dict[str, str] = {}
        for name in filter(None, files):
            users |= load(name)
    except (OSError, JaasError) as error:
        raise ConfigError(f"cannot read the users of the REST API from {path}: {error}") from None
    return users

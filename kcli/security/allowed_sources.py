"""The URLs and files that OAUTHBEARER may use (CVE-2025-27817).

The settings of a client may come from another person. This person could name any URL or any file of this machine. So a
URL or a file is used only if it is on a list that the person who starts the program has set. As in Kafka 4.1, the lists
are system properties, and they are empty by default. A node also reads the lists from its properties file.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import PurePath
from urllib.parse import unquote, urlsplit

from kcli.config.environment import KAFKA_OPTS, system_property
from kcli.model.java_text import trim

ALLOWED_URLS = "org.apache.kafka.sasl.oauthbearer.allowed.urls"
ALLOWED_FILES = "org.apache.kafka.sasl.oauthbearer.allowed.files"

_VARIABLES = {
    ALLOWED_URLS: "KCLI_SASL_OAUTHBEARER_ALLOWED_URLS",
    ALLOWED_FILES: "KCLI_SASL_OAUTHBEARER_ALLOWED_FILES",
}


class SourceNotAllowed(ValueError):
    """Raised for a URL or a file that is not on its list. The message has Kafka's text, and how to allow the URL or
    file.
    """


@dataclass(frozen=True, slots=True)
class AllowedSources:
    """The allowed URLs, as text, and the allowed files, as paths."""

    urls: frozenset[str] = frozenset()
    files: frozenset[str] = frozenset()

    def with_more(self, urls: Iterable[str], files: Iterable[str]) -> AllowedSources:
        """Returns the lists with additional entries."""
        return AllowedSources(self.urls.union(urls), self.files.union(files))

    def check_url(self, key: str, url: str) -> None:
        """Raises SourceNotAllowed if the URL is not allowed. A URL `file:…` is also allowed if its path is an allowed
        file.
        """
        parts = urlsplit(url)
        is_file = parts.scheme.lower() == "file"
        if url in self.urls or (is_file and unquote(parts.path) in self.files):
            return
        raise _not_allowed(key, url, "file" if is_file else "URL")

    def check_file(self, key: str, path: str) -> None:
        """Raises SourceNotAllowed if the file is not allowed. Paths are compared as absolute paths."""
        if os.path.abspath(path) not in {
            os.path.abspath(PurePath(allowed_path)) for allowed_path in self.files
        }:
            raise _not_allowed(key, path, "file")


def sources_of_environment(environment: Mapping[str, str] | None = None) -> AllowedSources:
    """Returns the lists from the environment of the process."""
    variables = os.environ if environment is None else environment
    return AllowedSources(_listed(ALLOWED_URLS, variables), _listed(ALLOWED_FILES, variables))


def _listed(name: str, variables: Mapping[str, str]) -> frozenset[str]:
    texts = (variables.get(_VARIABLES[name]), system_property(name, variables))
    return frozenset(trim(entry) for text in texts if text for entry in text.split(",") if trim(entry))


def _not_allowed(key: str, value: str, what: str) -> SourceNotAllowed:
    name = ALLOWED_FILES if what == "file" else ALLOWED_URLS
    return SourceNotAllowed(
        f"Invalid value {value} for configuration {key}: The {what} cannot be accessed due to restrictions. Update "
        f"the system property '{name}' to allow the {what} to be accessed. Set it in the environment: "
        f"{KAFKA_OPTS}=-D{name}={value} or {_VARIABLES[name]}={value}"
    )

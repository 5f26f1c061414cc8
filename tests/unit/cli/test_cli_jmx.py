"""kafka-jmx: the text of values, and the address in a URL."""

from __future__ import annotations

import json

import pytest

from kcli.cli.syntax.options import CommandError
from kcli.cli.tools.jmx import _address, _text
from kcli.server.beans.bean import bean
from kcli.server.beans.exposition.encoding import json_bean


@pytest.mark.parametrize(
    ("value", "text"),
    [(float("nan"), "NaN"), (float("inf"), "Infinity"), (float("-inf"), "-Infinity"), (1.5, "1.5")],
)
def test_a_value_of_the_endpoint_is_printed_as_java_prints_it(value: float, text: str) -> None:
    document = json.loads(json_bean(bean("d", "T", {"a": value})))
    assert _text(document["a"]) == text


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("service:jmx:rmi:///jndi/rmi://:9999/jmxrmi", ("localhost", 9999)),
        ("service:jmx:rmi:///jndi/rmi://[::1]:9999/jmxrmi", ("::1", 9999)),
        ("http://example.org:80/metrics", ("example.org", 80)),
        ("https://[::1]:443", ("::1", 443)),
        ("example.org:65535", ("example.org", 65535)),
    ],
)
def test_the_address_is_read_from_a_service_url_or_an_http_url(url: str, address: tuple[str, int]) -> None:
    assert _address(url) == address


@pytest.mark.parametrize(
    "url",
    [
        "",
        ":9999",
        "http://example.org",
        "http://example.org:0",
        "http://example.org:65536",
        "ftp://example.org:21",
        "service:jmx:rmi:///jndi/rmi://example.org:9999",
    ],
)
def test_a_url_without_a_usable_address_is_refused(url: str) -> None:
    with pytest.raises(CommandError, match="is neither service:jmx"):
        _address(url)

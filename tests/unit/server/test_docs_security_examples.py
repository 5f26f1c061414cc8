"""Each example of properties in docs/security.md works: nodes accept it without a warning, and clients accept it."""

from __future__ import annotations

import asyncio
import re
import sys
from importlib.metadata import EntryPoint, EntryPoints
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from kcli.client.config import client_config
from kcli.config.not_built import check_can_serve, start_up_warnings
from kcli.config.properties import parse
from kcli.config.start_up import node_config
from kcli.metadata.image import MetadataImage
from kcli.runtime.clock import SystemClock
from kcli.security.callbacks import PASSWORD_CHECKS
from kcli.server.logins.link_security import LinkSecurity
from kcli.server.logins.listener_security import NodeSecurity
from rigs import kerberos
from rigs.certificates import Certificates

PAGE = (Path(__file__).resolve().parents[3] / "docs" / "security.md").read_text()
KEY = re.compile(r"[a-z][a-z0-9_.-]*=")
# Sections whose examples add to the broker of the chapter SASL.
ON_SASL = ("SASL: Bearer tokens", "SASL: Kerberos", "SASL: Your own checks")
NODE = """\
process.roles=broker,controller
node.id=1
controller.quorum.bootstrap.servers=127.0.0.1:9094
controller.listener.names=CONTROLLER
"""
STORES = """\
ssl.keystore.type=PEM
ssl.keystore.location=/etc/kcli/broker1.pem
ssl.truststore.type=PEM
ssl.truststore.location=/etc/kcli/ca.pem
"""
PLAIN_NODE = NODE + "listeners=PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9094\n"


def examples() -> list[tuple[str, str]]:
    """The blocks of properties, each with its chapter, its section and a number."""
    found = []
    for chapter in re.split(r"^## ", PAGE, flags=re.MULTILINE)[1:]:
        for section in chapter.split("\n### "):
            heading = f"{chapter.partition(chr(10))[0]}: {section.partition(chr(10))[0]}"
            blocks = re.findall(r"^```\n(.*?)^```", section, re.DOTALL | re.MULTILINE)
            for number, block in enumerate(blocks):
                if all(KEY.match(line) or line.startswith(" ") for line in block.splitlines()):
                    found.append((f"{heading} {number}", block))
    return found


EXAMPLES = examples()
CLIENTS = {
    name: text for name, text in EXAMPLES if re.search("^(security.protocol|sasl.mechanism)=", text, re.M)
}
NODES = {name: text for name, text in EXAMPLES if name not in CLIENTS}
SASL = next(text for text in NODES.values() if "listeners=SASL_SSL:" in text)


def test_the_page_has_examples() -> None:
    assert len(EXAMPLES) == len({name for name, _ in EXAMPLES}) >= 10
    assert len(CLIENTS) == 2


@pytest.fixture(autouse=True)
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The package of the chapter about own checks, as if it were installed."""
    module = ModuleType("our_package")
    (code,) = (
        each for each in re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL) if "LdapPasswords" in each
    )
    exec(code, module.__dict__)
    monkeypatch.setitem(sys.modules, "our_package", module)
    found = EntryPoints(
        [EntryPoint("com.example.LdapPasswords", "our_package:LdapPasswords", PASSWORD_CHECKS)]
    )
    monkeypatch.setattr("importlib.metadata.entry_points", lambda group: found.select(group=group))


def here(text: str, certificates: Certificates) -> str:
    """The example with files of this machine."""
    paths = {
        "/etc/kcli/broker1.pem": certificates.server.pem,
        "/etc/kcli/ca.pem": certificates.authority.pem,
        "/home/alice/alice.pem": certificates.alice.pem,
    }
    for path, own in paths.items():
        text = text.replace(path, own)
    return text


def complaints(text: str) -> list[str]:
    """Makes the security of a node as its start does. Returns the warnings."""
    config = node_config(parse(text, source="security.md"))
    check_can_serve(config)
    dispatch: Any = SimpleNamespace(versions_only=lambda _quotas: None, refuse=None)

    async def made() -> list[str]:
        security = NodeSecurity(config, SystemClock(), MetadataImage)
        try:
            for listener in config.listeners:
                security.of(listener, dispatch)
            return [*start_up_warnings(config), *LinkSecurity(lambda: config).check()]
        finally:
            security.close()

    return asyncio.run(made())


@pytest.mark.parametrize("name", NODES)
def test_a_node_starts_with_each_example(name: str, certificates: Certificates, tmp_path: Path) -> None:
    example = NODES[name]
    if "listeners=" in example:
        base = NODE + STORES
    elif name.startswith(ON_SASL):
        base = NODE + STORES + SASL
    else:
        base = PLAIN_NODE
    # A line of the example replaces the line of the base.
    own = {line.partition("=")[0] for line in example.splitlines()}
    kept = "".join(each for each in base.splitlines(keepends=True) if each.partition("=")[0] not in own)
    text = here(kept + example, certificates)
    if "Krb5LoginModule" not in example:
        assert complaints(text) == []
        return
    if why := kerberos.why_not():
        pytest.skip(why)
    with kerberos.serving(tmp_path) as realm:
        text = text.replace("/etc/kcli/kafka.keytab", realm.keytab(kerberos.SERVICE))
        text = text.replace("kafka/broker1.example@EXAMPLE.COM", kerberos.SERVICE)
        assert complaints(text) == []


@pytest.mark.parametrize("name", CLIENTS)
def test_a_client_accepts_each_example(name: str, certificates: Certificates) -> None:
    text = CLIENTS[name]
    if "security.protocol" not in text:
        text += "security.protocol=SASL_PLAINTEXT\n"
    properties = dict(parse(here(text, certificates), source="security.md"))
    assert client_config(properties, bootstrap_servers="127.0.0.1:1").security is not None

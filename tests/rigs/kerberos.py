"""A Kerberos server of MIT krb5 (Debian's krb5-kdc) for one test run, with its principals and keytabs."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

REALM = "EXAMPLE.COM"
SERVICE = f"kafka/localhost@{REALM}"
_SBIN = "/usr/sbin:/sbin:" + os.environ.get("PATH", "")
_LIMIT_S = 60

_CONFIG = """[libdefaults]
    default_realm = {realm}
    dns_lookup_kdc = false
    dns_lookup_realm = false
    dns_canonicalize_hostname = false
    rdns = false
    udp_preference_limit = 1
[realms]
    {realm} = {{
        kdc = 127.0.0.1:{port}
    }}
"""
_KDC_CONFIG = """[kdcdefaults]
    kdc_listen = 127.0.0.1:{port}
    kdc_tcp_listen = 127.0.0.1:{port}
[realms]
    {realm} = {{
        database_name = {directory}/principal
        key_stash_file = {directory}/stash
        max_life = 1h
    }}
"""


def why_not() -> str | None:
    """The reason for which no Kerberos server can run here, or None."""
    for program in ("krb5kdc", "kdb5_util", "kadmin.local"):
        if shutil.which(program, path=_SBIN) is None:
            return f"{program} is missing (Debian: krb5-kdc krb5-admin-server)"
    try:
        import gssapi  # noqa: F401
    except (ImportError, OSError) as error:
        return f"the library gssapi is missing: {error}"
    return None


@dataclass(frozen=True, slots=True)
class Kerberos:
    """A running server. `environment` makes libraries use it."""

    directory: Path
    environment: dict[str, str]

    def keytab(self, principal: str) -> str:
        """Adds a principal with a random key. Returns the path of its keytab."""
        path = self.directory / (principal.replace("/", "-") + ".keytab")
        if not path.exists():
            self._admin(f"addprinc -randkey {principal}")
            self._admin(f"ktadd -k {path} {principal}")
        return str(path)

    def limit_lifetime(self, principal: str, seconds: int) -> None:
        """Limits the lifetime of the tickets of a principal, which `keytab` has added."""
        self._admin(f'modprinc -maxlife "{seconds} seconds" {principal}')

    def change_key(self, principal: str) -> None:
        """Gives a principal another random key, so that its keytab is wrong."""
        self._admin(f"cpw -randkey {principal}")

    def delete(self, principal: str) -> None:
        """Deletes a principal, whose keytab stays."""
        self._admin(f"delprinc -force {principal}")

    @contextlib.contextmanager
    def as_client(self, keytab: str) -> Iterator[None]:
        """Lets clients without a setting for a keytab use this one, with no ticket of other clients."""
        environment = {"KRB5_CLIENT_KTNAME": keytab, "KRB5CCNAME": f"MEMORY:{uuid.uuid4()}"}
        before = {name: os.environ.get(name) for name in environment}
        os.environ.update(environment)
        try:
            yield
        finally:
            _restore(before)

    def _admin(self, query: str) -> None:
        run(["kadmin.local", "-r", REALM, "-q", query], self.environment)


def run(command: list[str], environment: dict[str, str]) -> None:
    done = subprocess.run(
        command,
        env={**os.environ, **environment, "PATH": _SBIN},
        capture_output=True,
        text=True,
        timeout=_LIMIT_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


@contextlib.contextmanager
def serving(directory: Path) -> Iterator[Kerberos]:
    """Runs a server with an empty realm. Sets the environment of this process, because the library reads it there."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    values = {"realm": REALM, "port": port, "directory": directory}
    (directory / "krb5.conf").write_text(_CONFIG.format(**values))
    (directory / "kdc.conf").write_text(_KDC_CONFIG.format(**values))
    environment = {
        "KRB5_CONFIG": str(directory / "krb5.conf"),
        "KRB5_KDC_PROFILE": str(directory / "kdc.conf"),
        "KRB5RCACHENAME": f"dfl:{directory}/replays",
        "KRB5CCNAME": f"FILE:{directory}/cache",
    }
    run(["kdb5_util", "create", "-s", "-r", REALM, "-P", "a password"], environment)
    server = subprocess.Popen(
        ["krb5kdc", "-n", "-r", REALM],
        env={**os.environ, **environment, "PATH": _SBIN},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    before = {name: os.environ.get(name) for name in environment}
    os.environ.update(environment)
    try:
        _wait_until_listening(port, server)
        yield Kerberos(directory, environment)
    finally:
        _restore(before)
        server.terminate()
        server.wait(_LIMIT_S)


def _restore(before: dict[str, str | None]) -> None:
    for name, value in before.items():
        if value is None:
            del os.environ[name]
        else:
            os.environ[name] = value


def _wait_until_listening(port: int, server: subprocess.Popen[bytes]) -> None:
    for _ in range(_LIMIT_S * 20):
        assert server.poll() is None, "the Kerberos server has ended"
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        with contextlib.suppress(subprocess.TimeoutExpired):
            server.wait(0.05)
    raise AssertionError("the Kerberos server does not listen")

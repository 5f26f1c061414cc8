"""Clients of kcli and of other projects that log in, with one function: `attempt` connects and asks for metadata."""

from __future__ import annotations

import asyncio
import base64
import shutil
import subprocess
import time
from dataclasses import dataclass
from typing import Protocol

from kcli.client.admin.admin import AdminClient
from kcli.client.config import client_config
from kcli.errors import KcliError
from kcli.security.client import client_security
from kcli.spark.client.cluster import ClientSettings, Cluster
from rigs.bearer import unsecured
from rigs.certificates import Authority, Issued

LIMIT_S = 20.0
"""The longest time for one attempt."""
_ENOUGH_S = 4.0
"""The time after which librdkafka, which tries for ever, counts as refused."""

_JAAS = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM-SHA-256": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
}
BEARER = "OAUTHBEARER"
KERBEROS = "GSSAPI"
_KERBEROS = {
    "sasl_mechanism": KERBEROS,
    "sasl_kerberos_service_name": "kafka",
    "sasl_kerberos_domain_name": "localhost",
}
"""The settings of kafka-python and aiokafka. The library reads the keytab from the environment."""


@dataclass(frozen=True, slots=True)
class Login:
    """The settings of a client. The password of OAUTHBEARER is the lifetime of its token in seconds. That of
    GSSAPI is the path of a keytab. If `is_token`, user and password are those of a delegation token."""

    port: int
    authority: Authority
    certificate: Issued | None = None
    mechanism: str | None = None
    user: str = ""
    password: str = ""
    is_token: bool = False

    @property
    def bootstrap(self) -> str:
        return f"localhost:{self.port}"

    @property
    def protocol(self) -> str:
        return "SSL" if self.mechanism is None else "SASL_SSL"

    @property
    def token(self) -> str:
        """A token without a signature."""
        now = time.time()
        return unsecured(sub=self.user, iat=now - 7200, exp=now + float(self.password))

    @property
    def java(self) -> dict[str, str]:
        """The settings in the words of Java's clients."""
        found = {
            "security.protocol": self.protocol,
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": self.authority.pem,
        }
        if self.certificate is not None:
            found |= {"ssl.keystore.type": "PEM", "ssl.keystore.location": self.certificate.pem}
        if self.mechanism == BEARER:
            found["sasl.jaas.config"] = (
                "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required "
                f'unsecuredLoginStringClaim_sub="{self.user}" unsecuredLoginLifetimeSeconds="{self.password}";'
            )
        elif self.mechanism == KERBEROS:
            found["sasl.kerberos.service.name"] = "kafka"
            found["sasl.jaas.config"] = (
                "com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true "
                f'keyTab="{self.password}" principal="{self.user}";'
            )
        elif self.mechanism is not None:
            token = " tokenauth=true" if self.is_token else ""
            found["sasl.jaas.config"] = (
                f'{_JAAS[self.mechanism]} required username="{self.user}" password="{self.password}"{token};'
            )
        return found | ({} if self.mechanism is None else {"sasl.mechanism": self.mechanism})


class SecuredClient(Protocol):
    name: str

    def attempt(self, login: Login) -> str:
        """Connects and asks for metadata. Returns an empty text, or the text of the error."""


class Kcli:
    """kcli's own client, which its tools use."""

    name = "kcli"

    def attempt(self, login: Login) -> str:
        async def ask() -> None:
            async with _admin(login) as client:
                await client.list_topics()

        try:
            asyncio.run(ask())
        except KcliError as error:
            return str(error)
        return ""


class Spark:
    """The client of the Spark source and sink."""

    name = "spark"

    def attempt(self, login: Login) -> str:
        prefixed = {f"kafka.{name}": value for name, value in login.java.items()}
        security = client_security(prefixed, "kafka.", is_strict=True)
        try:
            with Cluster(ClientSettings(login.bootstrap, security=security, api_timeout_ms=1500)) as cluster:
                cluster.topic_names()
        except (KcliError, OSError) as error:
            return str(error)
        return ""


class Librdkafka:
    """librdkafka through confluent-kafka, with the settings that kcli's tools give it."""

    name = "librdkafka"

    def attempt(self, login: Login) -> str:
        from confluent_kafka import KafkaException, Producer

        from kcli.rdkafka.configuration import translate

        errors: list[str] = []
        config = translate({"bootstrap.servers": login.bootstrap, **login.java})
        if login.mechanism == BEARER:
            # An expired token would not leave librdkafka, so its end is not told.
            config["oauth_cb"] = lambda _: (login.token, time.time() + 600, login.user, {})
        producer = Producer(
            {
                **config,
                "error_cb": lambda error: errors.append(error.str()),
                "log_level": 0,
                "reconnect.backoff.ms": 50,
            }
        )
        deadline = time.monotonic() + _ENOUGH_S
        while time.monotonic() < deadline:
            try:
                producer.list_topics(timeout=0.3)
                return ""
            except KafkaException:
                producer.poll(0)
            if any(word in text for text in errors for word in ("SSL", "SASL", "uthenticat", "certificate")):
                break
        return "; ".join(errors) or "no answer"


class KafkaPython:
    """kafka-python."""

    name = "kafka-python"

    def attempt(self, login: Login) -> str:
        from kafka import KafkaAdminClient

        settings: dict[str, object] = {
            "bootstrap_servers": [login.bootstrap],
            "security_protocol": login.protocol,
            "ssl_cafile": login.authority.pem,
            "request_timeout_ms": 4000,
            "bootstrap_timeout_ms": 1000,
            "reconnect_backoff_max_ms": 200,
        }
        if login.certificate is not None:
            settings |= {
                "ssl_certfile": login.certificate.chain_file,
                "ssl_keyfile": login.certificate.key_file,
            }
        if login.mechanism == BEARER:
            settings |= {"sasl_mechanism": BEARER, "sasl_oauth_token_provider": kafka_python_tokens(login)}
        elif login.mechanism == KERBEROS:
            settings |= _KERBEROS
        elif login.mechanism is not None:
            settings |= {
                "sasl_mechanism": login.mechanism,
                "sasl_plain_username": login.user,
                "sasl_plain_password": login.password,
            }
        try:
            client = KafkaAdminClient(**settings)
        except Exception as error:
            return f"{type(error).__name__}: {error}"
        try:
            client.list_topics()
        except Exception as error:
            return f"{type(error).__name__}: {error}"
        finally:
            client.close()
        return ""


class Aiokafka:
    """aiokafka."""

    name = "aiokafka"

    def attempt(self, login: Login) -> str:
        return asyncio.run(self._attempt(login))

    async def _attempt(self, login: Login) -> str:
        from aiokafka import AIOKafkaProducer
        from aiokafka.helpers import create_ssl_context

        certificate = login.certificate
        settings: dict[str, object] = {
            "security_protocol": login.protocol,
            "ssl_context": create_ssl_context(
                cafile=login.authority.pem,
                certfile=certificate.chain_file if certificate else None,
                keyfile=certificate.key_file if certificate else None,
            ),
            "request_timeout_ms": 4000,
        }
        if login.mechanism == BEARER:
            settings |= {"sasl_mechanism": BEARER, "sasl_oauth_token_provider": aiokafka_tokens(login)}
        elif login.mechanism == KERBEROS:
            settings |= _KERBEROS
        elif login.mechanism is not None:
            settings |= {
                "sasl_mechanism": login.mechanism,
                "sasl_plain_username": login.user,
                "sasl_plain_password": login.password,
            }
        producer = AIOKafkaProducer(bootstrap_servers=login.bootstrap, **settings)
        try:
            await producer.start()
            # After a refused token, aiokafka reads the error of the server as metadata without brokers.
            return "" if producer.client.cluster.brokers() else "no brokers"
        except Exception as error:
            return f"{type(error).__name__}: {error}"
        finally:
            await producer.stop()


class Kcat:
    """kcat, if it is installed."""

    name = "kcat"

    def attempt(self, login: Login) -> str:
        settings = {"security.protocol": login.protocol.lower(), "ssl.ca.location": login.authority.pem}
        if login.certificate is not None:
            settings |= {
                "ssl.certificate.location": login.certificate.chain_file,
                "ssl.key.location": login.certificate.key_file,
            }
        if login.mechanism is not None:
            settings |= {
                "sasl.mechanism": login.mechanism,
                "sasl.username": login.user,
                "sasl.password": login.password,
            }
        words = [word for name, value in settings.items() for word in ("-X", f"{name}={value}")]
        command = ["kcat", "-L", "-m", "4", "-b", login.bootstrap, *words]
        done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S)
        return "" if done.returncode == 0 else done.stderr


def _admin(login: Login) -> AdminClient:
    return AdminClient(client_config(login.java, bootstrap_servers=login.bootstrap, api_timeout_ms=10_000))


def make_token(login: Login) -> tuple[str, str]:
    """Makes a delegation token. Returns the user and the password with which its owner logs in."""

    async def make() -> tuple[str, str]:
        async with _admin(login) as client:
            token = await client.create_delegation_token()
            return token.token_id, base64.b64encode(token.hmac).decode()

    return asyncio.run(make())


def expire_token(login: Login, password: str) -> None:
    """Ends the delegation token with this password."""

    async def expire() -> None:
        async with _admin(login) as client:
            await client.expire_delegation_token(base64.b64decode(password))

    asyncio.run(expire())


def kafka_python_tokens(login: Login) -> object:
    from kafka.net.sasl.oauth import AbstractTokenProvider

    class Tokens(AbstractTokenProvider):
        def token(self) -> str:
            return login.token

    return Tokens()


def aiokafka_tokens(login: Login) -> object:
    from aiokafka.abc import AbstractTokenProvider

    class Tokens(AbstractTokenProvider):
        async def token(self) -> str:
            return login.token

    return Tokens()


def secured_clients() -> tuple[SecuredClient, ...]:
    """The clients that are installed."""
    kcat = (Kcat(),) if shutil.which("kcat") else ()
    return (Kcli(), Spark(), Librdkafka(), KafkaPython(), Aiokafka(), *kcat)

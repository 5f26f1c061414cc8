"""Creates librdkafka clients, and converts the errors that they return."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import TypeVar

from kcli.command.options import did_you_mean
from kcli.errors import BY_CODE, ErrorCode, KafkaError, TimeoutException
from kcli.model.java_text import parse_long, trim
from kcli.rdkafka.configuration import JAVA_NAMES, RECEIVE_BYTES, within_transaction
from kcli.rdkafka.errors import ConfigurationError
from kcli.rdkafka.log import logger
from kcli.rdkafka.objects import ClientError

C = TypeVar("C")

_UNKNOWN = re.compile(r'No such configuration property: "(.+)"')
_OUTSIDE = re.compile(
    r'Configuration property "(.+)" value .*is outside allowed range (-?\d+)\.\.(-?\d+)', re.ASCII
)


def new_client(make: Callable[[dict[str, object]], C], config: dict[str, object]) -> C:
    """Creates a librdkafka client.

    A property that only Java's clients have is ignored, and a value beyond librdkafka's limits is changed to the limit.
    In both cases, a warning is logged. If librdkafka refuses a property for another reason, raises ConfigurationError
    with the name of the property.
    """
    from confluent_kafka import KafkaException

    config = {"receive.message.max.bytes": RECEIVE_BYTES, **within_transaction(config)}
    while True:
        try:
            return make({**config, "logger": logger()})
        except KafkaException as error:
            text = trim(error.args[0].str())
            if (unknown := _UNKNOWN.search(text)) and unknown[1] in config:
                words = f"The configuration {unknown[1]} was supplied but is not known here."
                logger().warning("%s", f"{words} {did_you_mean(unknown[1], _known_names())}".rstrip())
                del config[unknown[1]]
            elif (limits := _OUTSIDE.search(text)) and limits[1] in config:
                name, least, most = limits[1], parse_long(limits[2]), parse_long(limits[3])
                fitted = min(max(parse_long(str(config[name])), least), most)
                assert str(fitted) != str(config[name])
                known_as = JAVA_NAMES.get(name, name)
                logger().warning("%s is %s, which librdkafka limits to %s", known_as, config[name], fitted)
                config[name] = fitted
            else:
                # librdkafka's text names the property. The value may be a password, so the message does not contain the
                # value.
                raise ConfigurationError(f"Failed to construct kafka client: {text}") from None


def _known_names() -> list[str]:
    """Returns the names of the settings of Java's producer and consumer."""
    from kcli.config.consumer import CONSUMER
    from kcli.config.producer import PRODUCER

    return sorted({*CONSUMER, *PRODUCER})


def kafka_error(error: ClientError) -> KafkaError:
    """Converts an error of librdkafka to a KafkaError. If a broker returned the error, the KafkaError has Kafka's text.

    A local error (a lost connection, a time-out) becomes a TimeoutException with librdkafka's text.
    """
    code = error.code()
    known = BY_CODE.get(ErrorCode(code)) if code > 0 and code in ErrorCode._value2member_map_ else None
    return known() if known else TimeoutException(error.str())


def client_errors(raised: BaseException) -> Iterator[ClientError]:
    """Returns librdkafka's errors in an exception of confluent-kafka.

    Most methods raise a KafkaException. If a delivery report was due at the same time, they raise a SystemError, and
    the KafkaException is the cause of this SystemError, or the cause of its cause.
    """
    from confluent_kafka import KafkaException

    error: BaseException | None = raised
    while error is not None:
        if isinstance(error, KafkaException):
            yield error.args[0]
        error = error.__cause__


def fatal_error(raised: BaseException) -> KafkaError | None:
    """Returns the fatal error in an exception of confluent-kafka, or None. After a fatal error, such as a missing
    permission for idempotent writes, a producer cannot continue.
    """
    return next((kafka_error(error) for error in client_errors(raised) if is_fatal(error)), None)


def is_fatal(error: ClientError) -> bool:
    """Whether the client cannot continue after this error, for example because it is fenced, or because the coordinator
    no longer accepts it as a member.
    """
    from confluent_kafka import KafkaError

    assert isinstance(error, KafkaError)
    return bool(error.fatal() or error.code() == KafkaError._FATAL)

"""The logical types Decimal, Date, Time and Timestamp: between their values and the values that are stored."""

from __future__ import annotations

from decimal import MAX_EMAX, MAX_PREC, MIN_EMIN, Context, Decimal

from kcli.formats.connect.errors import DataException, JavaException
from kcli.formats.connect.schema import Schema
from kcli.formats.connect.values import MS_PER_DAY, Instant
from kcli.model.java_numbers import to_int
from kcli.model.java_text import parse_int

# The default context rounds to 28 digits.
_EXACT = Context(prec=MAX_PREC, Emax=MAX_EMAX, Emin=MIN_EMIN)


def decimal_scale(schema: Schema) -> int:
    """The number of digits after the point. Raises DataException, or JavaException if there are no parameters."""
    if schema.parameters is None:
        reason = 'Cannot invoke "java.util.Map.get(Object)" because the return value of '
        reason += '"org.apache.kafka.connect.data.Schema.parameters()" is null'
        raise JavaException("java.lang.NullPointerException", reason)
    scale = schema.parameters.get("scale")
    if scale is None:
        raise DataException("Invalid Decimal schema: scale parameter not found.")
    try:
        return parse_int(scale)
    except ValueError as error:
        cause = JavaException("java.lang.NumberFormatException", str(error))
        raise DataException("Invalid scale parameter found in Decimal schema: ") from cause


def scale_of(value: Decimal) -> int:
    """`BigDecimal.scale`. Raises DataException for NaN and Infinity, which a BigDecimal cannot be."""
    exponent = value.as_tuple().exponent
    if not isinstance(exponent, int):
        raise DataException(f"The decimal {value} is not a number")
    return -exponent


def decimal_to_bytes(schema: Schema, value: Decimal) -> bytes:
    """The digits without the point, as a big-endian number. Raises DataException if the scale is another one."""
    expected, scale = decimal_scale(schema), scale_of(value)
    if scale != expected:
        raise DataException(
            "Decimal value has mismatching scale for given Decimal schema. "
            f"Schema has scale {expected}, value has scale {scale}."
        )
    unscaled = int(_EXACT.scaleb(value, scale))
    magnitude = unscaled if unscaled >= 0 else ~unscaled
    return unscaled.to_bytes(magnitude.bit_length() // 8 + 1, signed=True)


def decimal_from_bytes(schema: Schema, data: bytes) -> Decimal:
    if not data:
        raise JavaException("java.lang.NumberFormatException", "Zero length BigInteger")
    return _EXACT.scaleb(Decimal(int.from_bytes(data, signed=True)), -decimal_scale(schema))


def date_to_days(value: Instant) -> int:
    days, milliseconds = divmod(value, MS_PER_DAY)
    if milliseconds:
        raise DataException("Kafka Connect Date type should not have any time fields set to non-zero values.")
    return to_int(days)


def date_from_days(days: int) -> Instant:
    return Instant(days * MS_PER_DAY)


def time_to_ms(value: Instant) -> int:
    if not 0 <= value <= MS_PER_DAY:
        raise DataException("Kafka Connect Time type should not have any date fields set to non-zero values.")
    return int(value)


def time_from_ms(milliseconds: int) -> Instant:
    if not 0 <= milliseconds <= MS_PER_DAY:
        raise DataException(
            "Time values must use number of milliseconds greater than 0 and less than 86400000"
        )
    return Instant(milliseconds)

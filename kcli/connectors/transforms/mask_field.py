"""MaskField: replaces the values of fields with a null value of their type, or with another value."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from decimal import Decimal

from kcli.config.definition import ConfigDef, ConfigKey, ConfigType, Importance, NonEmpty
from kcli.connectors.records import ConnectRecord, R
from kcli.connectors.transforms.shared import (
    PACKAGE,
    REPLACE_NULL,
    REPLACE_NULL_KEY,
    NonEmptyList,
    PartTransformation,
    changed_struct,
    required_map,
    required_struct,
)
from kcli.formats.connect.errors import DataException, JavaException
from kcli.formats.connect.schema import Schema, SchemaType
from kcli.formats.connect.values import (
    BigInteger,
    Float32,
    Float64,
    FrozenMap,
    Instant,
    Int8,
    Int16,
    Int32,
    Int64,
    java_class,
)
from kcli.model.java_floats import nearest_float
from kcli.model.java_numbers import decimal_to_double, decimal_to_long, to_byte, to_int, to_short
from kcli.model.java_order import copied_hash_order
from kcli.model.java_text import big_decimal

_FIELDS = "fields"
_REPLACEMENT = "replacement"
_PURPOSE = "mask fields"


class MaskField(PartTransformation[R]):
    """Replaces values with 0, false, an empty text, list or map, or with a value that the configuration gives."""

    config_def = ConfigDef(
        (
            ConfigKey(
                _FIELDS,
                ConfigType.LIST,
                None,
                NonEmptyList(),
                Importance.HIGH,
                "The names of the fields to mask.",
                required=True,
            ),
            ConfigKey(
                _REPLACEMENT,
                ConfigType.STRING,
                None,
                NonEmpty(),
                Importance.LOW,
                "The value that replaces all masked values. It is possible only for texts and numbers.",
            ),
            REPLACE_NULL_KEY,
        )
    )

    def prepare(self) -> None:
        # Java masks the fields of a map in this order, which decides about the error if two fields cannot be masked.
        self._masks = dict.fromkeys(copied_hash_order(self.texts(_FIELDS)), self._masked)
        replacement = self.config[_REPLACEMENT]
        self._replacement = replacement if isinstance(replacement, str) else None
        self._with_defaults = bool(self.config[REPLACE_NULL])

    def changed(
        self, record: ConnectRecord, schema: Schema | None, value: object
    ) -> tuple[Schema | None, object]:
        if schema is None:
            fields = required_map(value, _PURPOSE)
            return None, fields | {name: self._masked(None, fields.get(name)) for name in self._masks}
        struct = required_struct(value, _PURPOSE)
        masks = self._masks
        return schema, changed_struct(struct, struct.schema, masks, with_defaults=self._with_defaults)

    def _masked(self, schema: Schema | None, value: object) -> object:
        if value is None:
            return None
        kind = type(value)
        if schema is not None and kind in (int, float):
            kind = _CLASSES[schema.type]
        if self._replacement is not None:
            return _replaced(kind, value, self._replacement)
        if kind not in _NULL_VALUES:
            raise DataException(f"Cannot mask value of type: class {java_class(value)}")
        return _NULL_VALUES[kind]()


class MaskFieldKey(MaskField[R]):
    is_key = True
    java_classes = (f"{PACKAGE}MaskField$Key",)


class MaskFieldValue(MaskField[R]):
    java_classes = (f"{PACKAGE}MaskField$Value",)


def _replaced(kind: type, value: object, text: str) -> object:
    make = _REPLACEMENTS.get(kind)
    if make is None:
        raise DataException(f"Cannot mask value of type class {java_class(value)} with custom replacement.")
    try:
        return make(text)
    except ValueError as error:
        number = JavaException("java.lang.NumberFormatException", str(error))
        reason = "to number" if kind in (Decimal, BigInteger) else "to a number"
        message = f"Unable to convert {text} (class java.lang.String) {reason}"
        raise DataException(message) from number


def _long(text: str) -> int:
    return decimal_to_long(big_decimal(text))


def _double(text: str) -> float:
    return decimal_to_double(big_decimal(text))


def _big_integer(text: str) -> BigInteger:
    number = big_decimal(text)
    if not text.lstrip("+-").isdecimal():
        raise ValueError(f'For input string: "{text}"')
    return BigInteger(number)


# The class of a plain number under a schema.
_CLASSES: Mapping[SchemaType, type] = {
    SchemaType.INT8: Int8,
    SchemaType.INT16: Int16,
    SchemaType.INT32: Int32,
    SchemaType.INT64: Int64,
    SchemaType.FLOAT32: Float32,
    SchemaType.FLOAT64: Float64,
}
_NULL_VALUES: Mapping[type, Callable[[], object]] = {
    kind: kind
    for kind in (
        bool, int, Int8, Int16, Int32, Int64, BigInteger, float, Float32, Float64, Decimal, Instant, str, list, dict,
    )
} | {tuple: list, FrozenMap: dict}  # fmt: skip
_REPLACEMENTS: Mapping[type, Callable[[str], object]] = {
    Int8: lambda text: Int8(to_byte(_long(text))),
    Int16: lambda text: Int16(to_short(_long(text))),
    Int32: lambda text: Int32(to_int(_long(text))),
    Int64: _long,
    int: _long,
    Float32: lambda text: Float32(nearest_float(_double(text))),
    Float64: _double,
    float: _double,
    str: str,
    Decimal: big_decimal,
    BigInteger: _big_integer,
}

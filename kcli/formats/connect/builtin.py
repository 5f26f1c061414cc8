"""The converters that come with kcli. Each of them replaces a converter of Apache Kafka."""

from __future__ import annotations

from kcli.formats.connect.converter import Converter, HeaderConverter
from kcli.formats.connect.json_converter import JsonConverter
from kcli.formats.connect.primitives import (
    BooleanConverter,
    ByteArrayConverter,
    DoubleConverter,
    FloatConverter,
    IntegerConverter,
    LongConverter,
    ShortConverter,
)
from kcli.formats.connect.simple_header import SimpleHeaderConverter
from kcli.formats.connect.string_converter import StringConverter

_GENERAL = (
    BooleanConverter,
    ByteArrayConverter,
    DoubleConverter,
    FloatConverter,
    IntegerConverter,
    JsonConverter,
    LongConverter,
    ShortConverter,
    StringConverter,
)
CONVERTERS: tuple[type[Converter], ...] = _GENERAL
HEADER_CONVERTERS: tuple[type[HeaderConverter], ...] = (*_GENERAL, SimpleHeaderConverter)

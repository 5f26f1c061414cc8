"""The text of a distinguished name, as Java prints it (RFC 2253).

Principals, ACLs and ssl.principal.mapping.rules contain this text, so every character must be the same as in Kafka.
This module parses the DER bytes of the certificate, because Java's text depends on the type of each string. It is also
fast, because a broker reads a name for every connection.
"""

from __future__ import annotations

from collections.abc import Iterator

_KEYWORDS = {
    "2.5.4.3": "CN",
    "2.5.4.6": "C",
    "2.5.4.7": "L",
    "2.5.4.8": "ST",
    "2.5.4.9": "STREET",
    "2.5.4.10": "O",
    "2.5.4.11": "OU",
    "0.9.2342.19200300.100.1.1": "UID",
    "0.9.2342.19200300.100.1.25": "DC",
}
"""The keyword of each attribute type that has one. Java prints every other type, such as an e-mail address, as its
number."""

_TEXT_TAGS = frozenset((0x0C, 0x13, 0x14, 0x16, 0x1B, 0x1E))
"""The string types that Java prints as text: UTF8String, PrintableString, T61String, IA5String, GeneralString and
BMPString. Java reads the bytes of all of them as UTF-8."""

_ESCAPED = frozenset(',=+<>#;"\\')
_VERSION_TAG = 0xA0
_LENGTH_BYTES_MAX = 4
"""The most bytes of the length field of a DER value. OpenSSL accepts no certificate that needs more."""


def subject_text(certificate: bytes) -> str:
    """The text of the subject of a certificate in DER. Raises ValueError if the bytes are not a certificate."""
    return name_text(_subject(certificate))


def name_text(name: bytes, separator: str = ",") -> str:
    """The text of a name in DER, the most specific attribute first. Raises ValueError if the bytes are not a name."""
    try:
        (_, content), *rest = _values(name)
        if rest:
            raise ValueError("a name has bytes after its end")
        return separator.join(reversed([_relative_name(value) for _, value in _values(content)]))
    except IndexError as error:
        raise ValueError("a name ends too early") from error


def _subject(certificate: bytes) -> bytes:
    """The DER bytes of the subject of a certificate (RFC 5280, section 4.1)."""
    try:
        (_, content), *_ = _values(certificate)
        (_, signed), *_ = _values(content)
        fields = list(_fields(signed))
        if fields[0][0] == _VERSION_TAG:
            fields.pop(0)
        _, _algorithm, _issuer, _validity, (_, subject), *_ = fields
    except IndexError as error:
        raise ValueError("a certificate ends too early") from error
    return subject


def _relative_name(content: bytes) -> str:
    return "+".join(_attribute(attribute) for _, attribute in _values(content))


def _attribute(content: bytes) -> str:
    (_, kind_bytes), (tag, whole) = _fields(content)
    ((_, kind_content),) = _values(kind_bytes)
    number = _number(kind_content)
    keyword = _KEYWORDS.get(number)
    if keyword is None or tag not in _TEXT_TAGS:
        return f"{keyword or number}=#{whole.hex()}"
    ((_, value),) = _values(whole)
    return f"{keyword}={_escaped(value.decode('utf-8', 'replace'))}"


def _escaped(value: str) -> str:
    begin = len(value) - len(value.lstrip(" \r"))
    end = len(value.rstrip(" \r"))
    return "".join(
        "\\00"
        if character == "\0"
        else f"\\{character}"
        if _is_escaped(character, at, begin, end)
        else character
        for at, character in enumerate(value)
    )


def _is_escaped(character: str, at: int, begin: int, end: int) -> bool:
    return character in _ESCAPED or not begin <= at < end


def _number(content: bytes) -> str:
    """The text of an object identifier, such as 2.5.4.3."""
    parts: list[int] = []
    value = 0
    for byte in content:
        value = value << 7 | byte & 0x7F
        if not byte & 0x80:
            parts.append(value)
            value = 0
    first = min(parts[0] // 40, 2)
    return ".".join(map(str, (first, parts[0] - 40 * first, *parts[1:])))


def _values(content: bytes) -> Iterator[tuple[int, bytes]]:
    """Splits bytes into consecutive DER values. Yields the tag and the content of each value."""
    for tag, whole in _fields(content):
        begin = 2 + (whole[1] & 0x7F if whole[1] & 0x80 else 0)
        yield tag, whole[begin:]


def _fields(content: bytes) -> Iterator[tuple[int, bytes]]:
    """Splits bytes into consecutive DER values. Yields the tag and the whole bytes of each value."""
    at = 0
    while at < len(content):
        size, begin = content[at + 1], at + 2
        if size & 0x80:
            count = size & 0x7F
            if not 0 < count <= _LENGTH_BYTES_MAX:
                raise ValueError("a value has an invalid length")
            size = int.from_bytes(content[begin : begin + count], "big")
            begin += count
        if begin + size > len(content):
            raise ValueError("a value ends too early")
        yield content[at], content[at : begin + size]
        at = begin + size

"""Prints a syntax tree in the layout of Confluent's registry, which is the layout of the library Wire.

A group of declarations of the same kind begins with a blank line. The lines of nested declarations get two spaces, and
so does a blank line between them, because registries store and hash exactly these bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kcli.formats.protobuf.syntax import (
    MAX_FIELD_NUMBER,
    Block,
    Constant,
    Enum,
    Extend,
    Extensions,
    Field,
    File,
    Group,
    Message,
    Method,
    OneOf,
    Option,
    OptionValue,
    Range,
    Reserved,
    Service,
    Word,
)

_ESCAPES = {
    "\a": "\\a",
    "\b": "\\b",
    "\f": "\\f",
    "\n": "\\n",
    "\r": "\\r",
    "\t": "\\t",
    "\v": "\\v",
    "\\": "\\\\",
    "'": "\\'",
    '"': '\\"',
    # The parser reads a byte that is not UTF-8 as a surrogate.
    **{chr(0xDC00 + byte): f"\\{byte:03o}" for byte in range(0x80, 0x100)},
}
_ESCAPE_TABLE = str.maketrans(_ESCAPES)


def print_file(file: File) -> str:
    """Returns the text of a file."""
    parts = []
    if file.syntax is not None:
        parts.append(f'{"edition" if file.is_edition else "syntax"} = "{file.syntax}";\n')
    if file.package is not None:
        parts.append(f"package {file.package};\n")
    imports = [
        *(("", path) for path in file.imports),
        *(("public ", path) for path in file.public_imports),
        *(("weak ", path) for path in file.weak_imports),
    ]
    parts += _section(f"import {kind}{_quoted(path)};\n" for kind, path in imports)
    parts += _section(map(_statement, file.options))
    parts += _section(_types(file.types))
    parts += _section(map(_extend, file.extends))
    parts += _section(map(_service, file.services))
    return "".join(parts)


def _section(texts: Iterable[str]) -> list[str]:
    """Returns the texts behind a blank line, or nothing."""
    section = [*texts]
    return ["\n", *section] if section else []


def _inner(texts: Iterable[str]) -> list[str]:
    return _section(map(_indented, texts))


def _indented(text: str) -> str:
    return "".join(f"  {line}\n" for line in text.removesuffix("\n").split("\n"))


def _types(types: Sequence[Message | Enum]) -> list[str]:
    """Returns the messages, then the enums. The order of messages matters, because values name them by index."""
    messages = [_message(declared) for declared in types if isinstance(declared, Message)]
    return messages + [_enum(declared) for declared in types if isinstance(declared, Enum)]


def _message(message: Message) -> str:
    return f"message {message.name} {{{_body(message)}}}\n"


def _body(message: Message) -> str:
    return "".join(
        [
            *_inner(map(_reserved, message.reserved)),
            *_inner(map(_statement, message.options)),
            *_inner(map(_field, message.fields)),
            *_inner(map(_oneof, message.oneofs)),
            *_inner(map(_group, message.groups)),
            *_inner(map(_extensions, message.extensions)),
            *_inner(map(_extend, message.extends)),
            *_inner(_types(message.types)),
        ]
    )


def _field(field: Field) -> str:
    label = f"{field.label} " if field.label else ""
    return f"{label}{field.type} {field.name} = {field.number}{_bracketed(field.options)};\n"


def _group(group: Group) -> str:
    label = f"{group.label} " if group.label else ""
    head = f"{label}group {group.message.name} = {group.number}{_bracketed(group.options)}"
    return f"{head} {{{_body(group.message)}}}\n"


def _oneof(oneof: OneOf) -> str:
    options = _inner(map(_statement, oneof.options))
    members = [*_inner(map(_field, oneof.fields)), *_inner(map(_group, oneof.groups))]
    return f"oneof {oneof.name} {{{''.join([*options, *members])}}}\n"


def _extend(extend: Extend) -> str:
    members = [*_inner(map(_field, extend.fields)), *_inner(map(_group, extend.groups))]
    return f"extend {extend.name} {{{''.join(members)}}}\n"


def _reserved(reserved: Reserved) -> str:
    return f"reserved {', '.join(map(_range, reserved.values))};\n"


def _extensions(extensions: Extensions) -> str:
    return f"extensions {', '.join(map(_range, extensions.values))}{_bracketed(extensions.options)};\n"


def _range(value: str | Word | int | Range) -> str:
    match value:
        case str():
            return f'"{value}"'
        case Word(text):
            return text
        case int():
            return str(value)
        case Range(start, end):
            return f"{start} to {end if end < MAX_FIELD_NUMBER else 'max'}"


def _enum(enum: Enum) -> str:
    lines = [
        *map(_reserved, enum.reserved),
        *map(_statement, enum.options),
        *map(_constant, enum.constants),
    ]
    return f"enum {enum.name} {{{''.join(_inner(lines))}}}\n"


def _constant(constant: Constant) -> str:
    return f"{constant.name} = {constant.number}{_bracketed(constant.options)};\n"


def _service(service: Service) -> str:
    options = _inner(map(_statement, service.options))
    return f"service {service.name} {{{''.join([*options, *_inner(map(_method, service.methods))])}}}\n"


def _method(method: Method) -> str:
    sent = f"{'stream ' if method.is_client_streaming else ''}{method.input}"
    returned = f"{'stream ' if method.is_server_streaming else ''}{method.output}"
    options = "".join(_indented(_statement(option)) for option in method.options)
    block = f" {{\n{options}}}" if options else ""
    return f"rpc {method.name} ({sent}) returns ({returned}){block};\n"


def _statement(option: Option) -> str:
    return f"option {_option(option)};\n"


def _bracketed(options: tuple[Option, ...]) -> str:
    return f" {_list([*map(_option, options)])}" if options else ""


def _list(texts: Sequence[str]) -> str:
    """Returns a list in brackets: in one line if it has one element."""
    if len(texts) == 1:
        return f"[{texts[0]}]"
    return f"[\n{_lines(texts)}]"


def _lines(texts: Sequence[str]) -> str:
    """Returns indented lines with commas between the texts."""
    last = len(texts) - 1
    return "".join(_indented(text if nth == last else f"{text},") for nth, text in enumerate(texts))


def _option(option: Option) -> str:
    name = f"({option.name})" if option.is_custom else option.name
    match option.value:
        case Option() as part:
            return f"{name}.{_option(part)}"
        case tuple() as values:
            return f"{name} = {_list([*map(_value, values)])}"
        case value:
            return f"{name} = {_value(value)}"


def _value(value: OptionValue) -> str:
    match value:
        case str():
            return _quoted(value)
        case Word(text):
            return text
        case Option():
            return _option(value)
        case Block(entries):
            return f"{{\n{_lines([f'{name}: {_value(entry)}' for name, entry in entries])}}}"
        case tuple():
            return f"[\n{_lines([*map(_value, value)])}]"


def _quoted(text: str) -> str:
    return f'"{text.translate(_ESCAPE_TABLE)}"'

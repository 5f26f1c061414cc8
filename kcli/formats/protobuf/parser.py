"""Parses the text of a .proto file to its syntax tree: proto2, proto3 and editions."""

from __future__ import annotations

import re

from kcli.formats.protobuf.cursor import MAX_DEPTH, MAX_NAME_CHARS, TYPE_NAME, Cursor
from kcli.formats.protobuf.syntax import (
    MAX_FIELD_NUMBER,
    MAX_INT32,
    SCALARS,
    Body,
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
    Range,
    Reserved,
    Service,
    Word,
)

LABELS = frozenset({"optional", "required", "repeated"})
MAP_KEYS = SCALARS - {"double", "float", "bytes"}
_EDITION = re.compile(r"[0-9]{4}|[0-9]{5}_TEST_ONLY|UNSTABLE")


def parse_file(text: str) -> File:
    """Parses a text. Raises FormatError, with line and column."""
    return _FileParser(text).file()


class _FileParser:
    """Reads one file. Each method reads the declaration of its name, behind the keyword."""

    def __init__(self, text: str) -> None:
        self._cursor = Cursor(text)
        self._syntax: str | None = None

    def file(self) -> File:
        cursor = self._cursor
        package: str | None = None
        imports: dict[str, list[str]] = {"": [], "public": [], "weak": []}
        types: list[Message | Enum] = []
        services, extends, options = list[Service](), list[Extend](), list[Option]()
        is_first = True
        while not cursor.is_at_end:
            match cursor.take().text:
                case ";":
                    pass
                case "syntax" | "edition" as keyword:
                    if not is_first:
                        raise cursor.error(f"{keyword} must be the first declaration of the file")
                    self._read_syntax(keyword)
                case "package":
                    if package is not None:
                        raise cursor.error("the file has two packages")
                    package = cursor.type_name()
                    cursor.expect(";")
                case "import":
                    kind = "public" if cursor.skip("public") else "weak" if cursor.skip("weak") else ""
                    imports[kind].append(cursor.string())
                    cursor.expect(";")
                case "option":
                    options.append(self._option())
                case "message":
                    types.append(self._message(1))
                case "enum":
                    types.append(self._enum())
                case "service":
                    services.append(self._service())
                case "extend":
                    extends.append(self._extend(1))
                case text:
                    raise cursor.error(f"unexpected {text[:40]!r} in the file")
            is_first = False
        return File(
            self._syntax,
            package,
            (*imports[""],),
            (*imports["public"],),
            (*imports["weak"],),
            (*types,),
            (*services,),
            (*extends,),
            (*options,),
        )

    @property
    def _is_edition(self) -> bool:
        return self._syntax is not None and not self._syntax.startswith("proto")

    def _read_syntax(self, keyword: str) -> None:
        cursor = self._cursor
        cursor.expect("=")
        value = cursor.string()
        is_known = value in ("proto2", "proto3") if keyword == "syntax" else _EDITION.fullmatch(value)
        if not is_known:
            raise cursor.error(f"unknown {keyword} {value[:40]!r}")
        self._syntax = value
        cursor.expect(";")

    def _option(self) -> Option:
        option = self._cursor.option()
        self._cursor.expect(";")
        return option

    def _message(self, depth: int) -> Message:
        return self._message_body(self._cursor.name(), depth)

    def _message_body(self, name: str, depth: int) -> Message:
        cursor = self._cursor
        if depth > MAX_DEPTH:
            raise cursor.error(f"messages are nested more than {MAX_DEPTH} deep")
        cursor.expect("{")
        body = Body()
        while not cursor.skip("}"):
            self._member(body, depth)
        return Message(
            name,
            (*body.fields,),
            (*body.oneofs,),
            (*body.groups,),
            (*body.types,),
            (*body.reserved,),
            (*body.extensions,),
            (*body.extends,),
            (*body.options,),
        )

    def _member(self, body: Body, depth: int) -> None:
        """Reads one declaration of a message."""
        cursor = self._cursor
        if cursor.skip(";"):
            return
        keyword = cursor.take()
        if keyword.is_quoted:
            raise cursor.error("unexpected string in a message")
        match keyword.text:
            case "message":
                body.types.append(self._message(depth + 1))
            case "enum":
                body.types.append(self._enum())
            case "option":
                body.options.append(self._option())
            case "oneof":
                body.oneofs.append(self._oneof(depth))
            case "extend":
                body.extends.append(self._extend(depth + 1))
            case "extensions":
                body.extensions.append(self._extensions())
            case "reserved":
                body.reserved.append(self._reserved(MAX_FIELD_NUMBER))
            case text if text in LABELS:
                self._field_or_group(body, text, cursor.take().text, depth)
            case text:
                self._field_or_group(body, None, text, depth)

    def _field_or_group(self, body: Body, label: str | None, kind: str, depth: int) -> None:
        cursor = self._cursor
        if kind == "group" and not cursor.is_next("="):
            body.groups.append(self._group(label, depth))
            return
        body.fields.append(self._field(label, kind))

    def _field(self, label: str | None, kind: str) -> Field:
        cursor = self._cursor
        type_name = self._type(kind)
        if label is not None and type_name.startswith("map<"):
            raise cursor.error(f"a map cannot be {label}")
        if label == "required" and self._syntax == "proto3":
            raise cursor.error("proto3 has no required fields")
        name = cursor.name()
        cursor.expect("=")
        number = cursor.integer()
        if not 1 <= number <= MAX_FIELD_NUMBER:
            raise cursor.error(f"the number of field {name} is not between 1 and {MAX_FIELD_NUMBER}")
        options = cursor.bracketed_options()
        cursor.expect(";")
        special = [option for option in options if _is_special(option)]
        plain = [option for option in options if not _is_special(option)]
        if len({option.name for option in special}) < len(special):
            raise cursor.error(f"field {name} has the same option twice")
        return Field(name, type_name, number, label, (*plain, *sorted(special, key=lambda one: one.name)))

    def _type(self, word: str) -> str:
        cursor = self._cursor
        if word != "map" or not cursor.skip("<"):
            if len(word) > MAX_NAME_CHARS or TYPE_NAME.fullmatch(word) is None:
                raise cursor.error(f"expected a type instead of {word[:40]!r}")
            return word
        key = cursor.type_name()
        if key not in MAP_KEYS:
            raise cursor.error(f"a map cannot have keys of type {key}")
        cursor.expect(",")
        value = cursor.type_name()
        cursor.expect(">")
        return f"map<{key}, {value}>"

    def _group(self, label: str | None, depth: int) -> Group:
        cursor = self._cursor
        if self._syntax == "proto3":
            raise cursor.error("proto3 has no groups")
        name = cursor.name()
        cursor.expect("=")
        number = cursor.integer(MAX_FIELD_NUMBER)
        options = cursor.bracketed_options()
        return Group(label, number, self._message_body(name, depth + 1), options)

    def _oneof(self, depth: int) -> OneOf:
        cursor = self._cursor
        name = cursor.name()
        cursor.expect("{")
        body = Body()
        while not cursor.skip("}"):
            if cursor.skip(";"):
                continue
            word = cursor.take().text
            if word == "option":
                body.options.append(self._option())
                continue
            if word in LABELS or cursor.is_next("<"):
                raise cursor.error(f"a field of the oneof {name} can be neither a map nor {word[:40]}")
            self._field_or_group(body, None, word, depth)
        return OneOf(name, (*body.fields,), (*body.groups,), (*body.options,))

    def _extend(self, depth: int) -> Extend:
        cursor = self._cursor
        name = cursor.type_name()
        cursor.expect("{")
        body = Body()
        while not cursor.skip("}"):
            if cursor.skip(";"):
                continue
            word = cursor.take().text
            label = word if word in LABELS else None
            self._field_or_group(body, label, cursor.take().text if label else word, depth)
        return Extend(name, (*body.fields,), (*body.groups,))

    def _extensions(self) -> Extensions:
        values = self._ranges(MAX_FIELD_NUMBER)
        options = self._cursor.bracketed_options()
        self._cursor.expect(";")
        return Extensions(values, options)

    def _reserved(self, most: int) -> Reserved:
        """Reads names or ranges. An edition writes names without quotes."""
        cursor = self._cursor
        names: list[str | Word] = []
        is_range = True
        while True:
            token = cursor.peek()
            if token.is_quoted:
                names.append(cursor.string())
            elif self._is_edition and (token.text[:1].isalpha() or token.text[:1] == "_"):
                names.append(Word(cursor.name()))
            else:
                break
            is_range = False
            if not cursor.skip(","):
                break
        values: tuple[str | Word | int | Range, ...] = (*names,)
        if is_range or not cursor.is_next(";"):
            values = (*names, *self._ranges(most))
        cursor.expect(";")
        return Reserved(values)

    def _ranges(self, most: int) -> tuple[int | Range, ...]:
        cursor = self._cursor
        ranges: list[int | Range] = []
        while True:
            start = cursor.integer(most)
            if cursor.skip("to"):
                end = most if cursor.skip("max") else cursor.integer(most)
                if end < start:
                    raise cursor.error(f"the range from {start} to {end} is empty")
                ranges.append(Range(start, end))
            else:
                ranges.append(start)
            if not cursor.skip(","):
                return (*ranges,)

    def _enum(self) -> Enum:
        cursor = self._cursor
        name = cursor.name()
        cursor.expect("{")
        constants, reserved, options = list[Constant](), list[Reserved](), list[Option]()
        while not cursor.skip("}"):
            if cursor.skip(";"):
                continue
            word = cursor.name()
            if word == "option" and not cursor.is_next("="):
                options.append(self._option())
            elif word == "reserved" and not cursor.is_next("="):
                reserved.append(self._reserved(MAX_INT32))
            else:
                cursor.expect("=")
                number = cursor.integer()
                constants.append(Constant(word, number, cursor.bracketed_options()))
                cursor.expect(";")
        return Enum(name, (*constants,), (*reserved,), (*options,))

    def _service(self) -> Service:
        cursor = self._cursor
        name = cursor.name()
        cursor.expect("{")
        methods, options = list[Method](), list[Option]()
        while not cursor.skip("}"):
            if cursor.skip("option"):
                options.append(self._option())
            elif cursor.skip("rpc"):
                methods.append(self._method())
            else:
                cursor.expect(";")
        return Service(name, (*methods,), (*options,))

    def _method(self) -> Method:
        cursor = self._cursor
        name = cursor.name()
        input_type, is_client_streaming = self._message_type()
        cursor.expect("returns")
        output_type, is_server_streaming = self._message_type()
        options: list[Option] = []
        if cursor.skip("{"):
            while not cursor.skip("}"):
                if cursor.skip("option"):
                    options.append(self._option())
                else:
                    cursor.expect(";")
            cursor.skip(";")
        else:
            cursor.expect(";")
        return Method(name, input_type, output_type, is_client_streaming, is_server_streaming, (*options,))

    def _message_type(self) -> tuple[str, bool]:
        cursor = self._cursor
        cursor.expect("(")
        name = cursor.type_name()
        is_streaming = name == "stream" and not cursor.is_next(")")
        if is_streaming:
            name = cursor.type_name()
        cursor.expect(")")
        return name, is_streaming


def _is_special(option: Option) -> bool:
    """Whether the option is a part of the field, and has no field in `google.protobuf.FieldOptions`."""
    return not option.is_custom and option.name in ("default", "json_name")

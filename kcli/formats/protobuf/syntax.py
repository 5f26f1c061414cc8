"""The syntax tree of a .proto file: what the text declares, in its order, with types as the text names them."""

from __future__ import annotations

from dataclasses import dataclass, field

MAX_FIELD_NUMBER = 536_870_911
"""The largest number of a field. `max` means this number."""

MAX_INT32 = 2_147_483_647

SCALARS = frozenset(
    {
        "double",
        "float",
        "int32",
        "int64",
        "uint32",
        "uint64",
        "sint32",
        "sint64",
        "fixed32",
        "fixed64",
        "sfixed32",
        "sfixed64",
        "bool",
        "string",
        "bytes",
    }
)
"""The names of the scalar types."""


@dataclass(frozen=True, slots=True)
class Word:
    """A value of an option without quotes: a number, a boolean or the name of an enum value."""

    text: str

    @property
    def is_number(self) -> bool:
        return self.text[:1] in "0123456789-+."


@dataclass(frozen=True, slots=True)
class Block:
    """A value of an option in braces: names and their values. A name that occurs twice has a tuple of values."""

    entries: tuple[tuple[str, OptionValue], ...]


@dataclass(frozen=True, slots=True)
class Option:
    """An option. A custom option is in parentheses.

    The value of `(a).b.c = 1` is the Option `b`, whose value is the Option `c`.
    """

    name: str
    value: OptionValue
    is_custom: bool = False


OptionValue = str | Word | Option | Block | tuple["OptionValue", ...]
"""A value of an option. A `str` is a text in quotes."""


@dataclass(frozen=True, slots=True)
class Field:
    """A field. The type of a map is `map<K, V>`. The options `default` and `json_name` come last."""

    name: str
    type: str
    number: int
    label: str | None = None
    options: tuple[Option, ...] = ()


@dataclass(frozen=True, slots=True)
class Group:
    """A field of proto2 whose message type is declared in the same place."""

    label: str | None
    number: int
    message: Message
    options: tuple[Option, ...] = ()

    @property
    def name(self) -> str:
        """The name of the field."""
        return self.message.name.lower()


@dataclass(frozen=True, slots=True)
class OneOf:
    """A set of fields of which at most one is set."""

    name: str
    fields: tuple[Field, ...] = ()
    groups: tuple[Group, ...] = ()
    options: tuple[Option, ...] = ()


@dataclass(frozen=True, slots=True)
class Range:
    """Numbers from `start` to `end`, both included."""

    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Reserved:
    """Names and numbers that no field may have. A name is a `str`, or a Word in an edition, which has no quotes."""

    values: tuple[str | Word | int | Range, ...]


@dataclass(frozen=True, slots=True)
class Extensions:
    """Numbers for the fields that other files add to a message."""

    values: tuple[int | Range, ...]
    options: tuple[Option, ...] = ()


@dataclass(frozen=True, slots=True)
class Extend:
    """Fields that this file adds to the message `name`."""

    name: str
    fields: tuple[Field, ...] = ()
    groups: tuple[Group, ...] = ()


@dataclass(frozen=True, slots=True)
class Constant:
    """A value of an enum."""

    name: str
    number: int
    options: tuple[Option, ...] = ()


@dataclass(frozen=True, slots=True)
class Enum:
    """An enum type."""

    name: str
    constants: tuple[Constant, ...] = ()
    reserved: tuple[Reserved, ...] = ()
    options: tuple[Option, ...] = ()


@dataclass(frozen=True, slots=True)
class Message:
    """A message type. `types` contains the messages and enums that are declared in it."""

    name: str
    fields: tuple[Field, ...] = ()
    oneofs: tuple[OneOf, ...] = ()
    groups: tuple[Group, ...] = ()
    types: tuple[Message | Enum, ...] = ()
    reserved: tuple[Reserved, ...] = ()
    extensions: tuple[Extensions, ...] = ()
    extends: tuple[Extend, ...] = ()
    options: tuple[Option, ...] = ()

    @property
    def messages(self) -> tuple[Message, ...]:
        """The messages that are declared in this message, in the order of their indexes in the wire format."""
        return tuple(declared for declared in self.types if isinstance(declared, Message))

    @property
    def is_map_entry(self) -> bool:
        """Whether this message is the entry of a map, as descriptors declare it."""
        return any(option.name == "map_entry" and option.value == Word("true") for option in self.options)


@dataclass(frozen=True, slots=True)
class Method:
    """A method of a service."""

    name: str
    input: str
    output: str
    is_client_streaming: bool = False
    is_server_streaming: bool = False
    options: tuple[Option, ...] = ()


@dataclass(frozen=True, slots=True)
class Service:
    """A service."""

    name: str
    methods: tuple[Method, ...] = ()
    options: tuple[Option, ...] = ()


@dataclass(frozen=True, slots=True)
class File:
    """A .proto file. `syntax` is proto2 or proto3, or the year of an edition, or None if the file has none."""

    syntax: str | None = None
    package: str | None = None
    imports: tuple[str, ...] = ()
    public_imports: tuple[str, ...] = ()
    weak_imports: tuple[str, ...] = ()
    types: tuple[Message | Enum, ...] = ()
    services: tuple[Service, ...] = ()
    extends: tuple[Extend, ...] = ()
    options: tuple[Option, ...] = ()

    @property
    def messages(self) -> tuple[Message, ...]:
        """The messages of the file, in the order of their indexes in the wire format."""
        return tuple(declared for declared in self.types if isinstance(declared, Message))

    @property
    def is_proto3(self) -> bool:
        return self.syntax == "proto3"

    @property
    def is_edition(self) -> bool:
        return self.syntax is not None and not self.syntax.startswith("proto")

    @property
    def all_imports(self) -> tuple[str, ...]:
        return (*self.imports, *self.public_imports, *self.weak_imports)


@dataclass(slots=True)
class Body:
    """The declarations of a message or a oneof that is being read."""

    fields: list[Field] = field(default_factory=list)
    oneofs: list[OneOf] = field(default_factory=list)
    groups: list[Group] = field(default_factory=list)
    types: list[Message | Enum] = field(default_factory=list)
    reserved: list[Reserved] = field(default_factory=list)
    extensions: list[Extensions] = field(default_factory=list)
    extends: list[Extend] = field(default_factory=list)
    options: list[Option] = field(default_factory=list)

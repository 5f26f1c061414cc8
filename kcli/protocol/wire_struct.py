"""`@wire_struct`: a frozen keyword-only slots dataclass whose methods are compiled at their first use.

Kafka's protocol has hundreds of structs, and a process uses only a few of them. `dataclasses.dataclass` compiles six
methods for each class, which took a third of the CPU time of a broker's start. With `@wire_struct` the class exists
immediately. Its constructor is compiled at the first call, and the table for `dataclasses.fields` is built when it is
first read.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from types import ModuleType
from typing import Protocol, TypeVar, cast, dataclass_transform

T = TypeVar("T")

_NOT_COPIED = ("__dict__", "__weakref__")
"""The attributes of the decorated class that are not copied, because a class with slots cannot have them."""


@dataclass_transform(frozen_default=True, kw_only_default=True)
def wire_struct(cls: type[T]) -> type[T]:
    """Makes a class whose fields are the annotated attributes of `cls`. Fields of base classes are not inherited.

    The class behaves as if `@dataclass(frozen=True, slots=True, kw_only=True)` had made it. `replace`, `fields` and
    `is_dataclass` of the module `dataclasses` accept it.
    """
    names = tuple(cls.__annotations__)
    body = {name: value for name, value in vars(cls).items() if name not in _NOT_COPIED}
    defaults = {name: body.pop(name) for name in names if name in body}
    body |= _METHODS
    body["__slots__"] = names
    body["__init__"] = _first_call(names, defaults)
    body["__dataclass_fields__"] = _Fields(defaults)
    made: type[T] = type(cls.__name__, cls.__bases__, body)
    return made


def compile_structs(module: ModuleType) -> None:
    """Compiles the constructors of all structs in a module, and builds their tables for `dataclasses.fields`. All
    fields of these structs must have defaults, because this function calls each constructor without arguments."""
    for value in tuple(vars(module).values()):
        if (
            isinstance(value, type)
            and value.__module__ == module.__name__
            and dataclasses.is_dataclass(value)
        ):
            value()


class _Struct(Protocol):
    """The type of an instance of a struct, which has a slot for each field."""

    __slots__: tuple[str, ...]


def _first_call(names: tuple[str, ...], defaults: dict[str, object]) -> Callable[..., None]:
    def __init__(self: _Struct, **values: object) -> None:
        constructor = _constructor(type(self), names, defaults)
        type.__setattr__(type(self), "__init__", constructor)
        constructor(self, **values)

    return __init__


def _constructor(cls: type, names: tuple[str, ...], defaults: dict[str, object]) -> Callable[..., None]:
    """Compiles the constructor. The constructor sets each slot through the slot's descriptor, because `__setattr__` of
    a frozen class raises an error."""
    scope: dict[str, object] = {"__name__": cls.__module__}
    parameters = []
    for name in names:
        scope[f"_set_{name}"] = cls.__dict__[name].__set__
        if name in defaults:
            scope[f"_default_{name}"] = defaults[name]
        parameters.append(f"{name}=_default_{name}" if name in defaults else name)
    head = f"def __init__(self, *, {', '.join(parameters)}):" if names else "def __init__(self):"
    exec("\n ".join([head, *(f"_set_{name}(self, {name})" for name in names), "pass"]), scope)
    constructor = cast(Callable[..., None], scope["__init__"])
    constructor.__qualname__ = f"{cls.__qualname__}.__init__"
    return constructor


class _Fields:
    """The value of `cls.__dataclass_fields__` until its first use. At the first use, it is replaced by the fields of a
    plain dataclass with the same attributes."""

    def __init__(self, defaults: dict[str, object]) -> None:
        self._defaults = defaults

    def __get__(self, instance: object, owner: type) -> dict[str, dataclasses.Field[object]]:
        body = {"__annotations__": owner.__annotations__, "__module__": owner.__module__, **self._defaults}
        plain = type(owner.__name__, (), body)
        dataclasses.dataclass(kw_only=True, init=False, repr=False, eq=False)(plain)
        fields: dict[str, dataclasses.Field[object]] = vars(plain)["__dataclass_fields__"]
        owner.__dataclass_fields__ = fields  # type: ignore[attr-defined]
        return fields


def _values(self: _Struct) -> tuple[object, ...]:
    return tuple([getattr(self, name) for name in self.__slots__])


def _repr(self: _Struct) -> str:
    return f"{type(self).__qualname__}({', '.join(f'{name}={getattr(self, name)!r}' for name in self.__slots__)})"


def _eq(self: _Struct, other: _Struct) -> bool:
    return _values(self) == _values(other) if other.__class__ is self.__class__ else NotImplemented


def _hash(self: _Struct) -> int:
    return hash(_values(self))


def _refuse_set(self: _Struct, name: str, value: object) -> None:
    raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")


def _refuse_delete(self: _Struct, name: str) -> None:
    raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")


def _reduce(self: _Struct) -> tuple[object, ...]:
    return _rebuilt, (type(self), dict(zip(self.__slots__, _values(self), strict=True)))


def _rebuilt(cls: type[T], values: dict[str, object]) -> T:
    return cls(**values)


_METHODS = {
    "__repr__": _repr,
    "__eq__": _eq,
    "__hash__": _hash,
    "__setattr__": _refuse_set,
    "__delattr__": _refuse_delete,
    "__reduce__": _reduce,
    "__match_args__": (),
}

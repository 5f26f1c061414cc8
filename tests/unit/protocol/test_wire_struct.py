"""A wire struct behaves as the frozen keyword-only slots dataclass of the same body."""

from __future__ import annotations

import dataclasses
import pickle
import types
from dataclasses import dataclass
from typing import Any

import pytest

from kcli.protocol.wire_struct import compile_structs, wire_struct


class Body:
    """A topic."""

    topic: str
    partitions: tuple[int, ...] = ()
    error_code: int = -1

    @property
    def size(self) -> int:
        return len(self.partitions)


def _copy() -> type:
    return type("Body", (), dict(vars(Body), __annotations__=dict(Body.__annotations__)))


Struct: Any = wire_struct(_copy())
Peer: Any = dataclass(frozen=True, slots=True, kw_only=True)(_copy())


@wire_struct
class Named:
    topic: str = ""
    partition: int = 0


@wire_struct
class Empty:
    pass


@pytest.mark.parametrize("values", [{"topic": "a"}, {"topic": "b", "partitions": (1, 2), "error_code": 3}])
def test_equal_to_a_dataclass(values: dict[str, Any]) -> None:
    one, peer = Struct(**values), Peer(**values)
    assert repr(one) == repr(peer) == repr(Struct(**values))
    assert dataclasses.asdict(one) == dataclasses.asdict(peer)
    assert one == Struct(**values) and one != Struct(topic="z") and one != peer
    assert hash(one) == hash(Struct(**values))
    assert one.size == peer.size
    assert dataclasses.replace(one, topic="c") == Struct(**{**values, "topic": "c"})
    assert Struct.__doc__ == Peer.__doc__


def test_fields_are_those_of_a_dataclass() -> None:
    assert dataclasses.is_dataclass(Struct)
    assert [(f.name, f.type, f.default, f.kw_only) for f in dataclasses.fields(Struct)] == [
        (f.name, f.type, f.default, f.kw_only) for f in dataclasses.fields(Peer)
    ]


def test_wrong_arguments_are_refused() -> None:
    for arguments, names in [(("a",), {}), ((), {}), ((), {"topic": "a", "odd": 1})]:
        with pytest.raises(TypeError):
            Struct(*arguments, **names)


def test_a_struct_cannot_be_changed() -> None:
    one = Struct(topic="a")
    with pytest.raises(dataclasses.FrozenInstanceError):
        one.topic = "b"
    with pytest.raises(dataclasses.FrozenInstanceError):
        del one.topic
    with pytest.raises((AttributeError, TypeError)):
        one.other = 1
    assert not hasattr(one, "__dict__")


def test_a_struct_survives_pickle() -> None:
    assert pickle.loads(pickle.dumps(Named(topic="a", partition=2))) == Named(topic="a", partition=2)


def test_a_struct_may_have_no_fields() -> None:
    assert Empty() == Empty() and repr(Empty()) == "Empty()" and dataclasses.fields(Empty) == ()


def test_all_structs_of_a_module_are_compiled() -> None:
    body = {"__annotations__": {"topic": "str"}, "topic": ""}
    own: Any = wire_struct(type("Own", (), {**body, "__module__": __name__}))
    imported: Any = wire_struct(type("Imported", (), {**body, "__module__": "kcli.errors"}))
    module = types.ModuleType(__name__)
    vars(module).update(Own=own, Imported=imported, number=1)
    compile_structs(module)
    assert own.__init__.__qualname__ == "Own.__init__"
    assert isinstance(vars(own)["__dataclass_fields__"], dict)
    assert imported.__init__.__qualname__ != "Imported.__init__"

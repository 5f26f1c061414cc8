"""The schema of a value inside a value of the same struct, such as the next node of a list."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from kcli.formats.connect.schema import Schema, SchemaType


class RecursiveSchema(Schema):
    """Stands for a struct inside its own schema.

    The schema is complete after `close`. Two such schemas are equal if they stand for the same struct, because a
    comparison of all parts would never end.
    """

    __slots__ = ("target",)
    target: Schema

    def __init__(self, name: str | None, *, optional: bool) -> None:
        super().__init__(SchemaType.STRUCT, optional=optional, name=name)

    def add_parameters(self, parameters: Mapping[str, str]) -> None:
        """Adds parameters of the place of this schema, before the schema is complete."""
        object.__setattr__(self, "parameters", {**(self.parameters or {}), **parameters})

    def close(self, target: Schema) -> None:
        """Takes the struct for which this schema stands."""
        for attribute in ("version", "doc", "fields", "positions"):
            object.__setattr__(self, attribute, getattr(target, attribute))
        if target.parameters is not None:
            object.__setattr__(self, "parameters", {**target.parameters, **(self.parameters or {})})
        object.__setattr__(self, "target", target)

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        return (
            isinstance(other, RecursiveSchema)
            and self.optional == other.optional
            and self.parameters == other.parameters
            and self.fields is other.fields
        )

    def __hash__(self) -> int:
        return hash((self.name, self.optional))

    def __repr__(self) -> str:
        return f"RecursiveSchema({self.name})"

    def __reduce__(self) -> tuple[Callable[..., Schema], tuple[object, ...]]:
        raise TypeError(f"the schema {self.name} contains itself, and cannot be pickled")


def required(schema: Schema) -> Schema:
    """Returns the same schema for values that are not null."""
    if isinstance(schema, RecursiveSchema):
        return schema.target if not schema.target.optional else required(schema.target)
    if not schema.optional:
        return schema
    return Schema(
        schema.type, False, schema.default, schema.name, schema.version, schema.doc, schema.parameters,
        schema.fields, schema.key_schema, schema.value_schema,
    )  # fmt: skip

"""Alters the quotas of users, clients and IP addresses, and finds quotas that match a filter (KIP-546, KIP-612).

A quota belongs to an entity: a user, a client id, a user with a client id, or an IP address. A null name means the
default entity of its type.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Protocol

from kcli.config.definition import ConfigDef, ConfigType
from kcli.config.quota import CLIENTS, IPS
from kcli.controller.decision import (
    MAX_RECORDS_PER_BATCH,
    NAME_COST,
    NO_ERROR,
    ApiError,
    Decision,
    DecisionSteps,
    StepCounter,
    in_steps,
    too_many_records,
)
from kcli.errors import InvalidRequestException, KafkaError, UnsupportedVersionException
from kcli.metadata.image import CLIENT_ID, IP, USER, MetadataImage, QuotaEntity
from kcli.model.java_order import hash_order, hash_order_in_slices, map_order, string_hash
from kcli.model.pace import Pace, at_once, mapped, no_pause, sorted_in_slices
from kcli.protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    RequestEntryData,
    ResponseEntityData,
    ResponseEntryData,
)
from kcli.protocol.messages.describe_client_quotas import (
    ComponentData,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
    EntityData,
    EntryData,
    ValueData,
)
from kcli.protocol.records.metadata import ClientQuotaRecord, MetadataRecord
from kcli.protocol.records.metadata import QuotaEntity as RecordEntity

ENTITY_TYPES = (USER, CLIENT_ID, IP)

ENTRY_COST = 100
"""The cost to check an entry, without its keys, in microseconds."""
_MATCH_COST = 10
"""The cost to compare an entity with a filter, in microseconds."""

# The largest rounding error that a whole number may have after arithmetic on doubles.
_FRACTION_MAX = 1e-6
_INTEGER_MAX = {ConfigType.INT: ("an INT", 2.0**31 - 1), ConfigType.LONG: ("a LONG", 2.0**63)}

# The match types of a component of a filter: an exact name, the default entity, any name.
EXACT, DEFAULT, ANY = 0, 1, 2
_NAMELESS = {DEFAULT: "MATCH_TYPE_DEFAULT", ANY: "MATCH_TYPE_SPECIFIED"}


class _Named(Protocol):
    @property
    def entity_type(self) -> str: ...
    @property
    def entity_name(self) -> str | None: ...


async def entity_of(parts: Sequence[_Named], pace: Pace, cost: int = NAME_COST) -> QuotaEntity:
    """The entity of an entry in a request. `cost` is the cost of a part."""
    named = await mapped(pace, cost, parts, lambda part: (part.entity_type, part.entity_name))
    return tuple(await sorted_in_slices(named, itemgetter(0), pace))


async def entity_data(
    entity: QuotaEntity, pace: Pace, cost: int = NAME_COST
) -> tuple[ResponseEntityData, ...]:
    """The entity in a response. `cost` is the cost of a part."""
    return await mapped(
        pace, cost, entity, lambda part: ResponseEntityData(entity_type=part[0], entity_name=part[1])
    )


@dataclass(frozen=True, slots=True)
class _Prepared:
    """The records of one entity, or its error. `present` has the quotas on which the records are based."""

    entry: RequestEntryData
    data: tuple[ResponseEntityData, ...]
    present: Mapping[str, float] | None = None
    records: Sequence[MetadataRecord] = ()
    error: ApiError = NO_ERROR


def alter_client_quotas(
    image: Callable[[], MetadataImage],
    request: AlterClientQuotasRequest,
    *,
    resolvable: Callable[[str], bool],
) -> DecisionSteps[AlterClientQuotasResponse]:
    """Alters quotas. `resolvable` returns True for an IP address, and for a host name for which an IP
    address is found.

    Checks the entries in steps, and then makes one decision. `image` returns the present metadata.
    """
    prepared = yield from in_steps(lambda pace: _prepare_all(image, request, resolvable, pace))
    records: tuple[MetadataRecord, ...] = ()
    if not request.validate_only:
        quotas = image().client_quotas
        for entity, alteration in prepared.items():
            # Between two steps, another request may have changed the quotas of the entity.
            if alteration.records and quotas.get(entity) is not alteration.present:
                prepared[entity] = at_once(_prepare(image(), alteration.entry, entity, resolvable, no_pause))
        records = tuple([record for alteration in prepared.values() for record in alteration.records])
    entries = []
    step = StepCounter()
    # If the response is large, the records are appended before it is complete. It is sent when they are committed.
    for alteration in prepared.values():
        if step.is_full:
            yield records
            records = ()
        entries.append(
            ResponseEntryData(
                error_code=alteration.error.code,
                error_message=alteration.error.message,
                entity=alteration.data,
            )
        )
    return Decision(records, AlterClientQuotasResponse(entries=tuple(entries)))


async def _prepare_all(
    image: Callable[[], MetadataImage],
    request: AlterClientQuotasRequest,
    resolvable: Callable[[str], bool],
    pace: Pace,
) -> dict[QuotaEntity, _Prepared]:
    prepared: dict[QuotaEntity, _Prepared] = {}
    count = 0
    for entry in request.entries:
        await pace(ENTRY_COST)
        entity = await entity_of(entry.entity, pace)
        if entity in prepared:
            count -= len(prepared[entity].records)
            error = await _duplicate(entity, pace)
            prepared[entity] = _Prepared(entry, prepared[entity].data, error=ApiError.of(error))
        else:
            prepared[entity] = await _prepare(image(), entry, entity, resolvable, pace)
        count += len(prepared[entity].records)
        if count > MAX_RECORDS_PER_BATCH and not request.validate_only:
            raise too_many_records()
    return prepared


async def _prepare(
    image: MetadataImage,
    entry: RequestEntryData,
    entity: QuotaEntity,
    resolvable: Callable[[str], bool],
    pace: Pace,
) -> _Prepared:
    data = await entity_data(entity, pace)
    present = image.client_quotas.get(entity)
    try:
        records = await _alter(present or {}, entry, entity, resolvable, pace)
        return _Prepared(entry, data, present, records)
    except KafkaError as error:
        return _Prepared(entry, data, error=ApiError.of(error))


async def _duplicate(entity: QuotaEntity, pace: Pace) -> KafkaError:
    return InvalidRequestException(f"Ignoring duplicate entity {await _java_text(entity, pace)}")


async def _alter(
    present: Mapping[str, float],
    entry: RequestEntryData,
    entity: QuotaEntity,
    resolvable: Callable[[str], bool],
    pace: Pace,
) -> list[MetadataRecord]:
    ops = {op.key: op for op in entry.ops}
    if len(ops) < len(entry.ops):
        # For a repeated key, Kafka uses the message for a repeated entity.
        raise await _duplicate(entity, pace)
    keys = _keys_of(entity, resolvable)
    names = dict(entity)
    kinds = await hash_order_in_slices(names, pace, NAME_COST, capacity=len(names))
    parts = tuple(RecordEntity(entity_type=kind, entity_name=names[kind]) for kind in kinds)
    records: list[MetadataRecord] = []
    for key in await hash_order_in_slices(ops, pace, NAME_COST, capacity=len(ops)):
        await pace(NAME_COST)
        op = ops[key]
        if op.remove:
            if key in present:
                records.append(ClientQuotaRecord(entity=parts, key=key, value=0.0, remove=True))
            continue
        _check_value(keys, key, op.value)
        if present.get(key) != op.value:
            records.append(ClientQuotaRecord(entity=parts, key=key, value=op.value, remove=False))
    return records


def _order(names: Collection[str]) -> list[str]:
    """The names in the iteration order of a Java HashMap whose initial capacity is the number of names."""
    return map_order(names, string_hash, capacity=len(names))


def _keys_of(entity: QuotaEntity, resolvable: Callable[[str], bool]) -> ConfigDef:
    """The quota keys that an entity may have. Raises InvalidRequestException for an invalid entity."""
    if not entity:
        raise InvalidRequestException("Invalid empty client quota entity")
    names: dict[str, str | None] = {}
    for kind, name in entity:
        if kind in names:
            raise InvalidRequestException(f"Invalid client quota entity, duplicate entity entry {kind}")
        if kind not in ENTITY_TYPES:
            raise InvalidRequestException(f"Unhandled client quota entity type: {kind}")
        if name == "":
            raise InvalidRequestException(f"Empty {kind} not supported")
        names[kind] = name
    if IP not in names:
        return CLIENTS
    if len(names) > 1:
        raise InvalidRequestException(
            # The spelling "shouldnot" is Kafka's.
            "Invalid quota entity combination, IP entity shouldnot be combined with User or ClientId"
        )
    address = names[IP]
    if address is not None and not resolvable(address):
        raise InvalidRequestException(f"{address} is not a valid IP or resolvable host.")
    return IPS


def _check_value(keys: ConfigDef, key: str, value: float) -> None:
    definition = keys.get(key)
    if definition is None:
        raise InvalidRequestException(f"Invalid configuration key {key}")
    if not value > 0:
        raise InvalidRequestException(f"Quota {key} must be greater than 0")
    if definition.type is ConfigType.DOUBLE:
        return
    name, largest = _INTEGER_MAX[definition.type]
    if value > largest:
        raise InvalidRequestException(f"Proposed value for {key} is too large for {name}.")
    if value % 1.0 > _FRACTION_MAX:
        raise InvalidRequestException(f"{key} cannot be a fractional value.")


async def _java_text(entity: QuotaEntity, pace: Pace) -> str:
    """The entity in the text form of Kafka's class ClientQuotaEntity, for error messages."""
    names = dict(entity)
    parts = []
    for kind in await hash_order_in_slices(names, pace, NAME_COST):
        await pace(NAME_COST)
        parts.append(f"{kind}={'null' if names[kind] is None else names[kind]}")
    return f"ClientQuotaEntity(entries={{{', '.join(parts)}}})"


async def describe_client_quotas(
    image: MetadataImage, request: DescribeClientQuotasRequest, pace: Pace
) -> DescribeClientQuotasResponse:
    """The quotas of the entities that match every component of the filter.

    If the filter is strict, entities with other components are left out. Raises KafkaError for an invalid filter.
    """
    components = _filter(request.components)
    entries = []
    for entity, quotas in image.client_quotas.items():
        await pace(_MATCH_COST)
        if _matches(dict(entity), components, strict=request.strict):
            entries.append(_entry(entity, quotas))
    return DescribeClientQuotasResponse(entries=tuple(entries))


def _filter(components: Sequence[ComponentData]) -> dict[str, ComponentData]:
    by_kind: dict[str, ComponentData] = {}
    for component in components:
        kind = component.entity_type
        if not kind:
            raise InvalidRequestException("Invalid empty entity type.")
        if kind in by_kind:
            raise InvalidRequestException(f"Entity type {kind} cannot appear more than once in the filter.")
        if kind not in ENTITY_TYPES:
            raise UnsupportedVersionException(f"Unsupported entity type {kind}")
        _check_match(component)
        by_kind[kind] = component
    if IP in by_kind and len(by_kind) > 1:
        raise InvalidRequestException(
            "Invalid entity filter component combination. IP filter component should not be used with "
            "user or clientId filter component."
        )
    return by_kind


def _check_match(component: ComponentData) -> None:
    has_match = component.match is not None
    if component.match_type == EXACT:
        if not has_match:
            raise InvalidRequestException("Request specified MATCH_TYPE_EXACT, but set match string to null.")
    elif component.match_type in _NAMELESS:
        if has_match:
            raise InvalidRequestException(
                f"Request specified {_NAMELESS[component.match_type]}, but also specified a match string."
            )
    else:
        raise InvalidRequestException(f"Unknown match type {component.match_type}")


def _matches(
    names: Mapping[str, str | None], components: Mapping[str, ComponentData], *, strict: bool
) -> bool:
    if strict and len(names) != len(components):
        return False
    return all(
        kind in names and (component.match_type == ANY or names[kind] == component.match)
        for kind, component in components.items()
    )


def _entry(entity: QuotaEntity, quotas: Mapping[str, float]) -> EntryData:
    names = dict(entity)
    return EntryData(
        entity=tuple(EntityData(entity_type=kind, entity_name=names[kind]) for kind in hash_order(names)),
        values=tuple(ValueData(key=key, value=quotas[key]) for key in _order(hash_order(quotas))),
    )

"""`kcli schemas check`: whether schemas in files can be registered, and which consumers break if they cannot."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from kcli.cli.output import Output
from kcli.cli.syntax.options import CommandError, flag, option
from kcli.cli.tools.schemas.connection import RegistryOptions, client_of, version_number
from kcli.cli.tools.schemas.files import TYPE_WORDS, definition_of, schema_files, subject_of
from kcli.cli.tools.schemas.offline import (
    Against,
    InvalidSchema,
    OldSchema,
    Rule,
    compared,
    loaded_file,
    reference_files,
)
from kcli.formats.codec import FormatError
from kcli.formats.registry.checks import level_of, live_versions, registry_answer
from kcli.formats.registry.client import LATEST, RegistryClient, Version
from kcli.formats.registry.documents import CompatibilityAnswer, SchemaDefinition
from kcli.formats.registry.reasons import Broken, Reason, broken_by, old_version_of, reasons_of
from kcli.formats.registry.schemas import LoadedSchema, Schemas
from kcli.registry.decisions.configs import Level
from kcli.runtime.log_text import one_line

INCOMPATIBLE, ERROR = 1, 2
"""The exit codes."""

INVALID = ("Invalid schema", "Empty schema", "No schema reference found")
"""The beginnings of messages about a schema that no registry can parse."""

LEVEL_WORDS = tuple(level.value for level in Level)
POLICY_WORDS = ("STRICT", "LENIENT", "LOGICAL")


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckOptions(RegistryOptions):
    subject: str | None = option(
        "The subject of the file. Default: the name of the file without its suffix.", metavar="subject"
    )
    type: str | None = option(
        "The type of the schemas. Default: by the suffix .avsc, .json or .proto.",
        choices=TYPE_WORDS,
        metavar="type",
    )
    reference: tuple[str, ...] = option(
        "A schema that the file uses, as name=subject:version. With --against: as name=file.",
        repeatable=True,
        metavar="name=…",
    )
    version: str | None = option(
        "Compare with this version only, in place of those that the level names.", metavar="version"
    )
    level: str | None = option(
        "Compare by this level, in place of the level of the subject.", choices=LEVEL_WORDS, metavar="level"
    )
    policy: str | None = option(
        "JSON Schema: compare by this policy, in place of that of the subject.",
        choices=POLICY_WORDS,
        metavar="policy",
    )
    against: str | None = option(
        "Compare without a registry: with a file, with the files of a directory that have the same paths, or with a "
        "directory of kcli schemas export.",
        metavar="path",
    )
    normalize: bool = flag("Compare the schema in its normal form.")


@dataclass(frozen=True, slots=True)
class CheckRow:
    """A schema, or one reason why it is not compatible. `against` is the old schema, such as "version 3"."""

    file: str
    subject: str
    level: str
    compatible: bool
    against: str | None = None
    broken: str | None = None
    kind: str | None = None
    reason: str | None = None
    cure: str | None = None


@dataclass(frozen=True, slots=True)
class Verdict:
    """The result for one file: the old schemas that are not compatible with it, each with its reasons."""

    file: str
    subject: str
    level: str
    note: str = ""
    """Why there was nothing to compare."""
    breaks: Sequence[tuple[str, Sequence[Reason]]] = ()


Judge = Callable[[Path], Awaitable[Verdict]]


async def check(options: CheckOptions, output: Output) -> int:
    """Returns 1 if a schema is not compatible."""
    if not options.arguments:
        raise CommandError("kcli schemas check: expected at least one file")
    files = schema_files(options.arguments)
    if options.subject is not None and len(files) > 1:
        raise CommandError("--subject: expected one file")
    judge = _offline(options) if options.against is not None else _by_registry(options)
    code = 0
    for file in files:
        try:
            verdict = await judge(file)
        except InvalidSchema as error:
            output.warn(str(error))
            code = ERROR
            continue
        show(verdict, output)
        code = max(code, INCOMPATIBLE if verdict.breaks else 0)
    return code


def _by_registry(options: CheckOptions) -> Judge:
    client = client_of(options)

    async def judge(file: Path) -> Verdict:
        subject = options.subject or subject_of(file)
        definition = await definition_of(client, file, options.type, options.reference)
        return await verdict_of(client, str(file), subject, definition, options)

    return judge


def _offline(options: CheckOptions) -> Judge:
    assert options.against is not None
    references = reference_files(options.reference)
    against = Against(Path(options.against), options.type, references)
    roots = [Path(text) for text in options.arguments if Path(text).is_dir()]

    async def judge(file: Path) -> Verdict:
        subject = options.subject or subject_of(file)
        rule = Rule.of(against.config(subject), options.level, options.policy)
        olds: Sequence[OldSchema] = against.olds(subject, _relative(file, roots))
        if options.version is not None:
            olds = _one_version(olds, version_number(options.version))
        return _local(str(file), subject, loaded_file(file, options.type, references), olds, rule)

    return judge


def _one_version(olds: Sequence[OldSchema], version: Version) -> Sequence[OldSchema]:
    if version == LATEST:
        return olds[-1:]
    chosen = [old for old in olds if old.name == f"version {version}"]
    if not chosen:
        raise CommandError(f"--against has no version {version} of the subject")
    return chosen


def _relative(file: Path, roots: Sequence[Path]) -> Path:
    for root in roots:
        if file.is_relative_to(root):
            return file.relative_to(root)
    return Path(os.path.basename(file))


def _local(file: str, subject: str, new: LoadedSchema, olds: Sequence[OldSchema], rule: Rule) -> Verdict:
    note = "" if olds else "there is no earlier schema"
    results = compared(new, olds, rule)
    return Verdict(file, subject, rule.level, note, [(old.name, reasons) for old, reasons in results])


async def verdict_of(
    client: RegistryClient, file: str, subject: str, definition: SchemaDefinition, options: CheckOptions
) -> Verdict:
    """Asks the registry whether a schema is compatible with its subject. Raises CommandError and RegistryError."""
    config, live = await level_of(client, subject), await live_versions(client, subject)
    chosen = [*live] if options.version is None else [version_number(options.version)]
    if options.level is not None or options.policy is not None:
        rule = Rule.of(config, options.level, options.policy)
        return await _by_other_rule(client, (file, subject, definition), chosen, rule)
    level = config.compatibility_level or Level.BACKWARD.value
    if options.version is None:
        answer = await registry_answer(client, subject, definition, normalize=options.normalize)
        if answer.is_compatible:
            return Verdict(file, subject, level, "" if live else "the subject has no versions yet")
        _refuse_invalid(file, answer)
        chosen = [*reversed(live)] if level.upper().endswith("_TRANSITIVE") else live[-1:]
    breaks: list[tuple[str, Sequence[Reason]]] = []
    for number in chosen:
        one = await client.check(subject, definition, number, normalize=options.normalize)
        if not one.is_compatible:
            _refuse_invalid(file, one)
            breaks.append((f"version {number}", _reasons(one, level)))
    if not breaks and options.version is None:
        # The registry compares with other versions, for example with those of a compatibility group.
        old = old_version_of(answer.messages or ())
        breaks.append((f"version {old}" if old else "an earlier version", _reasons(answer, level)))
    return Verdict(file, subject, level, breaks=breaks)


async def _by_other_rule(
    client: RegistryClient,
    candidate: tuple[str, str, SchemaDefinition],
    versions: Sequence[Version],
    rule: Rule,
) -> Verdict:
    """Compares in this process, because a registry only compares by its own rule."""
    file, subject, definition = candidate
    schemas = Schemas(client)
    try:
        olds = [
            OldSchema(f"version {number}", await schemas.version(subject, number))
            for number in (versions if rule.level.is_transitive else versions[-1:])
        ]
        new = await schemas.with_references(definition, subject)
        new.parsed  # noqa: B018  # An invalid schema is an error also if there is nothing to compare it with.
    except FormatError as error:
        raise InvalidSchema(f"{file}: {error}") from None
    return _local(file, subject, new, olds, rule)


def _refuse_invalid(file: str, answer: CompatibilityAnswer) -> None:
    """Raises InvalidSchema if an answer says that the schema is invalid, and not that it is incompatible."""
    for message in answer.messages or ():
        if message.startswith(INVALID):
            raise InvalidSchema(f"{file}: {message}")


def _reasons(answer: CompatibilityAnswer, level: str) -> Sequence[Reason]:
    """The reasons of an answer. Old registries give none."""
    return reasons_of(answer.messages or (), broken_by(level)) or (
        Reason("", "the registry gives no reason"),
    )


def show(verdict: Verdict, output: Output) -> None:
    """Writes a verdict: one row for each reason, or one row for a compatible schema."""
    file, subject, level = verdict.file, verdict.subject, verdict.level
    if not verdict.breaks:
        note = f", because {verdict.note}" if verdict.note else f" (level {level})"
        row = CheckRow(file, subject, level, compatible=True)
        output.row(row, f"{file}: compatible with {subject}{note}")
        return
    output.say(f"{file}: not compatible with {subject} (level {level})")
    for against, reasons in verdict.breaks:
        broken: str | None = ""
        for reason in reasons:
            words = broken_consumers(reason.broken, against)
            if words != broken:
                output.say(f"  {against}: {words}" if words else f"  {against}:")
                broken = words
            row = CheckRow(
                *(file, subject, level, False, against, words or None),
                *(reason.kind or None, reason.text, reason.cure or None),
            )
            output.row(
                row, f"    {one_line(reason.text)}" + (f"\n      {reason.cure}" if reason.cure else "")
            )


def broken_consumers(broken: Broken | None, against: str) -> str:
    """Which consumers break, in words."""
    match broken:
        case Broken.NEW_CONSUMERS:
            return f"consumers with the new schema cannot read records of {against}"
        case Broken.OLD_CONSUMERS:
            return f"consumers with {against} cannot read records of the new schema"
        case None:
            return ""

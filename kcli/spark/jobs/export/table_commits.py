"""Commits files to Delta and Iceberg tables without a Java library. A commit adds the files of a micro-batch to the
table.

Spark stores the end of a micro-batch only after the commit to the table. So after a crash, Spark may repeat a
micro-batch that the table already has. To recognise such a micro-batch, each commit also stores its number together
with an application id. For a stream, this id is the id of the query, which its checkpoint stores. A micro-batch whose
number the table already has is not written again. Only the driver uses these classes.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol
from urllib.parse import quote

from kcli.model.java_text import parse_long
from kcli.spark.jobs.export.table_files import Layout, WrittenFile, filesystem, write_files
from kcli.spark.jobs.shared.errors import JobError

if TYPE_CHECKING:
    import pyarrow as pa
    from pyiceberg.catalog import Catalog
    from pyiceberg.manifest import DataFile

BATCH_PROPERTY = "kcli.last-batch."
"""The prefix of the Iceberg property that stores the last micro-batch of an application.

The id of the application follows the prefix. The value is the number of the application's last micro-batch.
"""

COMPACT_MIN_FILES = 4
"""The smallest number of files that one compaction merges."""

HOUR_MS = 3_600_000


@dataclass(frozen=True, slots=True)
class MicroBatch:
    """The number of a micro-batch, and the id of the application that writes it. The id stays the same when the
    application restarts."""

    application: str
    number: int


class TargetTable(Protocol):
    """A table that an export writes to."""

    @property
    def layout(self) -> Layout:
        """Where and how the workers write the files of the table."""

    def last_batch(self, application: str) -> int | None:
        """Returns the number of the application's last micro-batch in the table, or None if the table has no
        micro-batch of it.
        """

    def commit(
        self, files: Sequence[WrittenFile], batch: MicroBatch | None, *, overwrite: bool = False
    ) -> None:
        """Adds the files in one commit. If `overwrite` is True, these files replace all other files."""

    def compact(self, max_bytes: int) -> int:
        """Merges small files into files of up to `max_bytes`. Returns the number of replaced files."""

    def vacuum(self, retention_hours: int) -> int:
        """Deletes files that are older than `retention_hours` and no longer needed. Returns the number of deleted
        files.
        """


class DeltaTarget:
    """A Delta table in a directory, created if it is missing."""

    def __init__(
        self, layout: Layout, schema: pa.Schema, storage_options: Mapping[str, str] | None = None
    ) -> None:
        import deltalake

        self._layout, self._schema = layout, schema
        self._storage = dict(storage_options or {}) or None
        self._vacuumed: set[str] = set()
        """Files that this process has deleted, so that each one counts once. Delta reports a deleted file again until
        its tombstone expires."""
        uri = layout.uri if "://" in layout.uri else os.path.abspath(layout.uri)
        self._table = deltalake.DeltaTable.create(
            uri,
            schema,
            mode="ignore",
            partition_by=list(layout.partition_by),
            storage_options=self._storage,
        )
        have = [field.name for field in self._table.schema().fields]
        check_same_columns(layout, have, self._table.metadata().partition_columns)

    @property
    def layout(self) -> Layout:
        return self._layout

    def last_batch(self, application: str) -> int | None:
        self._table.update_incremental()
        return self._table.transaction_version(application)

    def commit(
        self, files: Sequence[WrittenFile], batch: MicroBatch | None, *, overwrite: bool = False
    ) -> None:
        from deltalake import CommitProperties, Transaction
        from deltalake.transaction import AddAction

        now_ms = time.time_ns() // 1_000_000
        actions = [
            AddAction(
                quote(file.path, safe="/="),
                file.size_bytes,
                dict(file.partition),
                now_ms,
                True,
                json.dumps(file.stats),
            )
            for file in files
        ]
        applied = [Transaction(batch.application, batch.number)] if batch is not None else None
        self._table.create_write_transaction(
            actions,  # type: ignore[arg-type, unused-ignore]
            "overwrite" if overwrite else "append",
            self._schema,
            list(self._layout.partition_by),
            commit_properties=CommitProperties(app_transactions=applied),
        )

    def compact(self, max_bytes: int) -> int:
        self._table.update_incremental()
        done = self._table.optimize.compact(target_size=max_bytes)
        return int(done["numFilesRemoved"])

    def vacuum(self, retention_hours: int) -> int:
        self._table.update_incremental()
        deleted = self._table.vacuum(
            retention_hours=retention_hours, dry_run=False, enforce_retention_duration=False, full=True
        )
        new = set(deleted) - self._vacuumed
        self._vacuumed |= new
        return len(new)


class IcebergTarget:
    """An Iceberg table of a catalog, created if it is missing."""

    def __init__(self, layout: Layout, schema: pa.Schema, name: str, catalog: Catalog) -> None:
        from pyiceberg.exceptions import NamespaceAlreadyExistsError, NoSuchTableError

        self._schema = schema
        try:
            self._table = catalog.load_table(name)
        except NoSuchTableError:
            with contextlib.suppress(NamespaceAlreadyExistsError):
                catalog.create_namespace(name.rpartition(".")[0])
            with catalog.create_table_transaction(name, schema) as making, making.update_spec() as spec:
                for column in layout.partition_by:
                    spec.add_identity(column)
            self._table = catalog.load_table(name)
        columns = [field.name for field in self._table.schema().fields]
        by = [field.name for field in self._table.spec().fields]
        check_same_columns(layout, columns, by)
        self._layout = Layout(
            uri=f"{self._table.location().rstrip('/')}/data",
            columns=layout.columns,
            partition_by=layout.partition_by,
            keeps_partition_columns=True,
            values_as=layout.values_as,
            compression=layout.compression,
            max_file_bytes=layout.max_file_bytes,
        )

    @property
    def layout(self) -> Layout:
        return self._layout

    def last_batch(self, application: str) -> int | None:
        self._table.refresh()
        text = self._table.properties.get(BATCH_PROPERTY + application)
        return None if text is None else parse_long(text)

    def commit(
        self, files: Sequence[WrittenFile], batch: MicroBatch | None, *, overwrite: bool = False
    ) -> None:
        from pyiceberg.expressions import AlwaysTrue

        self._table.refresh()
        with self._table.transaction() as change:
            if overwrite and self._table.current_snapshot() is not None:
                change.delete(AlwaysTrue())
            if files:
                # Names of files are unique, so pyiceberg need not read the manifests to find duplicates.
                change.add_files([self._uri(file) for file in files], check_duplicate_files=False)
            if batch is not None:
                change.set_properties({BATCH_PROPERTY + batch.application: str(batch.number)})

    def _uri(self, file: WrittenFile) -> str:
        return f"{self._layout.uri}/{file.path}"

    def compact(self, max_bytes: int) -> int:
        """Merges small files of each partition. One commit replaces one group of files."""
        self._table.refresh()
        replaced = 0
        for group in self._small_files(max_bytes):
            tables = (self._read(file.file_path) for file in group)
            batches = (batch for table in tables for batch in table.to_batches())
            files = write_files(batches, self._layout)
            self._replace(group, files)
            replaced += len(group)
        return replaced

    def _small_files(self, max_bytes: int) -> list[list[DataFile]]:
        """Returns groups of small files. All files of a group are in one partition, and have at most `max_bytes` in
        total.
        """
        by_partition: dict[str, list[DataFile]] = {}
        for task in self._table.scan().plan_files():
            if task.file.file_size_in_bytes < max_bytes // 2 and not task.delete_files:
                by_partition.setdefault(str(task.file.partition), []).append(task.file)
        groups = []
        for files in by_partition.values():
            group: list[DataFile] = []
            for file in sorted(files, key=lambda file: file.file_size_in_bytes):
                if sum(member.file_size_in_bytes for member in group) + file.file_size_in_bytes > max_bytes:
                    groups.append(group)
                    group = []
                group.append(file)
            groups.append(group)
        return [group for group in groups if len(group) >= COMPACT_MIN_FILES]

    def _read(self, uri: str) -> pa.Table:
        import pyarrow.parquet as pq

        system, path = filesystem(uri)
        return pq.ParquetFile(system.open_input_file(path)).read()

    def _replace(self, old: Sequence[DataFile], new: Sequence[WrittenFile]) -> None:
        from pyiceberg.io.pyarrow import parquet_file_to_data_file

        with self._table.transaction() as change, change.update_snapshot().overwrite() as snapshot:
            for file in old:
                snapshot.delete_data_file(file)
            for written in new:
                snapshot.append_data_file(
                    parquet_file_to_data_file(self._table.io, change.table_metadata, self._uri(written))
                )

    def vacuum(self, retention_hours: int) -> int:
        """Expires old snapshots, then deletes data files that no snapshot refers to.

        Returns the number of deleted files.
        """
        import datetime

        self._table.refresh()
        before_ms = time.time_ns() // 1_000_000 - retention_hours * HOUR_MS
        before = datetime.datetime.fromtimestamp(before_ms / 1000, datetime.UTC).replace(tzinfo=None)
        self._table.maintenance.expire_snapshots().older_than(before).commit()
        self._table.refresh()
        used = {filesystem(uri)[1] for uri in self._table.inspect.all_files().column("file_path").to_pylist()}
        return delete_orphans(self._layout.uri, used, before_ms)


def delete_orphans(uri: str, used: set[str], before_ms: int) -> int:
    """Deletes the Parquet files below `uri` that are not in `used` and are older than `before_ms`.

    Returns the number of deleted files.
    """
    from pyarrow import fs

    system, root = filesystem(uri)
    deleted = 0
    for info in system.get_file_info(fs.FileSelector(root, allow_not_found=True, recursive=True)):
        is_ours = info.type == fs.FileType.File and info.path.endswith(".parquet")
        if is_ours and info.path not in used and info.mtime_ns // 1_000_000 < before_ms:
            system.delete_file(info.path)
            deleted += 1
    return deleted


def check_same_columns(layout: Layout, columns: Sequence[str], partition_by: Sequence[str]) -> None:
    """Raises JobError if an existing table has other columns, or other partition columns, than the files to write."""
    if set(columns) != set(layout.columns):
        raise JobError(
            f"the table has the columns {', '.join(columns)}, but the export has {', '.join(layout.columns)}"
        )
    if list(partition_by) != list(layout.partition_by):
        said = ", ".join(partition_by) or "nothing"
        raise JobError(f"the table is partitioned by {said}: use the same --partition-by")

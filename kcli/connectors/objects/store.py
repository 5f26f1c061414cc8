"""A store of objects: a directory, or a bucket, through fsspec.

An object appears with its whole content or not at all. In a directory, an upload is a hidden file that gets its name at
the end. In an object store, a small object is one request, and a large one is a multipart upload.
"""

from __future__ import annotations

import contextlib
import io
import os
import uuid
from collections.abc import Iterator, Mapping
from typing import IO, Any, Protocol

from kcli.connectors.objects.libraries import check_library, library

_TEMPORARY = ".tmp"
_FIRST_BYTES = 64 * 1024
"""The bytes of an object that wait in memory before its file is opened."""
S3_SCHEMES = ("s3://", "s3a://")
PART_BYTES_MIN = 5 * 2**20
"""S3 refuses smaller parts."""


class Upload(Protocol):
    """The bytes of a new object."""

    def write(self, data: bytes | memoryview, /) -> int: ...

    def finish(self) -> None:
        """Makes the object visible."""
        ...

    def abort(self) -> None:
        """Removes what was written."""
        ...


class StoreError(Exception):
    """The store fails, such as its disk or its network. The objects in it may be valid."""


class Store:
    """The objects below a URL, such as `file:///srv/lake` or `s3://bucket/lake`.

    `options` are for the file system of fsspec. Raises ConnectException if a library is missing.
    """

    def __init__(self, url: str, options: Mapping[str, object]) -> None:
        check_libraries(url)
        self.url = url
        self._files, self._root = library("fsspec.core").url_to_fs(url, **options)
        self._root = self._root.rstrip("/")
        self._is_local = "file" in _protocols(self._files)

    def upload(self, name: str, part_bytes: int, options: Mapping[str, object]) -> Upload:
        path = f"{self._root}/{name}"
        return _LocalUpload(path) if self._is_local else _RemoteUpload(self._files, path, part_bytes, options)

    def names(self, pattern: str) -> list[str]:
        """The names of all objects that match a glob pattern, sorted. Hidden files are left out. Raises StoreError."""
        with _as_store_errors():
            self._files.invalidate_cache()
            paths = self._files.glob(f"{self._root}/{pattern}", detail=True)
        names = [path[len(self._root) + 1 :] for path, info in paths.items() if info["type"] == "file"]
        return sorted(name for name in names if not _is_hidden(name))

    def open(self, name: str) -> IO[bytes]:
        """Raises FileNotFoundError, and StoreError as each read of the object does."""
        with _as_store_errors():
            return _Object(self._files.open(f"{self._root}/{name}", "rb"))  # type: ignore[return-value]


def check_libraries(url: str) -> None:
    """Raises ConnectException if the libraries for a URL are not installed."""
    check_library("fsspec")
    if url.startswith(S3_SCHEMES):
        check_library("s3fs")


def _is_hidden(name: str) -> bool:
    return any(part.startswith((".", "_")) for part in name.split("/"))


def _protocols(files: Any) -> tuple[str, ...]:
    return (files.protocol,) if isinstance(files.protocol, str) else tuple(files.protocol)


class _LocalUpload:
    """Writes a hidden file beside the object, and renames it when its bytes are on the disk.

    The file is opened late, because a process may have only so many open files, and a record may begin a directory.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._directory, name = os.path.split(path)
        self._temporary = os.path.join(self._directory, f".{name}.{uuid.uuid4().hex}{_TEMPORARY}")
        self._first = bytearray()
        self._file: IO[bytes] | None = None
        self._is_aborted = False

    def write(self, data: bytes | memoryview, /) -> int:
        if self._is_aborted:  # the end of an encoder writes even if its object is discarded
            return len(data)
        if self._file is not None:
            return self._file.write(data)
        self._first += data
        if len(self._first) >= _FIRST_BYTES:
            self._opened()
        return len(data)

    def finish(self) -> None:
        file = self._opened()
        file.flush()
        os.fsync(file.fileno())
        file.close()
        os.replace(self._temporary, self._path)
        directory = os.open(self._directory, os.O_RDONLY)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)

    def abort(self) -> None:
        self._is_aborted = True
        if self._file is not None:
            with contextlib.suppress(OSError):  # the disk may be full
                self._file.close()
            with contextlib.suppress(OSError):
                os.unlink(self._temporary)

    def _opened(self) -> IO[bytes]:
        if self._file is None:
            os.makedirs(self._directory, exist_ok=True)
            self._file = open(self._temporary, "wb")  # noqa: SIM115
            self._file.write(self._first)
            self._first = bytearray()
        return self._file


class _RemoteUpload:
    """Collects a part before it opens the object, because most objects are smaller than a part."""

    def __init__(self, files: Any, path: str, part_bytes: int, options: Mapping[str, object]) -> None:
        self._files = files
        self._path = path
        self._part_bytes = part_bytes
        self._options = options
        self._first = bytearray()
        self._file: Any = None
        self._is_aborted = False

    def write(self, data: bytes | memoryview, /) -> int:
        if self._is_aborted:
            return len(data)
        with _as_os_errors():
            if self._file is not None:
                self._file.write(data)
            else:
                self._first += data
                if len(self._first) >= self._part_bytes:
                    self._open()
        return len(data)

    def finish(self) -> None:
        with _as_os_errors():
            if self._file is None:
                self._open()
            self._file.close()

    def abort(self) -> None:
        self._is_aborted = True
        if self._file is not None:
            with contextlib.suppress(
                Exception
            ):  # the store may be unreachable, and a lifecycle rule removes the parts
                self._file.discard()
            self._file.closed = True  # a garbage collector must not complete the object

    def _open(self) -> None:
        self._file = self._files.open(self._path, "wb", block_size=self._part_bytes, **self._options)
        self._file.write(self._first)
        self._first = bytearray()


class _Object(io.RawIOBase):
    """An object that is read. So an error of the store is never taken for invalid content."""

    def __init__(self, file: Any) -> None:
        self._file = file

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def read(self, size: int | None = -1, /) -> bytes:
        with _as_store_errors():
            content: bytes = self._file.read(-1 if size is None else size)
            return content

    def seek(self, offset: int, whence: int = os.SEEK_SET, /) -> int:
        with _as_store_errors():
            position: int = self._file.seek(offset, whence)
            return position

    def tell(self) -> int:
        position: int = self._file.tell()
        return position

    def close(self) -> None:
        if not self.closed:
            self._file.close()
        super().close()


@contextlib.contextmanager
def _as_store_errors() -> Iterator[None]:
    try:
        yield
    except FileNotFoundError:
        raise
    except Exception as error:  # each library has classes of its own
        raise StoreError(f"{type(error).__name__}: {error}") from error


@contextlib.contextmanager
def _as_os_errors() -> Iterator[None]:
    """Raises OSError for every error of a store, because each library has classes of its own."""
    try:
        yield
    except OSError:
        raise
    except Exception as error:
        raise OSError(f"{type(error).__name__}: {error}") from error

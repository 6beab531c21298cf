"""Files at a place: a local or NFS path, or a URI of object storage, through `pyarrow.fs`.

A `Place` is a `pathlib.Path`, or a `RemotePath`, which offers the part of `Path` that this project
uses. Whatever is written appears whole or not at all: object storage works like that, and local
files get a temporary name first.
"""

from __future__ import annotations

import errno
import glob
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path, PurePosixPath
from typing import Any, TypeAlias
from urllib.parse import quote, unquote, urlsplit

from mapspace.bounded_reading import read_bytes
from mapspace.errors import ConfigError, MapspaceError, UnwritableError

SCHEMES = ("s3", "gs", "file")
# pyarrow would try for 15 minutes to reach Google's storage.
GS_RETRY_SECONDS = 60

# What the SDKs say, and what that means to a user. The first match counts.
_REASONS = (
    (("NO_SUCH_BUCKET", "Bucket '"), "there is no such bucket"),
    (
        ("ACCESS_DENIED", "INVALID_ACCESS_KEY", "INVALID_CLIENT_TOKEN", "SIGNATURE", "code 403"),
        "no permission; the credentials come from the environment (AWS_ACCESS_KEY_ID and "
        "AWS_SECRET_ACCESS_KEY, or GOOGLE_APPLICATION_CREDENTIALS)",
    ),
    (
        ("NETWORK_CONNECTION", "resolve host", "connect to server", "timed out"),
        "the endpoint cannot be reached",
    ),
)


@dataclass(frozen=True)
class RemotePath:
    """A bucket, or a folder or file in one. Folders need not be made: they are prefixes of names.

    Attributes:
        scheme: `s3` or `gs`.
        key: Bucket and path in it, without a slash at either end.
        query: Options of the file system, as pyarrow reads them from a URI: for S3
            `endpoint_override`, `scheme` and `region`.
    """

    scheme: str
    key: str
    query: str = ""

    def __str__(self) -> str:
        return f"{self.scheme}://{quote(self.key)}" + (f"?{self.query}" if self.query else "")

    def __truediv__(self, name: str) -> RemotePath:
        """What lies below.

        Raises:
            ConfigError: If the name leads out of this folder.
        """
        return RemotePath(
            self.scheme, f"{self.key}/{_checked(name, f'{self}: {name}')}", self.query
        )

    @property
    def name(self) -> str:
        """The last component."""
        return PurePosixPath(self.key).name

    @property
    def parent(self) -> RemotePath:
        """The folder that this lies in."""
        return RemotePath(self.scheme, str(PurePosixPath(self.key).parent), self.query)

    @property
    def filesystem(self) -> Any:
        """The `pyarrow.fs.FileSystem` in which `key` is the path.

        Raises:
            ConfigError: If pyarrow does not know an option.
        """
        with _told(self, "opened"):
            return _filesystem(self.scheme, self.key.partition("/")[0], self.query)

    def with_name(self, name: str) -> RemotePath:
        """Another file in the same folder."""
        return self.parent / name

    def with_suffix(self, suffix: str) -> RemotePath:
        """The file with another ending."""
        return self.with_name(PurePosixPath(self.key).with_suffix(suffix).name)

    def resolve(self) -> RemotePath:
        """Itself: a URI is absolute."""
        return self

    def exists(self) -> bool:
        """Whether it is a file or a folder with files."""
        return self._kind() != "NotFound"

    def is_dir(self) -> bool:
        """Whether it is a folder with files."""
        return self._kind() == "Directory"

    def read_bytes(self) -> bytes:
        """The whole content.

        Raises:
            FileNotFoundError: If there is no such file.
            MapspaceError: If it cannot be read; the message says why.
        """
        return self.read_start(None)

    def read_start(self, most: int | None) -> bytes:
        """The first bytes, so many at most; as `read_bytes`."""
        filesystem = self.filesystem
        with _told(self, "read"), filesystem.open_input_file(self.key) as file:
            content: bytes = file.read(most)
            return content

    def read_text(self) -> str:
        """The whole content, decoded."""
        return self.read_bytes().decode()

    def write_bytes(self, content: bytes) -> None:
        """Writes the whole file; a reader sees the old one or the new one.

        Raises:
            MapspaceError: If it cannot be written; the message says why.
        """
        filesystem = self.filesystem
        # By default pyarrow compresses what is named .gz.
        with _told(self, "written"), filesystem.open_output_stream(self.key, None) as file:
            file.write(content)

    def unlink(self, missing_ok: bool = False) -> None:
        """Removes a file."""
        filesystem = self.filesystem
        try:
            with _told(self, "removed"):
                filesystem.delete_file(self.key)
        except FileNotFoundError:
            if not missing_ok:
                raise

    def _kind(self) -> str:
        filesystem = self.filesystem
        with _told(self, "looked up"):
            return str(filesystem.get_file_info(self.key).type.name)


Place: TypeAlias = Path | RemotePath


def place(text: str | Place) -> Place:
    """A local path, or what a URI names.

    Raises:
        ConfigError: If it is no URI that is known, leads out of its bucket or holds a password.
    """
    if isinstance(text, RemotePath):
        return text
    if not isinstance(text, str | Path):
        raise ConfigError(f"expected a path or a URI, got {text!r}.")
    if isinstance(text, Path) or "://" not in text:
        return _possible(Path(text))
    parts = urlsplit(text)
    shown = text.replace(f"{parts.netloc.rpartition('@')[0]}@", "", 1)
    if parts.scheme not in SCHEMES:
        raise ConfigError(f"{shown}: expected a path or a URI of {', '.join(SCHEMES)}.")
    if "@" in parts.netloc:
        raise ConfigError(
            f"{shown}: expected no credentials in a URI, which is stored with results; set "
            "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY instead."
        )
    if parts.scheme == "file":
        if parts.netloc not in ("", "localhost") or not parts.path:
            raise ConfigError(f"{shown}: expected file:///PATH.")
        return Path(unquote(parts.path))
    if not parts.netloc:
        raise ConfigError(f"{shown}: expected {parts.scheme}://BUCKET/PATH, got no bucket.")
    path = f"{parts.netloc}/{unquote(parts.path).strip('/')}".rstrip("/")
    return RemotePath(parts.scheme, _checked(path, shown), parts.query)


def _possible(path: Path) -> Path:
    """A path, unless no file can have its name."""
    try:
        if b"\0" not in os.fsencode(path):
            return path
        why = "a null byte"
    except UnicodeEncodeError as error:
        why = error.reason
    raise ConfigError(f"{str(path)!r}: is no path: {why}.")


def make_folder(folder: Place) -> None:
    """Makes a local folder, or looks whether the bucket of a remote one is there.

    Raises:
        ConfigError: If the folder cannot be made.
        MapspaceError: If there is no such bucket, or it cannot be reached.
    """
    if isinstance(folder, Path):
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ConfigError(f"{folder}: cannot be created: {error.strerror}.") from error
    else:
        check_folder(folder)


def check_folder(folder: Place) -> None:
    """Refuses a folder that is not there and could not be made; nothing is made.

    Raises:
        ConfigError: the reason.
        MapspaceError: If a remote one cannot be reached.
    """
    if isinstance(folder, RemotePath):
        bucket = RemotePath(folder.scheme, folder.key.partition("/")[0], folder.query)
        if not bucket.exists():
            raise ConfigError(f"{folder}: cannot be created: there is no such bucket.")
    elif not folder.is_dir():
        if not _nearest(folder).is_dir():
            raise ConfigError(f"{folder}: cannot be created: {os.strerror(errno.ENOTDIR)}.")
        check_writable(folder)


def check_writable(path: Place) -> None:
    """Refuses a file or folder that could not be written, made or changed; it is left as it is.

    What is tried is the path itself, or the next folder above that is there. A store of objects is
    not asked: it says so by itself.

    Raises:
        ConfigError: the reason.
    """
    if not isinstance(path, Path):
        return
    try:
        there = _nearest(path)
        if there.is_dir():
            with tempfile.NamedTemporaryFile(dir=there, prefix=".mapspace-"):
                pass
        elif there.is_file():
            with there.open("ab"):
                pass
        elif not os.access(there, os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    except OSError as error:
        raise ConfigError(
            f"{path}: expected a place that can be written: {error.strerror}."
        ) from error


def _nearest(path: Path) -> Path:
    """A path, or the next one above that is there."""
    return next(one for one in (path, *path.absolute().parents) if one.exists())


def file_sizes(folder: Place) -> dict[str, int]:
    """Sizes in bytes of the files directly in a folder, by name; empty where there is none."""
    if isinstance(folder, Path):
        if not folder.is_dir():
            return {}
        sizes = {}
        for file in folder.iterdir():
            with suppress(FileNotFoundError):  # somebody has just removed it
                if not file.is_dir():  # whoever reads a pipe says what it is
                    sizes[file.name] = file.stat().st_size
        return sizes
    return {name: size for name, size in _listed(folder).items() if "/" not in name}


def folders(folder: Place) -> list[str]:
    """Names of the folders directly in a folder, sorted; none where there is no such folder."""
    if isinstance(folder, Path):
        if not folder.is_dir():
            return []
        return sorted(entry.name for entry in os.scandir(folder) if entry.is_dir())
    from pyarrow.fs import FileSelector, FileType

    filesystem = folder.filesystem
    with _told(folder, "listed"):
        found = filesystem.get_file_info(FileSelector(folder.key, allow_not_found=True))
    return sorted(entry.base_name for entry in found if entry.type == FileType.Directory)


def file_ages(folder: Place) -> dict[str, float]:
    """How long ago the files directly in a folder were written, s, by name."""
    now = time.time()
    if isinstance(folder, Path):
        ages = {}
        for name in file_sizes(folder):
            with suppress(FileNotFoundError):  # as there
                ages[name] = now - (folder / name).stat().st_mtime
        return ages
    from pyarrow.fs import FileSelector, FileType

    filesystem = folder.filesystem
    with _told(folder, "listed"):
        found = filesystem.get_file_info(FileSelector(folder.key, allow_not_found=True))
    return {
        entry.base_name: now - entry.mtime.timestamp()
        for entry in found
        if entry.type == FileType.File
    }


def write_atomically(path: Place, content: bytes) -> None:
    """Writes a file that is there whole or not at all."""
    if isinstance(path, RemotePath):
        path.write_bytes(content)
        return
    with writing(path), whole_file(path) as temporary:
        temporary.write_bytes(content)


@contextmanager
def writing(path: Place) -> Iterator[None]:
    """Names the file where a block cannot write it: what fails meanwhile does not say where.

    Raises:
        UnwritableError: why it cannot be written.
    """
    try:
        yield
    except OSError as error:
        # One that was named already, and a reader who has gone.
        if isinstance(error, MapspaceError | BrokenPipeError):
            raise
        raise UnwritableError(error.errno, error.strerror, str(path)) from error


@contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """A file to write in the place of another one, which it replaces only if the block succeeds."""
    # Processes of other machines may have the same number.
    temporary = path.with_name(f".{path.name}.{os.getpid()}-{os.urandom(4).hex()}.tmp")
    try:
        yield temporary
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


@contextmanager
def whole_upload(path: Place) -> Iterator[Path]:
    """A local file to write, which becomes a file of any place only if the block succeeds."""
    if isinstance(path, Path):
        with whole_file(path) as temporary:
            yield temporary
        return
    with tempfile.TemporaryDirectory() as folder:
        temporary = Path(folder) / path.name
        yield temporary
        path.write_bytes(temporary.read_bytes())


def opened(file: Place) -> Any:
    """A file as Arrow reads it, part by part.

    Raises:
        FileNotFoundError: it is not there.
    """
    import pyarrow as pa

    if isinstance(file, Path):
        return pa.OSFile(str(file), "rb")
    return file.filesystem.open_input_file(file.key)


def own_path(folder: Path, name: str) -> Path:
    """What lies below a folder, to be written to.

    Raises:
        ConfigError: it is a link that leads out of the folder, which somebody else may have made.
    """
    path = folder / name
    if path.is_symlink() and not path.resolve().is_relative_to(folder.resolve()):
        raise ConfigError(f"{path}: expected no link out of its folder, found one; remove it.")
    return path


def remove_unfinished(path: Place) -> None:
    """Removes what processes that were killed left of a file; nobody else may be writing it."""
    if isinstance(path, Path):
        for left in path.parent.glob(f".{glob.escape(path.name)}.*.tmp"):
            left.unlink(missing_ok=True)


def remove_folder(folder: Place) -> None:
    """Removes a folder with all that is in it, where there is one."""
    if isinstance(folder, Path):
        shutil.rmtree(folder, ignore_errors=True)
    elif folder.is_dir():
        with _told(folder, "removed"):
            folder.filesystem.delete_dir(folder.key)


def download(source: RemotePath, target: Path, wanted: Callable[[str], bool]) -> None:
    """Copies files at any depth of a folder, chosen by their path from it, to a local folder."""
    for name in filter(wanted, _listed(source, recursive=True)):
        path = target / _checked(name, f"{source}: {name}")
        content = read_bytes(source / name)
        # What is the same stays the same file, which a database of this process may have open.
        if not path.is_file() or path.read_bytes() != content:
            path.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(path, content)


def _listed(folder: RemotePath, *, recursive: bool = False) -> dict[str, int]:
    """Sizes of the files below a folder, by their path from it."""
    from pyarrow.fs import FileSelector, FileType

    filesystem = folder.filesystem
    with _told(folder, "listed"):
        found = filesystem.get_file_info(
            FileSelector(folder.key, allow_not_found=True, recursive=recursive)
        )
    start = len(folder.key) + 1
    return {entry.path[start:]: entry.size for entry in found if entry.type == FileType.File}


@lru_cache(maxsize=64)
def _filesystem(scheme: str, bucket: str, query: str) -> Any:
    from pyarrow.fs import FileSystem

    if scheme == "gs" and "retry_limit_seconds" not in query:
        query = f"{query}&retry_limit_seconds={GS_RETRY_SECONDS}".lstrip("&")
    filesystem, _ = FileSystem.from_uri(f"{scheme}://{bucket}" + (f"?{query}" if query else ""))
    return filesystem


def _checked(path: str, shown: str) -> str:
    """A path below a folder, as it came.

    Raises:
        ConfigError: If it leads out of it.
    """
    if not path or any(part in ("", ".", "..") for part in path.split("/")):
        raise ConfigError(f"{shown}: expected a path without empty parts, '.' and '..'.")
    return path


def has_gone(file: Place, error: Exception) -> bool:
    """Whether what an SDK says comes of a file that was removed since it was opened."""
    if isinstance(file, Path) or "GetObject" not in str(error):
        return False
    with suppress(MapspaceError):
        return not file.exists()
    return False


@contextmanager
def _told(path: RemotePath, doing: str) -> Iterator[None]:
    """Turns what an SDK says into one line; a missing file stays a `FileNotFoundError`."""
    from pyarrow import ArrowException

    try:
        yield
    except FileNotFoundError:
        raise
    except (OSError, ArrowException) as error:
        if has_gone(path, error):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path)) from error
        text = str(error)
        first = text.splitlines()[0]
        known = (reason for marks, reason in _REASONS if any(mark in text for mark in marks))
        # ArrowInvalid is a ValueError: an option of the URI that the user has to correct.
        kind = ConfigError if isinstance(error, ValueError) else MapspaceError
        raise kind(f"{path}: cannot be {doing}: {next(known, first)}.") from error

"""Folders that may be URIs, for the command line, for Ray and for tools that know local files."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from mapspace.bounded_reading import read_bytes
from mapspace.errors import ConfigError
from mapspace.storage import Place, RemotePath, download, make_folder, place, write_atomically
from orchestrator.runs.mlflow_client import ARTIFACTS_FOLDER, DATABASE_FILE

RUNS = Path("runs")
COPIES = "remote"


class PlaceParam(click.ParamType[Place]):
    """A local path or a URI of object storage; a plain path type would lose a slash of `s3://`."""

    name = "path or uri"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> Place:
        """The place that a text names."""
        if value == "":
            self.fail("expected a path or a URI, got an empty text.", param, ctx)
        if value == "-":
            self.fail(
                "expected a path or a URI, got '-': without the option answers are printed; a file "
                "of that name is ./-.", param, ctx
            )  # fmt: skip
        return place(value)


def ray_storage(folder: Place) -> dict[str, Any]:
    """Where Ray Train keeps its state, as arguments of its `RunConfig`."""
    if isinstance(folder, Path):
        from orchestrator.runs.atomic_filesystem import whole_files

        return {"storage_path": str(folder.resolve()), "storage_filesystem": whole_files()}
    return {"storage_path": folder.key, "storage_filesystem": folder.filesystem}


@contextmanager
def local_file(path: Place, *, there: bool = False) -> Iterator[Path]:
    """A local file that stands for a place: read from there, and written there if it changes.

    Args:
        path: A place; a local file stands for itself.
        there: Whether a remote file has to exist.

    Raises:
        ConfigError: If it has to and does not.
    """
    if isinstance(path, Path):
        yield path
        return
    if there and (path.is_dir() or not path.exists()):
        raise ConfigError(f"{path}: there is no such file.")
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / path.name
        before = None
        if path.exists():
            before = read_bytes(path)
            file.write_bytes(before)
        yield file
        if file.exists() and (content := file.read_bytes()) != before:
            write_atomically(path, content)


def fetched(file: RemotePath) -> Path:
    """A copy of a remote file below runs/remote.

    Raises:
        ConfigError: There is no such file.
    """
    copy = RUNS / COPIES / file.scheme / file.key
    try:
        content = read_bytes(file)
    except FileNotFoundError:
        raise ConfigError(f"{file}: there is no such file.") from None
    make_folder(copy.parent)
    write_atomically(copy, content)
    return copy


def local_copy(folder: Place, wanted: Callable[[str], bool]) -> Path:
    """The folder itself, or a local copy of a remote one, below runs/remote.

    Args:
        folder: A place.
        wanted: Which files are copied, by their path from the folder.
    """
    if isinstance(folder, Path):
        return folder
    target = RUNS / COPIES / folder.scheme / folder.key
    make_folder(target)
    download(folder, target, wanted)
    return target


def publish(copy: Path, names: Iterable[str], folder: Place) -> None:
    """Copies files that were written into a local copy to where it comes from."""
    if isinstance(folder, RemotePath):
        for name in names:
            write_atomically(folder / name, (copy / name).read_bytes())


@contextmanager
def local_view(folder: Place, wanted: Callable[[str], bool]) -> Iterator[Path]:
    """The folder itself, or a local copy: what a block writes there is published at its end.

    With it goes an MLflow store of its own, which is there as a whole before and after.

    Args:
        folder: a place.
        wanted: which files are copied, by their path from the folder.
    """
    copy = local_copy(folder, lambda name: _is_stored(name) or wanted(name))
    if copy == folder:
        yield copy
        return
    before = _written(copy)
    try:
        yield copy
    finally:
        # Also where a tracking server went away, so that the rest is sent to the same run.
        publish(
            copy,
            (name for name, when in _written(copy).items() if before.get(name) != when),
            folder,
        )


def _written(copy: Path) -> dict[str, tuple[int, int]]:
    """When the files of a folder were written, ns, and their sizes."""
    files = (path for path in sorted(copy.rglob("*")) if path.is_file())
    stats = ((path.relative_to(copy).as_posix(), path.stat()) for path in files)
    return {name: (found.st_mtime_ns, found.st_size) for name, found in stats}


def _is_stored(name: str) -> bool:
    """Whether a file, by its path from a folder of one run or of several, is of an MLflow store."""
    return not {DATABASE_FILE, ARTIFACTS_FOLDER}.isdisjoint(name.split("/")[:2])

"""What the machine code of a module rests on: a digest of all the source that it can reach.

Numba's disk cache looks only at the file of the function itself, so a change in a function that it
calls, in a constant that it reads or in the fields of a named tuple would go unnoticed. The digest
of this file follows names from the compiled functions of a module through the modules of the same
project. A statement that no compiled function reaches, an error message or a docstring, changes
nothing, nor does a library: where a project is installed among others, its own packages count.

Reading the statements of two dozen files takes as long as all other imports, so what a file says is
remembered on disk under the digest of its content.
"""

from __future__ import annotations

import ast
import hashlib
import json
import os
import sys
from collections.abc import Iterator
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any, TypedDict

import platformdirs

from mapspace.private_folder import private_folder, temporary_folder

_PROJECT = Path(__file__).resolve().parents[2]
_PACKAGES = frozenset(("costmodel", "mapspace", "orchestrator", "searchers", "surrogate"))
_FORMAT = "2"
Root = tuple[Path, frozenset[str] | None]
"""A folder in which modules are looked for, and the top packages that count (None: all of them)."""


@lru_cache(maxsize=1)
def cache_folder() -> Path | None:
    """The folder of compiled code; None where there is no folder that can be trusted.

    A folder that cannot be written, or that somebody else could write to, is replaced by one in
    the system's temporary folder, with a line on standard error.
    """
    usual = Path(platformdirs.user_cache_path("mapspace")) / "compiled"
    folder = private_folder(usual)
    if folder is None:
        folder = temporary_folder("compiled")
        instead = "is not kept" if folder is None else f"is kept in {folder}"
        print(
            f"mapspace: compiled code {instead}: {usual} cannot be written by this user alone.",
            file=sys.stderr,
        )
    return folder


class Source(TypedDict):
    """One file, read for what its names stand for.

    Attributes:
        statements: per name bound at the top of the file, digest and names read of each statement.
        imports: local name, module, name in it ("" for the module itself), level of a relative one.
        roots: names of the functions that a decorator treats.
    """

    statements: dict[str, list[tuple[str, list[str]]]]
    imports: list[tuple[str, str, str, int]]
    roots: list[str]


class Sources:
    """The files of a project, and what compiled functions can reach in them."""

    def __init__(self, memory: Path | None) -> None:
        """Takes the folder in which files that were read are remembered; None: nowhere."""
        self._memory = memory
        self._read: dict[Path, Source] = {}

    def digest(self, path: Path) -> str:
        """Digest of what the decorated functions of a file can reach within its project.

        Args:
            path: a Python file of this project, or of a package that extends it.

        Returns:
            64 hexadecimal digits.
        """
        path = path.resolve()
        beside = _package_parent(path)
        own = frozenset((path.relative_to(beside).with_suffix("").parts[0],))
        roots = (_root(beside, own), _root(_PROJECT, _PACKAGES))
        waiting = [(path, name) for name in self._source(path)["roots"]]
        reached: set[tuple[Path, str]] = set()
        parts: list[str] = []
        while waiting:
            where, name = waiting.pop()
            if (where, name) in reached:
                continue
            reached.add((where, name))
            source = self._source(where)
            for local, module, original, level in source["imports"]:
                if local == name:
                    waiting += self._origin(where, module, original, level, roots)
            for digest, names in source["statements"].get(name, ()):
                parts.append(f"{_module_of(where)} {name} {digest}")
                waiting += [(where, other) for other in names]
        return hashlib.sha256("\n".join(sorted(parts)).encode()).hexdigest()

    def _origin(
        self, where: Path, module: str, original: str, level: int, roots: tuple[Root, ...]
    ) -> list[tuple[Path, str]]:
        """Where a name that was imported is bound, as far as that lies in the project."""
        if level:
            roots = ((where.parents[level - 1], None),)
        inner = _file_of(f"{module}.{original}".strip("."), roots)
        if inner is not None:  # a whole module: everything in it counts
            return [(inner, name) for name in self._source(inner)["statements"]]
        outer = _file_of(module, roots)
        return [] if outer is None else [(outer, original)]

    def _source(self, path: Path) -> Source:
        if path not in self._read:
            content = path.read_bytes()
            name = hashlib.sha256(_FORMAT.encode() + content).hexdigest()
            file = None if self._memory is None else self._memory / f"{name}.json"
            source = _remembered(file)
            if source is None:
                source = _analyse(content)
                _remember(file, source)
            self._read[path] = source
        return self._read[path]


def _remembered(file: Path | None) -> Source | None:
    if file is None:
        return None
    try:
        digest, _, text = file.read_text().partition("\n")
    except (OSError, ValueError):
        return None
    if digest != hashlib.sha256(text.encode()).hexdigest():
        return None
    source: Source = json.loads(text)
    return source


def _remember(file: Path | None, source: Source) -> None:
    if file is None:
        return
    part = file.with_name(f"{file.name}.{os.getpid()}")
    try:
        file.parent.mkdir(mode=0o700, exist_ok=True)
        text = json.dumps(source)
        part.write_text(f"{hashlib.sha256(text.encode()).hexdigest()}\n{text}")
        part.replace(file)
    except OSError:  # a full disk costs time, nothing else
        with suppress(OSError):
            part.unlink()


def _package_parent(path: Path) -> Path:
    """The folder that holds the top package of a file."""
    folder = path.parent
    while (folder / "__init__.py").is_file():
        folder = folder.parent
    return folder


@lru_cache(maxsize=4096)
def _module_of(path: Path) -> str:
    """The dotted name of a file's module, which machine code imports when it is loaded."""
    return ".".join(path.relative_to(_package_parent(path)).with_suffix("").parts)


@lru_cache(maxsize=64)
def _root(folder: Path, own: frozenset[str]) -> Root:
    """A folder as a root: of a checkout all, of an installation what is named.

    Elsewhere `import numpy` would lead through all of NumPy and what that imports.
    """
    return folder, own if any(folder.glob("*.dist-info")) else None


@lru_cache(maxsize=4096)
def _file_of(module: str, roots: tuple[Root, ...]) -> Path | None:
    for root, own in roots:
        if own is not None and module.partition(".")[0] not in own:
            continue
        base = root.joinpath(*module.split("."))
        for path in (base.with_suffix(".py"), base / "__init__.py"):
            if module and path.is_file():
                return path
    return None


def _analyse(content: bytes) -> Source:
    source = Source(statements={}, imports=[], roots=[])
    for statement in ast.parse(content).body:
        parts = list(ast.walk(statement))
        if isinstance(statement, ast.FunctionDef) and statement.decorator_list:
            source["roots"].append(statement.name)
        for part in parts:
            source["imports"] += _imports(part)
        bound = set(_bound(statement, parts))
        if bound:
            names = sorted({part.id for part in parts if isinstance(part, ast.Name)})
            _cut_docstrings(parts)
            digest = hashlib.sha256(ast.dump(statement).encode()).hexdigest()[:32]
            for name in bound:
                source["statements"].setdefault(name, []).append((digest, names))
    return source


def _imports(part: ast.AST) -> Iterator[tuple[str, str, str, int]]:
    if isinstance(part, ast.Import):
        for alias in part.names:
            yield alias.asname or alias.name.partition(".")[0], alias.name, "", 0
    elif isinstance(part, ast.ImportFrom):
        for alias in part.names:
            yield alias.asname or alias.name, part.module or "", alias.name, part.level


def _bound(statement: ast.stmt, parts: list[ast.AST]) -> Iterator[str]:
    """The names that a statement at the top of a file binds, within blocks too."""
    if isinstance(statement, ast.FunctionDef | ast.ClassDef):
        yield statement.name
        return
    for part in parts:
        if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store):
            yield part.id
        elif isinstance(part, ast.FunctionDef | ast.ClassDef):
            yield part.name


def _cut_docstrings(parts: list[Any]) -> None:
    """They reach no machine code."""
    for part in parts:
        if isinstance(part, ast.FunctionDef | ast.ClassDef) and ast.get_docstring(part) is not None:
            part.body = part.body[1:]

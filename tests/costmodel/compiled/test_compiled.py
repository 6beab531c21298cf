"""Machine code on disk: never older than its source, made anew only for cause, never foreign."""

import gc
import os
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from numba.core import serialize
from paths import ROOT

from costmodel import compiled
from costmodel.compiled import kept, lean, sources
from costmodel.compiled.sources import Sources
from mapspace.private_folder import private_folder, temporary_folder

TOY = {
    "__init__.py": "",
    "errors.py": "class ToyError(Exception):\n    '''Old words.'''\n",
    "parts.py": '''
from typing import NamedTuple
from toy.errors import ToyError

SCALE = 3.0

class Pair(NamedTuple):
    """Two numbers."""
    left: float
    right: float

def refuse():
    raise ToyError("no")
''',
    "helper.py": '''
from costmodel.compiled import part
from toy import parts
from toy.parts import SCALE, Pair

@part
def scaled(pair: Pair) -> float:
    """Words."""
    return SCALE * pair.left
''',
    "main.py": """
from costmodel.compiled import lean
from toy.helper import scaled
from toy.parts import Pair

@lean
def answer(pair: Pair) -> float:
    return scaled(pair) + 1.0

print(answer(Pair(2.0, 5.0)), sum(answer.stats.cache_hits.values()))
""",
}

# Says that it is there; whoever compiles waits for the other one to be there, too.
WAITS = """
import os, time
from pathlib import Path
from numba.core import event

here = Path(os.environ["HERE"])

class Waits(event.Listener):
    def on_start(self, event):
        while len(list(here.iterdir())) < 2:
            time.sleep(0.01)
        time.sleep(0.1)

    def on_end(self, event):
        pass

event.register("numba:compile", Waits())
(here / str(os.getpid())).touch()
"""


@pytest.fixture
def toy(tmp_path: Path) -> Path:
    """A package that compiles a function, which calls another file's."""
    folder = tmp_path / "code" / "toy"
    folder.mkdir(parents=True)
    for name, text in TOY.items():
        (folder / name).write_text(text)
    return folder


def run(toy: Path, **environment: str) -> tuple[float, int, str]:
    """What a new process computes, how often it took machine code from disk, and its complaints."""
    path = os.pathsep.join([str(toy.parent), str(ROOT)])
    known = {**os.environ, "PYTHONPATH": path, "XDG_CACHE_HOME": str(toy.parent.parent / "cache")}
    # Bytecode of a file that is edited within a second and stays as long would be taken for new.
    done = subprocess.run(
        [sys.executable, "-B", "-m", "toy.main"],
        env={**known, **environment},
        capture_output=True,
        text=True,
        check=True,
    )
    number, hits = done.stdout.split()
    return float(number), int(hits), done.stderr


def run_two(toy: Path) -> list[int]:
    """How often two processes that begin together took machine code from disk."""
    edit(toy / "main.py", "print(answer", WAITS + "print(answer")
    here = toy.parent / "here"
    here.mkdir()
    with ThreadPoolExecutor(2) as pool:
        both = [pool.submit(run, toy, HERE=str(here)) for _ in range(2)]
        found = [one.result() for one in both]
    assert [number for number, *_ in found] == [7.0, 7.0]
    return sorted(hits for _, hits, _ in found)


def edit(file: Path, old: str, new: str) -> None:
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new))


def test_a_changed_helper_changes_the_number_in_the_next_process(toy: Path) -> None:
    assert run(toy)[:2] == (7.0, 0)
    assert run(toy)[:2] == (7.0, 1)
    edit(toy / "helper.py", "SCALE * pair.left", "SCALE * pair.left * 2.0")
    assert run(toy)[:2] == (13.0, 0)
    edit(toy / "parts.py", "SCALE = 3.0", "SCALE = 4.0")
    assert run(toy)[:2] == (17.0, 0)
    edit(toy / "parts.py", "    left: float\n    right: float", "    right: float\n    left: float")
    assert run(toy)[:2] == (41.0, 0)
    assert run(toy)[:2] == (41.0, 1)


def test_one_of_two_processes_compiles_and_the_other_waits_for_it(toy: Path) -> None:
    assert run_two(toy) == [0, 1]


def test_where_nothing_can_be_locked_each_compiles(toy: Path) -> None:
    run(toy)
    (lock,) = (toy.parent.parent / "cache").rglob("*.lock")
    lock.unlink()
    lock.mkdir()
    lock.with_suffix(".nbi").unlink()
    assert run(toy)[:2] == (7.0, 0)
    assert run(toy)[:2] == (7.0, 1)


def test_what_another_process_was_sent_is_compiled_there() -> None:
    @lean
    def added(number: float) -> float:
        return number + 1.0

    code = f"import pickle; print(pickle.loads({serialize.dumps(added)!r})(2.0))"
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout == "3.0\n"


def test_errors_and_words_recompile_nothing(toy: Path) -> None:
    run(toy)
    edit(toy / "errors.py", "Old words.", "New words.")
    edit(toy / "parts.py", 'raise ToyError("no")', 'raise ToyError("never")')
    edit(toy / "helper.py", '"""Words."""', '"""Other words."""')
    assert run(toy)[:2] == (7.0, 1)


def test_a_moved_helper_is_compiled_anew(toy: Path) -> None:
    """Machine code imports by name what it calls."""
    run(toy)
    rooms = toy / "rooms"
    rooms.mkdir()
    (rooms / "__init__.py").touch()
    (toy / "helper.py").rename(rooms / "helper.py")
    edit(toy / "main.py", "toy.helper", "toy.rooms.helper")
    assert run(toy)[:2] == (7.0, 0)


def test_the_whole_of_a_module_counts_where_the_module_is_read(toy: Path) -> None:
    edit(toy / "helper.py", "SCALE * pair.left", "parts.SCALE * pair.left")
    before = Sources(None).digest(toy / "main.py")
    edit(toy / "parts.py", "SCALE = 3.0", "SCALE = 5.0")
    assert Sources(None).digest(toy / "main.py") != before


@pytest.mark.parametrize(
    ("file", "old", "new", "compiled_anew"),
    [
        ("searchers/compiled/random_numbers.py", "2.0**-53", "2.0**-60", True),
        ("costmodel/tile_chains/descent.py", "ROOM = 1 << 16", "ROOM = 1 << 15", True),
        (
            "mapspace/errors.py",
            "class MapspaceError(",
            "class Other: ...\nclass MapspaceError(",
            False,
        ),
        (
            "costmodel/problems/workloads.py",
            "def workload(",
            "def other(): ...\ndef workload(",
            False,
        ),
    ],
)
def test_this_projects_own_files(
    file: str, old: str, new: str, compiled_anew: bool, tmp_path: Path
) -> None:
    for package in ("costmodel", "mapspace", "searchers"):
        shutil.copytree(ROOT / package, tmp_path / package)
    users = [
        tmp_path / "searchers/compiled/structured_walk.py",
        tmp_path / "costmodel/tile_chains/descent.py",
    ]
    before = [Sources(None).digest(user) for user in users]
    edit(tmp_path / file, old, new)
    after = [Sources(None).digest(user) for user in users]
    assert (before != after) == compiled_anew


def test_installed_among_others_its_own_files_count_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And what one installation compiled serves another, and a checkout."""
    users = ("searchers/compiled/structured_walk.py", "costmodel/tile_chains/descent.py")
    checkout = [Sources(None).digest(ROOT / user) for user in users]
    for package in ("costmodel", "mapspace", "searchers"):
        shutil.copytree(ROOT / package, tmp_path / package)
    (tmp_path / "mapspace-0.1.0.dist-info").mkdir()
    libraries = [tmp_path / name / "__init__.py" for name in ("numba", "numpy", "platformdirs")]
    for library in libraries:
        library.parent.mkdir()
        library.write_text("import pygments\nnjit = int64 = user_cache_path = pygments.name\n")
    monkeypatch.setattr(sources, "_PROJECT", tmp_path)
    read = Sources(None)
    assert [read.digest(tmp_path / user) for user in users] == checkout
    assert not read._read.keys() & set(libraries)
    edit(tmp_path / "costmodel/tile_chains/descent.py", "if made == quota:", "if made >= quota:")
    changed = [Sources(None).digest(tmp_path / user) for user in users]
    assert changed[0] == checkout[0]
    assert changed[1] != checkout[1]


def test_an_installed_plug_in_counts_with_its_own_package(toy: Path) -> None:
    before = Sources(None).digest(toy / "main.py")
    (toy.parent / "toy-1.0.dist-info").mkdir()
    sources._root.cache_clear()
    assert Sources(None).digest(toy / "main.py") == before
    edit(toy / "parts.py", "SCALE = 3.0", "SCALE = 5.0")
    assert Sources(None).digest(toy / "main.py") != before


def test_the_packages_of_the_project_are_those_that_are_installed() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]
    assert {f"{name}*" for name in sources._PACKAGES} == set(project["packages"]["find"]["include"])


@pytest.mark.parametrize("library", ["numba", "llvmlite", "numpy"])
def test_a_new_version_of_what_compiles_compiles_anew(
    library: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stamp() -> str:
        kept._how.cache_clear()
        return kept.ProjectLocator(test_errors_and_words_recompile_nothing, __file__)._stamp

    before = stamp()
    monkeypatch.setattr(f"{library}.__version__", "99.0")
    assert stamp() != before
    monkeypatch.undo()
    assert stamp() == before


def test_what_is_remembered_of_a_file_is_what_it_says(toy: Path, tmp_path: Path) -> None:
    memory = tmp_path / "memory"
    fresh = Sources(None).digest(toy / "main.py")
    assert Sources(memory).digest(toy / "main.py") == fresh
    assert Sources(memory).digest(toy / "main.py") == fresh
    for file in memory.iterdir():
        file.write_text("{")
    assert Sources(memory).digest(toy / "main.py") == fresh
    for file in memory.iterdir():  # a flip that leaves it JSON
        file.write_bytes(file.read_bytes().replace(b"SCALE", b"SCALF"))
    assert Sources(memory).digest(toy / "main.py") == fresh


def flipped(content: bytes) -> bytes:
    return content[:-40] + bytes([content[-40] ^ 1]) + content[-39:]


@pytest.mark.parametrize(
    ("suffix", "damaged"),
    [
        ("nbi", (lambda content: b"", flipped)),
        ("nbc", (lambda content: content[:999], lambda content: bytes(len(content)), flipped)),
    ],
)
def test_damaged_machine_code_is_compiled_anew_with_a_line(
    toy: Path, suffix: str, damaged: tuple[Callable[[bytes], bytes], ...]
) -> None:
    run(toy)
    (file,) = (toy.parent.parent / "cache").rglob(f"*.{suffix}")
    for change in damaged:
        file.write_bytes(change(file.read_bytes()))
        line = f"mapspace: {file}: compiled code is damaged; it is compiled anew.\n"
        assert run(toy) == (7.0, 0, line)
    assert run(toy) == (7.0, 1, "")


@pytest.mark.parametrize("suffix", ["nbi", "nbc"])
def test_a_folder_in_the_place_of_machine_code_is_no_obstacle(toy: Path, suffix: str) -> None:
    run(toy)
    (file,) = (toy.parent.parent / "cache").rglob(f"*.{suffix}")
    file.unlink()
    file.mkdir()
    line = f"mapspace: {file}: compiled code cannot be read; it is compiled anew.\n"
    assert run(toy) == (7.0, 0, line)
    assert run(toy) == (7.0, 1, "")
    # One that holds something is left alone, and a file of the folder's name goes.
    file.unlink()
    (file / "mine").mkdir(parents=True)
    value, loaded, said = run(toy)
    assert (value, loaded) == (7.0, 0)
    assert said.startswith(line)
    assert f"{file}: compiled code is not kept" in said
    shutil.rmtree(file.parent)
    file.parent.write_text("")
    assert run(toy) == (7.0, 0, "")


def test_a_folder_is_made_for_its_user_alone(tmp_path: Path) -> None:
    folder = private_folder(tmp_path / "one" / "two")
    assert folder is not None
    assert folder.stat().st_mode & 0o777 == 0o700
    folder.chmod(0o755)
    assert private_folder(folder) == folder
    assert folder.stat().st_mode & 0o777 == 0o700


def test_a_folder_that_others_can_replace_is_not_trusted(tmp_path: Path) -> None:
    open_to_all = tmp_path / "open"
    open_to_all.mkdir()
    open_to_all.chmod(0o777)
    assert private_folder(open_to_all / "mine") is None
    open_to_all.chmod(0o1777)  # as /tmp: nobody can rename what is another's
    assert private_folder(open_to_all / "mine") is not None


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give a folder away")
def test_a_folder_of_somebody_else_is_not_trusted(tmp_path: Path) -> None:
    planted = tmp_path / "planted"
    planted.mkdir()
    os.chown(planted, 12345, 12345)
    assert private_folder(planted) is None


def test_a_planted_link_is_followed_to_who_owns_it(tmp_path: Path) -> None:
    open_to_all = tmp_path / "open"
    (open_to_all / "trap").mkdir(parents=True)
    open_to_all.chmod(0o777)
    (tmp_path / "link").symlink_to(open_to_all / "trap")
    assert private_folder(tmp_path / "link") is None


def test_a_taken_name_in_the_temporary_folder_gives_a_new_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    first = temporary_folder("things")
    assert first == temporary_folder("things")
    (tmp_path / f"mapspace-{os.getuid()}").chmod(0o777)
    second = temporary_folder("things")
    assert second is not None
    assert second != first
    assert second.stat().st_mode & 0o777 == 0o700


def test_a_cache_that_cannot_be_trusted_is_left_with_a_line(toy: Path, tmp_path: Path) -> None:
    open_to_all = tmp_path / "everybodys"
    open_to_all.mkdir()
    open_to_all.chmod(0o777)
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    number, _, complaint = run(toy, XDG_CACHE_HOME=str(open_to_all), TMPDIR=str(temporary))
    assert number == 7.0
    assert complaint.count("\n") == 1
    assert str(temporary) in complaint
    assert run(toy, XDG_CACHE_HOME=str(open_to_all), TMPDIR=str(temporary))[:2] == (7.0, 1)
    assert list((temporary / f"mapspace-{os.getuid()}").rglob("*.nbi"))


def test_no_garbage_is_collected_while_compiling() -> None:
    import numba
    from numba.core import event

    seen = []

    class Watch(event.Listener):  # type: ignore[misc]
        def on_start(self, event: object) -> None:
            seen.append(gc.isenabled())

        def on_end(self, event: object) -> None:
            seen.append(gc.isenabled())

    with event.install_listener("numba:run_pass", Watch()):
        assert compiled.lean(lambda x: x + 1)(2) == 3
        with pytest.raises(numba.TypingError):
            numba.njit(lambda x: x.missing)(2)
    assert seen
    assert not any(seen)
    assert gc.isenabled()


def test_operators_are_looked_up_once() -> None:
    """And Numba still has the members that this rests on."""
    import numba
    from numba.core import types
    from numba.core.types.functions import BaseFunction

    from costmodel.compiled import shortcuts

    assert BaseFunction.get_call_type is shortcuts._signature
    assert callable(shortcuts._SEARCH)

    def product(x: int, y: int) -> int:
        return x * y + x * y

    assert numba.njit(product)(3, 4) == 24
    before = len(shortcuts._found)
    multiplied = [
        key for key in shortcuts._found if getattr(key[0].typing_key, "__name__", "") == "mul"
    ]
    assert any(key[3] == (types.int64, types.int64) for key in multiplied)

    def square(x: int) -> int:
        return x * x

    assert numba.njit(square)(5) == 25
    assert len(shortcuts._found) == before
    assert numba.njit(square)(0.5) == 0.25
    assert len(shortcuts._found) == before + 1


def test_scipy_is_imported_for_products_of_matrices_alone() -> None:
    """By compiled code of others; in a process of its own, as this one has imported much."""
    code = """
import sys
import numba
import numpy as np
from costmodel import LoopNestModel, MapSpace, accelerator, workload
space = MapSpace(workload("gemm:M=8,N=8,K=8"), accelerator("mm256"))
LoopNestModel().evaluate(space, space.sample(np.random.default_rng(0), 4))
assert "scipy.linalg" not in sys.modules, "imported"
matrix = np.arange(4.0).reshape(2, 2)
assert (numba.njit(lambda a: np.dot(a, a))(matrix) == matrix @ matrix).all(), "product"
assert "scipy.linalg" in sys.modules, "not imported"
line = np.arange(5.0)
assert (numba.njit(lambda a: np.convolve(a, a))(line) == np.convolve(line, line)).all(), "line"
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_the_models_lean_code_has_no_index_from_the_end() -> None:
    """Its indices are taken as they are; other code may count from the end."""
    import numba
    from numba.core.errors import LoweringError

    def last(values: np.ndarray) -> int:
        return int(values[-1])

    assert numba.njit(_nrt=False)(last)(np.arange(3)) == 2

    def of_the_model(values: np.ndarray) -> int:
        return int(values[-1])

    of_the_model.__module__ = "costmodel.loop_nest.example"
    assert numba.njit(of_the_model)(np.arange(3)) == 2
    with pytest.raises(LoweringError, match="no index -1: count from the front"):
        numba.njit(_nrt=False)(of_the_model)(np.arange(3))

"""Which one-place changes of a source file `tests/mutants.py` makes, and which it leaves out."""

from __future__ import annotations

import ast
import copy
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from paths import ROOT, SUPPORT

COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq, ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
}  # fmt: skip
ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.FloorDiv, ast.FloorDiv: ast.Mult,
    ast.Div: ast.Mult, ast.Mod: ast.Mult, ast.Pow: ast.Mult, ast.LShift: ast.RShift,
    ast.RShift: ast.LShift, ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd,
}  # fmt: skip
SWAPPED = {"min": "max", "max": "min", "any": "all", "all": "any", "minimum": "maximum"}


class Unseen(NamedTuple):
    """A change that no answer shows."""

    file: str
    function: str
    """The innermost function or class around it; empty for the file's own level."""
    code: str
    """The expression or statement as `ast.unparse` writes it."""
    becomes: str
    """What it is after the change."""
    reason: str


class Place(NamedTuple):
    """A node whose change may change what code does."""

    parent: ast.AST
    field: str
    index: int | None
    """In the parent's field, where that is a list."""
    node: ast.AST
    function: str
    """The innermost function or class around it; empty for the file's own level."""
    around: tuple[ast.AST, ...]
    """The node and what it lies in, up to its statement."""


class Mutant(NamedTuple):
    """One change of a file."""

    file: str
    tree: ast.Module
    place: Place
    new: ast.AST
    """What replaces the place's node."""

    @property
    def name(self) -> dict[str, str | int]:
        """Where, what stands there and what it becomes: JSON, and no other mutant has it."""
        node = self.place.node
        return {
            "file": self.file,
            "line": getattr(node, "lineno", 0),
            "column": getattr(node, "col_offset", 0),
            "was": ast.unparse(node),
            "becomes": ast.unparse(self.new),
        }

    @property
    def source(self) -> str:
        """The broken file."""
        self.put(self.new)
        source = ast.unparse(ast.fix_missing_locations(self.tree))
        self.put(self.place.node)
        return source

    @property
    def around(self) -> list[str]:
        """What the node and what it lies in, up to its statement, become."""
        self.put(self.new)
        nodes = (self.new, *self.place.around[1:])
        texts = [ast.unparse(ast.fix_missing_locations(node)) for node in nodes]
        self.put(self.place.node)
        return texts

    def put(self, node: ast.AST) -> None:
        """Puts a node into the mutant's place."""
        parent, field, index, *_ = self.place
        if index is None:
            setattr(parent, field, node)
        else:
            getattr(parent, field)[index] = node


COLUMN_0 = "column 0 is a factorisation, never a choice of the machine; no column is -1"
SLOT_0 = "slot 0 is the outermost level's own loops, never a spatial slot; none is -1"
INFINITE = "a bandwidth over no words is infinite, of which the least is not taken"
UNDERFLOW = "e^-700 and e^-701 are below every share and every random number"
KERNEL = "costmodel/loop_nest/cost_kernel.py"
GROUPS = "costmodel/loop_nest/spatial_groups.py"
NETWORKS = "costmodel/loop_nest/networks.py"
NESTS = "costmodel/loop_nest/nest_tables.py"
NUMBERED = "np.arange(batch * 2 * levels).reshape(batch"
SIZE_FOUND = "to NumPy any negative size is the one to be found"
FEASIBLE = "costmodel/arrays/feasibility.py"
EQUIVALENT: tuple[Unseen, ...] = (
    Unseen(FEASIBLE, "check_fanout", "slot < 0", "slot <= 0", SLOT_0),
    Unseen(FEASIBLE, "check_fanout", "slot < 0", "slot < 1", SLOT_0),
    Unseen(FEASIBLE, "check_fanout", "column < 0", "column <= 0", COLUMN_0),
    Unseen(FEASIBLE, "check_fanout", "column < 0", "column < 1", COLUMN_0),
    Unseen(FEASIBLE, "axes_in_use", "column < 0", "column <= 0", COLUMN_0),
    Unseen(FEASIBLE, "axes_in_use", "column < 0", "column < 1", COLUMN_0),
    Unseen(FEASIBLE, "check_capacity", "column >= 0", "column > 0", COLUMN_0),
    Unseen(FEASIBLE, "check_capacity", "column >= 0", "column >= 1", COLUMN_0),
    Unseen(FEASIBLE, "check_capacity", "bank_row = -1", "bank_row = -2", "only its sign is read"),
    Unseen(FEASIBLE, "check_capacity", "capacity < 0", "capacity <= 0", "none has 0 words"),
    Unseen(FEASIBLE, "check_capacity", "capacity < 0", "capacity < 1", "none has 0 words"),
    Unseen(FEASIBLE, "check_capacity", "tile[t] = 0", "tile[t] = 1", "read only where kept"),
    Unseen(FEASIBLE, "_check_spread", "slot < 0", "slot <= 0", SLOT_0),
    Unseen(FEASIBLE, "_check_spread", "slot < 0", "slot < 1", SLOT_0),
    Unseen(
        FEASIBLE, "check_fanout", "max(0, along_x - tables.mesh[level, 0])",
        "max(1, along_x - tables.mesh[level, 0])", "the other axis is over by 1 at least",
    ),
    Unseen(NESTS, "nest_tables", f"{NUMBERED}, -1)", f"{NUMBERED}, -2)", SIZE_FOUND),
    Unseen(
        NESTS, "nest_tables", "masks.reshape(batch, -1)", "masks.reshape(batch, -2)", SIZE_FOUND
    ),
    Unseen(NESTS, "nest_tables", "orders.reshape(-1, n)", "orders.reshape(-2, n)", SIZE_FOUND),
    Unseen(
        "costmodel/map_space/real_points.py", "encode", "c >= 0", "c >= 1", COLUMN_0,
    ),
    Unseen(
        "costmodel/map_space/real_points.py", "encode", "c >= 0", "c > 0", COLUMN_0,
    ),
    Unseen(
        "searchers/evaluator.py", "_count", "np.arange(1, len(codes) + 1) * counted",
        "np.arange(1, len(codes) + 1) // counted", "NumPy's whole numbers over 0 are 0",
    ),
    Unseen(GROUPS, "sort", "gap * 3 + 1", "gap * 3 + 2", "any gaps that end with 1 sort"),
    Unseen(
        GROUPS, "sort", "values[j - gap] > value", "values[j - gap] >= value",
        "equal values in another order are the same values",
    ),
    Unseen(
        GROUPS, "distinct_sums", "second_step >= first * first_step",
        "second_step > first * first_step", "the formula below says the same of the edge",
    ),
    Unseen(
        GROUPS, "distinct_sums", "first_step >= second * second_step",
        "first_step > second * second_step", "the formula below says the same of the edge",
    ),
    Unseen(GROUPS, "tile_key", "factor > 1", "factor >= 1", "a loop of one step adds nothing"),
    Unseen(
        NETWORKS, "hops_per_delivery",
        "offsets[axis] += tables.coefficient_of[t, d] * inside[d] * index",
        "offsets[axis] -= tables.coefficient_of[t, d] * inside[d] * index",
        "the same tiles coincide in the mirror image",
    ),
    Unseen(KERNEL, "_level_cycles", "reading > 0", "reading >= 0", INFINITE),
    Unseen(KERNEL, "_level_cycles", "writing > 0", "writing >= 0", INFINITE),
    Unseen(KERNEL, "_level_cycles", "reading + writing > 0", "reading + writing >= 0", INFINITE),
    Unseen(KERNEL, "_count_instances", "slot >= 0", "slot > 0", SLOT_0),
    Unseen(KERNEL, "_count_instances", "slot >= 0", "slot >= 1", SLOT_0),
    Unseen(
        "searchers/annealing.py", "acceptance", "700.0", "701.0", UNDERFLOW,
    ),
    Unseen(
        "searchers/annealing.py", "find_temperatures",
        "acceptance(hottest) < initial_acceptance", "acceptance(hottest) <= initial_acceptance",
        "the next loop takes the step back",
    ),
    Unseen("searchers/shared/projected_descent.py", "_accepts", "700.0", "701.0", UNDERFLOW),
    Unseen(
        "searchers/shared/projected_descent.py", "", "UNGROUPED = -2", "UNGROUPED = -3",
        "any name will do",
    ),
    Unseen(
        "searchers/shared/projected_descent.py", "_round", "visits[-1][0]", "visits[-1][1]",
        "codes and values of a visit are as many",
    ),
    Unseen(
        "searchers/shared/projected_descent.py", "_step_relative", "np.where(factor, points, 1.0)",
        "np.where(factor, points, 2.0)", "the slope is divided by the steepest of its kind",
    ),
    Unseen(
        "searchers/genetic.py", "_breed", "missing <= 0", "missing < 0",
        "where nobody is missing, the turns that are left breed nobody and draw nothing",
    ),
    Unseen("searchers/genetic.py", "_breed", "break", "continue", "as for the line above"),
    Unseen(
        "searchers/genetic.py", "_mutate", "moves.max(initial=0)", "moves.max(initial=1)",
        "where nothing is struck, moves of no rows draw nothing",
    ),
    Unseen(
        "orchestrator/sweep/proofs.py", "_best_known",
        "_searched(space, objective, SEARCHED_ITERATIONS, limit_seconds)[:1]",
        "_searched(space, objective, SEARCHED_ITERATIONS, limit_seconds)[:2]",
        "a search finds one mapping at most",
    ),
    Unseen(
        "orchestrator/sweep/run.py", "_proofs", "load_compiled()", "pass",
        "workers then compile, each by itself, and answer the same",
    ),
    Unseen(
        "orchestrator/store/canonical.py", "_order", "2 * colour", "3 * colour",
        "only the ranks of the colours are read, and one of them comes before its equals",
    ),
    Unseen(
        "orchestrator/design/branching.py", "settle", "self._ratio(box) > 1 + ROUNDING",
        "self._ratio(box) >= 1 + ROUNDING", "what lies within rounding may be either",
    ),
    Unseen(
        "orchestrator/networks/jointly.py", "_own_weight", "2 if self.objective == 'ed2p' else 1",
        "2 if self.objective == 'ed2p' else 2", "a weight to begin with: any leads to the optimum",
    ),
    Unseen(
        "orchestrator/store/sql.py", "_in_time", "timer.daemon = True", "timer.daemon = False",
        "it is ended and waited for in every case",
    ),
    Unseen(
        "costmodel/machines/component_library.py", "_figures", "read * 1000000000000.0",
        "read * 1000000000001.0", "figures are rounded to few digits",
    ),
    Unseen(
        "costmodel/machines/component_library.py", "_figures", "write * 1000000000000.0",
        "write * 1000000000001.0", "figures are rounded to few digits",
    ),
    Unseen(
        "mapspace/parquet_parts.py", "read",
        "self._file.read_row_groups(list(parts), chosen, use_threads=False)",
        "self._file.read_row_groups(list(parts), chosen, use_threads=True)",
        "the same table; threads only crash while an interpreter ends (apache/arrow#34314)",
    ),
)  # fmt: skip


def changed(node: ast.AST, **fields: object) -> ast.AST:
    """A copy with other fields."""
    other = copy.copy(node)
    for name, value in fields.items():
        setattr(other, name, value)
    return other


def replacements(node: ast.AST) -> Iterator[ast.AST]:
    """What a node may become."""
    match node:
        # A fresh random number meets a bound exactly once in 2^53 draws.
        case ast.Compare(left=drawn) if ".random(" in ast.unparse(drawn):
            return
        case ast.Compare(ops=[op, *rest]) if type(op) in COMPARISONS:
            yield changed(node, ops=[COMPARISONS[type(op)](), *rest])
        case ast.BinOp(op=op) | ast.AugAssign(op=op) if type(op) in ARITHMETIC:
            yield changed(node, op=ARITHMETIC[type(op)]())
            if isinstance(node, ast.AugAssign):
                yield ast.Pass()
        case ast.BoolOp(op=both):
            yield changed(node, op=ast.Or() if isinstance(both, ast.And) else ast.And())
        case ast.UnaryOp(op=ast.Not() | ast.USub(), operand=operand):
            yield operand
        case ast.Constant(value=bool(value)):
            yield ast.Constant(not value)
        case ast.Constant(value=int(value) | float(value)):
            yield ast.Constant(value + 1)
        case ast.Expr(value=ast.Call()) | ast.Continue():
            yield ast.Pass()
        case ast.Break():
            yield ast.Continue()
        case ast.Name(id=name) if name in SWAPPED:
            yield ast.Name(SWAPPED[name], ast.Load())
        case ast.Attribute(attr=name) if name in SWAPPED:
            yield changed(node, attr=SWAPPED[name])


def places(tree: ast.AST, function: str = "", around: tuple[ast.AST, ...] = ()) -> Iterator[Place]:
    """Every place whose node decides what code does.

    Not: annotations, decorators, assertions, what is raised, the parameters' defaults, and whether
    `zip` would complain of unequal lengths.
    """
    left_out = (ast.Raise, ast.Assert, ast.arguments)
    if isinstance(tree, ast.FunctionDef | ast.ClassDef):
        function = tree.name
    for field, value in ast.iter_fields(tree):
        if field in ("annotation", "returns", "decorator_list"):
            continue
        for index, child in enumerate(value if isinstance(value, list) else [value]):
            if not isinstance(child, ast.AST) or isinstance(child, left_out):
                continue
            if isinstance(child, ast.keyword) and child.arg == "strict":
                continue
            outside = () if isinstance(child, ast.stmt) else around
            at = index if isinstance(value, list) else None
            yield Place(tree, field, at, child, function, (child, *outside))
            yield from places(child, function, (child, *outside))


def broken(source: str, function: str, was: str, becomes: str) -> str:
    """A source whose function has one expression or assignment for another, wherever it stands.

    Compared as code, whatever its layout; `function` is empty for the file's own level. Fails where
    the function does not say it any more.
    """
    tree = ast.parse(source)
    old, new = (ast.parse(code).body[0] for code in (was, becomes))
    if isinstance(old, ast.Expr) and isinstance(new, ast.Expr):
        old, new = old.value, new.value
    said = ast.unparse(old)
    found = [p for p in places(tree) if p.function == function and ast.unparse(p.node) == said]
    assert found, f"{function or 'the file'} no longer says {said!r}"
    for place in found:
        Mutant("", tree, place, new).put(new)
    return ast.unparse(ast.fix_missing_locations(tree))


def broken_copy(folder: Path, *changes: tuple[str, ...]) -> None:
    """Copies the sources of the proofs; in files of them something is changed (`broken`)."""
    for package in ("costmodel", "mapspace"):
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / package, folder / package, ignore=ignored)
    for file, *change in changes:
        path = folder / "costmodel" / file
        path.write_text(broken(path.read_text(), *change))


def checked(folder: Path, code: str, problems: Path) -> subprocess.CompletedProcess[str]:
    """Runs a check, interpreted, on a copy of the sources and a file of problems."""
    path = os.pathsep.join([str(folder), str(SUPPORT)])
    environment = {**os.environ, "NUMBA_DISABLE_JIT": "1", "PYTHONPATH": path}
    command = [sys.executable, "-W", "ignore", "-c", code, str(problems)]
    return subprocess.run(
        command, env=environment, capture_output=True, text=True, cwd=folder, check=False
    )


def unseen(mutant: Mutant) -> Unseen | None:
    """The entry of EQUIVALENT that a mutant is."""
    entries = [
        entry
        for entry in EQUIVALENT
        if (entry.file, entry.function) == (mutant.file, mutant.place.function)
    ]
    if not entries:
        return None
    before = [ast.unparse(node) for node in mutant.place.around]
    after = mutant.around
    pairs = list(zip(before, after, strict=True))
    return next((entry for entry in entries if (entry.code, entry.becomes) in pairs), None)


def every_change(file: str) -> list[Mutant]:
    """The changes of a file, those that no answer shows among them."""
    tree = ast.parse((ROOT / file).read_text())
    return [
        Mutant(file, tree, place, new) for place in places(tree) for new in replacements(place.node)
    ]


def mutants(file: str) -> list[Mutant]:
    """The mutants of a file."""
    return [mutant for mutant in every_change(file) if unseen(mutant) is None]

"""Edits: numbered, deterministic changes of candidates that keep what is feasible feasible."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from costmodel import Codes, ContractError, MapSpace, accelerator
from costmodel.problems.workload_families import cnn, gemm
from mapspace.testing.toy_space import CARDINALITY, LIMIT, ToySpace

NEST = cnn(name="c", N=2, K=16, C=12, P=10, Q=10, R=3, S=3)
SEEDS = st.integers(0, 2**32 - 1)


def machine(name: str, *levels: dict[str, Any], **settings: Any) -> Any:
    return accelerator({"name": "test", "extends": name, "levels": list(levels), **settings})


def spaces() -> dict[str, Any]:
    """Every kind of attribute; where little fits, edits stand in each other's way."""
    mesh = {"name": "L2", "mesh": [4, 4], "fanout": 16, "hop_energy_pj": 0.5}
    small = ({**mesh, "capacity_words": 2048}, {"name": "L1", "capacity_words": 256, "banks": 8})
    return {
        "mm256": MapSpace(NEST, accelerator("mm256")),
        "tight": MapSpace(
            NEST,
            machine(
                "mm256",
                {"name": "L2", "capacity_words": 2048, "fanout": 8},
                {"name": "L1", "capacity_words": 256},
            ),
        ),
        "banks": MapSpace(NEST, accelerator("mindmappings")),
        "bypass": MapSpace(NEST, accelerator("mm256-bypass")),
        "overflow": MapSpace(NEST, accelerator("mindmappings-released")),
        "eyeriss": MapSpace(NEST, accelerator("eyeriss-168")),
        "mesh": MapSpace(NEST, machine("eyeriss-168", {**mesh, "mesh": [12, 14], "fanout": 168})),
        "everything": MapSpace(NEST, machine("mindmappings", *small, bypass="searched")),
        "ones": MapSpace(cnn(name="o", N=1, K=2, C=1, P=3, Q=1, R=1, S=1), accelerator("mm256")),
        "one": MapSpace(gemm(name="i", M=1, N=1, K=1), accelerator("mindmappings")),
        "toy": ToySpace(),
    }


SPACES = spaces()
every_space = pytest.mark.parametrize("space", SPACES.values(), ids=SPACES)
map_spaces = pytest.mark.parametrize(
    "space", [space for name, space in SPACES.items() if name != "toy"], ids=list(SPACES)[:-1]
)


def draw(space: Any, seed: int, rows: int = 64) -> tuple[Codes, np.ndarray]:
    """Candidates, half of them surely feasible, and edits of a random share of attributes."""
    rng = np.random.default_rng(seed)
    half = rows // 2
    codes = np.concatenate([space.sample(rng, half, feasible=True), space.sample(rng, half)])
    edits = rng.integers(0, space.edit_choices, codes.shape)
    return codes, edits * (rng.random(codes.shape) < rng.random())


def single_edits(space: Any) -> np.ndarray:
    """Every edit of one attribute, `[M, D]`."""
    rows = []
    for column, choices in enumerate(space.edit_choices):
        rows.append(np.zeros((choices - 1, len(space.edit_choices)), np.int64))
        rows[-1][:, column] = np.arange(1, choices)
    return np.concatenate(rows)


@map_spaces
def test_numbers_of_edits(space: MapSpace) -> None:
    n, slots, tensors = (
        len(space.workload.dimensions),
        len(space.tables.slot_level),
        len(space.workload.tensors),
    )
    expected = {
        "order": 1 + n * (n - 1) // 2,
        "spatial-order": 1 + n * (n - 1) // 2,
        "spatial-axis": 1 + n,
        "banks": 1 + tensors * (tensors - 1),
        "keep": 1 + tensors,
    }
    primes = {1: 0, 2: 1, 3: 1, 10: 2, 12: 2, 16: 1}
    sizes = iter(space.workload.dimensions.values())
    for kind, choices in zip(space.attribute_kinds, space.edit_choices, strict=True):
        if kind == "tiling":
            assert choices == 1 + primes[next(sizes)] * slots * (slots - 1)
        else:
            assert choices == expected[kind]
    assert space.edit_choices.dtype == np.int64


def test_spaces_have_every_kind() -> None:
    kinds = set(SPACES["everything"].attribute_kinds)
    assert kinds == {"tiling", "order", "spatial-order", "spatial-axis", "banks", "keep"}


@every_space
@given(seed=SEEDS)
@settings(max_examples=10)
def test_no_edit_changes_nothing(space: Any, seed: int) -> None:
    codes, edits = draw(space, seed)
    assert np.array_equal(space.edit(codes, np.zeros_like(edits)), codes)


@every_space
@given(seed=SEEDS)
@settings(max_examples=30)
def test_feasible_stays_feasible(space: Any, seed: int) -> None:
    codes, edits = draw(space, seed)
    edited = space.edit(codes, edits)
    space.check(edited)
    assert edited.dtype == np.int32
    assert space.feasible(edited)[space.feasible(codes)].all()
    assert np.array_equal(edited[edits == 0], codes[edits == 0])
    assert np.array_equal(edited, space.edit(codes, edits))


@map_spaces
@given(seed=SEEDS)
@settings(max_examples=15)
def test_single_edits_are_the_neighbours(space: MapSpace, seed: int) -> None:
    edits = single_edits(space)
    codes, _ = draw(space, seed, rows=4)
    for code, fits in zip(codes, space.feasible(codes), strict=True):
        edited = space.edit(np.repeat(code[None], len(edits), axis=0), edits)
        reached = edited[(edited != code).any(axis=1)]
        known = space.neighbours(code)
        if fits:
            known = known[space.feasible(known)]
        # As sorted lists: every neighbour is reached, and by one edit only.
        assert sorted(reached.tolist()) == sorted(known.tolist())


@map_spaces
@given(seed=SEEDS)
@settings(max_examples=15)
def test_every_edit_has_its_reverse(space: MapSpace, seed: int) -> None:
    code = space.sample(np.random.default_rng(seed), 1, feasible=True)[0]
    edits = single_edits(space)
    edited = space.edit(np.repeat(code[None], len(edits), axis=0), edits)
    columns = edits.argmax(axis=1)
    slots, tensors = len(space.tables.slot_level), len(space.workload.tensors)

    def reverse(kind: str, edit: int) -> int:
        places = {"tiling": slots, "banks": tensors}.get(kind)
        if places is None:
            return edit
        pairs = [(a, b) for a in range(places) for b in range(places) if a != b]
        prime, pair = divmod(edit - 1, len(pairs))
        return 1 + prime * len(pairs) + pairs.index(pairs[pair][::-1])

    back = np.zeros_like(edits)
    for row, column in enumerate(columns):
        back[row, column] = reverse(space.attribute_kinds[column], int(edits[row, column]))
    moved = (edited != code).any(axis=1)
    assert (space.edit(edited, back)[moved] == code).all()


def one_by_one(space: Any, codes: Codes, edits: np.ndarray, tries: int) -> Codes:
    """The edits made by calls of one column each; what changed nothing has another try."""
    waiting = edits.copy()
    for _ in range(tries):
        for column in range(edits.shape[1]):
            alone = np.zeros_like(edits)
            alone[:, column] = waiting[:, column]
            edited = space.edit(codes, alone)
            waiting[edited[:, column] != codes[:, column], column] = 0
            codes = edited
    return codes


@every_space
@given(seed=SEEDS)
@settings(max_examples=15)
def test_edits_are_made_one_after_another(space: Any, seed: int) -> None:
    codes, edits = draw(space, seed)
    codes, edits = codes[space.feasible(codes)], edits[space.feasible(codes)]
    assert np.array_equal(space.edit(codes, edits), one_by_one(space, codes, edits, 2))


def test_edits_have_two_tries() -> None:
    space, rng = SPACES["everything"], np.random.default_rng(0)
    codes = space.sample(rng, 20_000, feasible=True)
    edits = rng.integers(0, space.edit_choices, codes.shape)
    edited = space.edit(codes, edits)
    # That all of this happens among so many is luck, but the same luck every time.
    assert (edited != one_by_one(space, codes, edits, 1)).any()
    assert np.array_equal(edited, one_by_one(space, codes, edits, 2))
    assert (edited != one_by_one(space, codes, edits, 3)).any()


@every_space
@given(seed=SEEDS)
@settings(max_examples=15)
def test_infeasible_rows_are_edited_regardless(space: Any, seed: int) -> None:
    codes, edits = draw(space, seed)
    codes, edits = codes[~space.feasible(codes)], edits[~space.feasible(codes)]
    together = space.edit(codes, edits)
    for column in range(codes.shape[1]):
        alone = np.zeros_like(edits)
        alone[:, column] = edits[:, column]
        assert np.array_equal(space.edit(codes, alone)[:, column], together[:, column])


@every_space
@given(seed=SEEDS)
@settings(max_examples=10)
def test_rows_do_not_see_each_other(space: Any, seed: int) -> None:
    codes, edits = draw(space, seed, rows=16)
    together = space.edit(codes, edits)
    assert np.array_equal(space.edit(codes[::-1], edits[::-1])[::-1], together)
    for row in range(len(codes)):
        assert np.array_equal(space.edit(codes[[row]], edits[[row]])[0], together[row])
    assert space.edit(codes[:0], edits[:0]).shape == (0, codes.shape[1])


@every_space
def test_arguments_stay_as_they_are(space: Any) -> None:
    codes, edits = draw(space, 0)
    before = codes.copy(), edits.copy()
    edited = space.edit(codes, edits)
    assert np.array_equal(codes, before[0])
    assert np.array_equal(edits, before[1])
    assert not np.shares_memory(edited, codes)


@pytest.mark.parametrize("kind", [np.int8, np.uint8, np.int32, np.uint64])
def test_any_integers_will_do(kind: type) -> None:
    space = SPACES["everything"]
    codes, edits = draw(space, 1)
    expected = space.edit(codes, edits)
    frozen = np.asfortranarray(edits.astype(kind))
    frozen.flags.writeable = False
    assert np.array_equal(space.edit(codes.astype(np.int64), frozen), expected)


def test_what_the_numbers_mean() -> None:
    space = MapSpace(gemm(name="g", M=4, N=1, K=12), accelerator("mm256"))
    # 4 slots make 12 moves of a prime; 4 has one distinct prime, 12 has two; 3 loops, 3 swaps.
    assert space.edit_choices.tolist() == [13, 1, 25, 4, 4, 4]
    # The last factorisation has everything in the outermost slot; order 0 is M, N, K.
    code = np.array([[space.cardinality[0] - 1, 0, space.cardinality[2] - 1, 0, 0, 0]], np.int32)
    # Slots are DRAM, L2, spatial, L1. M: 2 from DRAM to L1. K: 3 from DRAM to spatial.
    # DRAM: M and K swap; L1: N and K swap.
    edited = space.edit(code, np.array([[3, 0, 12 + 2, 2, 0, 3]]))
    dram, l2, l1 = space.describe(edited[0]).levels
    assert dram.temporal == {"M": 2, "N": 1, "K": 4}
    assert l2.temporal == {"M": 1, "N": 1, "K": 1}
    assert l2.spatial == {"M": 1, "N": 1, "K": 3}
    assert l1.temporal == {"M": 2, "N": 1, "K": 1}
    assert (dram.order, l2.order, l1.order) == (
        ("K", "N", "M"),
        ("M", "N", "K"),
        ("M", "K", "N"),
    )
    # No 2 of M is left at L2, whence edit 4 would take it to DRAM.
    assert np.array_equal(space.edit(edited, np.array([[4, 0, 0, 0, 0, 0]])), edited)
    # A swap names dimensions, not places: M and K again, and all is as before.
    assert space.edit(edited, np.array([[0, 0, 0, 2, 0, 0]]))[0, 3] == 0


def test_what_the_numbers_mean_for_choices_of_the_machine() -> None:
    levels = {"name": "L2", "mesh": [16, 16], "hop_energy_pj": 0.5}
    wide = machine("mindmappings", levels, bypass="searched")
    space = MapSpace(gemm(name="g", M=2, N=2, K=2), wide)
    start = space.sample(np.random.default_rng(0), 1, feasible=True)
    before = space.describe(start[0]).levels
    edits = np.zeros_like(start)
    for name, number in (
        ("spatial-order.L2", 1),  # M and N
        ("spatial-axis.L2", 3),  # K
        ("banks.L1", 4),  # from the second to the third tensor
        ("keep.L2", 2),  # the second tensor
    ):
        edits[0, space.attribute_names.index(name)] = number
    after = space.describe(space.edit(start, edits)[0]).levels
    swapped = {"M": "N", "N": "M", "K": "K"}
    assert after[1].spatial_order == tuple(swapped[name] for name in before[1].spatial_order)
    other = {"X": "Y", "Y": "X"}
    axes = before[1].spatial_axis
    assert after[1].spatial_axis == axes | {"K": other[axes["K"]]}
    _, second, third = space.workload.tensor_names
    banks = before[2].banks
    assert banks[second] > 1
    assert after[2].banks == banks | {second: banks[second] - 1, third: banks[third] + 1}
    assert set(after[1].keep) ^ set(before[1].keep) == {second}
    assert (after[0], after[2].temporal) == (before[0], before[2].temporal)


def test_the_last_bank_stays() -> None:
    space = MapSpace(gemm(name="g", M=2, N=2, K=2), accelerator("mindmappings"))
    code = np.zeros((1, len(space.cardinality)), np.int32)
    column = space.attribute_names.index("banks.L1")
    assert list(space.describe(code[0]).levels[2].banks.values()) == [1, 1, 14]
    edits = np.zeros_like(code)
    edits[0, column] = 1
    assert np.array_equal(space.edit(code, edits), code)


def test_room_made_later_is_used() -> None:
    space = MapSpace(
        gemm(name="g", M=4, N=2, K=3), machine("mm256", {"name": "L1", "capacity_words": 12})
    )
    # Tiles of L1 hold M * K + K * N + M * N words, N = 1; M = 2 and K = 3 make 6 + 3 + 2 = 11.
    factors = [[2, 1, 1, 2], [2, 1, 1, 1], [1, 1, 1, 3]]
    rows = space.tables.row_start
    code = np.zeros((1, 6), np.int32)
    for d, wanted in enumerate(factors):
        table = space.tables.factors[rows[d] : rows[d + 1]]
        code[0, d] = (table == wanted).all(axis=1).argmax()
    assert space.feasible(code).all()
    # M = 4 alone would make 12 + 3 + 4 = 19 words, with K = 1 it makes 4 + 1 + 4 = 9.
    grow, shrink = 3, 1 + 9
    assert np.array_equal(space.edit(code, np.array([[grow, 0, 0, 0, 0, 0]])), code)
    edited = space.edit(code, np.array([[grow, 0, shrink, 0, 0, 0]]))
    innermost = space.describe(edited[0]).levels[2]
    assert innermost.temporal == {"M": 4, "N": 1, "K": 1}
    # And what another edit has used up is gone: with N = 2 as well, 4 + 2 + 8 = 14 do not fit.
    edited = space.edit(code, np.array([[grow, 3, shrink, 0, 0, 0]]))
    assert space.feasible(edited).all()
    assert space.describe(edited[0]).levels[2].temporal == {"M": 4, "N": 1, "K": 1}


def test_edits_of_the_toy_space() -> None:
    space = ToySpace()
    code = np.array([[LIMIT - 4, 4, 0, CARDINALITY[3] - 1, 2, 1]], np.int32)
    # One more of the first fits once the second is one less; there is nothing below or above.
    edited = space.edit(code, np.array([[2, 1, 1, 2, 2, 0]]))
    assert edited.tolist() == [[LIMIT - 3, 3, 0, CARDINALITY[3] - 1, 3, 1]]
    assert np.array_equal(space.edit(code, np.array([[2, 0, 0, 0, 0, 0]])), code)


@pytest.mark.parametrize("name", ["tight", "everything", "toy"])
def test_refusals_happen(name: str) -> None:
    # Or the laws above would hold for want of anything to refuse.
    space = SPACES[name]
    codes = space.sample(np.random.default_rng(0), 50, feasible=True)
    neighbours = np.concatenate([space.neighbours(code) for code in codes])
    assert 0.5 < space.feasible(neighbours).mean() < 0.95


def test_misuse_is_named() -> None:
    space = SPACES["mm256"]
    codes, edits = draw(space, 3, rows=4)
    with pytest.raises(ContractError, match=r"Expected codes of shape \[B, 10\], got \[4, 9\]"):
        space.edit(codes[:, :-1], edits)
    with pytest.raises(ContractError, match=r"Expected edits of shape \[4, 10\], got \[3, 10\]"):
        space.edit(codes, edits[:3])
    with pytest.raises(ContractError, match=r"Expected edits of shape \[4, 10\], got \[10\]"):
        space.edit(codes, edits[0])
    with pytest.raises(ContractError, match="Expected integer edits, got float64"):
        space.edit(codes, edits.astype(float))
    for value in (-1, 22):
        wrong = edits.copy()
        wrong[2, 8] = value
        with pytest.raises(
            ContractError, match=rf"Edit \[2, 8\] \(order.L2\) must lie in 0..21, got {value}"
        ):
            space.edit(codes, wrong)
    broken = codes.copy()
    broken[1, 0] = -1
    with pytest.raises(ContractError, match=r"codes \[1, 0\] \(tiling.N\)"):
        space.edit(broken, edits)
    with pytest.raises(ContractError, match="Toy edits"):
        SPACES["toy"].edit(np.zeros((1, 6), np.int32), np.full((1, 6), 3))

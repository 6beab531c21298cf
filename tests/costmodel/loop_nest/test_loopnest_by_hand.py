"""Mappings small enough to count by hand; the arithmetic is spelt out beside each."""

from __future__ import annotations

import numpy as np
import pytest
from written_nests import LEVELS, written

from costmodel import LoopNestModel, MapSpace, Workload, accelerator, workload
from costmodel.loop_nest.spatial_groups import sort
from costmodel.map_space.mapping import mapping_from_record
from costmodel.problems.workload_families import cnn, gemm

GEMM = gemm(name="tiny", M=4, N=4, K=4)
CONV = cnn(name="line", N=1, K=1, C=1, P=12, Q=1, R=3, S=1)
COUNTS = dict[str, dict[str, tuple[int, int, int]]]


def nest(workload: Workload, **levels: str) -> tuple[COUNTS, float, int]:
    """Counts (reads, fills, updates per instance) of a nest as `written_nests.written` reads it."""
    space, codes = written(workload, levels)
    costs = LoopNestModel().evaluate(space, codes, detail=True)
    assert costs.status[0] == 0
    assert costs.detail is not None
    counts = {
        level: {
            tensor: (
                int(costs.detail.reads[0, i, t]),
                int(costs.detail.fills[0, i, t]),
                int(costs.detail.updates[0, i, t]),
            )
            for t, tensor in enumerate(workload.tensor_names)
        }
        for i, level in enumerate(LEVELS)
    }
    return counts, float(costs.energy_pj[0]), int(costs.latency_cycles[0])


def test_gemm_all_loops_at_dram_k_innermost() -> None:
    # One-word tiles, one PE. A and B change on every step: 4*4*4 words each. Z stays during K:
    # 4*4 evictions, each a first write, so nothing is read back above L1.
    # At L1: 64 MACs update Z; 64 - 16 of them find a partial sum to read.
    counts, energy, cycles = nest(GEMM, DRAM="M4 N4 K4")
    assert counts["DRAM"] == {"A": (64, 0, 0), "B": (64, 0, 0), "Z": (0, 0, 16)}
    assert counts["L2"] == {"A": (64, 64, 0), "B": (64, 64, 0), "Z": (0, 0, 16)}
    assert counts["L1"] == {"A": (64, 64, 0), "B": (64, 64, 0), "Z": (48, 0, 64)}
    words_dram, words_l2, words_l1 = 64 + 64 + 16, 4 * 64 + 16, 4 * 64 + 48 + 64
    expected = 64 * 1 + words_dram * 200 + words_l2 * 2.2 + words_l1 * 1.12
    assert energy == pytest.approx(expected, rel=1e-12)
    assert expected == pytest.approx(29874.56)
    assert cycles == 64


def test_gemm_all_loops_at_dram_n_innermost() -> None:
    # A stays during N: 16 words. Z changes on every step: 64 updates, of which 16 are first
    # writes, so 48 words come back through every level.
    counts, _, _ = nest(GEMM, DRAM="M4 K4 N4")
    assert counts["DRAM"] == {"A": (16, 0, 0), "B": (64, 0, 0), "Z": (48, 0, 64)}
    assert counts["L2"] == {"A": (16, 16, 0), "B": (64, 64, 0), "Z": (48, 48, 64)}
    assert counts["L1"] == {"A": (64, 16, 0), "B": (64, 64, 0), "Z": (48, 48, 64)}


def test_gemm_wholly_inside_l1() -> None:
    # Every tensor moves once (16 words); L1 serves each of the 64 MACs.
    counts, energy, _ = nest(GEMM, L1="M4 N4 K4")
    assert counts["DRAM"] == {"A": (16, 0, 0), "B": (16, 0, 0), "Z": (0, 0, 16)}
    assert counts["L2"] == {"A": (16, 16, 0), "B": (16, 16, 0), "Z": (0, 0, 16)}
    assert counts["L1"] == {"A": (64, 16, 0), "B": (64, 16, 0), "Z": (48, 0, 64)}
    assert energy == pytest.approx(64 + 48 * 200 + 80 * 2.2 + 272 * 1.12, rel=1e-12)


def test_gemm_reuse_reaches_across_levels() -> None:
    # Loops above L1, inner to outer: N (L2), M (DRAM). A stays over N and changes with M: 4*4.
    # B is fetched anew for each of the 4 x 4 steps: 4*16 = 64 words. L2 holds all of B: 16 words
    # enter it once, since M at DRAM does not touch B.
    counts, _, _ = nest(GEMM, DRAM="M4", L2="N4", L1="K4")
    assert counts["L1"]["A"] == (64, 16, 0)
    assert counts["L1"]["B"] == (64, 64, 0)
    assert counts["L2"]["B"] == (64, 16, 0)
    assert counts["DRAM"]["B"] == (16, 0, 0)


def test_gemm_spatial_reduction() -> None:
    # K over 4 PEs: the four partial sums of a Z word are added on their way into one update, so
    # L2 sees 16, not 64; every PE updates each Z word once and never reads one back.
    counts, _, cycles = nest(GEMM, DRAM="M2", L2="M2 N4 | K4")
    assert counts["L2"]["Z"] == (0, 0, 16)
    assert counts["L1"]["Z"] == (0, 0, 16)
    assert counts["L1"]["B"] == (16, 16, 0)
    assert counts["L2"]["B"][0] == 4 * 16
    assert counts["L2"]["A"][0] == 4 * 4
    assert cycles == 64 // 4


def test_window_slides_along_the_innermost_loop() -> None:
    # Tile of 3 inputs, P innermost above it: 3 words, then 11 steps with 1 new word each = 14.
    counts, _, _ = nest(CONV, L2="P12", L1="R3")
    assert counts["L2"]["Inputs"][0] == 3 + 11 * 1


def test_no_credit_for_what_was_held_earlier() -> None:
    # One-word tile, R innermost: every one of the 12 * 3 steps brings a new word.
    counts, _, _ = nest(CONV, L2="P12 R3")
    assert counts["L2"]["Inputs"][0] == 12 * 3
    # R outside P: weights stay over P, outputs come back for the second and third R.
    counts, _, _ = nest(CONV, L2="R3 P12")
    assert counts["L2"]["Weights"][0] == 3
    assert counts["L2"]["Outputs"] == (36 - 12, 0, 36)
    assert counts["L1"]["Outputs"] == (36 - 12, 36 - 12, 36)


def test_window_that_slides_at_two_levels() -> None:
    # L2's tile is 4 + 3 - 1 = 6 inputs; DRAM's P steps by 4: 6 + 2 * 4 = 14 words from DRAM.
    # L1's tile of 3 steps by 1 within a group of four: 3 + 3 words; the jump between groups is
    # not the step before it, so all 3 words are charged again: 3 * 6 = 18.
    counts, _, _ = nest(CONV, DRAM="P3", L2="P4", L1="R3")
    assert counts["DRAM"]["Inputs"][0] == 14
    assert counts["L2"]["Inputs"][:2] == (18, 14)


def test_neighbouring_windows_are_not_multicast() -> None:
    # Each of 4 PEs holds 3 inputs; neighbours overlap by 2 but are not equal: 4 * 3 words, 3 steps.
    counts, _, cycles = nest(CONV, L2="P3 | P4", L1="R3")
    assert counts["L2"]["Inputs"][0] == 4 * 3 * 3
    assert counts["L2"]["Weights"][0] == 3
    assert cycles == 9


def test_equal_diagonals_are_multicast() -> None:
    # PE (p, r) needs input p + r: 4 + 3 - 1 = 6 distinct words per step, 3 steps.
    counts, _, _ = nest(CONV, L2="P3 | P4 R3")
    assert counts["L2"]["Inputs"][0] == 6 * 3
    # Three PEs reduce into one output: 4 updates per step.
    assert counts["L2"]["Outputs"] == (0, 0, 12)


def test_three_terms_on_one_axis() -> None:
    # Index p + r + t with 2, 3 and 2 of them spatial by steps of 1: offsets 0..4, five of them.
    from costmodel import workload

    nested = workload(
        {
            "name": "three",
            "dimensions": {"P": 2, "R": 3, "T": 2},
            "tensors": {"I": ["P + R + T"], "W": ["R", "T"], "O": ["P"]},
            "output": "O",
        }
    )
    counts, _, cycles = nest(nested, L2="| P2 R3 T2")
    assert counts["L2"]["I"][0] == 5
    assert counts["L2"]["W"][0] == 6
    assert cycles == 1


def test_batch_equals_its_rows() -> None:
    space = MapSpace(CONV, accelerator("mm256-bw"))
    codes = space.sample(np.random.default_rng(0), 50)
    model = LoopNestModel()
    whole = model.evaluate(space, codes)
    for row in range(len(codes)):
        single = model.evaluate(space, codes[row : row + 1])
        assert single.edp[0] == whole.edp[row]
        assert single.status[0] == whole.status[row]


@pytest.mark.parametrize(
    ("axis", "sizes", "distinct"),
    [
        # 0 1 2 3 3 4 5 6
        ("i + 2*j + 3*k", (2, 2, 2), 7),
        # 0 to 3, and 4 further on.
        ("i + j + 4*k", (3, 2, 2), 8),
        ("5*i + 10*j + 20*k", (2, 2, 2), 8),
        ("i + j + k", (2, 2, 2), 4),
    ],
)
def test_a_word_that_several_elements_need_is_read_once(
    axis: str, sizes: tuple[int, int, int], distinct: int
) -> None:
    """One multiply-accumulate per element; three moving terms may coincide in any way."""
    dimensions = dict(zip("ijk", sizes, strict=True))
    product = workload(
        {
            "name": "sums",
            "dimensions": dimensions,
            "tensors": {"A": [axis], "Z": ["i", "j", "k"]},
            "output": "Z",
        }
    )
    elements = sizes[0] * sizes[1] * sizes[2]
    counts, _, cycles = nest(product, L2="|" + " ".join(f"{d}{n}" for d, n in dimensions.items()))
    assert cycles == 1
    assert counts["L1"]["A"] == (1, 1, 0)
    assert counts["L2"]["A"][0] == distinct
    assert counts["L2"]["Z"][2] == elements


@pytest.mark.parametrize(
    ("level", "bandwidth", "expected"),
    [
        # 64 steps read A, B and 48 partial sums of L1: 176 words, half a word per cycle.
        ("L1", {"read_bandwidth": 0.5}, 352),
        # It is filled with 64 words each of A and B, and Z is updated 64 times; Z stays meanwhile.
        ("L1", {"write_bandwidth": 0.5}, 384),
        # DRAM gives 64 words each of A and B, and takes 16.
        ("DRAM", {"read_bandwidth": 0.5}, 256),
        ("DRAM", {"write_bandwidth": 0.125}, 128),
        ("DRAM", {"write_bandwidth": 0.25}, 64),
    ],
)
def test_one_limit_of_one_level_is_enough(
    level: str, bandwidth: dict[str, float], expected: int
) -> None:
    changed = {"name": level, **bandwidth}
    machine = accelerator({"extends": "mm256", "name": "slow", "levels": [changed]})
    space = MapSpace(GEMM, machine)
    order = ["M", "N", "K"]
    record = {"DRAM": {"temporal": {"M": 4, "N": 4, "K": 4}, "perm": order}, "L2": {}, "L1": {}}
    mapping = mapping_from_record(record, LEVELS, ("M", "N", "K"), ("A", "B", "Z"), (0, 1, 0))
    cycles = LoopNestModel().evaluate(space, space.code(mapping)[None]).latency_cycles[0]
    assert cycles == expected


@pytest.mark.parametrize("count", [0, 1, 2, 3, 4, 5, 13, 14, 40])
def test_sorting_in_place(count: int) -> None:
    """As compiled code does it: what lies beyond the count stays where it is."""
    plain = getattr(sort, "py_func", sort)
    for seed in range(20):
        values = np.random.default_rng(seed).integers(0, 9, size=count + 2)
        expected = np.append(np.sort(values[:count]), values[count:])
        plain(values, count)
        assert values.tolist() == expected.tolist()

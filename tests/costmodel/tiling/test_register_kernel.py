"""What the innermost loops of a tiling take, counted by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest

from costmodel import TilingSpace, accelerator, workload
from costmodel.tiling.register_kernel import kernel_cycles, lanes

CORE = accelerator("cpu-avx512")
SPACE = TilingSpace(workload("gemm:M=512,N=512,K=512"))
# Registers of 16 words.
OPERATIONS = 512**3 / 16


def cycles(*factors: int) -> float:
    """Of one tiling, per vector multiply-add."""
    return float(kernel_cycles(SPACE, np.array([factors]), CORE)[0] / OPERATIONS)


@pytest.mark.parametrize(
    ("columns", "words"),
    [(512, 64), (96, 32), (48, 16), (16, 16), (15, 15), (7, 7), (1, 1), (24, 1), (100, 1)],
)
def test_vectors_are_whole_registers_or_less_than_one(columns: int, words: int) -> None:
    assert lanes(columns) == words


def test_cycles_by_hand() -> None:
    # 8 rows of 2 vectors: 16 multiply-adds in 8 cycles on two units, 10 loads in 5, and 4 cycles
    # of waiting that are hidden but for a tenth.
    assert cycles(8, 8, 1, 8, 128, 4, 8, 2, 1, 32) == pytest.approx(math.hypot(8, 4) / 16)
    # 16 rows of a vector: 17 loads take longer than 16 multiply-adds.
    assert cycles(8, 4, 1, 16, 128, 4, 8, 4, 1, 16) == pytest.approx(math.hypot(8.5, 4) / 16)
    # A row of two vectors waits for itself.
    assert cycles(8, 64, 1, 1, 1, 512, 8, 2, 1, 32) == pytest.approx(math.hypot(1.5, 4) / 2)


def test_results_that_leave_registers_are_loaded_and_stored() -> None:
    inside = math.hypot(8, 4) / 16
    # Two blocks take turns within an outer step of K: a load and a store every 4 steps of K.
    assert cycles(8, 4, 2, 8, 128, 4, 8, 2, 1, 32) == pytest.approx(inside + 1.5 / 4)
    # Not where K has no outer steps: each block is done at once.
    assert cycles(8, 4, 2, 8, 1, 512, 8, 2, 1, 32) == pytest.approx(inside)
    # 8 x 64 words are all registers; so nothing is left for B.
    assert cycles(8, 8, 1, 8, 1, 512, 8, 1, 1, 64) == pytest.approx(math.hypot(16, 4) / 32 + 1.5)
    # Rows that are not in the code one by one, and two of the longest vectors, leave them as well.
    assert cycles(1, 8, 1, 64, 1, 512, 8, 4, 1, 16) == pytest.approx(math.hypot(1, 4) + 1.5)
    assert cycles(32, 8, 1, 2, 1, 512, 4, 1, 1, 128) == pytest.approx(math.hypot(8, 4) / 16 + 1.5)


def test_no_tiling_is_faster_than_its_units() -> None:
    codes = SPACE.sample(np.random.default_rng(0), 5000)
    found = kernel_cycles(SPACE, SPACE.factors(codes), CORE)
    assert found.min() > OPERATIONS / 2

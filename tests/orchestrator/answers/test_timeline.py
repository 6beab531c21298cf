"""The timeline of a mapping: by hand, against the model's counts, and as a drawing."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from matplotlib.patches import Rectangle

import mapspace as ms
from costmodel.loop_nest.model import LoopNestModel
from costmodel.machines.accelerators import accelerator
from costmodel.map_space.map_space import MapSpace
from costmodel.problems.workloads import workload
from orchestrator.answers.timeline import moves, timelines
from orchestrator.answers.timeline_figure import timeline_figure
from orchestrator.explain.read_mapping import read_mapping

# 2 x 2 of L1 by time; M is the outer loop. L1 takes 2 words per cycle, gives 1.
MACHINE = {
    "name": "two",
    "levels": [
        {"name": "DRAM", "energy_pj": 1.0},
        {
            "name": "L1",
            "capacity_words": 64,
            "energy_pj": 1.0,
            "read_bandwidth": 1.0,
            "write_bandwidth": 2.0,
        },
    ],
    "mac_energy_pj": 1.0,
}
BY_HAND = {
    "workload": "gemm:M=4,N=2,K=4",
    "accelerator": MACHINE,
    "mapping": [
        {"level": "DRAM", "temporal": [["M", 2], ["K", 2]]},
        {"level": "L1", "temporal": [["M", 2], ["N", 2], ["K", 2]]},
    ],
}


def test_tiles_by_hand() -> None:
    (level,) = timelines(read_mapping(BY_HAND).drawn)
    assert (level.name, level.tiles, level.start) == ("L1", 4, 0.0)
    # A of (m, k) 4 words and B of k 4 words with every step of K; Z of m stays for two steps, its
    # sums are nobody's before.
    assert [tile.loaded for tile in level.first] == [{"A": 4, "B": 4, "Z": 0}] * 4
    assert [tile.drained["Z"] for tile in level.first] == [0, 4, 0, 4]
    assert [(tile.load.begin, tile.load.end) for tile in level.first[:2]] == [(0, 4), (4, 8)]
    first, second, third, _ = level.first
    # Reads of L1 take longest, 1 word per cycle.
    work = first.work.end - first.work.begin
    assert work > 8
    assert (first.work.begin, second.work.begin) == (4, 4 + work)
    # Room for two: the third waits for the first to be done.
    assert third.load.begin == first.work.end
    assert second.drain.begin == second.work.end
    assert second.drain.end - second.drain.begin == 4


GEMM, WINDOWS = "gemm:M=8,N=12,K=8", "cnn:N=1,K=2,C=2,P=4,Q=4,R=3,S=3"


@pytest.mark.parametrize(
    ("machine", "operation"),
    [(machine, GEMM) for machine in ("mm256", "simba", "tpu-v1")]
    + [(machine, WINDOWS) for machine in ("mm256", "eyeriss", "gemmini")],
)
def test_all_tiles_together_are_what_the_model_counts(machine: str, operation: str) -> None:
    """Words of windows that stay in a tile among them."""
    space = MapSpace(workload(operation), accelerator(machine))
    codes = space.sample(np.random.default_rng(1), 30, feasible=True)
    assert len(codes)
    detail = LoopNestModel().evaluate(space, codes, detail=True).detail
    assert detail is not None
    for row, code in enumerate(codes):
        mapping = space.describe(code)
        for index in range(1, len(mapping.levels)):
            entered: Counter[str] = Counter()
            for loaded, _ in moves(space.workload, mapping, index):
                entered.update(loaded)
            for t, name in enumerate(mapping.tensors):
                if name in mapping.levels[index].keep:
                    assert entered[name] == detail.fills[row, index, t], (mapping, index)


def test_a_window_that_slides_enters_once() -> None:
    result = ms.search("cnn:N=2,K=8,C=4,P=6,Q=6,R=3,S=3", "eyeriss", store=False)
    for index in range(1, len(result.mapping.levels)):
        entered: Counter[str] = Counter()
        for loaded, _ in moves(result.workload, result.mapping, index):
            entered.update(loaded)
        for t, name in enumerate(result.mapping.tensors):
            if name in result.mapping.levels[index].keep:
                assert entered[name] == result.detail.fills[0, index, t]


def test_the_drawing_has_every_tile() -> None:
    result = ms.search("gemm:M=64,N=32,K=16", "mm256-bw", store=False)
    figure, found = result.timeline(), timelines(result.drawn)
    assert figure is not None
    assert [panel.get_title(loc="left").partition(":")[0] for panel in figure.axes] == ["L2", "L1"]
    for panel, level in zip(figure.axes, found, strict=True):
        numbers = [text.get_text() for text in panel.texts]
        assert numbers == [str(number + 1) for number in range(len(level.first))]
        bars = [patch for patch in panel.patches if isinstance(patch, Rectangle)]
        drawn = sum(bar.get_width() for bar in bars if bar.get_label() == "work")
        spans = [span for tile in level.first for span in (tile.load, tile.work, tile.drain)]
        assert sum(bar.get_width() for bar in bars) == pytest.approx(
            sum(span.end - span.begin for span in spans)
        )
        assert drawn <= sum(tile.work.end - tile.work.begin for tile in level.first) + 1e-6


def test_shorter_last_passes_have_no_timeline() -> None:
    drawn = read_mapping(BY_HAND).drawn
    outer, inner = drawn.mapping.levels
    levels = (replace(outer, temporal_rests={"M": 1}), inner)
    short = drawn._replace(mapping=replace(drawn.mapping, levels=levels))
    assert timelines(short) == ()
    assert timeline_figure(short) is None

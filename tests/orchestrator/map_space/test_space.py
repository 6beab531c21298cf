"""`mapspace space`: sizes, statistics of random mappings, the cost surface."""

from __future__ import annotations

import io
import json
import math
import threading
from pathlib import Path

import numpy as np
import pytest
from commands import answer, call
from hypothesis import given
from hypothesis import strategies as st

import mapspace as ms
from costmodel import LoopNestModel, MapSpace, accelerator, algorithmic_minimum, workload
from costmodel.loop_nest.records import record_code
from mapspace.errors import ConfigError
from orchestrator.map_space.axes import Axis
from orchestrator.map_space.describe import describe_family, describe_spaces, sizes
from orchestrator.map_space.sample import sample_family, sample_space, statistics
from orchestrator.map_space.surface import Surface, surface_around, two_dimensions
from orchestrator.map_space.text import description_text
from orchestrator.runs.live import Live
from surrogate.problems import ProblemRanges
from surrogate.samples import draw

SMALL_MACHINE = {
    "name": "small",
    "levels": [
        {"name": "DRAM", "energy_pj": 100},
        {"name": "L2", "capacity_words": 12, "energy_pj": 2, "fanout": 4},
        {"name": "L1", "capacity_words": 12, "energy_pj": 1},
    ],
    "mac_energy_pj": 1,
}


def live() -> Live:
    return Live(io.StringIO())


def test_statistics_by_hand() -> None:
    found = statistics(np.array([1.0, 2.0, 3.0, 10.0]))
    assert found["mean"] == 4.0
    assert found["standard_deviation"] == pytest.approx(math.sqrt((9 + 4 + 1 + 36) / 4))
    assert (found["minimum"], found["median"], found["maximum"]) == (1.0, 2.5, 10.0)


def test_sizes_are_the_papers() -> None:
    """Section 5.1.3: about 10^25 mappings of ResNet Conv_4, 10^19 of MTTKRP_0, with 16 banks.

    A dimension of prime powers p^e has C(e + 3, 3) ordered factorisations over 4 slots per prime;
    7 (4) loops have 7! (4!) orders at 3 levels; 16 banks go to 3 (4) tensors in 105 (455) ways.
    """
    device = accelerator("mindmappings")
    conv4 = sizes(MapSpace(workload("resnet-conv4"), device))
    by_hand = 35 * 165**2 * 16**2 * 4**2 * math.factorial(7) ** 3 * 105**2
    assert int(conv4["mappings"]) == by_hand
    assert round(conv4["log10"]) == 25
    mttkrp = sizes(MapSpace(workload("mttkrp-0"), device))
    assert int(mttkrp["mappings"]) == 120 * 286 * 455 * 364 * 24**3 * 455**2
    assert round(mttkrp["log10"]) == 19


def test_a_sample_has_the_statistics_of_the_whole_space() -> None:
    space = MapSpace(workload("gemm:M=2,N=2,K=4"), accelerator(SMALL_MACHINE))
    everything = np.unravel_index(np.arange(space.size()), space.cardinality)
    codes = np.stack(everything, axis=1).astype(np.int32)
    costs = LoopNestModel().evaluate(space, codes)
    minimum = algorithmic_minimum(space.workload, space.accelerator)
    edp = costs.edp[costs.ok] / minimum.edp
    count = 40_000
    sample = sample_space(space, count, 3, live(), threading.Event())
    assert len(sample.edp) == count
    assert sample.drawn is not None
    share = costs.ok.mean()
    error = math.sqrt(share * (1 - share) / sample.drawn)
    assert count / sample.drawn == pytest.approx(share, abs=5 * error)
    assert sum(sample.rejected.values()) == sample.drawn - count
    assert sample.edp.mean() == pytest.approx(edp.mean(), abs=5 * edp.std() / math.sqrt(count))
    assert sample.edp.std() == pytest.approx(edp.std(), rel=0.05)
    assert sample.edp.min() >= edp.min() * (1 - 1e-12)
    assert sample.best is not None
    best = LoopNestModel().evaluate(space, sample.best[None])
    assert best.edp[0] / minimum.edp == pytest.approx(sample.edp.min())
    again = sample_space(space, count, 3, live(), threading.Event())
    np.testing.assert_array_equal(again.edp, sample.edp)


def test_an_interrupted_sample_is_what_was_drawn() -> None:
    stop = threading.Event()
    stop.set()
    space = MapSpace(workload("gemm-512"), accelerator("mm256"))
    sample = sample_space(space, 10_000_000, 0, live(), stop)
    assert 0 < len(sample.edp) < 100_000


def test_a_space_without_feasible_mappings_says_why() -> None:
    device = accelerator({"extends": "mm256", "levels": [{"name": "L1", "capacity_words": 1}]})
    space = MapSpace(workload("gemm:M=4,N=4,K=4"), device)
    with pytest.raises(ConfigError, match="L1 holds 1 words"):
        sample_space(space, 1, 0, live(), threading.Event())


def test_a_family_is_drawn_as_training_data_is() -> None:
    device = accelerator("mm256")
    sample, problems = sample_family("mttkrp", device, 1_500, 7, live(), threading.Event())
    assert problems == 3
    ranges = ProblemRanges.model_validate({"family": "mttkrp"})
    drawn = draw(ranges, device, np.random.default_rng(7), problems=3, mappings_per_problem=500)
    np.testing.assert_array_equal(sample.energy, drawn.costs[:, -2])
    np.testing.assert_array_equal(sample.cycles, drawn.costs[:, -1])
    with pytest.raises(ConfigError, match=r"^family: expected one of cnn, mttkrp, got 'gemm'"):
        describe_family("gemm", "mm256", samples=10, seed=0)


def test_points_of_a_surface_are_those_mappings() -> None:
    space = MapSpace(workload("gemm:M=8,N=6,K=4"), accelerator("mm256"))
    rng = np.random.default_rng(0)
    code = space.sample(rng, 1, feasible=True)[0]
    surface = surface_around(space, code, ("N", "K"))
    assert surface.costs.shape == (space.cardinality[1], space.cardinality[2])
    model = LoopNestModel()
    assert surface.costs[surface.centre] == model.evaluate(space, code[None]).edp[0]
    tilings = [
        space.tables.factors[space.tables.row_start[axis.column] :][axis.values]
        for axis in surface.axes
    ]
    record = space.describe(code).to_record()
    for y, x in rng.integers(0, surface.costs.shape, (20, 2)):
        for name, factors in (("N", tilings[0][y]), ("K", tilings[1][x])):
            record["DRAM"]["temporal"][name] = int(factors[0])
            record["L2"]["temporal"][name] = int(factors[1])
            record["L2"]["spatial"][name] = int(factors[2])
            record["L1"]["temporal"][name] = int(factors[3])
        point = record_code(space, {"mapping": record})
        expected = model.evaluate(space, point[None]).edp[0]
        assert surface.costs[y, x] == pytest.approx(expected)
    # The innermost factor is what an axis is sorted by.
    assert (np.diff(tilings[0][:, -1]) >= 0).all()


def test_local_minima_by_hand() -> None:
    far = math.inf
    edp = np.array(
        [
            [1.0, 1.0, 5.0, 2.0],
            [1.0, 9.0, 9.0, 9.0],
            [9.0, 9.0, 3.0, 3.0],
            [9.0, 9.0, 3.0, 2.5],
            [far, far, far, 9.0],
        ]
    )
    none = Axis("tiling.M", 0, np.zeros(0, np.int64), (), "", 0)
    # The plateau of 1, the 2, the 2.5; the 3s lead down to it.
    assert Surface((none, none), edp, (0, 0)).local_minima() == 3


@pytest.mark.parametrize(
    ("machine", "pair"),
    [
        ("mm256-bypass", ("keep.L2", "keep.L1")),
        ("mm256-bypass", ("N", "order.L2")),
        ("hops4x16", ("order.L2", "spatial-axis.L2")),
        ("hops4x16", ("spatial-axis.L2", "M")),
        ("eyeriss", ("order.ifmap", "order.GLB")),
        ("exotic24", ("order.DRAM", "K")),
    ],
)
def test_a_slice_has_every_cost_of_its_two_attributes(machine: str, pair: tuple[str, str]) -> None:
    """Values that are left out cost what one that is there costs, wherever the mapping lies."""
    space = MapSpace(workload("gemm:M=4,N=6,K=4"), accelerator(machine))
    names = list(space.attribute_names)
    columns = [names.index(name if "." in name else f"tiling.{name}") for name in pair]
    rng = np.random.default_rng(1)
    for code in space.sample(rng, 4, feasible=True):
        surface = surface_around(space, code, pair, objective="energy")
        ranges = [np.arange(space.cardinality[column]) for column in columns]
        grid = np.stack(np.meshgrid(*ranges, indexing="ij"), axis=-1).reshape(-1, 2)
        codes = np.repeat(code[None], len(grid), axis=0)
        codes[:, columns] = grid
        energies = LoopNestModel().evaluate(space, codes).energy_pj
        assert set(surface.costs.ravel()) == set(energies)
        own = LoopNestModel().evaluate(space, code[None]).energy_pj[0]
        assert surface.costs[surface.centre] == own


@given(st.integers(0, 2**32 - 1), st.integers(1, 4))
def test_local_minima_are_those_of_image_filters(seed: int, heights: int) -> None:
    """Plateaus of any form, against SciPy's labels of what no way leads down from."""
    from scipy.ndimage import binary_dilation, label

    rng = np.random.default_rng(seed)
    costs = rng.integers(0, heights, rng.integers(1, 12, 2)).astype(float)
    costs[rng.random(costs.shape) < 0.2] = np.inf
    found = 0
    for height in np.unique(costs[np.isfinite(costs)]):
        plateaus, count = label(costs == height, structure=np.ones((3, 3)))
        for plateau in range(1, count + 1):
            near = binary_dilation(plateaus == plateau, np.ones((3, 3)))
            found += bool(costs[near].min() == height)
    axis = Axis("tiling.M", 0, np.zeros(0, np.int64), (), "", 0)
    assert Surface((axis, axis), costs, (0, 0)).local_minima() == found


def test_of_many_values_every_so_many_is_shown() -> None:
    space = MapSpace(workload("gemm:M=64,N=64,K=4"), accelerator("mm256"))
    code = space.sample(np.random.default_rng(3), 1, feasible=True)[0]
    whole, some = (surface_around(space, code, ("M", "N"), most=most) for most in (2500, 10))
    assert whole.costs.shape == (84, 84)
    assert some.costs.shape == (10, 10)
    assert [axis.whole for axis in some.axes] == [84, 84]
    assert some.costs[some.centre] == whole.costs[whole.centre]
    assert all(len(set(axis.values)) == 10 for axis in some.axes)
    assert set(some.costs.ravel()) <= set(whole.costs.ravel())


@pytest.mark.parametrize(
    ("name", "expected"),
    [("gemm-512", ("M", "N")), ("resnet-conv4", ("K", "N")), ("mttkrp-0", ("L", "J"))],
)
def test_a_surface_varies_a_dimension_of_each_input(name: str, expected: tuple[str, str]) -> None:
    assert two_dimensions(MapSpace(workload(name), accelerator("mm256"))) == expected


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plot = tmp_path / "surface.png"
    arguments = ["space", "gemm:M=16,N=16,K=16", "--samples", "2000", "--json"]
    assert call(*arguments, "--plot", str(plot), "--surface", "M,K") == 0
    summary = json.loads(capsys.readouterr().out)
    entry = summary["spaces"][0]
    best = entry["optimum"]["normalised_edp"]
    assert best <= summary["surface"]["minimum"] * (1 + 1e-12)
    assert best <= entry["edp"]["minimum"]
    assert entry["optimum"]["median_above"] == pytest.approx(entry["edp"]["median"] / best - 1)
    assert summary["surface"]["dimensions"] == ["M", "K"]
    assert plot.read_bytes().startswith(b"\x89PNG")
    assert call("space", "gemm-512", "gemm-1024", "--samples", "500") == 0
    text = capsys.readouterr().out
    assert "the 2 spaces together" in text
    assert "1,000 feasible mappings" in text


def test_optima_are_read_from_the_store(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asked = ("space", "gemm:M=8,N=8,K=8", "gemm:M=8,N=8,K=4", "--samples", "500")
    asked = (*asked, "--accelerator", "mm256", "--store", str(tmp_path))
    ms.search("gemm:M=8,N=8,K=8", store=tmp_path)
    first, second = answer(capsys, *asked), answer(capsys, *asked)
    assert (first.pop("from_store"), second.pop("from_store")) == (False, True)
    assert first == second
    assert first["spaces"][1]["optimum"]["edp"] > 0
    # A search reads the proof in its turn.
    assert ms.search("gemm:M=8,N=8,K=4", store=tmp_path).from_store
    alone = answer(capsys, *asked[:-2], "--no-store")
    assert alone.pop("from_store") is False
    assert alone == first
    assert answer(capsys, "space", "--family", "cnn", "--samples", "50")["from_store"] is False


def test_where_nothing_can_be_proven_the_best_sample_is_the_centre(tmp_path: Path) -> None:
    plot = tmp_path / "surface.png"
    summary = describe_spaces(
        ["gemm:M=8,N=8,K=8"],
        "mindmappings-released",
        samples=500,
        seed=0,
        plot=plot,
        stream=io.StringIO(),
    ).summary
    assert summary["spaces"][0]["optimum"] is None
    assert summary["surface"]["proven"] is False
    text = description_text(summary, plot)
    assert "no proven optimum: mindmappings-released bypasses" in text


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "Expected either WORKLOAD or --family"),
        (["gemm-512", "--family", "cnn"], "Expected either WORKLOAD or --family"),
        (["gemm-512", "--samples", "0"], "--samples: expected at least 1, got 0"),
        (["gemm-512", "--surface", "M,N"], "give --plot"),
        (["gemm-512", "gemm-1024", "--plot", "x.png"], "--plot is for a single WORKLOAD"),
        (["gemm-512", "--plot", "x.png", "--surface", "M,Z"], "(M, N, K, order.DRAM, "),
        (["gemm-512", "--plot", "x.png", "--surface", "M"], "two attributes such as K,N"),
        (["--family", "cnn", "--plot", "x.png"], "not for --family"),
    ],
)
def test_mistakes(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert call("space", *arguments) == 2
    assert message in capsys.readouterr().err

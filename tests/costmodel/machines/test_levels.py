"""What an entry of `levels` may say: units, roles, limits, and one line for what it may not."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest

from costmodel import LoopNestModel, MapSpace, accelerator, workload
from costmodel.arrays.scratch import MOST_CHILDREN, make_scratch
from costmodel.problems.workload_families import gemm
from mapspace.errors import ConfigError

# What machines were filed under before levels had more keys.
HASHES = {
    "cpu-avx512": "d6aa2ebace87bb9a",
    "edge-1024": "35bda2c9e5ee61e2",
    "eyeriss-168": "c5e04d2a26c0dbd6",
    "mindmappings": "9fd041268a552710",
    "mindmappings-released": "eed9eaf341bf3714",
    "mm256": "565fc5546c2a6b1c",
    "mm256-bw": "85caf262c83bacd6",
    "mm256-bw-bypass": "026e8c7ef5c65f3a",
    "mm256-bypass": "bbd8fb824e85d689",
}


def machine(position: int = 1, **keys: Any) -> dict[str, Any]:
    """Two levels, one of them with more keys."""
    levels: list[dict[str, Any]] = [
        {"name": "DRAM", "energy_pj": 200.0},
        {"name": "L1", "energy_pj": 1.0, "fanout": 4, "capacity_words": 64},
    ]
    levels[position].update(keys)
    return {"name": "two", "mac_energy_pj": 1.0, "levels": levels}


def without(key: str, source: dict[str, Any]) -> dict[str, Any]:
    del source["levels"][1][key]
    return source


def refusal(data: dict[str, Any]) -> str:
    with pytest.raises(ConfigError) as caught:
        MapSpace(gemm(name="g", M=4, N=4, K=4), accelerator(data))
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_presets_keep_their_hashes() -> None:
    assert {name: accelerator(name).hash for name in HASHES} == HASHES


def test_defaults_are_as_if_not_said() -> None:
    plain = accelerator(machine())
    said = accelerator(
        machine(
            block_words=1, cluster_size=1, multiple_buffering=1.0, min_utilisation=0.0, keep=[],
            bypass=[], router_pj=0.0, fill_latency=0, leakage_pj=0.0,
        )
    )  # fmt: skip
    assert said.hash == plain.hash
    assert plain.further_key is None
    assert accelerator(machine(router_pj=0.5)).hash != plain.hash


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ({"capacity_bytes": 1024}, 512),
        ({"capacity_bits": 8192}, 512),
        ({"capacity_bytes": 1024, "word_bits": 8}, 1024),
        ({"capacity_bits": 100}, 6),
    ],
)
def test_capacities_become_whole_words(keys: dict[str, int], words: int) -> None:
    assert accelerator(without("capacity_words", machine(**keys))).levels[1].capacity_words == words


def test_a_capacity_in_another_unit_replaces_the_presets() -> None:
    change = {"extends": "mm256", "levels": [{"name": "L2", "capacity_bytes": 2048}]}
    assert accelerator(change).levels[1].capacity_words == 1024


def test_machines_read_back_as_they_are_written() -> None:
    source = accelerator(
        machine(energy_pj={"read": 1, "fill": 2, "update": 3}, bandwidth=2.0, cluster_size=1)
    )
    assert accelerator(source.model_dump()).hash == source.hash


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (machine(energy_pj={"read": 1.0}), "accelerator: levels[L1].energy_pj: missing fill, upd"),
        (machine(energy_pj=[1.0]), "accelerator: levels[L1].energy_pj: expected a number, or rea"),
        (
            machine(energy_pj={"read": -1.0, "fill": 1.0, "update": 1.0}),
            "accelerator: levels[L1].energy_pj.read: expected at least 0, got -1.",
        ),
        (
            machine(multiple_buffering=65.0),
            "accelerator: levels[L1].multiple_buffering: 64 words hold no tile 65 times",
        ),
        (
            machine(min_utilisation=0.5, bypass=["input", "weight", "output"]),
            "accelerator: levels[L1].min_utilisation: 0.5 is never reached by a level that bypas",
        ),
        (
            # 48 words of tensors in 64: 0.75 can be reached.
            machine(min_utilisation=0.76),
            "accelerator.levels[L1].min_utilisation: 0.76 asks for 48.64 words, and the whole "
            "tensors of g that it can hold have 48; expected at most 0.75.",
        ),
        (
            machine(spatial={"x": []}),
            "accelerator.levels[L1].spatial: no dimension may run across its 4 children; name "
            "one of M, N, K under x.",
        ),
        (
            machine(spatial={"x": ["P"], "y": ["Q"]}, mesh=[2, 2]),
            "accelerator.levels[L1].spatial: no dimension may run across its 4 children; name "
            "one of M, N, K under x or y.",
        ),
        (machine(capacity_bits=64), "accelerator: levels[L1].capacity_words: capacity_bits is"),
        (
            without("capacity_words", machine(capacity_bits=8)),
            "accelerator: levels[L1].capacity_bits: expected at least one word of 16 bits, got 8.",
        ),
        (machine(capacity_words=0), "accelerator: levels[L1].capacity_words: expected at least 1"),
        (machine(min_utilisation=1.5), "accelerator: levels[L1].min_utilisation: expected at most"),
        (machine(0, min_utilisation=0.5), "accelerator: levels[DRAM].min_utilisation: 0.5 of a"),
        (
            machine(multiple_buffering=0.5),
            "accelerator: levels[L1].multiple_buffering: expected",
        ),
        (machine(mesh=[2, 3]), "accelerator: levels[L1].mesh: expected width x height = fanout"),
        (machine(energy_pj={"read": -1}), "accelerator: levels[L1].energy_pj"),
        (machine(keep=["weight"], bypass=["weight"]), "accelerator: levels[L1].bypass: 'weight'"),
        (machine(cluster_size=3), "accelerator: levels[1].cluster_size: expected a divisor of the"),
        (machine(banks=4, multiple_buffering=2.0), "accelerator: levels[L1].banks: a banked"),
        (machine(0, fanout=2**60), "accelerator: levels[1].fanout: expected less than 2^62 inst"),
        (machine(spatial={"z": ["M"]}), "accelerator: levels[L1].spatial.z: unknown key."),
        (machine(0, beside="a", fanout=2), None),
        (machine(bypass=["wieght"]), "accelerator.levels[L1].bypass: expected a role (input, weig"),
        (
            machine(keep=["Q"]),
            "accelerator.levels[L1].keep: expected a role (input, weight, output",
        ),
        (
            machine(keep=["A"], bypass=["input"]),
            "accelerator.levels[L1].bypass: A is both kept and",
        ),
    ],
)
def test_refusals(data: dict[str, Any], message: str | None) -> None:
    if message is None:
        assert accelerator(data).levels[0].beside == "a"
    else:
        assert refusal(data).startswith(message)


def test_a_tensor_must_be_held_somewhere() -> None:
    data = machine(bypass=["A"])
    data["levels"][0]["bypass"] = ["A"]
    assert refusal(data).startswith(
        "accelerator: levels[DRAM].bypass: every level bypasses 'A'; one at least"
    )
    data["levels"][0]["bypass"] = ["input"]
    assert "every level of two bypasses A" in refusal(data)


def test_more_children_than_can_be_counted_apart_are_refused() -> None:
    space = MapSpace(gemm(name="g", M=4, N=4, K=4), accelerator(machine(fanout=2**40)))
    code = space.sample(np.random.default_rng(0), 1)
    with pytest.raises(ConfigError, match=r"levels\[1\]\.fanout: 1\.1e\+12 children of one"):
        LoopNestModel().evaluate(space, code)


def test_fan_outs_that_are_judged_together_are_named_together() -> None:
    """2^14 times 2^13 children: only their product is more than can be counted apart."""
    data = machine(0, fanout=2**14)
    data["levels"][1]["fanout"] = 2**13
    tables = MapSpace(gemm(name="g", M=4, N=4, K=4), accelerator(data)).tables
    make_scratch(tables)
    together = tables._replace(machine=tables.machine._replace(cumulative=1))
    with pytest.raises(
        ConfigError, match=r"^levels: fan-outs are judged together, and 1\.34e\+08 "
    ):
        make_scratch(together)


@pytest.mark.parametrize("fanout", [MOST_CHILDREN, MOST_CHILDREN + 1])
def test_as_many_children_as_can_be_counted_apart_are_taken(fanout: int) -> None:
    tables = MapSpace(gemm(name="g", M=4, N=4, K=4), accelerator(machine(fanout=fanout))).tables
    with pytest.raises(ConfigError) if fanout > MOST_CHILDREN else nullcontext():
        make_scratch(tables)


@pytest.mark.parametrize("outer", [2**59, 2**60 - 1, 2**60])
def test_as_many_instances_as_64_bits_hold_are_taken(outer: int) -> None:
    """Times four elements each: 2^62 are one too many."""
    data = machine(0, fanout=outer)
    if outer < 2**60:
        assert accelerator(data).levels[0].fanout == outer
    else:
        assert "expected less than 2^62 instances in all, got 4.61e+18 below L1" in refusal(data)


def test_levels_side_by_side_stand_together() -> None:
    inner = {"name": "L0", "energy_pj": 1.0, "capacity_words": 4, "beside": "pe"}
    data = machine(beside="pe", fanout=2)
    data["levels"] += [inner]
    assert "only the last level of 'pe' fans out" in refusal(data)
    data = machine(0, beside="pe")
    data["levels"] += [inner]
    assert "not consecutive" in refusal(data)


def test_roles_decide_what_is_kept() -> None:
    nest = gemm(name="g", M=4, N=4, K=4)
    space = MapSpace(nest, accelerator(machine(bypass=["weight"])))
    code = space.sample(np.random.default_rng(0), 1, feasible=True)[0]
    assert nest.roles == {"A": "input", "B": "weight", "Z": "output"}
    assert [level.keep for level in space.describe(code).levels] == [("A", "B", "Z"), ("A", "Z")]
    np.testing.assert_array_equal(space.code(space.describe(code)), code)
    detail = LoopNestModel().evaluate(space, code[None], detail=True).detail
    assert detail is not None
    assert detail.tile[0, 1, 1] == 0
    # Four MACs at most share what is read past the level that does not hold it.
    assert detail.reads[0, 0, 1] >= nest.macs // 4


def test_roles_are_a_part_of_what_a_nest_is() -> None:
    source: dict[str, Any] = {
        "dimensions": {"M": 4, "N": 4, "K": 4},
        "tensors": {"A": ["M", "K"], "B": ["K", "N"], "Z": ["M", "N"]},
        "output": "Z",
    }
    plain, named = workload(source), workload({**source, "roles": {"B": "weight"}})
    assert plain.roles["B"] == "input"
    assert named.roles["B"] == "weight"
    assert plain.hash != named.hash
    with pytest.raises(ConfigError, match=r"roles\.Z: expected one of the inputs A, B"):
        workload({**source, "roles": {"Z": "weight"}})


@pytest.mark.parametrize(
    ("keys", "factor"),
    [
        ({"energy_pj": {"read": 3.0, "fill": 3.0, "update": 3.0}}, 3.0),
        ({"energy_pj": 1.5, "address_pj": 0.0}, 1.5),
    ],
)
def test_energies_by_action_add_up(keys: dict[str, Any], factor: float) -> None:
    nest = gemm(name="g", M=4, N=4, K=4)
    plain = MapSpace(nest, accelerator(machine()))
    codes = plain.sample(np.random.default_rng(0), 50, feasible=True)
    model = LoopNestModel()
    base = model.evaluate(plain, codes, detail=True).detail
    other = model.evaluate(MapSpace(nest, accelerator(machine(**keys))), codes, detail=True).detail
    assert base is not None
    assert other is not None
    np.testing.assert_allclose(other.energy_pj[:, 1], factor * base.energy_pj[:, 1])


def test_leakage_and_latencies_follow_from_cycles() -> None:
    nest = gemm(name="g", M=4, N=4, K=4)
    plain = MapSpace(nest, accelerator(machine()))
    codes = plain.sample(np.random.default_rng(0), 50, feasible=True)
    model = LoopNestModel()
    before = model.evaluate(plain, codes)
    keys = {"leakage_pj": 0.25, "fill_latency": 3, "drain_latency": 4}
    after = model.evaluate(MapSpace(nest, accelerator(machine(**keys))), codes)
    np.testing.assert_array_equal(after.latency_cycles, before.latency_cycles + 7)
    expected = before.energy_pj + 0.25 * after.latency_cycles
    np.testing.assert_allclose(after.energy_pj, expected)


def test_a_least_utilisation_refuses_small_tiles() -> None:
    nest = gemm(name="g", M=4, N=4, K=4)
    space = MapSpace(nest, accelerator(machine(min_utilisation=0.5)))
    plain = MapSpace(nest, accelerator(machine()))
    codes = plain.sample(np.random.default_rng(0), 300, feasible=True)
    detail = LoopNestModel().evaluate(plain, codes, detail=True).detail
    assert detail is not None
    enough = detail.tile[:, 1].sum(axis=1) >= 32
    np.testing.assert_array_equal(space.feasible(codes), enough)
    assert 0 < enough.sum() < enough.size


@pytest.mark.parametrize(
    ("rules", "problem", "along_x", "along_y"),
    [
        # Filters over C, R, S; inputs lack K; outputs lack C, R, S.
        ({"x_reuse": ["input"], "y_reuse": ["output"]}, "cnn", "K", "CRS"),
        ({"x_reuse": ["weight"], "y_reuse": []}, "cnn", "NPQ", ""),
        ({"x": ["C"], "x_reuse": ["input"], "y": []}, "cnn", "KC", ""),
        ({"x_reuse": ["input"], "y_reuse": ["output"]}, "gemm", "N", "K"),
        # A[I,K,L] lacks J and C[L,J] lacks I and K; weights are B[K,J] alone.
        ({"x_reuse": ["input"], "y_reuse": ["weight"]}, "mttkrp", "IJK", "IL"),
    ],
)
def test_what_a_role_lacks_may_run_across(
    rules: dict[str, Any], problem: str, along_x: str, along_y: str
) -> None:
    sizes = {"cnn": "N=2,K=2,C=2,P=2,Q=2,R=2,S=2", "gemm": "M=2,N=2,K=2"}
    work = workload(f"{problem}:{sizes.get(problem, 'I=2,J=2,K=2,L=2')}")
    keys = {"fanout": 16, "mesh": [4, 4], "capacity_words": 4096, "spatial": rules}
    tables = MapSpace(work, accelerator(machine(**keys))).tables.machine

    def names(mask: int) -> set[str]:
        return {name for d, name in enumerate(work.dimension_names) if mask >> d & 1}

    x, y, barred = (int(masks[1]) for masks in (tables.only_x, tables.only_y, tables.barred))
    assert names(x) == set(along_x) - set(along_y)
    assert names(y) == set(along_y) - set(along_x)
    assert names(barred) == set(work.dimension_names) - set(along_x) - set(along_y)


def test_dimensions_run_where_they_may() -> None:
    nest = gemm(name="g", M=4, N=4, K=4)
    rules = {"mesh": [2, 2], "spatial": {"x": ["M"], "y": ["K"]}}
    space = MapSpace(nest, accelerator(machine(**rules)))
    codes = space.sample(np.random.default_rng(0), 200, feasible=True)
    for code in codes:
        level = space.describe(code).levels[1]
        assert level.spatial["N"] == 1
        assert level.spatial_axis["M"] == "X"
        assert level.spatial_axis["K"] == "Y"


def test_a_role_without_a_tensor_is_refused_where_it_is_kept() -> None:
    tensors = {name: ["i"] for name in "ABZ"}
    add = workload({"name": "add", "dimensions": {"i": 4}, "output": "Z", "tensors": tensors})
    with pytest.raises(ConfigError) as caught:
        MapSpace(add, accelerator(machine(keep=["weight"])))
    assert str(caught.value) == (
        "accelerator.levels[L1].keep: no tensor has the role 'weight' (A: input, B: input, "
        "Z: output); give it to one, such as roles: {A: weight}."
    )
    # What is bypassed and what is reused may be missing: presets serve every operation.
    rules = {"x_reuse": ["weight"]}
    space = MapSpace(add, accelerator(machine(bypass=["weight"], spatial=rules)))
    assert space.sample(np.random.default_rng(0), 4, feasible=True).shape[0] == 4


def test_just_enough_utilisation_is_accepted() -> None:
    nest = gemm(name="g", M=4, N=4, K=4)
    space = MapSpace(nest, accelerator(machine(min_utilisation=0.75)))
    assert space.sample(np.random.default_rng(0), 2, feasible=True).shape[0] == 2

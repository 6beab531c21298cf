"""What every cost model and its space promise: `CostModelContract`, tests over models by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar

import numpy as np
import pytest

from costmodel import OBJECTIVES, accelerator, workload
from costmodel.cost_model_entry import CostModelEntry
from costmodel.costs import STATUS_OK, Costs
from costmodel.models import cost_model_entry
from costmodel.space import Codes, CostModel, Space
from mapspace.errors import ContractError
from searchers import Evaluator, make

# So many mappings say what they cost.
ROWS = 64


@dataclass(frozen=True)
class Subject:
    """A cost model on the space of one workload.

    Attributes:
        entry: what is said of the model.
        space: the space.
        model: the model.
    """

    entry: CostModelEntry
    space: Space
    model: CostModel

    def codes(self, *, feasible: bool = True) -> Codes:
        """`[64, D]` mappings drawn with a fixed seed."""
        codes: Codes = self.space.sample(np.random.default_rng(0), ROWS, feasible=feasible)
        return codes

    def costs(self, codes: Codes) -> Costs:
        """Costs of codes `[B, D]`."""
        costs: Costs = self.model.evaluate(self.space, codes)
        return costs


@cache
def subject_of(name: str, problem: str) -> Subject:
    """A cost model, by its name, on a workload and on its own accelerator."""
    entry = cost_model_entry(name)
    assert entry.space is not None, f"{name}: expected a cost model with a space"
    device = accelerator(entry.accelerator)
    return Subject(entry, entry.space(workload(problem), device), entry.model(device, {}))


class CostModelContract:
    """Tests of what `costmodel.space.CostModel` and `Space` promise; a subclass says of which.

    Attributes:
        names: keys of `costmodel.models.COST_MODELS`; a plug-in's too, once its package is
            installed.
        workload: a small one; its space is sampled, and enumerated where there is an optimum.
        workloads: others by name, for models that take no `workload`.
    """

    names: ClassVar[Sequence[str]] = ()
    workload: ClassVar[str] = "gemm:M=16,N=12,K=8"
    workloads: ClassVar[Mapping[str, str]] = {}

    def pytest_generate_tests(self, metafunc: Any) -> None:
        """Runs each test on every model."""
        if "subject" in metafunc.fixturenames:
            of = [subject_of(n, self.workloads.get(n, self.workload)) for n in self.names]
            metafunc.parametrize("subject", of, ids=list(self.names))

    def test_the_entry_says_what_there_is(self, subject: Subject) -> None:
        entry = subject.entry
        assert entry.description.endswith(".")
        known = entry.objectives or OBJECTIVES
        assert set(known) <= set(OBJECTIVES)
        assert set(known) <= set(entry.units), "expected a unit for every objective"
        assert subject.model.name
        assert subject.model.version

    def test_every_row_has_a_cost(self, subject: Subject) -> None:
        """`Costs` itself holds them finite exactly where the status is OK."""
        costs = subject.costs(subject.codes())
        assert costs.status.shape == (ROWS,)
        assert costs.ok.any()
        for objective in subject.entry.objectives or OBJECTIVES:
            assert (costs.objective(objective)[costs.ok] >= 0).all()

    def test_a_row_costs_the_same_in_any_batch(self, subject: Subject) -> None:
        codes = subject.codes(feasible=False)
        whole = subject.costs(codes)
        backwards = subject.costs(codes[::-1].copy())
        alone = [subject.costs(codes[[row]]) for row in range(8)]
        for what in ("energy_pj", "latency_cycles", "status"):
            np.testing.assert_array_equal(getattr(backwards, what)[::-1], getattr(whole, what))
            one_by_one = np.concatenate([getattr(costs, what) for costs in alone])
            np.testing.assert_array_equal(one_by_one, getattr(whole, what)[:8])

    def test_codes_are_left_alone(self, subject: Subject) -> None:
        codes = subject.codes()
        before = codes.copy()
        subject.costs(codes)
        np.testing.assert_array_equal(codes, before)

    def test_an_empty_batch_has_no_costs(self, subject: Subject) -> None:
        assert len(subject.costs(subject.codes()[:0]).status) == 0

    def test_foreign_codes_are_refused(self, subject: Subject) -> None:
        codes = subject.codes()
        for wrong in (
            codes[:, :-1],
            codes + subject.space.cardinality.astype(np.int32),
            -1 - codes,
        ):
            with pytest.raises(ContractError):
                subject.costs(wrong)

    def test_what_the_space_calls_infeasible_has_no_cost(self, subject: Subject) -> None:
        codes = subject.codes(feasible=False)
        refused = ~subject.space.feasible(codes)
        assert (subject.costs(codes).status[refused] != STATUS_OK).all()

    def test_the_optimum_is_no_more_than_any_mapping(self, subject: Subject) -> None:
        entry = subject.entry
        if entry.optimum is None:
            pytest.skip("it enumerates nothing")
        for objective in entry.objectives or OBJECTIVES:
            least, how = entry.optimum(subject.space, subject.model, objective)
            losses = subject.costs(subject.codes()).objective(objective)
            assert 0 < least <= losses.min()
            assert how

    def test_samples_and_moves_stay_in_the_space(self, subject: Subject) -> None:
        space, rng = subject.space, np.random.default_rng(1)
        codes = subject.codes()
        assert space.feasible(codes).all()
        moved = space.mutate(rng, codes)
        mask = rng.random(codes.shape) < 0.5
        drawn = space.resample(rng, codes, mask)
        edits = rng.integers(space.edit_choices, size=codes.shape)
        for found in (codes, moved, drawn, space.neighbours(codes[0]), space.edit(codes, edits)):
            space.check(found)
            assert found.dtype == np.int32
        np.testing.assert_array_equal(drawn[~mask], codes[~mask])
        np.testing.assert_array_equal(space.edit(codes, np.zeros_like(edits)), codes)

    def test_one_generator_gives_one_sample(self, subject: Subject) -> None:
        np.testing.assert_array_equal(subject.codes(), subject.codes())
        np.testing.assert_array_equal(subject.codes(feasible=False), subject.codes(feasible=False))

    def test_features_are_finite_and_project_to_feasible_mappings(self, subject: Subject) -> None:
        space, codes = subject.space, subject.codes()
        features = space.encode(codes)
        assert features.shape == (ROWS, len(space.feature_names))
        assert features.dtype == np.float32
        assert np.isfinite(features).all()
        noise = np.random.default_rng(2).normal(size=features.shape)
        assert space.feasible(space.project(features + noise)).all()

    def test_a_search_improves(self, subject: Subject) -> None:
        objective = (subject.entry.objectives or OBJECTIVES)[0]
        evaluator = Evaluator(subject.model, subject.space, objective=objective, iterations=200)
        make("annealing", subject.space, seed=0).run(evaluator)
        result = evaluator.result()
        assert result.iterations == 200
        assert result.best_loss <= result.curve_loss[0]

"""What every searcher promises: `SearcherContract`, a class of tests over searchers by name."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from costmodel import LoopNestModel, MapSpace, TilingSpace, accelerator, workload
from costmodel.maestro import MaestroModel, OnChipSpace
from costmodel.maestro.distinct_blocks import layer_of
from costmodel.space import Codes, Losses
from costmodel.tiling import AnalyticalTiling
from mapspace.errors import ConfigError, ContractError
from mapspace.testing.toy_space import ToyModel, ToyPredictor, ToySpace
from searchers import Evaluator, Searcher, hyperparameters, make, searcher_class


def _nest() -> tuple[Any, Any]:
    problem = workload("cnn:N=4,K=96,C=80,P=14,Q=14,R=3,S=3,stride=1")
    return MapSpace(problem, accelerator("mm256")), LoopNestModel()


def _on_chip() -> tuple[Any, Any]:
    layer = layer_of(workload("marvel-l13"))
    space = OnChipSpace(layer, (128, 256, 1, 1, 7, 7), accelerator("eyeriss-168"))
    return space, MaestroModel()


def _tilings() -> tuple[Any, Any]:
    return TilingSpace(workload("gemm:M=64,N=64,K=64")), AnalyticalTiling(accelerator("cpu-avx512"))


# Spaces with models that score them.
SPACES: Mapping[str, Callable[[], tuple[Any, Any]]] = {
    "nest": _nest,
    "toy": lambda: (ToySpace(), ToyModel()),
    "on-chip": _on_chip,
    "tilings": _tilings,
}
# A searcher without `SPACES` must work on these.
GENERAL = ("nest", "toy")
# Made once: what is in them does not change.
space_and_model = cache(lambda name: SPACES[name]())


@dataclass(frozen=True)
class Case:
    """A searcher with a preset on a space.

    Attributes:
        name: the searcher.
        preset: one of its presets; None: its defaults.
        on: a key of `SPACES`.
    """

    name: str
    preset: str | None
    on: str

    def __str__(self) -> str:
        return f"{self.name}-{self.preset}-{self.on}"

    @property
    def space(self) -> Any:
        """The space."""
        return space_and_model(self.on)[0]

    @property
    def model(self) -> Any:
        """A cost model that scores the space."""
        return space_and_model(self.on)[1]

    @property
    def exhaustible(self) -> bool:
        """Whether it may end before its budget does."""
        return searcher_class(self.name).EXHAUSTIBLE

    def build(self, seed: int = 0) -> Searcher:
        """The searcher with its quick settings, and with a predictor where it takes one."""
        extra: dict[str, Any] = dict(searcher_class(self.name).QUICK)
        if "predictor" in searcher_class(self.name).USES:
            extra["predictor"] = ToyPredictor(len(self.space.feature_names))
        return make(self.name, self.space, seed=seed, preset=self.preset, **extra)

    def losses(self, codes: Codes) -> Losses:
        """`[m]` true losses of codes `[m, D]`."""
        edp: Losses = self.model.evaluate(self.space, codes).edp
        return edp

    def play(self, searcher: Searcher, asks: int, n: int = 37) -> list[Codes]:
        """Codes of so many asks, answered truly; ends where the searcher is exhausted."""
        asked = []
        for _ in range(asks):
            codes = searcher.ask(n)
            asked.append(codes)
            searcher.tell(self.losses(codes))
        return asked

    def asked(self, asks: int, seed: int = 0) -> Codes:
        """`[m, D]` what a new searcher proposes in so many asks."""
        return np.concatenate(self.play(self.build(seed), asks))


# `test_resume_is_exact` looks at the first 18: nine asks, another one, and eight after them.
_ASKS = 30


@cache
def undisturbed(case: Case) -> tuple[list[Codes], list[int]]:
    """What a searcher proposes that nobody disturbs, played once for all tests of it.

    Returns:
        The codes of each ask, and its queries of a surrogate before the first and after each.
    """
    searcher = case.build()
    asked, queries = [], [searcher.surrogate_queries]
    for _ in range(_ASKS):
        asked += [codes.copy() for codes in case.play(searcher, 1)]
        queries.append(searcher.surrogate_queries)
    return asked, queries


def cases_of(names: Sequence[str]) -> list[Case]:
    """Every searcher, with every preset, on the spaces that it works on."""
    cases = []
    for name in names:
        cls = searcher_class(name)
        fitting = [on for on in SPACES if isinstance(space_and_model(on)[0], cls.SPACES)]
        on = fitting if cls.SPACES else list(GENERAL)
        cases += [Case(name, None, space) for space in on]
        # A preset changes numbers, not what a space is: one kind of space will do.
        cases += [Case(name, preset, on[0]) for preset in sorted(cls.OPTIONS.PRESETS)]
    return cases


def digests(names: Sequence[str], proposed_by: Callable[[Case], Codes] | None = None) -> list[str]:
    """A line per searcher with a digest of what it proposes in twelve asks.

    Args:
        names: of the searchers.
        proposed_by: `[m, D]` what one proposes; None: it is played.
    """
    play = proposed_by or (lambda case: case.asked(12))
    first = {case.name: case for case in reversed(cases_of(names)) if case.preset is None}
    proposed = {name: np.ascontiguousarray(play(first[name])) for name in names}
    return [
        f"{name} {hashlib.sha256(codes.tobytes()).hexdigest()}" for name, codes in proposed.items()
    ]


def through_files(state: Any) -> Any:
    """A state as it comes back from JSON and arrays: tuples as lists, arrays by value."""

    def pack(value: Any) -> Any:
        if isinstance(value, np.ndarray):
            return {"__array__": value.tolist(), "dtype": str(value.dtype), "shape": value.shape}
        if isinstance(value, np.generic):
            return value.item()
        if isinstance(value, dict):
            return {key: pack(entry) for key, entry in value.items()}
        if isinstance(value, list | tuple):
            return [pack(entry) for entry in value]
        assert value is None or isinstance(value, bool | int | float | str), type(value)
        return value

    def unpack(value: Any) -> Any:
        if isinstance(value, dict) and "__array__" in value:
            return np.array(value["__array__"], dtype=value["dtype"]).reshape(value["shape"])
        if isinstance(value, dict):
            return {key: unpack(entry) for key, entry in value.items()}
        return [unpack(entry) for entry in value] if isinstance(value, list) else value

    return unpack(json.loads(json.dumps(pack(state))))


class SearcherContract:
    """Tests of what `searchers.base.Searcher` promises; a subclass says of which searchers.

    Attributes:
        names: keys of `searchers.SEARCHERS`; a plug-in's too, once its package is installed.
    """

    names: ClassVar[Sequence[str]] = ()

    def pytest_generate_tests(self, metafunc: Any) -> None:
        """Runs each test on every case, or on every name."""
        if "case" in metafunc.fixturenames:
            metafunc.parametrize("case", cases_of(self.names), ids=str)
        if "name" in metafunc.fixturenames:
            metafunc.parametrize("name", self.names)

    def test_one_seed_gives_one_run(self, case: Case) -> None:
        np.testing.assert_array_equal(np.concatenate(undisturbed(case)[0][:12]), case.asked(12))

    def test_another_seed_gives_another_run(self, case: Case) -> None:
        first, second = np.concatenate(undisturbed(case)[0][:4]), case.asked(4, seed=1)
        assert first.shape != second.shape or (first != second).any()

    def test_global_random_state_plays_no_part(self, case: Case) -> None:
        np.random.seed(1)  # noqa: NPY002
        # Played now, or before in any other state.
        first = np.concatenate(undisturbed(case)[0][:6])
        np.random.seed(2)  # noqa: NPY002
        np.testing.assert_array_equal(first, case.asked(6))

    @pytest.mark.parametrize("at", ["before ask", "before tell"])
    @pytest.mark.parametrize("steps", [0, 1, 9])
    def test_resume_is_exact(self, case: Case, at: str, steps: int) -> None:
        """A saved searcher continues as the undisturbed one, also through files."""
        asked, queries = undisturbed(case)
        saved, played = case.build(), steps
        case.play(saved, steps)
        if at == "before tell":
            codes = saved.ask(37)
        state = through_files(saved.state_dict())
        if at == "before ask":
            case.play(saved, 2)  # must not reach into the state
        resumed = case.build(seed=99)
        resumed.load_state_dict(state)
        if at == "before tell":
            np.testing.assert_array_equal(codes, asked[played])
            resumed.tell(case.losses(codes))
            played += 1
        assert resumed.surrogate_queries == queries[played]
        expected, got = asked[played : played + 8], case.play(resumed, 8)
        for theirs, ours in zip(expected, got, strict=True):
            np.testing.assert_array_equal(theirs, ours)
        assert resumed.surrogate_queries == queries[played + 8]

    def test_state_is_a_copy(self, case: Case) -> None:
        searcher = case.build()
        case.play(searcher, 3)
        state = searcher.state_dict()
        before = json.dumps(through_files(state), default=lambda array: array.tolist())
        case.play(searcher, 3)
        assert json.dumps(through_files(state), default=lambda array: array.tolist()) == before

    def test_foreign_states_are_refused(self, case: Case) -> None:
        searcher = case.build()
        state = searcher.state_dict()
        with pytest.raises(ContractError, match="got that of 'Other'"):
            searcher.load_state_dict({**state, "searcher": "Other"})
        with pytest.raises(ContractError, match="memory"):
            searcher.load_state_dict({**state, "memory": {"_unknown": 1}})

    @pytest.mark.parametrize("n", [1, 2, 3, 17, 101, 1000])
    def test_budget_is_kept(self, case: Case, n: int) -> None:
        searcher = case.build()
        for _ in range(12):
            before = searcher.surrogate_queries
            codes = searcher.ask(n)
            spent = searcher.surrogate_queries - before
            assert len(codes) + spent <= n
            assert len(codes) + spent > 0 or case.exhaustible
            assert codes.dtype == np.int32
            assert codes.shape[1:] == case.space.cardinality.shape
            searcher.tell(case.losses(codes))

    def test_proposals_are_feasible(self, case: Case) -> None:
        codes = np.concatenate(undisturbed(case)[0])
        case.space.check(codes)
        assert case.space.feasible(codes).all()

    def test_whole_run_spends_the_budget_and_improves(self, case: Case) -> None:
        space = case.space
        evaluator = Evaluator(case.model, space, iterations=501)
        steps = 0

        def count(_: Searcher) -> None:
            nonlocal steps
            steps += 1

        searcher = case.build()
        searcher.run(evaluator, count)
        result = evaluator.result()
        assert result.iterations == 501 or case.exhaustible
        assert result.surrogate_queries == searcher.surrogate_queries
        assert steps > 0
        cls = searcher_class(case.name)
        if "predictor" in cls.USES:  # what follows one improves what that predicts
            return
        if cls.BLACK_BOX:
            assert result.best_loss < result.curve_loss[0]
        else:  # what knows the machine may begin with its best
            drawn = space.sample(np.random.default_rng(9), 501, feasible=True)
            assert result.best_loss < np.median(case.model.evaluate(space, drawn).edp)

    def test_infeasible_answers_are_survived(self, case: Case) -> None:
        searcher = case.build()
        for _ in range(40):
            codes = searcher.ask(25)
            searcher.tell(np.full(len(codes), np.inf))
        assert case.space.feasible(searcher.ask(25)).all()

    @settings(
        max_examples=15, deadline=None, suppress_health_check=[HealthCheck.differing_executors]
    )
    @given(data=st.data())
    def test_any_losses_are_survived(self, data: st.DataObject) -> None:
        searcher = data.draw(st.sampled_from(cases_of(self.names))).build()
        for _ in range(12):
            codes = searcher.ask(data.draw(st.integers(1, 60)))
            losses = data.draw(
                st.lists(
                    st.one_of(st.floats(0, 1e30), st.just(float("inf"))),
                    min_size=len(codes),
                    max_size=len(codes),
                )
            )
            searcher.tell(np.array(losses, dtype=np.float64))

    def test_asked_codes_belong_to_the_caller(self, case: Case) -> None:
        touched, untouched = case.build(), case.build()
        for _ in range(6):
            codes, expected = touched.ask(20), untouched.ask(20)
            np.testing.assert_array_equal(codes, expected)
            losses = case.losses(expected)
            codes[:] = -1
            touched.tell(losses)
            losses_again = case.losses(expected)
            untouched.tell(losses_again)
            losses[:] = 0.0

    def test_nan_is_refused(self, case: Case) -> None:
        searcher = case.build()
        losses = np.ones(len(searcher.ask(9)))
        losses[-1] = np.nan
        with pytest.raises(ContractError, match=f"row {len(losses) - 1} is nan"):
            searcher.tell(losses)
        searcher.tell(np.ones_like(losses))

    def test_wrong_shapes_are_refused(self, case: Case) -> None:
        searcher = case.build()
        rows = len(searcher.ask(9))
        for wrong in (np.ones(rows + 1), np.ones((rows, 1)), np.float64(1.0)):
            with pytest.raises(ContractError, match="Expected losses of shape"):
                searcher.tell(wrong)
        searcher.tell(np.ones(rows))

    def test_calls_out_of_order_are_refused(self, case: Case) -> None:
        searcher = case.build()
        with pytest.raises(ContractError, match="without calling ask"):
            searcher.tell(np.ones(1))
        rows = len(searcher.ask(9))
        with pytest.raises(ContractError, match="called twice"):
            searcher.ask(9)
        searcher.tell(np.ones(rows))
        with pytest.raises(ContractError, match="without calling ask"):
            searcher.tell(np.ones(rows))
        with pytest.raises(ContractError, match="n >= 1"):
            searcher.ask(0)

    def test_unknown_hyperparameters_are_refused(self, name: str) -> None:
        known = ", ".join(sorted(hyperparameters(name))) or "none"
        space = cases_of([name])[0].space
        with pytest.raises(ConfigError, match=f"temprature of searcher {name}; known: {known}"):
            make(name, space, seed=0, temprature=1.0)
        with pytest.raises(ConfigError, match="Unknown preset 'no such preset'"):
            make(name, space, seed=0, preset="no such preset")

    def test_hyperparameters_are_explained(self, name: str) -> None:
        """`mapspace list searchers --long` prints them."""
        for one in searcher_class(name).OPTIONS.explained():
            assert one.sentence, f"{name}: {one.name}: expected a docstring that says what it is"
            assert one.allowed != "anything", f"{name}: {one.name}: expected a type"

    def test_another_process_agrees(self) -> None:
        """Whatever the hash seed is, the same seed proposes the same mappings."""
        code = (
            "import sys\n"
            "from mapspace.testing.searchers import digests\n"
            "print(*digests(sys.argv[1:]), sep='\\n')\n"
        )
        mine = os.environ.get("PYTHONHASHSEED", "random")
        other = subprocess.Popen(
            [sys.executable, "-c", code, *self.names],
            env={
                **os.environ,
                "PYTHONHASHSEED": "2" if mine == "1" else "1",
                "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
            },
            stdout=subprocess.PIPE,
            text=True,
        )
        here = digests(self.names, lambda case: np.concatenate(undisturbed(case)[0][:12]))
        there = other.communicate()[0]
        assert other.returncode == 0
        assert there.splitlines() == here
        assert len(here) == len(self.names)

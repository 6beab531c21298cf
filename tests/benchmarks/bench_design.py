"""What a design finds beside Optuna and random search over the same machines, for equal time.

```
python tests/benchmarks/bench_design.py design-resnet50 --seeds 3
```

The design runs first, in this process. Each other method then has as much processor time, and the
same proven best mapping of every layer as its judge; `short` judges by 500 queries of `structured`
per layer instead, and its choice is then proven. Machines above the limit of area cost nothing.

With `--machines 60` instead: how often a short inner search names another machine the best than the
proof does, among ten of so many drawn at random, and what its choice loses.
"""

from __future__ import annotations

import argparse
import math
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

import searchers
from costmodel import LoopNestModel, MapSpace
from mapspace.errors import MapspaceError
from orchestrator.design.aims import aims_of
from orchestrator.design.config import Design
from orchestrator.design.plan import DesignPlan, prepare_design
from orchestrator.design.run import design
from orchestrator.runs.experiments import find_experiment, load_experiment
from orchestrator.sweep.proofs import Problem, Proof, prove_problem

Places = tuple[int, ...]
Judge = Callable[[Places], float]


def proven(plan: DesignPlan, places: Places) -> float:
    """The objective of a machine with the best mappings, in the units of `Found.value`."""
    machine = plan.grid.machine(places)
    proofs = [
        prove_problem(Problem(layer.workload, machine, plan.design.objective), 30.0)
        for layer in plan.layers
    ]
    return plan.evaluate(places, proofs, aims_of(plan.design)[0]).value


def short(
    plan: DesignPlan, places: Places, searcher: str = "structured", queries: int = 500
) -> float:
    """The same with what a short search finds."""
    machine = plan.grid.machine(places)
    proofs = []
    for layer in plan.layers:
        space = MapSpace(layer.workload, machine)
        evaluator = searchers.Evaluator(
            LoopNestModel(), space, objective=plan.design.objective, iterations=queries
        )
        searchers.make(searcher, space, seed=0).run(evaluator)
        found = evaluator.result()
        if not math.isfinite(found.best_loss):
            return math.inf
        costs = LoopNestModel().evaluate(space, np.array([found.best_code], np.int32))
        problem = Problem(layer.workload, machine, plan.design.objective)
        proofs.append(
            Proof(
                key=problem.key,
                status="searched",
                energy_pj=float(costs.energy_pj[0]),
                latency_cycles=int(costs.latency_cycles[0]),
                seconds=0.0,
                limit_seconds=1.0,
            )
        )
    return plan.evaluate(places, proofs, aims_of(plan.design)[0]).value


def within(plan: DesignPlan, places: Places) -> bool:
    """Whether a machine's area is within the limit."""
    box = tuple((place, place + 1) for place in places)
    return not plan.grid.too_large(box, plan.design.limits)


def at_random(plan: DesignPlan, judge: Judge, seconds: float, seed: int) -> tuple[Places, int]:
    """The best of machines drawn uniformly from those within the limit."""
    rng, best, seen = np.random.default_rng(seed), (math.inf, ()), 0
    started = time.process_time()
    while time.process_time() - started < seconds:
        places = tuple(int(rng.integers(len(axis.values))) for axis in plan.grid.axes)
        if within(plan, places):
            seen += 1
            best = min(best, (judge(places), places))
    return best[1], seen


def by_optuna(plan: DesignPlan, judge: Judge, seconds: float, seed: int) -> tuple[Places, int]:
    """The best of NSGA-II, as Optuna has it, with its default settings."""
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    study = optuna.create_study(sampler=optuna.samplers.NSGAIISampler(seed=seed))
    known: dict[Places, float] = {}
    started = time.process_time()
    while time.process_time() - started < seconds:
        trial = study.ask()
        places = tuple(
            trial.suggest_int(axis.key, 0, len(axis.values) - 1) for axis in plan.grid.axes
        )
        if not within(plan, places):
            study.tell(trial, state=optuna.trial.TrialState.FAIL)
            continue
        if places not in known:
            known[places] = judge(places)
        study.tell(trial, known[places])
    return min(known, key=lambda places: known[places]), len(known)


def wrong_machines(plan: DesignPlan, machines: int) -> None:
    """Prints how often each short search picks another machine of ten than the proof."""
    rng, drawn = np.random.default_rng(0), set[Places]()
    while len(drawn) < machines:
        places = tuple(int(rng.integers(len(axis.values))) for axis in plan.grid.axes)
        if within(plan, places):
            drawn.add(places)
    listed = sorted(drawn)
    truth = np.array([proven(plan, places) for places in listed])
    tens = np.array([rng.permutation(machines)[:10] for _ in range(10_000)])
    best = truth[tens].min(axis=1)
    for searcher in ("structured", "annealing", "genetic", "random"):
        for queries in (100, 500, 2000):
            judged = np.array([short(plan, places, searcher, queries) for places in listed])
            picks = np.take_along_axis(tens, judged[tens].argmin(axis=1)[:, None], axis=1)[:, 0]
            wrong = truth[picks] > best
            loss = truth[picks][wrong] / best[wrong] - 1
            worst = f"{loss.max():.1%}" if wrong.any() else "-"
            mean = f"{loss.mean():.1%}" if wrong.any() else "-"
            above = np.exp(np.log(judged / truth).mean()) - 1
            print(
                f"{searcher} {queries}: wrong in {wrong.mean():.1%} of tens, then {mean} "
                f"(worst {worst}) lost; judged {above:.1%} above the truth"
            )


def main() -> None:
    """Runs them all and prints a line each."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("experiment")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--machines", type=int, help="how often ten of so many are misjudged")
    options = parser.parse_args()
    path = find_experiment(options.experiment)
    plan = prepare_design(load_experiment(path, Design), str(path))
    # Everything is loaded before anything is timed.
    first = tuple(0 for _ in plan.grid.axes)
    proven(plan, first)
    short(plan, first)
    if options.machines is not None:
        wrong_machines(plan, options.machines)
        return
    started = time.process_time()
    with tempfile.TemporaryDirectory() as folder:
        found = design(plan, Path(folder), execute=map)
    seconds = time.process_time() - started
    best = proven(plan, found.certificate.front[0])
    print(f"design  {seconds:.0f} s  {found.share()}  proven: {found.proven}")
    for name, search in (("random", at_random), ("NSGA-II", by_optuna)):
        for judged, judge in (("proven", proven), ("short", short)):
            for seed in range(options.seeds):
                try:
                    places, seen = search(
                        plan, lambda places, judge=judge: judge(plan, places), seconds, seed
                    )
                except (MapspaceError, ValueError) as error:
                    print(f"{name}  {judged}  seed {seed}  {error}")
                    continue
                above = proven(plan, places) / best - 1
                print(f"{name}  {judged}  seed {seed}  {seen} machines  {above:.2%} above the best")


if __name__ == "__main__":
    main()

"""Host `blocks`: Tune schedules blocks of mappings, all searches run side by side."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from mapspace.errors import ConfigError
from mapspace.storage import Place
from orchestrator.benchmark.config import Plan, SearcherEntry, make_searcher
from orchestrator.benchmark.live_curves import LiveBenchmark
from orchestrator.benchmark.stored_runs import Search
from orchestrator.benchmark.tune_session import budget_text, fit, scheduling
from orchestrator.comparison.results import Run
from orchestrator.runs.checkpoints import load_state, save_state

if TYPE_CHECKING:
    from orchestrator.benchmark.block_trial import BlockSearch

BlockTask = tuple[SearcherEntry, str, int]
"""Searcher, name of the workload and seed of a search in blocks."""

BLOCKS_FILE = "blocks.npz"


def run_blocks(
    plan: Plan,
    states: Place,
    seconds: float,
    live: LiveBenchmark,
    searches: Sequence[Search],
    callbacks: Sequence[Any] = (),
) -> list[Run]:
    """Host `blocks`: Tune schedules blocks of mappings, all searches run side by side.

    Raises:
        ConfigError: a searcher wants remote runners.
    """
    from ray import tune

    from orchestrator.benchmark.block_trial import (
        BlockSearch,
        EvaluateBlock,
        TuneSearch,
    )
    from orchestrator.benchmark.search_trial import make_evaluator
    from orchestrator.benchmark.tune_progress import BlockProgress
    from orchestrator.pool.delivered import DeliveredCosts

    benchmark = plan.benchmark
    for entry in benchmark.searchers:
        if entry.parameters.get("runners", 0):
            raise ConfigError(
                f"searchers.{entry.label}.parameters.runners: expected 0 with host: blocks, got "
                f"{entry.parameters['runners']}; the blocks take Ray's processors, and the runners "
                "would wait for them for ever."
            )
    model = plan.model()
    spaces = {name: plan.space(name) for name in plan.workloads}
    tasks = [(plan.entry(label), workload, seed) for label, workload, seed in searches]
    trainable = tune.with_parameters(
        EvaluateBlock,
        model=model,
        spaces=[spaces[workload] for _, workload, _ in tasks],
        objective=benchmark.objective,
    )
    path = states / BLOCKS_FILE
    blocks = []
    for entry, workload, seed in tasks:
        delivered = DeliveredCosts(model.name, model.version)
        evaluator = make_evaluator(plan, delivered, spaces[workload], entry)
        searcher = make_searcher(plan, entry, spaces[workload], seed=seed, evaluator=evaluator)
        blocks.append(BlockSearch(searcher, evaluator, benchmark.block_size))
    search = TuneSearch(
        blocks,
        keep=partial(save_state, path),
        seconds=seconds,
    )
    if path.exists():
        live.say(f"{benchmark.name}: continuing")
        search.load_state_dict(load_state(path))
    else:
        live.say(
            f"{benchmark.name}: {len(tasks)} searches, {budget_text(plan)} each, "
            f"in blocks of {benchmark.block_size} mappings"
        )
    tell = _teller(tasks, blocks, live)
    tell(before=True)
    # A block that is lost is evaluated again from its configuration.
    fit(
        trainable,
        tune.TuneConfig(search_alg=search, num_samples=-1, **scheduling(plan, live)),
        [BlockProgress(len(tasks), tell), *callbacks],
        states.parent,
        live,
    )
    tell()
    if live.stopped:
        # Its last second may be missing from the file.
        save_state(path, search.state_dict())
    live.check(
        {"searcher": entry.label, "workload": workload, "seeds": [seed]}
        for (entry, workload, seed), block in zip(tasks, blocks, strict=True)
        if not block.done
    )
    return [_run_of(task, block) for task, block in zip(tasks, blocks, strict=True)]


def _teller(
    tasks: Sequence[BlockTask], blocks: Sequence[BlockSearch], live: LiveBenchmark
) -> Callable[..., None]:
    """What tells of every search in blocks once, when it is finished."""
    told = set[int]()

    def tell(*, before: bool = False) -> None:
        for place, (task, block) in enumerate(zip(tasks, blocks, strict=True)):
            if block.done and place not in told:
                told.add(place)
                live.add([_run_of(task, block)], before=before)

    return tell


def _run_of(task: BlockTask, block: BlockSearch) -> Run:
    """What a search in blocks has found so far."""
    from orchestrator.benchmark.search_trial import pack_result, unpack_run

    entry, workload, seed = task
    packed = pack_result(block.evaluator.result(), block.searcher.failure)
    return unpack_run(packed, entry.label, workload, seed)

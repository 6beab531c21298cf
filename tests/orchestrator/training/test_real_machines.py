"""A surrogate of a machine of any depth: data, training, and the searchers that ask it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from costmodel import LoopNestModel, MapSpace, accelerator, workload
from mapspace.errors import ConfigError
from orchestrator.training.generate import GenerateConfig, generate
from searchers import Evaluator, make
from surrogate import predictor
from surrogate.for_space import predictor as predictor_for
from surrogate.shards import Dataset
from surrogate.training import FitOptions, fit

PROBLEM = "cnn:N=1,K=24,C=24,P=14,Q=14,R=3,S=3,stride=1"


def train(machine: str, folder: Path) -> Path:
    """The folder of a surrogate that saw 24 small layers on a machine."""
    torch.set_num_threads(1)
    sizes = {"N": [1], "K": [8, 16, 24, 32], "C": [8, 16, 24, 32], "P": [7, 14, 28], "R": [1, 3]}
    content = {
        "kind": "generate",
        "name": "small",
        "problems": {"family": "cnn", "sizes": sizes},
        "accelerator": machine,
        "rows": 1200,
        "mappings_per_problem": 50,
        "problems_per_shard": 12,
    }
    generate(GenerateConfig.model_validate(content), folder / "data", execute=map)
    data = Dataset(folder / "data")
    fitted = fit(data, FitOptions(views=16_384, batch_size=256, held_out_problems=4))
    assert fitted.figures.spearman > 0.9
    predictor.write(
        folder / "surrogate",
        fitted.network,
        structure=data.manifest.structure,
        costs=data.manifest.costs,
        ranges=data.manifest.config.problems.bounds(),
        scale=data.manifest.statistics.inputs.std,
        reached=fitted.figures,
        training={},
        provenance={},
    )
    return folder


@pytest.mark.parametrize("machine", ["eyeriss", "simba"])
def test_searchers_follow_a_surrogate_of_a_real_machine(machine: str, tmp_path: Path) -> None:
    folder = str(train(machine, tmp_path))
    space, model = MapSpace(workload(PROBLEM), accelerator(machine)), LoopNestModel()
    drawn = space.sample(np.random.default_rng(0), 400, feasible=True)
    edp = np.sort(model.evaluate(space, drawn).edp)
    for name, iterations, rank in (("gradient", 400, 4), ("surrogate-guided", 20, 1)):
        evaluator = Evaluator(model, space, iterations=iterations)
        make(name, space, seed=0, predictor=predictor_for(space, folder)).run(evaluator)
        # Better than all but a few of as many draws and more.
        assert evaluator.best_loss < edp[rank]
    other = MapSpace(workload(PROBLEM), accelerator("mm256"))
    with pytest.raises(ConfigError, match="mm256 is another accelerator"):
        predictor_for(other, folder)

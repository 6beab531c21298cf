"""What a training run can choose: batch size, rate, loss, precision; its curve and its memory."""

from __future__ import annotations

import itertools
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
import torch

from mapspace.errors import ConfigError, DataError
from surrogate.options import CURVE_FILE, FitOptions, read_curve, write_curve
from surrogate.recipes import LOSSES, recipe_of
from surrogate.shards import Dataset
from surrogate.stream import Batches, hold_out
from surrogate.training import Fitted, Progress, fit

OPTIONS = FitOptions(views=12_288, held_out_problems=8, checkpoint_views=5_120, seed=3)


@pytest.fixture(autouse=True)
def one_thread() -> None:
    torch.set_num_threads(1)


@pytest.fixture(scope="module")
def plain(small_data: Path) -> Fitted:
    torch.set_num_threads(1)
    return fit(Dataset(small_data), OPTIONS)


@pytest.mark.parametrize(
    ("changes", "batch_size", "learning_rate"),
    [
        ({}, 128, 0.01),
        ({"batch_size": 128}, 128, 0.01),
        # Sixteen times the batch, four times the rate.
        ({"batch_size": 2048}, 2048, 0.04),
        ({"batch_size": 32}, 32, 0.005),
        ({"batch_size": 2048, "learning_rate": 0.3}, 2048, 0.3),
        ({"learning_rate": 0.3}, 128, 0.3),
    ],
)
def test_another_batch_scales_the_learning_rate_unless_one_is_given(
    changes: dict[str, float], batch_size: int, learning_rate: float
) -> None:
    recipe = recipe_of(FitOptions.model_validate({"recipe": "paper", **changes}))
    assert recipe.batch_size == batch_size
    assert recipe.learning_rate == pytest.approx(learning_rate)


def test_losses_by_hand() -> None:
    expected = {"huber": [0.125, 0.5, 2.5], "mse": [0.25, 1.0, 9.0], "mae": [0.5, 1.0, 3.0]}
    errors = torch.tensor([0.5, -1.0, 3.0])
    assert set(LOSSES) == set(expected)
    for name, loss in LOSSES.items():
        assert loss(errors, torch.zeros(3), reduction="none").tolist() == expected[name]


@pytest.mark.parametrize(
    "changes", [{"batch_size": 512}, {"learning_rate": 1e-3}, {"loss": "mae"}, {"loss": "mse"}]
)
def test_every_choice_trains_and_matters(
    plain: Fitted, small_data: Path, changes: dict[str, object]
) -> None:
    fitted = fit(Dataset(small_data), OPTIONS.model_copy(update=changes))
    assert fitted.figures.spearman > 0.85
    assert fitted.figures != plain.figures


def test_bfloat16_is_near_float32_and_leaves_float32_weights(small_data: Path) -> None:
    """In few steps: processors without such numbers take ten times as long."""
    few = OPTIONS.model_copy(update={"views": 3072})
    plain = fit(Dataset(small_data), few)
    fitted = fit(Dataset(small_data), few.model_copy(update={"precision": "bfloat16"}))
    assert {value.dtype for value in fitted.network.state_dict().values()} == {torch.float32}
    assert 0 < abs(fitted.curve[-1].loss - plain.curve[-1].loss) < 0.1 * plain.curve[-1].loss
    assert fitted.figures.spearman == pytest.approx(plain.figures.spearman, abs=0.01)


def test_features_are_not_rounded_to_bfloat16(plain: Fitted, small_data: Path) -> None:
    points = torch.from_numpy(Dataset(small_data).read(0).inputs[:64].copy())
    seen: list[torch.Tensor] = []
    first = plain.network.body[0]  # type: ignore[index]
    hook = first.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
    with torch.no_grad():
        plain.network(points)
        with torch.autocast("cpu", torch.bfloat16):
            outputs = plain.network(points)
    hook.remove()
    assert outputs.dtype == torch.bfloat16
    assert torch.equal(*seen)


def test_the_curve_is_what_the_network_reaches(plain: Fitted, small_data: Path) -> None:
    assert [point.views for point in plain.curve] == [5_120, 10_240, 12_288]
    assert plain.curve[-1].loss < plain.curve[0].loss
    held_out = hold_out(Dataset(small_data), 8)
    network = plain.network
    with torch.no_grad():
        white = network.whiten(torch.from_numpy(held_out.samples.costs))
        outputs = network(torch.from_numpy(held_out.samples.inputs))
    # Huber's loss, energy and cycles three times as heavy as each of the other ten.
    errors = (outputs - white).abs().double().numpy()
    loss = np.where(errors < 1, errors**2 / 2, errors - 0.5)
    weights = np.array([1.0] * 10 + [3.0] * 2)
    expected = (loss.mean(0) * weights).sum() / weights.sum()
    assert plain.curve[-1].held_out_loss == pytest.approx(expected, rel=1e-5)
    assert plain.curve[-1].rmse == plain.figures.rmse
    assert plain.curve[-1].spearman == plain.figures.spearman


def test_a_curve_goes_on_where_a_run_does(plain: Fitted, small_data: Path, tmp_path: Path) -> None:
    saved: list[Path] = []

    def report(progress: Progress) -> None:
        saved.append(tmp_path / str(progress.step))
        progress.save(saved[-1])

    fit(Dataset(small_data), OPTIONS, report=report)
    continued = fit(Dataset(small_data), OPTIONS, resume=saved[0])
    timeless = [
        [point.model_copy(update={"seconds": 0.0}) for point in fitted.curve]
        for fitted in (plain, continued)
    ]
    assert timeless[0] == timeless[1]
    assert sorted(point.seconds for point in continued.curve) == [
        point.seconds for point in continued.curve
    ]


def test_a_curve_is_read_as_it_was_written(plain: Fitted, tmp_path: Path) -> None:
    write_curve(tmp_path, plain.curve)
    assert read_curve(tmp_path) == plain.curve
    (tmp_path / CURVE_FILE).write_text('[{"views": 1}]')
    with pytest.raises(DataError, match=r"curve\.json is damaged"):
        read_curve(tmp_path)
    with pytest.raises(DataError, match=r"curve\.json is missing"):
        read_curve(tmp_path / "nowhere")


def batches_of(dataset: Dataset, pool_rows: int) -> Batches:
    return Batches(
        dataset,
        hold_out(dataset, 7),
        shards=len(dataset),
        batch_size=32,
        pool_rows=pool_rows,
        seed=0,
    )


def test_rows_that_are_kept_come_in_the_order_of_rows_that_are_read_again(
    small_data: Path,
) -> None:
    dataset = Dataset(small_data)
    kept, read = batches_of(dataset, 4000), batches_of(dataset, 3999)
    for _ in range(250):  # the third epoch
        a, b = kept.next(), read.next()
        assert torch.equal(a.inputs, b.inputs)
        assert torch.equal(a.costs, b.costs)
    assert kept.epoch == read.epoch == 2


def test_memory_is_that_of_the_pool_however_large_the_data_set(small_data: Path) -> None:
    def peak(times: int, pool_rows: int) -> int:
        dataset = Dataset(small_data)
        shards = tuple(itertools.chain(*[dataset.manifest.shards] * times))
        dataset.manifest = dataset.manifest.model_copy(update={"shards": shards})
        batches = batches_of(dataset, pool_rows)
        tracemalloc.start()
        while batches.epoch == 0:
            batches.next()
        highest = tracemalloc.get_traced_memory()[1]
        del batches  # ends the thread that reads ahead, under which tracing must not stop
        tracemalloc.stop()
        return highest

    # Four times the rows. Whether the next shard is in memory at the peak is up to the threads.
    small, large = peak(10, 1000), peak(40, 1000)
    assert large < 2 * small
    assert peak(40, 160_000) > 5 * large


def test_wrong_choices_are_named() -> None:
    from mapspace.strict_yaml import validate

    for changes, message in (
        ({"loss": "l1"}, "loss: .*'huber', 'mse' or 'mae'"),
        ({"precision": "float16"}, "precision: .*'float32' or 'bfloat16'"),
        ({"batch_size": 0}, "batch_size"),
        ({"learning_rate": 0.0}, "learning_rate"),
    ):
        with pytest.raises(ConfigError, match=message):
            validate(FitOptions, changes, "test")

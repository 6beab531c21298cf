"""Tilings measured with TVM: what fails is a status, and a rerun is free."""

from __future__ import annotations

import os
import re
import signal
import sqlite3
import stat
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import numpy as np
import pytest

from costmodel import ConfigError, ContractError, DataError, MapSpace, accelerator, workload
from costmodel.tiling import measured_model as measure_module
from costmodel.tiling import measurement_runner as runner_module
from costmodel.tiling.measured_model import MeasuredCosts, MeasuredTiling
from costmodel.tiling.measurement import (
    STATUS_BUILD_FAILED,
    STATUS_RUN_FAILED,
    STATUS_TIMED_OUT,
    Measurement,
    Request,
    Settings,
)
from costmodel.tiling.measurement_runner import Runner, free_core
from costmodel.tiling.measurement_store import MeasurementCache
from costmodel.tiling.space import TilingSpace

QUICK = Settings(repeats=2, min_repeat_seconds=0.001, time_limit=60)


def product(m: int, n: int, k: int) -> TilingSpace:
    return TilingSpace(workload(f"gemm:M={m},N={n},K={k}"))


class FakeRunners:
    """Answers with the first factor in milliseconds; the tilings of `failing` fail."""

    def __init__(self, failing: int = 0) -> None:
        self.failing = failing
        self.asked: list[Request] = []

    def __call__(self, requests: Sequence[Request]) -> Iterator[tuple[int, Measurement]]:
        for row, request in reversed(list(enumerate(requests))):
            self.asked.append(request)
            first = request.factors[0]
            if first == self.failing:
                yield row, Measurement(STATUS_RUN_FAILED, explanation="the process died of SIGSEGV")
            else:
                yield row, Measurement(0, (first / 1e3, first / 1e3 + 2e-3))


@pytest.fixture
def no_tvm_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measure_module, "tvm_version", lambda: "0")


def first_factors(space: TilingSpace) -> np.ndarray:
    return np.array([[m, 8 // m, 1, 1, 1, 8, 1, 1, 1, 8] for m in (1, 2, 4, 8)], dtype=np.int64)


@pytest.mark.usefixtures("no_tvm_needed")
def test_a_rerun_is_free_and_duplicates_are_measured_once(tmp_path: Path) -> None:
    space = product(8, 8, 8)
    codes = space.codes(first_factors(space))[[0, 1, 2, 3, 1]]
    fake = FakeRunners()
    model = MeasuredTiling(cache=tmp_path / "deep" / "m.sqlite", execute=fake)
    costs = model.evaluate(space, codes)
    np.testing.assert_allclose(costs.objective("latency"), [1e-3, 2e-3, 4e-3, 8e-3, 2e-3])
    assert (model.measured, model.cached, len(fake.asked)) == (4, 1, 4)

    again = FakeRunners()
    model = MeasuredTiling(cache=tmp_path / "deep" / "m.sqlite", execute=again, statistic="mean")
    costs = model.evaluate(space, codes)
    np.testing.assert_allclose(costs.seconds, [2e-3, 3e-3, 5e-3, 9e-3, 3e-3])
    assert (model.measured, model.cached, again.asked) == (0, 5, [])


@pytest.mark.usefixtures("no_tvm_needed")
def test_other_settings_are_other_measurements(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    space, cache = product(8, 8, 8), tmp_path / "m.sqlite"
    codes = space.codes(first_factors(space))
    MeasuredTiling(cache=cache, execute=FakeRunners()).evaluate(space, codes)
    for settings in (Settings(repeats=4), Settings(time_limit=1), Settings(check=False)):
        fake = FakeRunners()
        MeasuredTiling(settings, cache=cache, execute=fake).evaluate(space, codes)
        assert len(fake.asked) == 4
    monkeypatch.setattr(measure_module, "tvm_version", lambda: "1")
    fake = FakeRunners()
    MeasuredTiling(cache=cache, execute=fake).evaluate(space, codes)
    monkeypatch.setattr(measure_module, "hardware_name", lambda target: "another processor")
    MeasuredTiling(cache=cache, execute=fake).evaluate(space, codes)
    assert len(fake.asked) == 8


@pytest.mark.usefixtures("no_tvm_needed")
def test_what_died_is_infinite_explained_and_measured_again(tmp_path: Path) -> None:
    space = product(8, 8, 8)
    codes = space.codes(first_factors(space))
    model = MeasuredTiling(cache=tmp_path / "m.sqlite", execute=FakeRunners(failing=4))
    costs = model.evaluate(space, codes)
    assert costs.status.tolist() == [0, 0, STATUS_RUN_FAILED, 0]
    assert np.isinf(costs.objective("latency")).tolist() == [False, False, True, False]
    assert costs.explanations == ("", "", "the process died of SIGSEGV", "")
    model.evaluate(space, codes)
    assert (model.measured, model.cached) == (5, 3)


def test_only_latency_can_be_asked_for() -> None:
    costs = MeasuredCosts([Measurement(0, (2.0, 1.0))])
    assert costs.objective("latency").tolist() == [1.0]
    for objective in ("edp", "energy", "ed2p"):
        with pytest.raises(ConfigError, match="objective latency"):
            costs.objective(objective)
    with pytest.raises(ConfigError, match="seconds, not cycles"):
        _ = costs.latency_cycles
    with pytest.raises(ConfigError, match="Unknown objective 'speed'"):
        costs.objective("speed")


def test_without_tvm_one_line_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(name: str) -> str:
        raise PackageNotFoundError(name)

    monkeypatch.setattr(runner_module, "version", absent)
    with pytest.raises(ConfigError, match=r"pip install 'mapspace\[tvm\]'") as caught:
        MeasuredTiling()
    assert "\n" not in str(caught.value)


@pytest.mark.usefixtures("no_tvm_needed")
def test_bad_arguments_name_what_is_known(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="Unknown target 'gpu'; known: llvm, cuda"):
        Settings(target="gpu")
    with pytest.raises(ConfigError, match="repeats must be at least 1, got 0"):
        Settings(repeats=0)
    with pytest.raises(ConfigError, match="time_limit must be above 0 seconds, got nan"):
        Settings(time_limit=float("nan"))
    with pytest.raises(ConfigError, match="Unknown statistic 'median'; known: min, mean"):
        MeasuredTiling(statistic="median")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="workers must be at least 1, got 0"):
        MeasuredTiling(workers=0)
    other = MapSpace(workload("gemm:M=8,N=8,K=8"), accelerator("mm256"))
    with pytest.raises(ContractError, match="needs a TilingSpace, got MapSpace"):
        MeasuredTiling().evaluate(other, np.zeros((1, 3), np.int32))
    damaged = tmp_path / "m.sqlite"
    damaged.write_text("this is no database, but long enough to be read as one" * 20)
    space = product(8, 8, 8)
    with pytest.raises(DataError, match=r"m\.sqlite: no cache of measurements"):
        MeasuredTiling(cache=damaged, execute=FakeRunners()).evaluate(space, space.start[None])


@pytest.mark.usefixtures("no_tvm_needed")
def test_a_kept_answer_takes_as_long_as_its_measurement(tmp_path: Path) -> None:
    space = product(8, 8, 8)
    codes = space.codes(first_factors(space))

    def slow(requests: Sequence[Request]) -> Iterator[tuple[int, Measurement]]:
        return ((row, Measurement(0, (1.0,), spent=100.0)) for row, _ in enumerate(requests))

    for _ in range(2):  # the second finds all of it kept
        model = MeasuredTiling(cache=tmp_path / "m.sqlite", execute=slow)
        before = model.clock()
        model.evaluate(space, codes)
        assert model.clock() - before == pytest.approx(400.0, abs=1.0)
    assert (model.measured, model.cached) == (0, 4)


@pytest.mark.usefixtures("no_tvm_needed")
def test_the_clock_never_goes_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a measurement needs besides is not counted, even while its batch is under way."""
    space, now, seen = product(8, 8, 8), [0.0], list[float]()
    monkeypatch.setattr(measure_module.time, "perf_counter", lambda: now[0])

    def slow(requests: Sequence[Request]) -> Iterator[tuple[int, Measurement]]:
        for row, _ in enumerate(requests):
            now[0] += 5.0
            yield row, Measurement(0, (1.0,), spent=2.0)

    model = MeasuredTiling(cache=tmp_path / "m.sqlite", execute=slow)
    model.watch = lambda: seen.append(model.clock())
    model.evaluate(space, space.codes(first_factors(space)))
    assert seen == [2.0, 4.0, 6.0, 8.0]
    assert model.clock() == 8.0


def test_the_cache_holds_text_and_numbers_alone(tmp_path: Path) -> None:
    cache = MeasurementCache(tmp_path / "m.sqlite")
    late = Measurement(STATUS_TIMED_OUT, explanation="took over 1 s in all")
    cache.keep("a", Measurement(0, (0.1, 0.3)))
    cache.keep("b", late)
    cache.keep("c", Measurement(STATUS_RUN_FAILED))
    assert cache.find(["c", "b", "a"]) == [None, late, Measurement(0, (0.1, 0.3))]
    rows = sqlite3.connect(cache.path).execute("SELECT * FROM measurements").fetchall()
    assert sorted(rows) == [("a", 0, "[0.1, 0.3]", "", 0.0), ("b", -3, "[]", late.explanation, 0.0)]


def test_no_core_is_given_out_twice(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr(runner_module, "_lock_folder", runner_module._lock_folder.__wrapped__)
    monkeypatch.setattr(runner_module.os, "sched_getaffinity", lambda process: {3, 5})
    with free_core() as one, free_core() as other:
        assert {one, other} == {3, 5}
    with free_core() as one:
        assert one == 3
    locks = tmp_path / f"mapspace-{os.getuid()}" / "cores"
    assert sorted(path.name for path in locks.iterdir()) == ["3", "5"]
    assert stat.S_IMODE(locks.lstat().st_mode) == 0o700


def test_locks_in_a_folder_of_somebody_else_are_not_touched(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A link that another user planted would be opened, and made, with this user's rights."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr(runner_module, "_lock_folder", runner_module._lock_folder.__wrapped__)
    planted = tmp_path / f"mapspace-{os.getuid()}" / "cores"
    planted.mkdir(parents=True)
    planted.parent.chmod(0o777)
    (planted / "3").symlink_to(tmp_path / "victim")
    monkeypatch.setattr(runner_module.os, "sched_getaffinity", lambda process: {3})
    with free_core() as one:
        assert one == 3
    assert not (tmp_path / "victim").exists()


@pytest.mark.tvm
def test_every_kind_of_nest_computes_the_product(tmp_path: Path) -> None:
    """Sizes 1 and prime, long and odd vectors, split ones, unrolled rows: equal to NumPy's."""
    model = MeasuredTiling(QUICK, cache=tmp_path / "m.sqlite")
    for m, n, k in ((32, 64, 32), (1, 7, 13), (6, 130, 1)):
        space = product(m, n, k)
        rng = np.random.default_rng(m)
        codes = np.concatenate([space.start[None], 0 * space.start[None], space.sample(rng, 3)])
        costs = model.evaluate(space, codes)
        assert costs.ok.all(), costs.explanations
        assert (costs.seconds > 0).all()
    model.close()


@pytest.mark.tvm
def test_failures_become_statuses_and_the_worker_lives_on() -> None:
    fine = Request((2, 2, 2, 2, 4, 4, 2, 1, 1, 8), (4, 2, 4), QUICK)
    endless = Request((512, 1, 1, 1, 512, 1, 512, 1, 1, 1), (4, 2, 4), Settings(time_limit=0.05))
    broken = Request((2, 0, 2, 2, 4, 4, 2, 1, 1, 8), (4, 2, 4), QUICK)
    with Runner() as runner:
        before = runner.measure(fine)
        assert before.ok
        assert len(before.seconds) == QUICK.repeats
        late = runner.measure(endless)
        assert (late.status, late.explanation) == (STATUS_TIMED_OUT, "took over 0.05 s in all")
        failed = runner.measure(broken)
        assert failed.status == STATUS_BUILD_FAILED
        assert failed.explanation
        assert runner.measure(fine).ok


@pytest.mark.tvm
def test_a_crash_is_a_status_that_names_the_signal() -> None:
    fine = Request((2, 2, 2, 2, 4, 4, 2, 1, 1, 8), (4, 2, 4), QUICK)
    endless = Request((1024, 1, 1, 1, 1024, 1, 1024, 1, 1, 1), (4, 2, 4), QUICK)
    with Runner() as runner, ThreadPoolExecutor(1) as pool:
        assert runner.measure(fine).ok
        assert runner._worker is not None
        worker = runner._worker.pid
        (fork,) = Path(f"/proc/{worker}/task/{worker}/children").read_text().split()
        doomed = pool.submit(runner.measure, endless)
        time.sleep(0.2)
        os.kill(int(fork), signal.SIGSEGV)
        assert doomed.result() == Measurement(
            STATUS_RUN_FAILED, explanation="the process died of SIGSEGV"
        )
        assert runner.measure(fine).ok


@pytest.mark.tvm
def test_a_gpu_that_is_not_here_is_an_error_of_the_user() -> None:
    if Path("/proc/driver/nvidia").exists():
        pytest.skip("there is a GPU")
    request = Request((2, 2, 2, 2, 4, 4, 2, 1, 1, 8), (4, 2, 4), Settings(target="cuda"))
    with Runner() as runner, pytest.raises(ConfigError, match="no NVIDIA GPU"):
        runner.measure(request)


@pytest.mark.tvm
def test_ray_tasks_measure_the_same_way(ray_runtime: None, tmp_path: Path) -> None:
    from orchestrator.benchmark.tvm_on_ray import measure_on_ray

    space = product(32, 32, 32)
    codes = space.sample(np.random.default_rng(0), 3)
    cache = tmp_path / "m.sqlite"
    model = MeasuredTiling(QUICK, cache=cache, execute=measure_on_ray)
    costs = model.evaluate(space, codes)
    assert costs.ok.all(), costs.explanations
    assert (model.measured, model.cached) == (3, 0)
    # The key is the same, so a machine of one's own finds what the cluster measured.
    local = MeasuredTiling(QUICK, cache=cache)
    np.testing.assert_array_equal(local.evaluate(space, codes).seconds, costs.seconds)
    assert (local.measured, local.cached) == (0, 3)


@pytest.mark.tvm
def test_gpu_schedule_binds_blocks_threads_and_memories() -> None:
    """The module alone: running it needs a GPU."""
    from costmodel.tiling.tvm_schedule import schedule

    text = str(schedule((4, 2, 4, 2, 8, 8, 2, 2, 8, 2), (4, 2, 4), "cuda"))
    for binding in (
        'T.thread_binding(4, thread="blockIdx.y")',
        'T.thread_binding(2, thread="blockIdx.x")',
        'T.thread_binding(2, thread="vthread.y")',
        'T.thread_binding(2, thread="vthread.x")',
        'T.thread_binding(4, thread="threadIdx.y")',
        'T.thread_binding(8, thread="threadIdx.x")',
        'A_shared = T.sblock_alloc_buffer((64, 64), scope="shared")',
        'B_shared = T.sblock_alloc_buffer((64, 64), scope="shared")',
        'C_local = T.sblock_alloc_buffer((64, 64), scope="local")',
    ):
        assert binding in text
    with pytest.raises(ValueError, match="64 x 32 threads per block; a GPU runs 1024"):
        schedule((1, 1, 64, 1, 8, 8, 1, 1, 32, 1), (4, 2, 4), "cuda")
    with pytest.raises(ValueError, match="needs splits"):
        schedule((8, 8, 8, 8, 8, 8), (2, 2, 2), "cuda")


@pytest.mark.tvm
def test_processor_schedule_follows_the_nest() -> None:
    from costmodel.tiling.loop_nest import nest
    from costmodel.tiling.tvm_schedule import schedule

    # Every trip count once, so that it names its loop.
    factors = (2, 3, 5, 7, 11, 13, 17, 19, 23, 16)
    trips = [factors[loop.column] for loop in nest((4, 2, 4))]
    text = str(schedule(factors, (4, 2, 4), "llvm"))
    outer, inner = re.findall(r"T\.grid\(([^)]*)\)", text)[0::2]
    update = [int(n) for n in (outer + ", " + inner).split(", ")]
    assert [*update, 7, 16] == trips
    assert "T.unroll(7)" in text
    assert "T.vectorized(16)" in text

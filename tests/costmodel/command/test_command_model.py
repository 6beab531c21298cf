"""Somebody else's simulator as a cost model: what is written, run and read, and what goes wrong."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Generator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from costmodel.command.entry import read_settings
from costmodel.command.model import CommandModel
from costmodel.command.own_model import Answer, Memory, record_of
from costmodel.command.settings import Simulator
from costmodel.costs import STATUS_CAPACITY, STATUS_OK, STATUS_OUTSIDE
from costmodel.loop_nest.model import LoopNestModel
from costmodel.machines.accelerators import accelerator
from costmodel.map_space.map_space import MapSpace
from costmodel.problems.workloads import workload
from mapspace.errors import ConfigError
from mapspace.strict_yaml import validate

SPACE = MapSpace(workload("gemm:M=8,N=4,K=4"), accelerator("mm256"))
BOTH = {"energy_pj": {"json": "energy"}, "latency_cycles": {"json": "cycles"}}


def codes(n: int = 4) -> np.ndarray:
    return SPACE.sample(np.random.default_rng(0), n, feasible=True)


def simulator(script: str, **more: Any) -> dict[str, Any]:
    """A simulator in Python: `m` is the mapping's record."""
    code = f"import json, sys, os\nm = json.load(open('m.json'))\n{script}"
    files = {"m.json": "{{ record | tojson }}", "s.py": "{% raw %}" + code + "{% endraw %}"}
    return {"run": [sys.executable, "s.py"], "files": files, "costs": BOTH, **more}


def model(script: str, **more: Any) -> CommandModel:
    return CommandModel(validate(Simulator, simulator(script, **more), ""))


PRINTS = "print(json.dumps({'energy': 2.0, 'cycles': len(m['mapping'])}))"


def test_the_simulator_sees_the_mapping() -> None:
    """Cycles by the record alone: the product of the loops in time, as of our model."""
    script = (
        "import math\n"
        "cycles = math.prod(l[1] for x in m['mapping'] for l in x['temporal'])\n"
        "print(json.dumps({'energy': 1, 'cycles': cycles}))"
    )
    found = model(script).evaluate(SPACE, codes())
    wanted = LoopNestModel().evaluate(SPACE, codes())
    assert (found.latency_cycles == wanted.latency_cycles).all()


def test_mapspace_itself_as_a_simulator() -> None:
    settings = {
        "run": [sys.executable, "-m", "orchestrator", "evaluate", "m.jsonl"],
        "files": {"m.jsonl": "{{ record | tojson }}\n"},
        "costs": {
            "energy_pj": {"json": "result.energy_pj"},
            "latency_cycles": {"regex": '"cycles":([0-9]+),"util'},
        },
        "environment": {"PYTHONPATH": str(Path(__file__).parents[3])},
    }
    found = CommandModel(validate(Simulator, settings, "")).evaluate(SPACE, codes(2))
    wanted = LoopNestModel().evaluate(SPACE, codes(2))
    np.testing.assert_allclose(found.energy_pj, wanted.energy_pj, rtol=1e-12)
    assert (found.latency_cycles == wanted.latency_cycles).all()


@pytest.mark.parametrize(
    ("cost", "prints"),
    [
        ({"regex": r"c=(\d+)"}, "print('c=1 c=7')"),
        ({"regex": r"\d+"}, "print('7')"),
        ({"json": "a.1.b"}, "print('{\"a\": [0, {\"b\": 7}]}')"),
        ({"csv": "cycles"}, "print('energy,cycles\\n1,2\\n1,7')"),
        (
            {"csv": "cycles", "file": "out/t.csv"},
            "os.mkdir('out'); open('out/t.csv', 'w').write('cycles\\n7')",
        ),
        ({"regex": r"\d+", "scale": 3.5}, "print('2')"),
    ],
)  # fmt: skip
def test_costs_are_read(cost: dict[str, Any], prints: str) -> None:
    found = model(prints, costs={"latency_cycles": cost}).evaluate(SPACE, codes(1))
    assert found.objective("latency").tolist() == [7.0]


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("pass", "costs.energy_pj: nothing printed is no JSON"),
        ("print('{\"energy\": NaN, \"cycles\": 1}')", "expected a finite number of at least 0"),
        ("print('{\"energy\": -1, \"cycles\": 1}')", "a finite number of at least 0, got -1"),
        ("print('{\"energy\": \"x\", \"cycles\": 1}')", "expected a number, got 'x'"),
        ("print('{\"cycles\": 1}')", "has no energy"),
        ("sys.exit('no such\\nlayer')", "exit code 1: layer"),
        ("print('{\"energy\": 1' + '0' * 400 + ',\"cycles\": 1}')", "expected a number, got '1000"),
        ("import time; time.sleep(60)", "no answer within 0.2 s"),
        ("while True: print('x' * 999)", "it printed more than 16 MiB."),
    ],
)  # fmt: skip
def test_what_fails_always_is_said_at_once(script: str, said: str) -> None:
    hopeless = model(script, timeout_s=0.2 if "sleep" in script else 20.0, retries=0)
    with pytest.raises(ConfigError, match="3 runs failed, and none answered") as caught:
        hopeless.evaluate(SPACE, codes(4))
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("prints", "why"),
    [("'cycles\\n1\\r2,3'", "new-line character"), ("'cycles\\n' + '1' * 140000", "field limit")],
)
def test_a_malformed_csv_is_a_failure_in_one_line(prints: str, why: str) -> None:
    costs = {"latency_cycles": {"csv": "cycles"}}
    hopeless = model(f"sys.stdout.write({prints})", costs=costs, retries=0)
    with pytest.raises(ConfigError, match="3 runs failed, and none answered") as caught:
        hopeless.evaluate(SPACE, codes(3))
    said = str(caught.value)
    assert "costs.latency_cycles: 'cycles 1" in said
    assert " is no CSV: " in said
    assert why in said
    assert "\n" not in said


class Known(Memory):
    """Knows what is said of some mappings, and notes what it is told."""

    def __init__(self, answers: dict[str, Answer]) -> None:
        self.answers, self.kept = answers, list[Answer]()

    def answer_of(self, record: dict[str, Any]) -> Answer | None:
        return self.answers.get(json.dumps(record["mapping"]))

    def keep_answer(self, record: dict[str, Any], answer: Answer) -> None:
        self.kept.append(answer)


def test_what_a_memory_knows_is_not_simulated_and_counts_in_its_turn() -> None:
    """Three failures before anything else end a search, whoever knows what comes after them."""
    records = [json.dumps(record_of(SPACE, code)["mapping"]) for code in codes(4)]
    failing = model("sys.exit(9)", retries=0)
    failing.memory = memory = Known({records[0]: Answer((3.0, 4.0))})
    found = failing.evaluate(SPACE, codes(4))
    assert found.energy_pj.tolist() == [3.0, *[np.inf] * 3]
    assert found.status.tolist() == [STATUS_OK, *[STATUS_OUTSIDE] * 3]
    assert (failing.failures, len(memory.kept)) == (3, 3)
    failing = model("sys.exit(9)", retries=0)
    failing.memory = Known({records[3]: Answer((3.0, 4.0))})
    with pytest.raises(ConfigError, match="3 runs failed, and none answered"):
        failing.evaluate(SPACE, codes(4))
    answering = model(PRINTS)
    answering.memory = memory = Known({records[1]: Answer(None)})
    found = answering.evaluate(SPACE, codes(4))
    assert found.status.tolist() == [STATUS_OK, STATUS_OUTSIDE, STATUS_OK, STATUS_OK]
    answering.evaluate(SPACE, codes(4))
    assert len(memory.kept) == 3, "what the model remembers is asked of nobody"


def test_failures_among_answers_are_data(tmp_path: Path) -> None:
    """The second mapping fails, the third says that it cannot run, the others answer."""
    count = tmp_path / "count"
    script = (
        f"file = {str(count)!r}\n"
        "open(file, 'a').write('x'); n = len(open(file).read())\n"
        "sys.exit(9) if n in (2, 3) else sys.exit(3) if n == 4 else None\n" + PRINTS
    )
    tried = model(script, retries=1, infeasible={"exit_codes": [3]})
    found = tried.evaluate(SPACE, codes(4))
    assert found.status.tolist() == [STATUS_OK, STATUS_OUTSIDE, STATUS_OUTSIDE, STATUS_OK]
    assert np.isinf(found.energy_pj[1:3]).all()
    assert tried.failures == 1
    # What was simulated once is not simulated again, the failure neither.
    runs = len(count.read_text())
    again = tried.evaluate(SPACE, codes(4))
    assert again.status.tolist() == found.status.tolist()
    assert len(count.read_text()) == runs == 5


def test_a_failure_is_tried_again(tmp_path: Path) -> None:
    count = tmp_path / "count"
    script = (
        f"open({str(count)!r}, 'a').write('x')\n"
        f"sys.exit(1) if len(open({str(count)!r}).read()) < 3 else None\n" + PRINTS
    )
    tried = model(script, retries=2)
    assert tried.evaluate(SPACE, codes(1)).energy_pj.tolist() == [2.0]
    assert tried.failures == 0


def test_what_does_not_fit_is_not_run(tmp_path: Path) -> None:
    space = MapSpace(workload("gemm:M=512,N=512,K=512"), accelerator("mm256"))
    drawn = space.sample(np.random.default_rng(0), 200)
    status, _ = space.status(drawn)
    row = int(np.flatnonzero(status >= STATUS_CAPACITY)[0])
    never = model(f"open({str(tmp_path / 'ran')!r}, 'w')")
    found = never.evaluate(space, drawn[row : row + 1])
    assert found.status.tolist() == [status[row]]
    assert not (tmp_path / "ran").exists()


def test_several_at_a_time_answer_in_order() -> None:
    script = "print(json.dumps({'energy': sum(map(len, map(str, m['mapping']))), 'cycles': 1}))"
    one = model(script).evaluate(SPACE, codes(6))
    four = model(script, workers=4).evaluate(SPACE, codes(6))
    assert one.energy_pj.tolist() == four.energy_pj.tolist()
    assert len(set(one.energy_pj.tolist())) > 1


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"run": ["/no/such/program"]}, "run: cannot start /no/such/program: No such file"),
        ({"run": ["{{ recrod }}"]}, "run[0]: Unknown name 'recrod'"),
        ({"files": {"a": "{% for %}"}}, "files.a, line 1"),
        ({"files": {"../a": ""}}, "expected a name inside of the folder of the run, got '../a'"),
        ({"files": {"/etc/a": ""}}, "expected a name inside of the folder"),
        ({"files": {"a": "{{ record.nothing.more }}"}}, "files.a: "),
        ({"files": {"a": "{{ ().__class__.__mro__ }}"}}, "files.a: "),
        ({"files": {"a": "{{ 1 // 0 }}"}}, "files.a: integer division or modulo by zero."),
        ({"files": {"a": "{{ range(10 ** 9) | list }}"}}, "files.a: Range too big"),
        ({"files": {"a": "{{ dims.M | batch('x') | list }}"}}, "files.a: "),
        ({"run": ["{{ dims }}\0"]}, "run: cannot start "),
        ({"costs": {}}, "costs"),
        ({"costs": {"energy_pj": {}}}, "expected exactly one of regex, json and csv"),
        ({"costs": {"energy_pj": {"regex": "("}}}, "regex: "),
        ({"infeasible": {"regex": "("}}, "infeasible.regex: no regular expression"),
        ({"costs": {"area": {"json": "a"}}}, "area"),
        ({"costs": {"energy_pj": {"json": "a", "file": "../../x"}}}, "file: expected a name"),
        ({"timeout_s": 0}, "timeout_s"),
        ({"wrokers": 2}, "wrokers"),
    ],
)
def test_settings_that_cannot_be(change: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        CommandModel(validate(Simulator, simulator(PRINTS) | change, "")).evaluate(SPACE, codes(1))
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_an_objective_needs_its_costs(tmp_path: Path) -> None:
    settings = simulator(PRINTS, costs={"latency_cycles": {"json": "cycles"}})
    assert read_settings(settings, "latency")
    with pytest.raises(ConfigError, match="edp needs energy_pj and latency_cycles, got latency"):
        read_settings(settings, "edp")
    file = tmp_path / "s.yaml"
    file.write_text(json.dumps(settings))
    assert read_settings({"simulator": str(file)}) == read_settings(settings)
    with pytest.raises(ConfigError, match="run stands beside simulator"):
        read_settings({"simulator": str(file), "run": []})


def test_the_version_changes_with_the_settings() -> None:
    versions = {
        model(PRINTS).version,
        model(PRINTS, version="2").version,
        model(PRINTS + " ").version,
        model(PRINTS, costs={"energy_pj": {"json": "energy"}}).version,
    }
    assert len(versions) == 4


def test_a_simulator_that_is_compiled_anew_is_another_one(tmp_path: Path) -> None:
    """The text of the file counts, in whichever folder it lies."""
    versions = []
    for folder, text in (("a", "echo 1"), ("b", "echo 1"), ("b", "echo 2")):
        (tmp_path / folder).mkdir(exist_ok=True)
        (tmp_path / folder / "simulate").write_text(text)
        settings = {"run": ["sh", "simulate"], "costs": BOTH}
        file = tmp_path / folder / "s.yaml"
        file.write_text(json.dumps(settings))
        found = read_settings({"simulator": str(file)})
        versions.append(CommandModel(validate(Simulator, found, "")).version)
    assert versions[0] == versions[1] != versions[2]


def test_spaces_of_equal_content_share_answers_and_others_do_not(tmp_path: Path) -> None:
    count = tmp_path / "count"
    tried = model(f"open({str(count)!r}, 'a').write('x')\n" + PRINTS)
    code = codes(1) * 0
    tried.evaluate(SPACE, code)
    tried.evaluate(MapSpace(workload("gemm:M=8,N=4,K=4"), accelerator("mm256")), code)
    assert count.read_text() == "x"
    tried.evaluate(MapSpace(workload("gemm:M=4,N=8,K=4"), accelerator("mm256")), code)
    assert count.read_text() == "xx"


CHILD = "import subprocess; print(subprocess.Popen(['sleep', '60']).pid, file=open({!r}, 'w'))\n"


@pytest.mark.parametrize("script", [PRINTS, "import time; time.sleep(60)"])
def test_what_a_command_has_started_ends_with_it(script: str, tmp_path: Path) -> None:
    """A wrapper that hangs, or leaves its simulator running, which holds its output open."""
    file = tmp_path / "pid"
    tried = model(CHILD.format(str(file)) + script, timeout_s=2.0, retries=0)
    found = tried.evaluate(SPACE, codes(1))
    assert found.status.tolist() == [STATUS_OK if script == PRINTS else STATUS_OUTSIDE]
    assert not _runs(int(file.read_text()))


def test_what_runs_ends_with_the_search(tmp_path: Path) -> None:
    """The first of three answers, and who asked is interrupted; the others would hang."""
    records = [record_of(SPACE, code) for code in codes(3)]
    script = (
        f"open({str(tmp_path)!r} + '/' + str(os.getpid()), 'w').close()\n"
        f"import time\nwhile len(os.listdir({str(tmp_path)!r})) < 3: time.sleep(0.01)\n"
        f"time.sleep(0 if m['mapping'] == {records[0]['mapping']!r} else 60)\n" + PRINTS
    )
    tried = CommandModel(validate(Simulator, simulator(script, workers=3, retries=5), ""))
    answers = tried._answers(records)
    assert isinstance(answers, Generator)
    assert next(answers).values is not None
    with pytest.raises(KeyboardInterrupt):
        answers.throw(KeyboardInterrupt)
    assert not any(_runs(int(name)) for name in os.listdir(tmp_path))


def test_what_runs_ends_with_who_is_killed(tmp_path: Path) -> None:
    """Whatever a simulator has started, too, from the first moment: nobody else could end it."""
    file = tmp_path / "pid"
    code = (
        "import sys\nfrom costmodel.command.process import Processes\nfrom pathlib import Path\n"
        "Processes().run(sys.argv[1:], Path(), {'PATH': '/usr/bin:/bin'}, 60.0)"
    )
    command = [sys.executable, "-c", code, "sh", "-c", f"sleep 60 & echo $! > {file}; wait"]
    root = str(Path(__file__).parents[3])
    driver = subprocess.Popen(command, env={**os.environ, "PYTHONPATH": root})
    while not (file.exists() and file.read_text().strip()):
        assert driver.poll() is None
    driver.kill()
    driver.wait()
    assert not _runs(int(file.read_text()))


def _runs(pid: int) -> bool:
    """Whether a process is there, and no zombie; it may need a moment to end."""
    for _ in range(50):
        status = Path(f"/proc/{pid}/status")
        if not status.exists() or "\nState:\tZ" in status.read_text():
            return False
        time.sleep(0.02)
    return True

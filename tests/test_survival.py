"""Long work that goes on: checkpoints of searches, and commands that die after any operation."""

import json
from pathlib import Path

import jax
import numpy as np
import pytest
from mortal import STATES, every_death
from problems import gibbs, random_mdp
from test_evaluators import CASES, same

import mdpnewton as mn
from mdpnewton.cli import main
from mdpnewton.files.states import load_newest, previous_of, save_state
from mdpnewton.jobs import job_checkpoint, stopping
from mdpnewton.jobs.checkpoint import kept_in
from mdpnewton.jobs.store import JobFolder

SAMPLED = [
    "MonteCarlo",
    "ActorCritic",
    "ActorCritic with a network",
    "CompatibleCritic",
    "RecurrentState",
    "Shaped over a critic",
    "SurvivalEvaluator on two boards",
    "TetrisEvaluator",
]


def searched(name, iterations, **options):
    """A search with steps so long that some are undone."""
    evaluator, policy, w = CASES[name]()
    resume = options.get("resume")
    if resume is not None:
        evaluator = evaluator.restored(resume["evaluator"])
    rule = mn.KeepUnlessLost(mn.KLSchedule(lambda n: n / 6, 0.3, 0.1))
    if "Tetris" not in name and "Survival" not in name:
        rule = mn.KeepIfBetter(mn.Constant(2.0))
    method = "second_gauss_newton" if "Evaluator" not in name else mn.METHODS["natural"]
    key = jax.random.key(3)
    found = mn.search(
        evaluator,
        policy,
        w,
        method,
        rule,
        key=key,
        iterations=iterations,
        patience=None,
        gradient_tolerance=-1.0,
        **options,
    )
    return found, evaluator


@pytest.mark.parametrize("name", SAMPLED)
def test_a_search_goes_on_bit_for_bit_from_any_iteration(name, tmp_path):
    states = []

    def keep(state):
        save_state(tmp_path / f"{len(states)}.npz", {"state": state()})
        states.append(load_newest(tmp_path / f"{len(states)}.npz")["state"])

    whole, first = searched(name, 6, checkpoint=keep, keep_trace=True)
    assert len(states) == 6
    if name in ("MonteCarlo", "ActorCritic"):
        assert len({record.step.accepted for record in whole.history}) == 2
    for state in states[:5:2]:
        again, evaluator = searched(name, 6, resume=state, keep_trace=True)
        same(again.trace, whole.trace)
        assert repr(again.history) == repr(whole.history)
        assert repr((again.objectives, again.status)) == repr((whole.objectives, whole.status))
        same(evaluator.state(), first.state())


def test_an_exact_search_goes_on_with_its_patience_and_line_search():
    mdp = random_mdp(2)
    policy, _, w = gibbs(2, mdp)
    states = []
    options = {"step": mn.Armijo(initial="twice"), "iterations": 40, "patience": 3}
    evaluator = mn.FiniteEvaluator(mdp)
    keep = lambda state: states.append(state())  # noqa: E731
    whole = mn.search(evaluator, policy, w, checkpoint=keep, **options)
    for state in states[::7]:
        again = mn.search(evaluator, policy, w, resume=state, **options)
        assert repr(again.history) == repr(whole.history)
        np.testing.assert_array_equal(again.w, whole.w)
        np.testing.assert_array_equal(again.last, whole.last)
        assert again.status == whole.status


def test_a_state_that_is_none_is_refused():
    mdp = random_mdp(2)
    policy, _, w = gibbs(2, mdp)
    for wrong, said in (
        ({}, "needs trace, history, numbers, evaluator, got nothing"),
        ({"trace": [], "history": [], "numbers": [0, 0, 0], "evaluator": {}}, "an iteration"),
    ):
        with pytest.raises(ValueError, match=said):
            mn.search(mn.FiniteEvaluator(mdp), policy, w, resume=wrong)


# Checkpoints


def test_a_checkpoint_keeps_two_states_and_refuses_those_of_others(tmp_path):
    path = tmp_path / "work.npz"
    kept = mn.Checkpoint(path, {"work": 1}, seconds=0)
    assert kept.load() is None
    for number in range(3):
        kept.keep(lambda number=number: {"number": number, "array": np.arange(number)})
    assert mn.Checkpoint(path, {"work": 1}).load()["number"] == 2
    assert load_newest(previous_of(path))["state"]["number"] == 1
    with pytest.raises(ValueError, match="is the checkpoint of other work; move it away"):
        mn.Checkpoint(path, {"work": 2}).load()
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(ValueError, match=r"damaged; move it away, .* goes on from work.previous"):
        kept.load()
    path.unlink()  # as a process leaves it that dies between two renamings
    assert kept.load()["number"] == 1
    kept.remove()
    assert not list(tmp_path.iterdir())


def test_a_checkpoint_is_saved_now_and_then_and_when_the_work_is_asked_to_stop(tmp_path):
    kept, calls = mn.Checkpoint(tmp_path / "work.npz", seconds=3600), []
    kept.keep(lambda: calls.append(1) or {})
    assert not calls
    with stopping.polite():
        assert stopping.ask()
        assert not stopping.ask()  # the second time is another matter
    kept.keep(lambda: calls.append(1) or {})
    stopping.forget()
    assert calls == [1]
    assert not stopping.ask()  # nobody looks
    stopping.forget()


def test_a_finished_training_by_the_clock_is_not_gone_on_with(tmp_path):
    board = mn.AfterstatePolicy("bi", 6, 5)
    kept = mn.Checkpoint(tmp_path / "training.npz")
    first = mn.train_tetris(board, minutes=0.01, checkpoint=kept)
    again = mn.train_tetris(board, minutes=0.01, checkpoint=kept)
    assert repr(again.history) == repr(first.history)
    np.testing.assert_array_equal(again.average, first.average)


def test_outside_of_a_job_nothing_is_kept():
    job_checkpoint().keep(lambda: 1 / 0)
    assert job_checkpoint().load() is None


# Jobs of experiments, each interrupted in its middle


JOBS = {
    "tetris": ["--set=iterations=4", "--set=games=8", "--set=fresh_games=4", "--set=height=6"],
    "tetris-training": ["--set=iterations=4", "--set=fresh_games=8", "--set=height=6"],
    "manipulator-line-search": ["--set=iterations=6", "--set=links=1", "--set=horizon=10"],
    "fsc": ["--set=restarts=2", "--set=iterations=100", "--set=problems=tiger"],
}


@pytest.mark.parametrize("name", JOBS)
def test_a_long_job_goes_on_from_its_checkpoint(name, tmp_path):
    from mdpnewton.cli.flags import split_setting
    from mdpnewton.experiments import EXPERIMENTS

    changes = dict(split_setting(text.removeprefix("--set=")) for text in JOBS[name])
    module, config = EXPERIMENTS[name].load(), EXPERIMENTS[name].config("quick", changes)
    jobs = next(module.work(config, 3))
    job = next(job for job in jobs if "second_gauss_newton" in job.name)
    kept = JobFolder(tmp_path).checkpoint(job)
    kept.path.parent.mkdir()
    kept.seconds, whole_keep = 0.0, kept.keep

    class Killed(BaseException):
        pass

    def keep(state):
        whole_keep(state)
        raise Killed

    with kept_in(kept):
        whole = job.do()
    kept.remove()
    kept.keep = keep
    with kept_in(kept), pytest.raises(Killed):
        job.do()
    assert kept.path.is_file()
    fresh = JobFolder(tmp_path).checkpoint(job)
    assert fresh.load() is not None
    with kept_in(fresh):
        again = job.do()
    for each in (whole, again):
        each.pop("seconds", None)
    assert repr(again) == repr(whole)


# Commands


def without_times(folder):
    found = json.loads((Path(folder) / "results.json").read_text())
    for key in ("seconds", "controller"):
        found.pop(key, None)
    found["curve"] = [point[1:] for point in found.get("curve", [])]
    return found


def iterations(folder, name):
    lines = (Path(folder) / name).read_text().splitlines()
    return [json.loads(line)["iteration"] for line in lines]


WALK = "user_environments:user/Walk-v0"
COMMANDS = {
    "train": ["train", "cartpole", "--policy=linear", "--iterations=2"],
    "train on Gymnasium": [
        "train",
        "user_environments:user/Walk-v0",
        "--policy=linear",
        "--iterations=2",
    ],
    "solve": ["solve", "tiger", "--nodes=2", "--restarts=7", "--iterations=20"],
    "tetris train": ["tetris", "train", "--height=6", "--width=6", "--iterations=3"],
}


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_that_dies_after_any_operation_goes_on(name, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("mdpnewton.jobs.checkpoint.SECONDS", 0.0)
    monkeypatch.setattr("mdpnewton.cli.train.SECONDS", 0.0)
    monkeypatch.setattr("mdpnewton.cli.train.FINAL_EPISODES", 4)
    monkeypatch.setattr("mdpnewton.cli.tetris.train.FINAL_GAMES", 16)
    monkeypatch.setattr("mdpnewton.cli.flow._drawn", lambda outcome: {"figure.png": b"a figure"})
    sessions = ("files.sessions.begin_session", "files.sessions.end_session")
    if name != "solve":  # each death takes time: one command dies while it writes these, too
        for written in (*sessions, "cli.pages.write_report"):
            monkeypatch.setattr(f"mdpnewton.{written}", lambda *arguments: None)

    def run(folder):
        return main([*COMMANDS[name], "--out", folder])

    assert run("whole") == 0
    names = {str(path.relative_to("whole")) for path in Path("whole").rglob("*")}

    def check(folder, moment):
        assert run(folder) == 0, moment
        assert without_times(folder) == without_times("whole"), moment
        every = {str(path.relative_to(folder)) for path in Path(folder).rglob("*")}
        assert not {one for one in every - names if not one.endswith(".part")}, moment
        if "train" in COMMANDS[name][0]:
            metrics = (Path(folder) / "metrics.jsonl").read_text()
            assert metrics == Path("whole/metrics.jsonl").read_text(), moment
            assert iterations(folder, "times.jsonl") == [0, 1], moment
        if "tetris" in COMMANDS[name][0]:
            assert iterations(folder, "metrics.jsonl") == [0, 1, 2], moment

    assert every_death(monkeypatch, run, check, STATES) > 12
    capsys.readouterr()


@pytest.mark.parametrize("name", COMMANDS)
def test_another_command_does_not_join_and_the_same_one_does_nothing_twice(
    name, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    assert main([*COMMANDS[name], "--out", "x"]) == 0
    before = {path: path.stat().st_mtime_ns for path in Path("x").rglob("*.npz")}
    assert before
    first = without_times("x")
    assert main([*COMMANDS[name], "--out", "x"]) == 0
    assert without_times("x") == first
    assert {path: path.stat().st_mtime_ns for path in Path("x").rglob("*.npz")} == before
    capsys.readouterr()
    assert main([*COMMANDS[name], "--out", "x", "--seed", "7"]) == 2
    assert "x: holds a run with seed 0, not 7; name another folder" in capsys.readouterr().err
    assert main(["status", "x"]) == 0
    assert "results: written" in capsys.readouterr().out
    assert main([*COMMANDS[name], "--out", "x", "--seed", "7", "--restart"]) == 0
    assert Path("x.old-1/results.json").is_file()

"""The comparison with peers: who runs where, and the numbers over runs and tasks."""

import sys
from pathlib import Path

import numpy as np
import pytest

BENCHMARKS = str(Path(__file__).parents[1] / "benchmarks")


@pytest.fixture
def parts(monkeypatch):
    monkeypatch.syspath_prepend(BENCHMARKS)
    import peers
    import peers_report
    import peers_tasks

    yield peers, peers_report, peers_tasks
    for name in ("peers", "peers_options", "peers_report", "peers_tasks"):
        sys.modules.pop(name, None)


def test_every_run_has_a_name_of_its_own_and_options_that_are_data(parts):
    peers, _, tasks = parts
    for study in tasks.STUDIES.values():
        jobs = [peers.job(task, entry, 1000) for task, entry in peers.pairs(study)]
        jobs += [peers.at_rest(task) for task in study.tasks]
        assert len({job.name for job in jobs}) == len(jobs)
        assert len({job.digest for job in jobs}) == len(jobs)  # which JSON must be able to say
    known = {task.id for study in tasks.STUDIES.values() for task in study.tasks}
    from peers_options import ZOO

    for options in ZOO.values():
        assert options.keys() <= known


def test_scores_are_comparable_and_close_to_the_best_is_what_it_says(parts):
    _, report, tasks = parts
    runs = [{"x": [0, 500, 1100], "score": [0.0, 5.0, final], "cpu": 2.2} for final in (8.0, 10.0)]
    task = tasks.Task("a:B-v0", 1000, goal=5.0, clock=250)
    ours = report.summary(task, 1000, 7, runs)
    assert ours["curves"][0] == [0.0, 0.0, 5.0, 5.0, 5.0]
    assert (ours["final"], ours["to_goal"], ours["cpu"]) == ([8.0, 10.0], [500, 500], 20.0)
    theirs = {**ours, "final": [1.0, 2.0], "to_goal": [None, None]}
    entry = {"nothing": -10.0, "reference": None, "learners": {"ours": ours, "theirs": theirs}}
    found = report.comparable({task.id: entry})
    np.testing.assert_allclose(found["ours"][task.id], [0.9, 1.0])
    assert report.close_to_the_best(entry) == {"ours": 1.0, "theirs": 0.0}
    entry["reference"] = 0.0
    np.testing.assert_allclose(report.comparable({task.id: entry})["theirs"][task.id], [1.1, 1.2])


def test_the_small_tasks_can_be_played(parts):
    _, _, tasks = parts
    import gymnasium

    for study in ("choosing", "unseen"):
        for task in tasks.STUDIES[study].tasks:
            environment = gymnasium.make(task.id)
            seen, _ = environment.reset(seed=0)
            assert environment.observation_space.contains(seen)
            after = [environment.step(environment.action_space.sample()) for _ in range(3)]
            assert all(np.isfinite(reward) for _, reward, *_ in after)

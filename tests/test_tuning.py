"""Step sizes from tuning runs, and jobs that serve larger runs."""

from dataclasses import replace

import numpy as np
import pytest
from job_functions import results_of

from mdpnewton.experiments import cartpole, navigation
from mdpnewton.experiments.runs import Runs
from mdpnewton.experiments.tuning import Tuning, best_size, safe_size


def tried(**means):
    """Sizes with the mean of two runs each."""
    sizes = [float(name.lstrip("s")) for name in means]
    return {"sizes": sizes, "returns": [[mean - 1, mean + 1] for mean in means.values()]}


def test_the_best_size_and_the_best_that_is_not_next_to_the_edge():
    edge = tried(s1=30, s2=33, s4=34, s8=5, s16=1)
    assert best_size(edge) == 4
    assert safe_size(edge) == 2  # at 4, twice the size loses more than half
    assert safe_size(tried(s1=10, s2=12, s4=11)) == 2
    assert safe_size(tried(s1=10, s2=12, s4=20)) == 2  # nobody knows what is beyond the last
    assert safe_size(tried(s1=10, s2=1, s4=0)) == best_size(tried(s1=10, s2=1, s4=0)) == 1
    assert best_size(tried(s1=3, s2=3)) == 1  # of equal ones the smaller


def test_all_sizes_finish_a_run_before_the_next_one_begins():
    config = cartpole.Config()
    tuning = Tuning(cartpole.tuning_run, config, 0, {"natural": (1.0, 2.0), "steepest": (4.0,)}, 2)
    numbers = [job.arguments["number"] for job in tuning.jobs]
    assert numbers == [0, 0, 0, 1, 1, 1]
    found = {job.name: job.arguments["size"] + job.arguments["number"] for job in tuning.jobs}
    assert tuning.of(found) == {
        "natural": {"sizes": [1.0, 2.0], "returns": [[1.0, 2.0], [2.0, 3.0]]},
        "steepest": {"sizes": [4.0], "returns": [[4.0, 5.0]]},
    }


@pytest.mark.parametrize(
    "more",
    [{"runs": 9}, {"tuning_runs": 7}, {"practical_runs": 0}, {"methods": "steepest"}],
    ids=str,
)
def test_a_job_that_is_done_serves_a_larger_run(more):
    small, large = cartpole.Config(), replace(cartpole.Config(), **more)
    jobs = [
        Runs(cartpole.literal_run, config, 3, ["steepest"], 1, more={"size": 2.0}).jobs[0]
        for config in (small, large)
    ]
    assert jobs[0].digest == jobs[1].digest
    other = replace(small, iterations=6)
    (job,) = Runs(cartpole.literal_run, other, 3, ["steepest"], 1, more={"size": 2.0}).jobs
    assert job.digest != jobs[0].digest


def test_cart_pole_takes_its_sizes_from_tuning_but_for_the_rows_at_one():
    config = cartpole.Config(
        runs=1, iterations=1, every=1, tuning_runs=1, practical_runs=0,
        methods="steepest,second_gauss_newton_at_1",
    )  # fmt: skip
    work = cartpole.work(config, 0)
    asked = next(work)
    assert {job.arguments["method"] for job in asked} == {"steepest"}
    assert sorted(job.arguments["size"] for job in asked) == list(cartpole.GRID)
    jobs = work.send({job.name: -abs(job.arguments["size"] - 8.0) for job in asked})
    sizes = {job.arguments["method"]: job.arguments["size"] for job in jobs}
    assert sizes == {"steepest": 8.0, "second_gauss_newton_at_1": 1.0}


def test_one_size_for_all_methods_of_cart_pole():
    config = cartpole.Config(
        runs=1, iterations=1, every=1, tuning_runs=4, size=2.0, practical_runs=0,
        methods="steepest,natural",
    )  # fmt: skip
    found = results_of(cartpole.work(config, 0))
    assert {row["step_size"] for row in found["methods"].values()} == {2.0}
    assert found["tuning"] == {}
    assert cartpole.draw(found, config)
    assert cartpole.table(found).row_count == 2


def test_navigation_chooses_by_the_rule_that_was_asked_for():
    means = {0.25: 33, 0.5: 35, 1.0: 36, 2.0: 3, 4.0: 1}
    for choice, size in (("best", 1.0), ("safe", 0.5)):
        config = navigation.Config(runs=1, tuning_runs=1, practical_runs=0, choice=choice)
        work = navigation.work(config, 0)
        asked = next(work)
        jobs = work.send({job.name: float(means.get(job.arguments["size"], 0)) for job in asked})
        sizes = {job.arguments["method"]: job.arguments["size"] for job in jobs}
        assert sizes["natural"] == size
        assert sizes["expectation_maximization"] == 1.0
        assert np.isfinite(list(sizes.values())).all()

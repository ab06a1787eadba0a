"""The one table of methods: every row works where it says it applies, and everything reads it."""

import subprocess
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from problems import random_mdp
from test_controllers import problem
from user_environments import Walk  # noqa: F401, the import registers user/Walk-v0

import mdpnewton as mn
from mdpnewton.cli import main
from mdpnewton.domains.cartpole import CartPole
from mdpnewton.domains.tetris.evaluator import AfterstatePolicy
from mdpnewton.methods import (
    PLACES,
    TABLE,
    Guarded,
    MethodsOf,
    Row,
    Settings,
    listed,
    method_for,
    names,
    row_named,
)
from mdpnewton.methods.rows import RowMethod
from mdpnewton.report.figures import Look, look
from mdpnewton.report.training import draw_training
from mdpnewton.training.presets import TRAINING_METHODS, training_methods
from mdpnewton.training.tetris import Schedule, train_tetris

ROOT = Path(__file__).parents[1]
TINY = mn.Preset(features=10, hidden=4, episodes=2, least_transitions=100)
# What may go down by its nature: matrices that may be indefinite, and chance.
HESSIANS = {"newton", "conjugate_gradient_newton", "hessian_free_newton"}
UNSURE = HESSIANS | {"random"} | {name for name in TABLE if "first_gauss_newton" in name}


def healthy(name, report, finite):
    """A finite direction with a report, and an ascent wherever the method promises one."""
    assert finite
    assert report.status != "not finite", report
    assert np.isfinite(report.slope)
    assert report.slope > 0 or name in UNSURE, report


def is_finite(tree):
    return all(bool(jnp.isfinite(leaf).all()) for leaf in jax.tree.leaves(tree))


def exact(name):
    policy = mn.TabularSoftmax(4, 3, reduced=True)
    evaluator = mn.FiniteEvaluator(random_mdp(3, n_states=4))
    w = policy.initial_parameters() + 0.1
    pairs = evaluator.evaluate(None, policy, w)
    ahead = mn.direction(name, policy, w, pairs, evaluator=evaluator)
    healthy(name, ahead.report, is_finite(ahead.value))


def trained(name, policy):
    done = mn.train(CartPole(), method=name, policy=policy, iterations=1, preset=TINY)
    healthy(name, done.history[0].record.report, is_finite(done.w))


def bandit(name):
    found = mn.maximize(
        lambda x: -float((x**2).sum()), [1.0, 2.0], method=name, step=0.1, budget=46
    )
    assert len(found.history) == 2
    for generation in found.history:
        healthy(name, generation.record.report, np.isfinite(generation.mean).all())


def controller(name):
    _, evaluator, policy, w = problem(6, nodes=2, lowest=-0.5)
    tables = policy.tables(w)
    values, used = evaluator.chain.earned(tables, evaluator.chain.closed(tables))
    ahead, gradient = method_for(name, "controller").direct(tables, values, used, 0.5)
    assert is_finite(ahead)
    assert sum(jnp.sum(d * g) for d, g in zip(ahead, gradient, strict=True)) > 0
    found = mn.search_controllers(
        evaluator, policy, mn.random_starts(policy, 0, 2), name, iterations=2
    )
    assert np.isfinite(found.objective).all()


def tetris(name):
    schedule = Schedule(games=32, least_games=32)
    found = train_tetris(AfterstatePolicy("bi", 6, 5), iterations=2, method=name, schedule=schedule)
    for one in found.history:
        healthy(name, one.report, np.isfinite(found.w).all())


WHERE = {
    "exact": exact,
    "sampled": lambda name: trained(name, "linear"),
    "network": lambda name: trained(name, "mlp"),
    "bandit": bandit,
    "controller": controller,
    "tetris": tetris,
}


@pytest.mark.parametrize(
    ("name", "place"), [(row.name, place) for row in TABLE.values() for place in row.places]
)
def test_every_entry_works_where_it_says_it_applies(name, place):
    kind = RowMethod if place == "controller" else mn.Method
    assert isinstance(method_for(name, place), kind)
    WHERE[place](name)


def test_every_place_has_methods_and_every_method_a_place():
    assert set(WHERE) == set(PLACES)
    assert all("second_gauss_newton" in names(place) for place in PLACES)
    assert {name for place in PLACES for name in names(place)} == set(TABLE)
    assert [name for name, _, _ in listed()] == list(TABLE)
    assert len({label for _, label, _ in listed()}) == len(TABLE)


def test_the_public_tables_are_this_one():
    assert tuple(mn.METHODS) == names("exact")
    assert len(mn.METHODS) == len(names("exact"))
    assert tuple(mn.BLACK_BOX_METHODS) == names("bandit")
    assert TRAINING_METHODS == names("sampled") == tuple(training_methods(mn.PRACTICAL, "rbf"))
    assert names("network") == tuple(training_methods(mn.PRACTICAL, "mlp"))
    assert "adam" not in mn.METHODS
    with pytest.raises(KeyError):
        mn.METHODS["adam"]


def test_a_place_hands_its_numbers_to_its_methods():
    sampled = training_methods(mn.Preset(damping=0.3, margin=0.7), "rbf")["second_gauss_newton"]
    assert sampled.method.solver == mn.Block(relative_ridge=0.3)
    assert sampled.method.fisher_damping == mn.TightOffset(0.7)
    network = training_methods(mn.Preset(damping=0.3, patience=0.4), "mlp")["first_gauss_newton"]
    assert network.share == 0.4
    assert network.method.solver == mn.ConjugateGradient(20, 1e-3, relative_ridge=0.3)
    assert method_for("natural", "tetris", Settings(damping=0.3)).solver.relative_ridge == 0.3
    for name in names("bandit"):
        plain, stepped = mn.BLACK_BOX_METHODS[name], method_for(name, "bandit", Settings(size=2.0))
        assert not isinstance(plain, Guarded)
        safe = "second" in name or "expectation" in name  # these need no guard
        assert stepped == plain if safe else (stepped.method, stepped.size) == (plain, 2.0)


class Downhill(mn.Method):
    """Half of the gradient."""

    def direct(self, at):
        return jax.tree.map(lambda g: g / 2, at.gradient), mn.SolveReport("none", "solved")


def test_a_new_row_appears_everywhere(monkeypatch, capsys, tmp_path):
    def made(_):
        return Downhill()

    row = Row("half_steepest", "half of it", "gold", exact=made, sampled=made, bandit=made)
    monkeypatch.setitem(TABLE, row.name, row)
    monkeypatch.chdir(tmp_path)
    assert row.places == ("exact", "sampled", "bandit")
    for place in PLACES:
        assert (row.name in names(place)) == (place in row.places)
    assert (row.name, row.label, row.places) in listed()
    assert row.name in mn.METHODS
    assert row.name in mn.BLACK_BOX_METHODS
    assert look(row.name) == Look("half of it", "gold")
    line = draw_training("x", row.name, range(6), list(range(6))).axes[0].get_lines()[1]
    assert line.get_color() == "gold"
    exact(row.name)
    trained(row.name, "linear")
    bandit(row.name)
    train = ["train", "user/Walk-v0", "--iterations", "1", "--method", row.name, "--policy"]
    assert main([*train, "linear"]) == 0
    assert (
        main(["solve", "tiger", "--restarts", "1", "--iterations", "1", "--method", row.name]) == 0
    )
    assert main([*train, "mlp"]) == 2  # it has no factory for networks
    assert main(["tetris", "train", "--method", row.name]) == 2
    shown = capsys.readouterr().err.splitlines()
    assert shown[-2].startswith("mdpnewton: error: `train(method=...)` must be one of")
    assert shown[-1].startswith("mdpnewton: error: there is no method 'half_steepest'; choose")


@pytest.mark.parametrize(
    ("command", "place"),
    [
        (["train", "cartpole"], "sampled"),
        (["train", "cartpole", "--policy", "mlp"], "network"),
        (["solve", "tiger"], "controller"),
        (["tetris", "train"], "tetris"),
    ],
)
def test_a_method_that_is_not_there_gets_one_line_with_those_that_are(
    command, place, capsys, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    assert main([*command, "--method", "magic"]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert "there is no method 'magic'; choose one of " + ", ".join(names(place)) in error
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("command", ["train", "solve", "tetris train"])
def test_help_does_not_load_the_table(command):
    code = (
        "import sys, mdpnewton.cli\n"
        f"try: mdpnewton.cli.main({[*command.split(), '--help']})\n"
        "except SystemExit: pass\n"
        "assert not {'jax', 'numpy', 'mdpnewton.methods'} & set(sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "list methods" in " ".join(done.stdout.split())


def documented():
    """The rows of the table of methods in docs/choose.md."""
    text = (ROOT / "docs" / "choose.md").read_text().split("## All methods\n")[1].split("\n## ")[0]
    rows = [
        [cell.strip() for cell in line.split("|")[1:-1]]
        for line in text.splitlines()
        if "|" in line
    ]
    return rows[2:]  # without the head


def test_the_documentation_lists_the_methods():
    expected = [[f"`{name}`", label, ", ".join(places)] for name, label, places in listed()]
    shown = "\n".join(f"| {' | '.join(row)} |" for row in expected)
    assert documented() == expected, f"the table as it is:\n\n{shown}"


def test_variants_are_shown_as_the_experiment_says():
    variants = {"natural": Look("natural, step 3", "red"), "cma_es": Look("CMA-ES", "gray")}
    assert look("cma_es", variants) == ("CMA-ES", "gray")
    assert look("natural", variants).label == "natural, step 3"
    assert look("natural") == look("natural", {}) == ("natural gradient", "tab:olive")
    with pytest.raises(ValueError, match="there is no method 'cma_es'; choose one of second"):
        look("cma_es")


def make(_):
    return mn.Steepest()


@pytest.mark.parametrize(
    ("build", "words"),
    [
        (lambda: names("moon"), r"`names\(place=...\)` must be one of 'exact', 'sampled'"),
        (lambda: names(None), r"`names\(place=...\)` must be one of 'exact', 'sampled'"),
        (lambda: MethodsOf("moon"), r"`MethodsOf\(place=...\)` must be one of 'exact'"),
        (lambda: method_for("natural", "moon"), r"`names\(place=...\)` must be one of 'exact'"),
        (lambda: method_for("newton", "tetris"), r"`method_for\(name=...\)` must be one of"),
        (lambda: row_named("cma_es"), "there is no method 'cma_es'"),
        (lambda: Row("a", "b", "c"), "or another of exact, sampled, network, bandit"),
        (lambda: Row(1, "b", "c", make), r"`Row\(name=...\)` needs a str, got int"),
        (lambda: Row("a", None, "c", make), r"`Row\(label=...\)` needs a str, got NoneType"),
        (lambda: Row("a", "b", (0, 0, 1), make), r"`Row\(color=...\)` needs a str, got tuple"),
        (lambda: Row("a", "b", "c", "H2"), r"`Row\(exact=...\)` needs a function from `Settings`"),
        (lambda: Settings(damping=-1), r"`Settings\(damping=...\)` must be a number at least 0"),
        (lambda: Settings(margin=-1), r"`Settings\(margin=...\)` must be a number at least 0"),
        (lambda: Settings(size=float("nan")), r"`Settings\(size=...\)` must be a number above 0"),
        (lambda: RowMethod(make, "slow"), r"`RowMethod\(pace=...\)` must be one of 'searched'"),
        (lambda: mn.direction("sgd", None, None, None), "there is no method 'sgd'"),
    ],
)
def test_what_cannot_work_is_refused_where_it_is_given(build, words):
    with pytest.raises(ValueError, match=words) as caught:
        build()
    assert "\n" not in str(caught.value)

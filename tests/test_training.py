"""Training with the preset: it learns, it repeats, it resumes, it saves, it refuses."""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import get_args, get_type_hints

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import user_environments

import mdpnewton as mn
from mdpnewton.cli import main
from mdpnewton.cli.tables import method_names
from mdpnewton.cli.train import Options
from mdpnewton.domains.cartpole import CartPole
from mdpnewton.environments.names import simulator_of
from mdpnewton.files.states import load_state, save_state
from mdpnewton.training.presets import LEAST, PRACTICAL, TRAINING_METHODS, PolicyKind
from mdpnewton.training.state import Training
from mdpnewton.training.train import begin, proceed, train

POLICIES = get_args(PolicyKind)
SMALL = mn.Preset(features=20, hidden=8)


def flat(training):
    return np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(training.w)])


def test_the_command_line_lists_what_training_knows():
    assert method_names("sampled", "network") == TRAINING_METHODS
    assert get_args(get_type_hints(Options)["policy"]) == POLICIES
    for kind in POLICIES:
        begin(simulator_of("user/Walk-v0"), kind, 0, SMALL)


@pytest.mark.parametrize("policy", ["linear", "rbf", "mlp"])
def test_it_learns_to_walk_to_the_right(policy):
    training = train("user/Walk-v0", policy=policy, transitions=4000, preset=SMALL)
    returns = training.play(jax.random.key(1), 20).returns()
    assert returns.mean() > 50  # the best is 55 from the middle, and chance about 0


def test_nothing_is_compiled_once_training_is_under_way():
    compiled, counts = [], []

    def note(event, seconds, **more):
        if "backend_compile" in event:
            compiled.append(seconds)

    jax.monitoring.register_event_duration_secs_listener(note)
    try:  # episodes and batches of CartPole-v1 have many lengths
        train(
            "CartPole-v1",
            iterations=8,
            preset=SMALL,
            callback=lambda training: counts.append(len(compiled)),
        )
    finally:
        jax.monitoring.unregister_event_duration_listener(note)
    assert counts[0] > 0
    assert counts[3:] == counts[3:4] * 5


@pytest.mark.parametrize("method", TRAINING_METHODS)
def test_every_method_trains_and_stays_finite(method):
    training = train(CartPole(), method=method, iterations=2, preset=SMALL)
    assert training.iteration == len(training.history) == 2
    assert np.isfinite(flat(training)).all()
    assert training.method == training.state()["method"] == method


def test_the_step_does_not_depend_on_the_scale_and_offset_of_the_rewards():
    class Scaled(CartPole):  # with arrays, so that one compiled program serves all
        scale: jax.Array = eqx.field(converter=jnp.asarray, default=1.0)
        offset: jax.Array = eqx.field(converter=jnp.asarray, default=0.0)

        def step(self, key, state, action):
            after, reward, over = CartPole.step(self, key, state, action)
            return after, self.scale * reward + self.offset, over

    plain = train(Scaled(), iterations=4, preset=SMALL)
    other = train(Scaled(1000.0, -3000.0), iterations=4, preset=SMALL)
    np.testing.assert_allclose(flat(plain), flat(other), rtol=1e-4, atol=1e-5)
    assert [p.record.step.accepted for p in plain.history] == [
        p.record.step.accepted for p in other.history
    ]
    # With raw values the offset decides: this is what the tight offset is for.
    raw = [
        train(
            Scaled(1.0, offset), iterations=1, preset=SMALL, method="raw_second_gauss_newton"
        ).history[0]
        for offset in (0.0, -1.0)
    ]
    assert raw[1].record.report.smallest_curvature < 0 < raw[0].record.report.smallest_curvature


@pytest.mark.parametrize("policy", POLICIES)
def test_training_repeats_and_resumes_bit_for_bit(policy, tmp_path):
    whole = train(CartPole(), iterations=4, seed=3, preset=SMALL, policy=policy)
    half = train("cartpole", iterations=2, seed=3, preset=SMALL, policy=policy)
    save_state(tmp_path / "policy.npz", half.state())
    again = Training.restored(load_state(tmp_path / "policy.npz"))
    assert (again.iteration, again.environment, again.kind) == (2, "cartpole", policy)
    assert again.evaluator.memory.transitions == half.evaluator.memory.transitions
    proceed(again, iterations=4)
    assert np.array_equal(flat(whole), flat(again))
    assert whole.evaluator.memory.transitions == again.evaluator.memory.transitions
    assert [bound for bound, _ in whole.recent] == [bound for bound, _ in again.recent]


def test_a_training_goes_on_with_the_simulator_that_it_is_given():
    half = train(CartPole(), iterations=2, preset=SMALL)
    again = Training.restored(half.state(), CartPole())
    assert [one.record.iteration for one in proceed(again, iterations=3).history] == [0, 1, 2]
    with pytest.raises(
        ValueError, match=r"simulator of its own; pass it: `Training\.restored\(state, simulator\)`"
    ):
        Training.restored(half.state())


def test_a_state_that_does_not_fit_the_environment_is_refused_in_one_line():
    state = begin(simulator_of("cartpole"), "linear", 0, SMALL, environment="cartpole").state()
    wrong = [
        ("does not fit the environment 'Pendulum-v1'", {"environment": "Pendulum-v1"}),
        ("must be one of 'linear', 'rbf', 'mlp'", {"kind": "tree"}),
        ("must be one of 'second_gauss_newton'", {"method": "newton"}),
        ("unexpected keyword argument 'colour'", {"preset": {"colour": 1}}),
        ("needs as array 2 one of", {"preset": {**state["preset"], "features": 21}}),
        ("must be a whole number", {"iteration": -1}),
        ("must be a whole number", {"seed": 0.5}),
        ("needs a list", {"recent": None}),
        ("needs bound, w, got w", {"recent": [{"w": state["w"]}]}),
        ("needs memory, critic, judge, here, returned_to, got nothing", {"evaluator": {}}),
        ("needs a str, got NoneType", {"environment": None}),
        ("needs environment, method", {"more": 1}),
    ]
    for words, change in wrong:
        with pytest.raises(ValueError, match=words) as caught:
            Training.restored({**state, **change})
        assert "\n" not in str(caught.value)


def test_the_blind_batch_is_counted_and_kept():
    training = begin(simulator_of("cartpole"), "rbf", 0, SMALL)
    memory = training.evaluator.memory
    assert len(memory.batches) == 1
    assert memory.transitions == memory.batches[0].transitions >= LEAST
    seen = np.asarray(memory.batches[0].observations)[np.asarray(memory.batches[0].valid)]
    np.testing.assert_array_equal(training.features.standardized.mean, seen.mean(axis=0))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"transitions": 0}, r"train\(transitions=...\)` must be a whole number of at least 1"),
        ({"iterations": 0}, r"train\(iterations=...\)` must be a whole number of at least 1"),
        ({"transitions": 1e4}, r"train\(transitions=...\)` must be a whole number"),
        ({"seed": -1}, r"train\(seed=...\)` must be a whole number of at least 0"),
        ({"policy": "tree"}, r"train\(policy=...\)` must be one of 'linear', 'rbf', 'mlp'"),
        ({"method": "newton"}, r"train\(method=...\)` must be one of 'second_gauss_newton'"),
        ({"preset": {}}, r"train\(preset=...\)` needs a Preset, got dict"),
    ],
)
def test_wrong_options_are_refused_before_anything_is_played(options, words):
    class Untouched(CartPole):
        def reset(self, key):
            raise AssertionError("it played")

    with pytest.raises(ValueError, match=words) as caught:
        train(Untouched(), **options)
    assert "\n" not in str(caught.value)


def run(capsys, *words):
    status = main([str(word) for word in words])
    return status, capsys.readouterr()


def test_train_and_evaluate_from_the_command_line(tmp_path, capsys):
    out = tmp_path / "run"
    command = ("train", "cartpole", "--out", out, "--json", "--policy", "linear")
    status, shown = run(capsys, *command, "--transitions", 1200)
    assert status == 0, shown.err
    found = json.loads(shown.out)
    assert set(found) >= {"environment", "method", "transitions", "return", "final"}
    numbers = {"mean", "stderr", "discounted_mean", "episodes"}
    assert set(found["final"]) == {*numbers, "point", "greedy"}
    assert found["verdict"]["status"] in ("better", "no better", "worse")
    assert len(found["return"]["x"]) == len(found["return"]["mean"]) >= 1
    lines = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    assert [line["transitions"] for line in lines] == found["return"]["x"]
    assert (out / "learning-curve.png").stat().st_size > 1000
    status, shown = run(capsys, *command, "--transitions", 2000)
    assert status == 0, shown.err
    assert json.loads(shown.out)["return"]["x"][: len(lines)] == found["return"]["x"]
    status, shown = run(capsys, "evaluate", out, "--episodes", 3, "--render", "--json")
    assert status == 0, shown.err
    assert json.loads(shown.out)["final"]["episodes"] == 3
    assert (out / "episode.gif").read_bytes()[:3] == b"GIF"
    status, shown = run(capsys, "evaluate", out, "--episodes", 2)
    assert re.search(r"episodes\s+\W\s+2 ", shown.out), shown.out
    status, shown = run(capsys, *command, "--seed", 5)
    assert status == 2
    assert "holds a run with seed 0, not 5" in shown.err


def test_a_users_module_is_imported(tmp_path, capsys, monkeypatch):
    monkeypatch.syspath_prepend(str(Path(user_environments.__file__).parent))
    words = ("train", "user_environments:user/Walk-v0", "--iterations", 1, "--out", tmp_path / "r")
    status, shown = run(capsys, *words)
    assert status == 0, shown.err
    assert "return" in shown.out


def test_the_console_script_finds_a_module_in_the_current_folder(tmp_path):
    source = Path(user_environments.__file__).read_text().replace("user/", "mine/")
    (tmp_path / "my_environments.py").write_text(source)
    (tmp_path / "numpy.py").write_text("raise RuntimeError('this hides a package')\n")
    program = Path(sys.executable).parent / "mdpnewton"
    train = ["train", "my_environments:mine/Walk-v0", "--iterations", "1", "--policy", "linear"]
    for words in (
        [*train, "--out", "run", "--json"],
        ["evaluate", "run", "--episodes", "1", "--module", "my_environments"],
    ):
        done = subprocess.run([program, *words], cwd=tmp_path, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
    done = subprocess.run(
        [program, "train", "no_module:Walk-v0"], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 2
    assert "no_module" in done.stderr
    assert done.stderr.count("\n") == 1


def test_ctrl_c_keeps_the_policy_so_far(tmp_path, capsys, monkeypatch):
    left = [2]

    def tiring(*arguments, **options):
        left[0] -= 1
        if left[0] < 0:
            raise KeyboardInterrupt
        return mn.direction(*arguments, **options)

    monkeypatch.setattr(sys.modules["mdpnewton.loop"], "direction", tiring)
    status, shown = run(
        capsys, "train", "user/Walk-v0", "--policy", "linear", "--out", tmp_path, "--json"
    )
    again = f"mdpnewton train user/Walk-v0 --policy linear --out {tmp_path} --json"
    said = f"mdpnewton: interrupted: the same command goes on: {again}\n"
    assert (status, shown.err) == (130, said)
    assert len(json.loads(shown.out)["return"]["x"]) == 2
    assert (tmp_path / "results.json").read_text() == shown.out
    assert (tmp_path / "learning-curve.png").exists()


def test_training_without_a_terminal_writes_lines(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("mdpnewton.report.progress.EVERY", 0.01)
    words = ("train", "user/Walk-v0", "--policy", "linear", "--iterations", 3, "--out", tmp_path)
    status, shown = run(capsys, *words)
    assert status == 0
    lines = shown.err.splitlines()
    assert lines[0] in ("user/Walk-v0: starting, 0 min", "user/Walk-v0: first batch, 0/3, 0 min")
    assert any(re.match(r"user/Walk-v0: return .* kl .*, [1-3]/3, 0 min", one) for one in lines)


@pytest.mark.parametrize("fault", ["Raises", "NaNReward", "NaNObservation"])
def test_a_fault_stops_the_run_with_the_last_good_policy_saved(fault, tmp_path, capsys):
    out = tmp_path / "run"
    # The environment fails after 1,200 steps: in the third batch or so.
    words = ("train", f"user/{fault}-v0", "--transitions", 20000, "--out", out)
    status, shown = run(capsys, *words)
    assert status == 2
    assert shown.err.count("\n") == 1
    assert f"is in {out / 'policy.npz'}" in shown.err
    training = Training.restored(load_state(out / "policy.npz"))
    assert training.iteration >= 1
    assert np.isfinite(flat(training)).all()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("train", "NoSuch-v0"), "there is no environment 'NoSuch-v0'"),
        (("train", "user/Image-v0"), "image"),
        (("train", "user/DictActions-v0"), "Dict actions"),
        (("train", "cartpole", "--transitions", "0"), "at least 1"),
        (("train", "cartpole", "--seed", "-1"), "not be negative"),
        (("evaluate", "nowhere"), "no such file"),
        (("evaluate", "nowhere", "--episodes", "0"), "at least 1"),
    ],
)
def test_bad_input_gets_one_line(words, message, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    status, shown = run(capsys, *words)
    assert status == 2
    assert message in shown.err
    assert shown.err.count("\n") == 1
    assert not (tmp_path / "runs").exists()


def test_an_environment_without_pictures_says_so(tmp_path, capsys):
    run(capsys, "train", "user/Walk-v0", "--iterations", 1, "--out", tmp_path, "--policy", "linear")
    status, shown = run(capsys, "evaluate", tmp_path, "--render", "--episodes", 1)
    assert status == 2
    assert "draws no pictures" in shown.err
    assert shown.err.count("\n") == 1


def test_damaged_and_foreign_files_of_a_run_get_one_line(tmp_path, capsys):
    path = tmp_path / "policy.npz"
    command = ("evaluate", tmp_path, "--episodes", 1)
    training = begin(simulator_of("cartpole"), "linear", 0, SMALL, environment="cartpole")
    state = training.state()
    save_state(path, state)
    whole = path.read_bytes()
    for write, words in (
        (lambda: path.write_bytes(whole[:500]), "is damaged or no saved policy"),
        (lambda: save_state(path, {**state, "environment": "Pendulum-v1"}), "does not fit the env"),
        (lambda: save_state(path, {"weights": [1.0]}), "needs environment, method"),
    ):
        write()
        status, shown = run(capsys, *command)
        assert (status, shown.err.count("\n")) == (2, 1)
        assert shown.err.count(str(path)) == 1
        assert words in shown.err


def test_the_presets_numbers_are_documented():
    page = (Path(__file__).parents[1] / "docs" / "train.md").read_text()
    for name, value in vars(PRACTICAL).items():
        told = value if isinstance(value, str) else f"{value or 0:g}"
        shown = {None: "from the", False: "no"}.get(value, told)
        assert f"`{name}` | {shown}" in page, name


def test_help_stays_fast_and_light():
    code = "import sys, mdpnewton.cli.parser as c; c.new_parser().format_help(); "
    code += "assert not {'jax', 'gymnasium', 'matplotlib', 'numpy'} & set(sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_features_are_what_they_say():
    seen = np.random.default_rng(0).normal(3.0, [1.0, 50.0], size=(500, 2))
    standardized = mn.Standardized.of(seen)
    scaled = np.asarray(jax.vmap(standardized)(jnp.asarray(seen)))
    np.testing.assert_allclose(scaled.mean(axis=0), [1, 0, 0], atol=1e-12)
    np.testing.assert_allclose(scaled.std(axis=0), [0, 1, 1], atol=1e-12)
    waves = mn.RandomFourier.drawn(jax.random.key(0), standardized, 4000, 2.0)
    a, b = (waves(jnp.asarray(s))[3:] for s in seen[:2])
    z = scaled[0, 1:] - scaled[1, 1:]
    assert abs(float(a @ b) - np.exp(-0.5 * z @ z / 4)) < 4 / 4000**0.5
    centers = jnp.asarray(seen[:3])
    radial = mn.RadialBasis(centers, jnp.array([1.0, 0.25]))
    assert float(radial(centers[1])[1]) == 1.0
    assert mn.OneHot(3)(jnp.array(2)).tolist() == [0, 0, 1]

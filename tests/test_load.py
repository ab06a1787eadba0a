"""What was trained is loaded without its environment, and acts as it did in its simulator."""

import runpy
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium import spaces

import mdpnewton as mn
from mdpnewton.environments.names import simulator_of
from mdpnewton.files.states import load_state, save_state
from mdpnewton.simulators import described, spaces_of
from mdpnewton.training.saved import Chosen
from mdpnewton.training.state import Training
from mdpnewton.training.train import begin

SMALL = mn.Preset(features=20, hidden=8, least_transitions=40, deadline=0)
VECTOR = spaces.Box(-3.0, 3.0, (2,))
NESTED = spaces.Dict(
    {
        "speed": spaces.Box(-9.0, 9.0, (2,), np.float64),
        "gear": spaces.Discrete(3, start=-1),
        "lamps": spaces.Tuple([spaces.MultiBinary(2), spaces.MultiDiscrete([2, 3], start=[1, 0])]),
    }
)
ACTIONS = {
    "box": spaces.Box(np.array([-2.0, 0.0], np.float32), np.array([1.0, 10.0], np.float32)),
    "matrix": spaces.Box(-2.0, 2.0, (2, 1), np.float64),
    "half-open": spaces.Box(np.float32([5.0, -np.inf]), np.float32([np.inf, np.inf])),
    "integers": spaces.Box(0, 7, (2,), np.int32),
    "discrete": spaces.Discrete(4, start=2),
    "choices": spaces.MultiDiscrete([[2, 3]], start=[[1, 0]]),
    "binary": spaces.MultiBinary(3),
    "squashed": spaces.Box(-2.0, 3.0, (2,)),
}


COVERED = [
    *(("box", "linear"), ("box", "rbf"), ("matrix", "mlp"), ("discrete", "linear")),
    *(("discrete", "mlp"), ("choices", "rbf"), ("binary", "mlp"), ("squashed", "rbf")),
    *(("squashed", "mlp"), ("integers", "linear"), ("half-open", "rbf")),
]


class Noise(gymnasium.Env):
    """Random observations for eight steps; the reward at the end makes the time matter."""

    def __init__(self, observations, actions, late=0.0):
        self.observation_space, self.action_space, self.late = observations, actions, late

    def _see(self):
        self.observation_space.seed(int(self.np_random.integers(2**31)))
        return self.observation_space.sample()

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.steps = 0
        return self._see(), {}

    def step(self, action):
        assert self.action_space.contains(action), action
        self.steps += 1
        over = self.steps == 8
        return self._see(), self.late * over + float(np.ravel(action)[0]), over, False, {}


def trained(kind, actions, observations=VECTOR, preset=SMALL, seed=0):
    """A training after its first batch, with parameters that are not zero."""
    simulator = mn.GymnasiumSimulator(lambda: Noise(observations, actions), unit_actions=True)
    training = begin(simulator, kind, seed, preset)
    rng = np.random.default_rng(seed)
    training.w = jax.tree.map(
        lambda leaf: leaf + 0.7 * jnp.asarray(rng.normal(size=leaf.shape)), training.w
    )
    return training


def expected(training, observation, time=0):
    """The action of the simulator itself: flattened, chosen and sent by its own code."""
    simulator, policy = training.simulator, training.policy
    face = simulator.interface
    seen = face.flatten(observation)
    if face.deadline:
        seen = np.append(seen, time / face.deadline)
    action, _ = policy.actor(training.played)(seen, None)
    return face.sent(action, face.actions)


def samples(space, number):
    space.seed(1)
    return [space.sample() for _ in range(number)]


@pytest.mark.parametrize(("actions", "kind"), COVERED)
def test_a_loaded_policy_and_its_export_act_as_the_simulator_plays(actions, kind, tmp_path):
    deadline = 8 if kind == "rbf" else 0
    preset = replace(SMALL, squashed=actions == "squashed", deadline=deadline)
    observations = NESTED if kind != "linear" else VECTOR
    training = trained(kind, ACTIONS[actions], observations, preset)
    loaded = mn.load(training.save(tmp_path))
    exported = runpy.run_path(str(loaded.export(tmp_path / "alone")))
    for n, observation in enumerate(samples(observations, 1000)):
        if n % 8 == 0:
            loaded.reset()
            exported["reset"]()
        wanted = expected(training, observation, n % 8)
        for found in (loaded.act(observation), exported["act"](observation)):
            assert ACTIONS[actions].contains(found), found
            assert type(found) is type(wanted)
            np.testing.assert_allclose(found, wanted, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("actions", ["box", "discrete", "choices"])
def test_a_batch_is_answered_row_by_row(actions, tmp_path):
    training = trained("mlp", ACTIONS[actions], NESTED)
    loaded = mn.load(training.save(tmp_path))
    single = samples(NESTED, 5)
    batch = {
        "speed": np.stack([one["speed"] for one in single]),
        "gear": np.array([one["gear"] for one in single]),
        "lamps": tuple(np.stack([one["lamps"][n] for one in single]) for n in range(2)),
    }
    found = loaded.act(batch)
    assert found.shape == (5, *ACTIONS[actions].shape)
    assert found.dtype == ACTIONS[actions].dtype
    np.testing.assert_allclose(found, [loaded.act(one) for one in single], rtol=1e-6)
    many = loaded.act(batch, greedy=False, rng=np.random.default_rng(0))
    assert many.shape == found.shape


def test_actions_are_drawn_as_the_policy_says(tmp_path):
    training = trained("rbf", ACTIONS["discrete"])
    training.chosen = Chosen("newest", greedy=False)
    path = training.save(tmp_path / "deep" / "run.npz")
    assert path == tmp_path / "deep" / "run.npz"
    loaded = mn.load(str(path), seed=3)
    seen = samples(VECTOR, 1)[0]
    drawn = np.array([loaded.act(seen) for _ in range(4000)])
    policy, w = training.policy, training.w
    shares = np.exp(np.asarray(jax.nn.log_softmax(policy.logits(w, jnp.asarray(seen, float)))))
    found = np.bincount(drawn - 2, minlength=4) / 4000
    assert (np.abs(found - shares) < 4 * np.sqrt(0.25 / 4000)).all()
    loaded.reset(seed=3)
    assert [loaded.act(seen) for _ in range(50)] == drawn[:50].tolist()
    again = np.random.default_rng(3)
    assert [loaded.act(seen, rng=again) for _ in range(50)] == drawn[:50].tolist()
    greedy = mn.load(path, greedy=True)
    assert greedy.act(seen) == loaded.act(seen, greedy=True) == 2 + shares.argmax()


def test_a_gaussian_is_drawn_with_its_spread(tmp_path):
    training = trained("linear", spaces.Box(-np.inf, np.inf, (2,), np.float64))
    loaded = mn.load(training.save(tmp_path), greedy=False, seed=0)
    seen = samples(VECTOR, 1)[0]
    drawn = loaded.act(np.stack([seen] * 20_000))
    sigma = np.exp(np.asarray(training.policy.log_sigma(training.w)))
    mean = loaded.act(seen, greedy=True)
    error = sigma / np.sqrt(20_000)
    assert (np.abs(drawn.mean(axis=0) - mean) < 4 * error).all()
    assert (np.abs(drawn.std(axis=0) - sigma) < 4 * error).all()


def test_a_policy_that_was_told_the_time_counts_its_steps(tmp_path):
    training = trained("linear", ACTIONS["box"], preset=mn.Preset(deadline=8))
    loaded = mn.load(training.save(tmp_path))
    seen = samples(VECTOR, 1)[0]
    counted = [loaded.act(seen) for _ in range(8)]
    assert len({tuple(one) for one in counted}) > 1
    assert loaded.time == 8
    loaded.reset()
    assert loaded.time == 0
    np.testing.assert_array_equal(loaded.act(seen), counted[0])
    np.testing.assert_array_equal(loaded.act(seen, time=5), counted[5])
    rows = loaded.act(np.stack([seen, seen]), time=[0, 5])
    np.testing.assert_allclose(rows, [counted[0], counted[5]], rtol=1e-6)
    with pytest.raises(ValueError, match="of a batch needs `time=`, one number per row"):
        loaded.act(np.stack([seen, seen]))
    for _ in range(1000 - loaded.time):
        loaded.act(seen)
    with pytest.raises(ValueError, match=r"1000 steps at most; call `reset\(\)` when one begins"):
        loaded.act(seen)


def test_a_policy_acts_within_a_tenth_of_a_millisecond(tmp_path):
    training = begin(simulator_of("Pendulum-v1"), "rbf", 0)
    loaded = mn.load(training.save(tmp_path))
    seen, best = np.array([0.5, 0.5, 1.0], np.float32), np.inf
    for _ in range(20):
        started = time.perf_counter()
        for _ in range(50):
            loaded.act(seen)
        best = min(best, (time.perf_counter() - started) / 50)
    assert best < 100e-6


PLAYING = """
import sys, runpy
for name in ("jax", "jaxlib", "mdpnewton", "equinox", "scipy"):
    sys.modules[name] = None
sys.path.insert(0, sys.argv[1])
from policy import act, reset
import gymnasium
env, total = gymnasium.make("Pendulum-v1"), 0.0
seen, _ = env.reset(seed=0)
reset()
for _ in range(200):
    action = act(seen)
    assert env.action_space.contains(action), action
    seen, reward, _, _, _ = env.step(action)
    total += reward
print(total)
"""


def test_an_export_has_what_its_policy_needs_and_nothing_else(tmp_path):
    texts = {}
    for kind, actions in (("linear", "discrete"), ("rbf", "box"), ("mlp", "choices")):
        training = trained(kind, ACTIONS[actions], NESTED if kind == "mlp" else VECTOR)
        folder = tmp_path / kind
        texts[kind] = mn.load(training.save(folder)).export(folder / "alone").read_text()
    assert all(len(text.splitlines()) <= 200 for text in texts.values())
    assert len(texts["linear"].splitlines()) <= 150
    for word, kinds in (
        ("def fourier", {"rbf"}),
        ("def gaussian", {"rbf"}),
        ("def one_hot", {"mlp"}),
        ("def product", {"mlp"}),
        ("def softmax", {"linear"}),
        ("deadline", set()),
    ):
        assert {kind for kind, text in texts.items() if word in text} == kinds, word


def test_a_name_with_quotes_is_harmless_in_an_export(tmp_path):
    name = 'x""" + __import__("os").abort() + """\\'
    training = begin(simulator_of("Pendulum-v1"), "linear", 0, SMALL, environment=name)
    file = mn.load(training.save(tmp_path)).export(tmp_path / "alone")
    assert runpy.run_path(str(file))["act"]([1.0, 0.0, 0.0]).shape == (1,)


def test_an_export_plays_without_this_library_and_without_jax(tmp_path):
    training = begin(simulator_of("Pendulum-v1"), "rbf", 0, SMALL, environment="Pendulum-v1")
    training.w = {**training.w, "mean": training.w["mean"] + 3.0}
    folder = mn.load(training.save(tmp_path)).export(tmp_path / "alone").parent
    done = subprocess.run(
        [sys.executable, "-c", PLAYING, folder], capture_output=True, text=True, cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    played = training.play(jax.random.key(0), 1)
    assert np.isfinite(float(done.stdout))
    assert played.transitions == 200
    assert {one.name for one in folder.iterdir()} >= {"policy.py", "weights.npz"}


@pytest.mark.parametrize(("actions", "kind"), COVERED[1::2])
def test_a_model_of_onnx_acts_as_the_policy(actions, kind, tmp_path):
    pytest.importorskip("onnx", reason="the extra onnx is not installed")
    onnxruntime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    deadline = 8 if kind == "rbf" else 0
    preset = replace(SMALL, squashed=actions == "squashed", deadline=deadline)
    training = trained(kind, ACTIONS[actions], NESTED, preset)
    loaded = mn.load(training.save(tmp_path))
    file = loaded.export(tmp_path / "onnx", format="onnx")
    session = onnxruntime.InferenceSession(file, providers=["CPUExecutionProvider"])
    seen = samples(NESTED, 100)
    rows = np.array([training.simulator.interface.flatten(one) for one in seen])
    if deadline:
        rows = np.concatenate([rows, np.full((100, 1), 3 / 8)], axis=1)
    (found,) = session.run(["action"], {"observation": rows})
    wanted = np.array([loaded.act(one, time=3) for one in seen])
    assert found.dtype == ACTIONS[actions].dtype
    assert found.shape == (100, *ACTIONS[actions].shape)
    np.testing.assert_allclose(found, wanted, rtol=2e-6, atol=2e-6)
    with pytest.raises(ValueError, match=r"policy.onnx exists already; name another file"):
        loaded.export_onnx(file)


def test_loading_makes_no_environment(tmp_path, monkeypatch):
    state = begin(simulator_of("Pendulum-v1"), "linear", 0, SMALL, environment="no:Such-v0").state()
    save_state(tmp_path / "policy.npz", state)
    monkeypatch.setattr(gymnasium, "make", None)
    loaded = mn.load(tmp_path)
    assert loaded.about["environment"] == "no:Such-v0"
    assert repr(loaded) == "LoadedPolicy(linear policy, trained on no:Such-v0)"
    assert loaded.act([1.0, 0.0, 0.0]).shape == (1,)


@pytest.mark.parametrize("name", ["cartpole", "navigation"])
def test_policies_of_compiled_simulators_load_too(name, tmp_path):
    simulator = simulator_of(name)
    training = begin(simulator, "linear", 0, mn.Preset(deadline=30), environment=name)
    loaded = mn.load(training.save(tmp_path))
    own = simulator.simulator.spaces
    seen = np.full(own.observation, 0.1)
    training.w = {**training.w, "mean": training.w["mean"] + 0.3}
    mode = np.asarray(training.policy.mode(training.w, jnp.append(seen, 2 / 30)))
    wanted = np.clip(own.middle() + own.half_range() * mode, own.low, own.high)
    found = mn.load(training.save(tmp_path)).act(seen, time=2)
    np.testing.assert_allclose(found, wanted, rtol=1e-6)
    assert loaded.about["deadline"] == 30


@pytest.mark.parametrize("actions", ACTIONS)
def test_spaces_are_told_and_rebuilt(actions):
    simulator = mn.GymnasiumSimulator(lambda: Noise(NESTED, ACTIONS[actions]), unit_actions=True)
    told = spaces_of("load", described(simulator))
    own = simulator.spaces
    assert (told.observation, told.actions, told.choices) == (
        own.observation,
        own.actions,
        own.choices,
    )
    if own.low is not None:
        np.testing.assert_array_equal(told.low, own.low)
        np.testing.assert_array_equal(told.high, own.high)
    plain = mn.GymnasiumSimulator(lambda: Noise(NESTED, ACTIONS[actions]))
    if own.low is not None:
        np.testing.assert_array_equal(described(plain)["bounds"]["half"], np.ones(own.action_size))


def test_wrong_observations_get_one_line(tmp_path):
    loaded = mn.load(trained("linear", ACTIONS["discrete"], NESTED).save(tmp_path))
    good = samples(NESTED, 1)[0]
    for wrong, words in (
        (
            {**good, "speed": np.zeros(3)},
            r"needs one of shape \(2,\), or a batch of them",
        ),
        ({**good, "speed": [np.nan, 0.0]}, "NaN or infinite entries"),
        ({**good, "gear": 2}, "outside of its space"),
        ({"speed": good["speed"]}, "needs a Dict of gear, lamps, speed"),
        (np.zeros(3), "needs a Dict of gear, lamps, speed"),
        ({**good, "lamps": good["lamps"][:1]}, "needs a Tuple of 2 parts"),
    ):
        with pytest.raises(ValueError, match=words) as caught:
            loaded.act(wrong)
        assert "\n" not in str(caught.value)


def test_what_cannot_be_loaded_gets_one_line(tmp_path):
    training = begin(simulator_of("cartpole"), "linear", 0, SMALL, environment="cartpole")
    state = training.state()
    older = {name: part for name, part in state.items() if name != "spaces"}
    again = Training.restored(older)  # it still goes on
    assert again.state().keys() == state.keys()
    (tmp_path / "empty").mkdir()
    (tmp_path / "text.npz").write_text("no archive")
    save_state(tmp_path / "older.npz", older)
    save_state(tmp_path / "else.npz", {"weights": [1.0]})
    save_state(tmp_path / "odd.npz", {**state, "spaces": {"size": 3}})
    for name, words in (
        ("nowhere", "nowhere: no such file or folder; name a run folder or the file in it"),
        ("empty", "holds no policy.npz"),
        ("text.npz", "is damaged"),
        ("older.npz", "go on with the training and save it again, or train again"),
        ("else.npz", "needs environment, method"),
        ("odd.npz", "needs observation, action, size"),
    ):
        with pytest.raises(ValueError, match=words) as caught:
            mn.load(tmp_path / name)
        assert "\n" not in str(caught.value)
        assert str(tmp_path / name) in str(caught.value)
    with pytest.raises(ValueError, match=r"`load\(path=...\)` needs a str | PathLike, got int"):
        mn.load(3)
    good = training.save(tmp_path / "run")
    for options, words in (
        ({"policy": training.policy}, "is for policies of one's own, this is 'linear'"),
        ({"greedy": "yes"}, r"load\(greedy=...\)` must be True or False"),
        ({"seed": -1}, r"load\(seed=...\)` must be a whole number"),
    ):
        with pytest.raises(ValueError, match=words):
            mn.load(good, **options)


def test_nothing_is_overwritten_by_an_export(tmp_path):
    loaded = mn.load(trained("linear", ACTIONS["box"]).save(tmp_path))
    loaded.export(tmp_path)
    assert load_state(tmp_path / "policy.npz")["kind"] == "linear"
    with pytest.raises(ValueError, match=r"policy.py exists already; name another folder"):
        loaded.export(str(tmp_path))
    Path(tmp_path / "file").write_text("")
    with pytest.raises(ValueError, match="is a file; name a folder"):
        loaded.export(tmp_path / "file")
    with pytest.raises(ValueError, match=r"`export\(format=...\)` must be one of 'numpy', 'onnx'"):
        loaded.export(tmp_path / "x", format="torch")

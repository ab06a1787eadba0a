"""Controllers and weights of Tetris are loaded and act."""

import json
import runpy
import subprocess
import sys

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import mdpnewton as mn
import mdpnewton.environments
from mdpnewton.domains.tetris import DT_10
from mdpnewton.domains.tetris.plain import decisions
from mdpnewton.files.controllers import save_controller

ABOUT = {"problem": "tiger", "value": 1.0, "method": "natural", "seed": 0}
BOARD = np.zeros((10, 10), int)


@pytest.fixture
def saved(tmp_path):
    """A random controller of three nodes for tiger: its file, the policy and the parameters."""
    pomdp = mn.load_pomdp("tiger")
    evaluator = mn.ControllerEvaluator(pomdp)
    policy = evaluator.controller(3)
    w = policy.random_parameters(jax.random.key(0), 2.0)
    save_controller(tmp_path / "controller.json", pomdp, policy, w, ABOUT)
    return tmp_path, policy, w


def test_a_controller_decides_as_its_policy_does(saved):
    folder, policy, w = saved
    found = mn.load(folder, seed=0)
    exported = runpy.run_path(str(found.export(folder / "alone")))["POLICY"]
    for before in (None, 0, 2):
        for seen in range(len(found.observations)):
            state = seen * 4 + (3 if before is None else before)
            shares = np.exp(np.asarray(jax.nn.log_softmax(policy.logits(w, jnp.asarray(state)))))
            drawn = []
            for _ in range(500):
                found._memory.node = before
                action = found.act(seen)
                drawn.append(found.node * 3 + action)
            counts = np.bincount(drawn, minlength=9) / 500
            assert (np.abs(counts - shares) < 4.5 * np.sqrt(0.25 / 500)).all()
            found._memory.node = exported.node = before
            assert found.act(found.observations[seen], greedy=True) == shares.argmax() % 3
            assert found.node == shares.argmax() // 3
            assert exported.act(seen, greedy=True) == shares.argmax() % 3
            assert exported.node == found.node


def test_a_controller_earns_what_its_file_says(saved):
    folder, policy, w = saved
    pomdp = mn.load_pomdp("tiger")
    value = mn.ControllerEvaluator(pomdp).objective(None, policy, w)
    controller, rng, returns = mn.load(folder, seed=1), np.random.default_rng(1), []
    transition, observe = np.asarray(pomdp.transition), np.asarray(pomdp.observation)
    reward = np.asarray(pomdp.reward)
    for _ in range(300):
        controller.reset()
        state, seen, total = rng.integers(2), None, 0.0
        for t in range(100):
            action = controller.act(seen)
            total += 0.95**t * reward[state, action]
            state = rng.choice(2, p=transition[action, state])
            seen = int(rng.choice(2, p=observe[action, state]))
        returns.append(total)
    error = np.std(returns) / np.sqrt(len(returns))
    assert abs(np.mean(returns) - value) < 4 * error + 0.95**100 * abs(value)


def test_a_controller_leaves_the_library(saved):
    folder, *_ = saved
    found = mn.load(folder / "controller.json", greedy=True)
    assert found.actions == ("listen", "open-left", "open-right")
    assert found.observations == ("hear-left", "hear-right", "(none)")
    assert found.about["value"] == 1.0
    assert repr(found) == "LoadedController(3 nodes, for tiger)"
    path = found.export(folder / "alone")
    code = "import sys\nfor name in ('jax', 'mdpnewton', 'scipy'): sys.modules[name] = None\n"
    code += "from policy import act, reset\nreset()\nprint(act(), act('hear-left'), act(1))"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=path.parent
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == [str(found.act(one)) for one in (None, 0, "hear-right")]
    for wrong in (None, 3, "growl", 0.0):
        with pytest.raises(ValueError, match="needs a number below 3 or one of hear-left"):
            found.act(wrong)


@pytest.mark.parametrize(("features", "size"), [("dt", 9), ("bi", 21)])
def test_weights_of_tetris_place_pieces_as_the_game_does(features, size, tmp_path):
    weights = list(DT_10) if features == "dt" else np.linspace(-1, -0.1, size).tolist()
    (tmp_path / "weights.json").write_text(json.dumps({"features": features, "weights": weights}))
    found = mn.load(tmp_path)
    assert repr(found) == f"LoadedTetris({features} features)"
    for n, step in enumerate(decisions(np.array(weights), features=features)):
        move = found.act(step.board, step.piece)
        assert move.column == step.column
        assert move.action == move.rotation * 10 + move.column
        if n == 15:
            break


def test_a_model_of_onnx_decides_as_the_controller(saved):
    pytest.importorskip("onnx", reason="the extra onnx is not installed")
    onnxruntime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    folder, policy, w = saved
    found = mn.load(folder, greedy=True)
    file = found.export(folder / "onnx", format="onnx")
    session = onnxruntime.InferenceSession(file, providers=["CPUExecutionProvider"])
    nodes, seen = (one.ravel() for one in np.meshgrid(range(-1, 3), range(3), indexing="ij"))
    names = ["action", "next_node", "probabilities"]
    action, after, shares = session.run(names, {"node": nodes, "observation": seen})
    for n, (node, observation) in enumerate(zip(nodes, seen, strict=True)):
        found._memory.node = None if node < 0 else int(node)
        assert action[n] == found.act(int(observation))
        assert after[n] == found.node
        state = observation * 4 + (3 if node < 0 else node)
        wanted = np.exp(np.asarray(jax.nn.log_softmax(policy.logits(w, jnp.asarray(state)))))
        np.testing.assert_allclose(shares[n].ravel(), wanted, atol=1e-12)
    with pytest.raises(ValueError, match=r"policy.onnx exists already"):
        found.export_onnx(file)
    with pytest.raises(ValueError, match=r"`export\(format=...\)` must be one of 'numpy', 'onnx'"):
        found.export(folder / "x", format="torch")


@pytest.mark.parametrize(("features", "size"), [("dt", 9), ("bi", 21)])
def test_weights_of_tetris_leave_the_library(features, size, tmp_path):
    weights = list(DT_10) if features == "dt" else np.linspace(-1, -0.1, size).tolist()
    (tmp_path / "weights.json").write_text(json.dumps({"features": features, "weights": weights}))
    loaded = mn.load(tmp_path)
    path = loaded.export(tmp_path / "alone")
    text = path.read_text()
    assert len(text.splitlines()) <= 220
    assert ("def bertsekas_ioffe" in text, "def holes" in text) == (features == "bi", True)
    exported = runpy.run_path(str(path))
    steps = decisions(np.array(weights), features=features)
    for _, step in zip(range(30), steps, strict=False):
        assert exported["act"](step.board, step.piece) == loaded.act(step.board, step.piece)
        drawn = [
            one(step.board, step.piece, greedy=False, rng=np.random.default_rng(1))
            for one in (exported["act"], loaded.act)
        ]
        assert drawn[0] == drawn[1]
    code = "import sys\nfor name in ('jax', 'mdpnewton', 'numba'): sys.modules[name] = None\n"
    code += "from policy import act\nimport numpy as np\nprint(tuple(act(np.zeros((9, 10)), 'I')))"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=path.parent
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == str(tuple(loaded.act(np.zeros((9, 10)), "I")))
    if features == "bi":  # which have one per column
        with pytest.raises(ValueError, match="of 7 columns needs 15 weights, there are 21"):
            loaded.act(np.zeros((9, 7)), "I")
    with pytest.raises(ValueError, match=r"policy.py exists already"):
        loaded.export(path.parent)


def test_weights_of_tetris_play_the_environment(tmp_path):
    (tmp_path / "w.json").write_text(json.dumps({"features": "dt", "weights": list(DT_10)}))
    player = mn.load(tmp_path / "w.json", greedy=False, seed=0)
    game = gymnasium.make("mdpnewton/Tetris-v0", height=8, width=6)
    seen, info = game.reset(seed=0)
    for _ in range(15):
        move = player.act(seen["board"], int(seen["piece"]))
        assert info["action_mask"][move.action]
        seen, _, over, _, info = game.step(move.action)
        assert not over
    assert player.act(np.ones((10, 10)), "I") is None
    with pytest.raises(ValueError, match=r"`act\(piece=...\)` must be 0 to 6 or one of I, O"):
        player.act(BOARD, 7)
    with pytest.raises(ValueError, match=r"`act\(board=...\)` needs shape \(height, width\)"):
        player.act([1, 0], "I")


def test_json_that_is_neither_gets_one_line(tmp_path):
    for name, text, words in (
        ("controller.json", '{"logits": 1}', "is damaged or no saved controller"),
        ("weights.json", '{"weights": "many"}', "needs a list of numbers"),
        ("else.json", "nothing", "not JSON"),
    ):
        (tmp_path / name).write_text(text)
        with pytest.raises(ValueError, match=words) as caught:
            mn.load(tmp_path / name)
        assert "\n" not in str(caught.value)
    with pytest.raises(ValueError, match=r"`load\(policy=...\)` is for trainings"):
        mn.load(tmp_path / "else.json", policy=mn.TabularSoftmax(2, 2))

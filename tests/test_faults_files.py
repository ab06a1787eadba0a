"""Faults that an attack found in files and commands, one test each."""

import io
import json
import re
import sys
import time
import zipfile

import fault_environments  # noqa: F401, the import registers fault/...
import numpy as np
import pytest

import mdpnewton as mn
from mdpnewton.cli import main
from mdpnewton.cli.flags import MOST_SEED
from mdpnewton.environments.names import simulator_of
from mdpnewton.files import archive
from mdpnewton.files.models import load_model
from mdpnewton.files.pomdp import load_pomdp, save_pomdp
from mdpnewton.files.pomdp_text import POMDPError, parse_pomdp
from mdpnewton.files.states import load_state, save_state
from mdpnewton.training.state import Training
from mdpnewton.training.train import begin

SMALL = mn.Preset(features=5)


def run(capsys, *words):
    status = main([str(word) for word in words])
    return status, capsys.readouterr()


@pytest.fixture
def saved(tmp_path):
    """The file of a training on cart-pole, and its state."""
    training = begin(simulator_of("cartpole"), "linear", 0, SMALL, environment="cartpole")
    save_state(tmp_path / "policy.npz", training.state())
    return tmp_path / "policy.npz", training.state()


# Loading a file runs no code of others.


def test_a_file_imports_no_module_without_the_users_word(saved, capsys, monkeypatch):
    path, state = saved
    (path.parent / "planted.py").write_text("raise RuntimeError('code of the file ran')\n")
    monkeypatch.chdir(path.parent)
    save_state(path, {**state, "environment": "planted:X-v0"})
    status, shown = run(capsys, "evaluate", path.parent, "--episodes", 1)
    assert (status, shown.err.count("\n")) == (2, 1)
    assert "imports the module 'planted'" in shown.err
    assert "--module planted" in shown.err
    assert "planted" not in sys.modules
    with pytest.raises(ValueError, match="if you trust it, pass `module='planted'`"):
        Training.restored(load_state(path))
    status, shown = run(capsys, "evaluate", path.parent, "--module", "other")
    assert "imports the module 'planted'" in shown.err
    status, shown = run(capsys, "evaluate", path.parent, "--module", "planted")
    assert (status, shown.err.count("\n")) == (2, 1)
    assert "code of the file ran" in shown.err


def test_a_module_that_is_trusted_or_imported_already_is_used(tmp_path, capsys):
    command = ("train", "fault_environments:fault/Fine-v0", "--iterations", 1, "--policy", "linear")
    status, shown = run(capsys, *command, "--out", tmp_path)
    assert status == 0, shown.err
    status, shown = run(capsys, "evaluate", tmp_path, "--episodes", 2)
    assert status == 0, shown.err


@pytest.mark.parametrize("part", ["seed", "iteration", "discount", "method", "environment"])
def test_the_digest_covers_the_description(saved, part):
    path, _ = saved
    with np.load(path) as archived:
        members = dict(archived)
    about = json.loads(bytes(members["about"]))
    place = about["state"]["preset"] if part == "discount" else about["state"]
    new = {"seed": 7, "iteration": 9, "discount": 0.5, "method": "natural", "environment": "x:y"}
    place[part] = new[part]
    members["about"] = np.frombuffer(json.dumps(about).encode(), np.uint8)
    np.savez(path, **members)
    with pytest.raises(ValueError, match=r"is damaged \(its digest differs\); train again"):
        load_state(path)


# Bombs and damaged archives.


def test_a_zip_bomb_is_refused_before_it_is_read(saved, monkeypatch):
    path, _ = saved
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        header, {"descr": "<f8", "fortran_order": False, "shape": (2**22,)}
    )
    with zipfile.ZipFile(path, "a", zipfile.ZIP_DEFLATED) as bomb:
        bomb.writestr("bomb.npy", header.getvalue() + bytes(2**25))
    assert path.stat().st_size < 2**20

    def read(*arguments, **options):
        raise AssertionError("it was read")

    monkeypatch.setattr(np, "load", read)
    with pytest.raises(ValueError, match="is damaged or no saved policy; train again"):
        load_state(path)
    monkeypatch.setattr(archive, "FREE", 2**20)
    words = r"bytes that claim to hold 33,\d+,\d+ bytes of arrays, more than"
    with pytest.raises(ValueError, match=words) as caught:
        load_model(path)
    assert "\n" not in str(caught.value)


def test_damaged_flags_of_an_archive_are_damage(saved, tmp_path):
    path, _ = saved
    model = tmp_path / "model.npz"
    mdp = mn.FiniteMDP(np.full((2, 1, 2), 0.5), np.ones((2, 1)), [0.5, 0.5], 0.9)
    np.savez(
        model, transition=mdp.transition, reward=mdp.reward, start=mdp.start, discount=mdp.discount
    )
    for file, load in ((path, load_state), (model, load_model)):
        whole, refused = file.read_bytes(), []
        places = [found.start() + 6 for found in re.finditer(b"PK\3\4", whole)][:2]
        places += [found.start() + 8 for found in re.finditer(b"PK\1\2", whole)][:2]
        for place in places:
            for offset in range(4):  # two bytes of flags, two of the method of compression
                for bit in range(8):
                    changed = bytearray(whole)
                    changed[place + offset] ^= 1 << bit
                    file.write_bytes(changed)
                    try:
                        load(file)
                    except ValueError as error:
                        refused.append(str(error))
        assert len(refused) > 20
        assert all("damaged" in text or "is not a whole .npz" in text for text in refused)


PREAMBLE = "discount: 0.9\nvalues: reward\nstates: {}\nactions: {}\nobservations: {}\n"
BOMBS = {
    "states": (30000, 1, 2, "T: * uniform"),
    "actions": (2, 100000, 2, "T: * uniform"),
    "pairs": (10_000_000, 2, 2, "T: * identity"),
    "observations": (10000, 1, 10_000_000, "O: * uniform"),
    "actions and states": (1000, 1000, 2, "T: * uniform"),
    "repeated": (2000, 1, 2, "T: * uniform\n" * 500),
    "repeated entries": (20000, 1, 2, "T: * : * : 1 1.0\n" * 5000),
    "reset": (5000, 1, 2, "T: * : * reset"),
    "wildcard": (5000, 1, 2, "T: * : * : * 0.0002"),
    "outcomes": (3000, 1, 1000, "T: * uniform\nO: * uniform\nR: * : * : * : 1 1.0"),
}


@pytest.mark.parametrize("name", BOMBS)
def test_a_pomdp_bomb_is_refused_in_one_line_at_once(name):
    states, actions, observations, text = BOMBS[name]
    began = time.monotonic()
    with pytest.raises(POMDPError, match=r"too many|more than the") as caught:
        parse_pomdp(PREAMBLE.format(states, actions, observations) + text)
    assert "\n" not in str(caught.value)
    assert time.monotonic() - began < 10  # minutes without the limits


def test_large_problems_within_the_limits_are_read():
    text = PREAMBLE.format(1000, 3, 5) + "T: * uniform\nO: * uniform\nR: * : * : * : 1 1.0"
    found = parse_pomdp(text)
    assert (found.n_states, found.n_actions, found.n_observations) == (1000, 3, 5)
    np.testing.assert_allclose(found.reward, 0.2, rtol=1e-9)


def test_a_pomdp_is_saved_whole_or_not_at_all(tmp_path, monkeypatch):
    tiger = load_pomdp("tiger")
    save_pomdp(tmp_path / "tiger.pomdp", tiger)
    whole = (tmp_path / "tiger.pomdp").read_bytes()

    def full(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="No space left"):
        save_pomdp(tmp_path / "tiger.pomdp", tiger, "another comment")
    assert [path.name for path in tmp_path.iterdir()] == ["tiger.pomdp"]
    assert (tmp_path / "tiger.pomdp").read_bytes() == whole


# Commands.


def train(capsys, out, name, *words):
    command = ("train", f"fault/{name}-v0", "--policy", "linear", "--out", out, *words)
    return run(capsys, *command)


def test_prints_of_an_environment_do_not_get_into_json(tmp_path, capsys):
    status, shown = train(capsys, tmp_path, "Print", "--iterations", 1, "--json")
    assert status == 0, shown.err
    assert json.loads(shown.out)["environment"] == "fault/Print-v0"


def test_an_environment_that_exits_ends_the_command_with_an_error(tmp_path, capsys):
    status, shown = train(capsys, tmp_path, "Exit", "--iterations", 1)
    assert status == 2
    assert "fault/Exit-v0 raised SystemExit in step 0" in shown.err
    assert "safe" not in shown.err
    assert shown.err.count("\n") == 1


def test_numbers_that_json_cannot_say_are_null(tmp_path, capsys):
    status, shown = train(capsys, tmp_path, "Huge", "--iterations", 6)
    assert status == 0, shown.err
    results = json.loads((tmp_path / "results.json").read_text())
    assert len(results["return"]["mean"]) == 6
    assert results["final"]["mean"] > 1e190
    assert results["final"]["stderr"] is None  # its squares overflow
    assert "e+20" in shown.out


def test_returns_that_overflow_get_one_line(tmp_path, capsys):
    status, shown = train(capsys, tmp_path, "Larger", "--iterations", 1)
    assert (status, shown.err.count("\n")) == (2, 1)
    assert "whose objective is inf" in shown.err


def test_a_limit_that_the_first_batch_exceeds_is_told(tmp_path, capsys):
    status, shown = train(capsys, tmp_path, "Fine", "--transitions", 100)
    assert status == 0
    assert "warning: no iteration was made: the first batch alone has 400 trans" in shown.err


@pytest.mark.parametrize("seed", [2**63 - 1, 2**63, 2**62])
def test_seeds_that_would_fail_later_are_refused(seed, tmp_path, capsys):
    for words in (("train", "cartpole"), ("run", "demo"), ("solve", "tiger")):
        status, shown = run(capsys, *words, "--seed", seed, "--out", tmp_path / "run")
        assert (status, shown.err) == (
            2,
            f"mdpnewton: error: --seed must be at most {MOST_SEED}, got {seed}\n",
        )
        assert not (tmp_path / "run").exists()
    if seed >= 2**63:
        with pytest.raises(ValueError, match=r"train\(seed=...\)` must be a whole number"):
            begin(simulator_of("cartpole"), "linear", seed, SMALL)


def test_a_terminal_without_a_sign_gets_a_similar_one(saved, monkeypatch):
    path, _ = saved
    shown = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    monkeypatch.setattr(sys, "stdout", shown)
    assert main(["evaluate", str(path.parent), "--episodes", "2"]) == 0
    shown.flush()
    text = shown.buffer.getvalue().decode("ascii")
    assert re.search(r"return +\S +-?[\d.]+ \+- [\d.]+", text), text

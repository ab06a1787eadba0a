"""Saved states: plain data come back bit for bit, and everything else is refused in one line."""

import json

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from mdpnewton.files import states
from mdpnewton.files.states import load_state, save_state
from mdpnewton.version import __version__

STATE = {
    "seed": 3,
    "names": ["a", "b", None, True],
    "numbers": {"nan": float("nan"), "low": -float("inf"), "third": 1 / 3},
    "batches": [{"rewards": np.arange(5.0), "valid": np.array([True, False])}, {}],
    "scalar": np.array(2, np.int64),
}
numbers = arrays.arrays(
    st.sampled_from([np.float64, np.int64, np.uint8, np.bool_]),
    arrays.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=3),
)
plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | numbers,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


def same(left, right):
    assert type(left) is type(right)
    if isinstance(left, dict):
        assert list(left) == list(right)
        for key in left:
            same(left[key], right[key])
    elif isinstance(left, list):
        assert len(left) == len(right)
        for one, other in zip(left, right, strict=True):
            same(one, other)
    elif isinstance(left, np.ndarray):
        assert (left.dtype, left.shape) == (right.dtype, right.shape)
        assert left.tobytes() == right.tobytes()
    else:
        assert left == right or (left != left and right != right)


@settings(
    max_examples=100,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(state=st.dictionaries(st.text().filter(lambda key: key != states.ARRAY), plain, max_size=3))
def test_plain_data_come_back_bit_for_bit(state, tmp_path):
    save_state(tmp_path / "state.npz", state)
    same(load_state(tmp_path / "state.npz"), state)


@pytest.mark.parametrize(
    "odd",
    [(1, 2), {1: 2}, np.float64(1.0), np.array([None]), np.array(["x"]), object(), {"$array": "x"}],
    ids=["tuple", "integer key", "scalar", "objects", "texts", "object", "reserved name"],
)
def test_what_is_not_plain_is_refused(odd, tmp_path):
    with pytest.raises(ValueError, match=r"needs plain data.* at /a/0") as caught:
        save_state(tmp_path / "state.npz", {"a": [odd]})
    assert "\n" not in str(caught.value)
    assert not list(tmp_path.iterdir())


@pytest.fixture
def path(tmp_path):
    save_state(tmp_path / "state.npz", STATE)
    return tmp_path / "state.npz"


def members(path):
    with np.load(path) as archive:
        return {name: archive[name] for name in archive.files}


def test_a_file_that_is_not_there_and_damaged_ones_are_refused(path):
    whole = path.read_bytes()
    for content in (b"", whole[:300], b"no archive", whole[:-40] + bytes(40)):
        path.write_bytes(content)
        with pytest.raises(ValueError, match="is damaged or no saved policy; train again"):
            load_state(path)
    for other in ({"x": np.zeros(2)}, {"about": np.frombuffer(b"[1]", np.uint8)}):
        np.savez(path, **other)
        with pytest.raises(ValueError, match="is damaged or no saved policy; train again"):
            load_state(path)
    path.unlink()
    with pytest.raises(ValueError, match="no such file"):
        load_state(path)


def test_a_byte_that_changed_is_noticed_or_changes_nothing(path):
    whole = path.read_bytes()
    noticed = 0
    for place in range(0, len(whole), 7):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 0x15]) + whole[place + 1 :])
        try:
            found = load_state(path)
        except ValueError:
            noticed += 1
        else:
            same(found, STATE)
    assert noticed > 10


@pytest.mark.parametrize("name", ["about", "0_batches_0_rewards", "digest"])
def test_the_digest_covers_the_arrays_and_the_description(path, name):
    edited = members(path)
    if name == "about":
        about = json.loads(bytes(edited["about"]))
        about["state"]["seed"] = 4
        edited["about"] = np.frombuffer(json.dumps(about).encode(), np.uint8)
    else:
        edited[name] = edited[name] + np.ones((), edited[name].dtype)
    np.savez(path, **edited)
    with pytest.raises(ValueError, match=r"is damaged \(its digest differs\); train again"):
        load_state(path)
    del edited["digest"]
    np.savez(path, **edited)
    with pytest.raises(ValueError, match="digest"):
        load_state(path)


def test_other_formats_are_refused_with_the_version_that_wrote_them(path, monkeypatch):
    old = {"format": 1, "version": "0.1.0", "digest": "", "seed": 0}
    first = path.with_name("first.npz")
    np.savez(first, about=np.frombuffer(json.dumps(old).encode(), np.uint8))
    with pytest.raises(ValueError, match=r"has format 1, written by mdpnewton 0\.1\.0; this is"):
        load_state(first)
    monkeypatch.setattr(states, "FORMAT", 3)
    with pytest.raises(ValueError, match=f"has format 2, written by mdpnewton {__version__}"):
        load_state(path)


def test_no_pickle_is_read(tmp_path):
    np.savez(tmp_path / "state.npz", about=np.array([None], object))
    with pytest.raises(ValueError, match="is damaged or no saved policy"):
        load_state(tmp_path / "state.npz")

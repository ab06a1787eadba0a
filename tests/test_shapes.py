"""The tests check the shapes in annotations: of all of the core, and of nothing else."""

import importlib
import tomllib
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jaxtyping import TypeCheckError
from problems import random_mdp
from shapes import CORE

import mdpnewton as mn
from mdpnewton.evaluation import Matrix, MatrixDiagonal

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "mdpnewton"


def weighted(**changes):
    table = jnp.full((3, 2), 0.5)
    given = {"occupancy": table, "value": table, "advantage": table, **changes}
    return mn.WeightedPairs(
        states=jnp.arange(3), actions=jnp.zeros((3, 2), int), objective=0.0, **given
    )


def test_axes_of_one_name_must_have_one_size():
    with pytest.raises(TypeCheckError, match="entries"):
        MatrixDiagonal(jnp.zeros(3), jnp.ones(4))
    with pytest.raises(TypeCheckError, match="'action'"):
        mn.LinearGaussian([[1.0]], 2).log_prob(jnp.zeros((1, 2)), jnp.zeros(2), jnp.zeros(3))


def test_what_is_given_back_is_checked():
    broken = Matrix(jnp.zeros(3), jnp.eye(3))
    object.__setattr__(broken, "entries", jnp.ones((3, 3, 1)))
    with pytest.raises(TypeCheckError, match=r"return value of .*Matrix\.dense"):
        broken.dense()


def test_the_kind_of_number_is_checked():
    simulator = mn.FiniteSimulator(random_mdp(0), horizon=3)
    with pytest.raises(TypeCheckError, match="'action'"):
        simulator.step(jax.random.key(0), jnp.array(0), jnp.array(0.0))


def test_checks_hold_in_compiled_code():
    policy = mn.LinearGaussian(np.eye(2), 3)
    with pytest.raises(TypeCheckError, match="log_prob"):
        eqx.filter_jit(policy.log_prob)(jnp.zeros((2, 3)), jnp.zeros(3), jnp.zeros((2, 1)))


def test_a_constructor_refuses_in_its_own_words_first():
    with pytest.raises(ValueError, match=r"WeightedPairs\(value=...\)"):
        weighted(value=jnp.zeros((3, 1)))
    with pytest.raises(TypeCheckError, match="state_value"):  # of which it says nothing
        weighted(state_value=jnp.zeros(2))


def test_all_of_the_core_is_checked():
    for name in CORE.split():
        files = (PACKAGE / name).rglob("*.py") if (PACKAGE / name).is_dir() else [PACKAGE / name]
        for file in files:
            parts = file.relative_to(ROOT).with_suffix("").parts
            module = importlib.import_module(".".join(p for p in parts if p != "__init__"))
            assert type(module.__spec__.loader).__name__ == "_JaxtypingLoader", module


def test_the_core_is_what_mypy_holds_to_all_rules():
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["mypy"]
    assert settings["strict"]
    rest = {
        name.removeprefix("mdpnewton.").removesuffix(".*")
        for name in settings["overrides"][0]["module"]
    }
    there = {
        path.stem
        for path in PACKAGE.iterdir()
        if (path / "__init__.py").exists() or path.suffix == ".py"
    }
    assert there - rest - {"__init__", "__main__", "version"} == set(CORE.split())

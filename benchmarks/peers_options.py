"""The hyper-parameters of the peers, as published for each task."""

from typing import Any

Options = dict[str, Any]

# Hyper-parameters of rl-baselines3-zoo, hyperparams/ppo.yml and trpo.yml, commit 22e3ff2 of
# 2026-04-23; those of earlier versions of an environment where there are none for the newest.
# "lin_" is a rate that falls to zero. Where the zoo has none for TRPO, what it has for all tasks of
# MuJoCo is used. For our own tasks there are none: what won a grid of four on the swing-up, with
# actions in [-1, 1]: {400, 2000} transitions per update times two learning rates or two limits of
# the divergence.
WIDE = {"log_std_init": -2, "ortho_init": False, "activation": "ReLU", "net": [256, 256]}
TRPO_MUJOCO = {
    "normalize": True,
    "copies": 2,
    "batch_size": 128,
    "n_steps": 1024,
    "cg_max_steps": 25,
    "cg_damping": 0.1,
    "n_critic_updates": 20,
    "learning_rate": 1e-3,
}
OWN = {"normalize": True, "copies": 4, "n_steps": 100, "rescale": True}
ZOO: dict[str, dict[str, Options]] = {
    "PPO": {
        "Pendulum-v1": {
            "copies": 4,
            "n_steps": 1024,
            "gamma": 0.9,
            "learning_rate": 1e-3,
            "use_sde": True,
            "sde_sample_freq": 4,
        },
        "CartPole-v1": {
            "copies": 8,
            "n_steps": 32,
            "batch_size": 256,
            "gae_lambda": 0.8,
            "gamma": 0.98,
            "n_epochs": 20,
            "learning_rate": "lin_0.001",
            "clip_range": "lin_0.2",
        },
        "MountainCarContinuous-v0": {
            "normalize": True,
            "copies": 1,
            "batch_size": 256,
            "n_steps": 8,
            "gamma": 0.9999,
            "learning_rate": 7.77e-05,
            "ent_coef": 0.00429,
            "clip_range": 0.1,
            "gae_lambda": 0.9,
            "max_grad_norm": 5,
            "vf_coef": 0.19,
            "use_sde": True,
            "policy": {"log_std_init": -3.29, "ortho_init": False},
        },
        "Acrobot-v1": {
            "normalize": True,
            "copies": 16,
            "n_steps": 256,
            "gae_lambda": 0.94,
            "n_epochs": 4,
        },
        "InvertedPendulum-v5": {
            "normalize": True,
            "copies": 1,
            "batch_size": 64,
            "n_steps": 32,
            "gamma": 0.999,
            "learning_rate": 0.000222425,
            "ent_coef": 1.37976e-07,
            "clip_range": 0.4,
            "n_epochs": 5,
            "gae_lambda": 0.9,
            "max_grad_norm": 0.3,
            "vf_coef": 0.19816,
        },
        "InvertedDoublePendulum-v5": {
            "normalize": True,
            "copies": 1,
            "batch_size": 512,
            "n_steps": 128,
            "gamma": 0.98,
            "learning_rate": 0.000155454,
            "ent_coef": 1.05057e-06,
            "clip_range": 0.4,
            "n_epochs": 10,
            "gae_lambda": 0.8,
            "max_grad_norm": 0.5,
            "vf_coef": 0.695929,
        },
        "Reacher-v5": {
            "normalize": True,
            "copies": 1,
            "batch_size": 32,
            "n_steps": 512,
            "gamma": 0.9,
            "learning_rate": 0.000104019,
            "ent_coef": 7.52585e-08,
            "clip_range": 0.3,
            "n_epochs": 5,
            "gae_lambda": 1.0,
            "max_grad_norm": 0.9,
            "vf_coef": 0.950368,
        },
        "Swimmer-v5": {
            "normalize": True,
            "copies": 4,
            "n_steps": 1024,
            "batch_size": 256,
            "gamma": 0.9999,
            "learning_rate": 6e-4,
            "gae_lambda": 0.98,
        },
        "HalfCheetah-v5": {
            "normalize": True,
            "copies": 1,
            "batch_size": 64,
            "n_steps": 512,
            "gamma": 0.98,
            "learning_rate": 2.0633e-05,
            "ent_coef": 0.000401762,
            "clip_range": 0.1,
            "n_epochs": 20,
            "gae_lambda": 0.92,
            "max_grad_norm": 0.8,
            "vf_coef": 0.58096,
            "policy": WIDE,
        },
        "Hopper-v5": {
            "normalize": True,
            "copies": 1,
            "batch_size": 32,
            "n_steps": 512,
            "gamma": 0.999,
            "learning_rate": 9.80828e-05,
            "ent_coef": 0.00229519,
            "clip_range": 0.2,
            "n_epochs": 5,
            "gae_lambda": 0.99,
            "max_grad_norm": 0.7,
            "vf_coef": 0.835671,
            "policy": WIDE,
        },
        "Walker2d-v5": {
            "normalize": True,
            "copies": 1,
            "batch_size": 32,
            "n_steps": 512,
            "gamma": 0.99,
            "learning_rate": 5.05041e-05,
            "ent_coef": 0.000585045,
            "clip_range": 0.1,
            "n_epochs": 20,
            "gae_lambda": 0.95,
            "max_grad_norm": 1,
            "vf_coef": 0.871923,
        },
    },
    "TRPO": {
        "CartPole-v1": {
            "copies": 2,
            "n_steps": 512,
            "batch_size": 512,
            "cg_damping": 1e-3,
            "gae_lambda": 0.98,
            "learning_rate": 1e-3,
            "n_critic_updates": 20,
        },
        "Pendulum-v1": {
            "copies": 2,
            "n_steps": 1024,
            "gamma": 0.9,
            "n_critic_updates": 15,
            "use_sde": True,
            "sde_sample_freq": 4,
        },
        "Acrobot-v1": {"normalize": True, "copies": 2, "n_steps": 1024},
        "MountainCarContinuous-v0": {
            "normalize": True,
            "copies": 2,
            "use_sde": True,
            "sde_sample_freq": 4,
        },
        "HalfCheetah-v5": {**TRPO_MUJOCO, "target_kl": 0.04},
        "Swimmer-v5": {**TRPO_MUJOCO, "gamma": 0.9999},
    },
}


def published(learner: str, environment: str) -> Options:
    """The options of PPO or TRPO on an environment."""
    if environment in ZOO[learner]:
        return ZOO[learner][environment]
    if learner == "TRPO":
        return TRPO_MUJOCO if environment.endswith("-v5") else {**OWN, "target_kl": 0.05}
    return {**OWN, "learning_rate": 1e-3}

"""The simulated arm against its data sheet, and the game played on it."""

import sys

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from mdpnewton.domains.ball_in_cup import (
    BallInCup,
    Demonstration,
    Primitives,
    load_demonstration,
    model,
    wam,
)
from mdpnewton.domains.ball_in_cup.pictures import (
    Camera,
    PicturesUnavailableError,
    pictures_available,
)
from mdpnewton.domains.ball_in_cup.rollouts import FEED, first_crossing, in_cup
from mdpnewton.environments import IDS

mujoco = pytest.importorskip("mujoco")

STRETCH = 0.016  # m by which the string may be longer than 0.40: 4 %, in the wildest movements


@pytest.fixture(scope="module")
def game():
    return BallInCup()


@pytest.fixture(scope="module")
def caught(game):
    return load_demonstration().weights(game.primitives)


@pytest.fixture(scope="module")
def start(game):
    return load_demonstration().imperfect().weights(game.primitives)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A working folder that must stay empty."""
    monkeypatch.chdir(tmp_path)
    yield tmp_path
    assert list(tmp_path.iterdir()) == []


def poses(n=20):
    return np.random.default_rng(0).uniform(wam.LOWER, wam.UPPER, size=(n, wam.JOINTS))


# The model


def test_forward_kinematics_is_that_of_the_denavit_hartenberg_table():
    """Against a plain product of four matrices a joint, written out here."""
    arm = model.load_arm()
    data = mujoco.MjData(arm)
    a = (0, 0, 0.045, -0.045, 0, 0, 0)
    d = (0, 0, 0.55, 0, 0.30, 0, 0.0609)
    alpha = np.array((-1, 1, -1, 1, -1, 1, 0)) * np.pi / 2

    def about(axis, angle):
        matrix, (i, j) = np.eye(4), {"z": (0, 1), "x": (1, 2)}[axis]
        matrix[[i, j, i, j], [i, j, j, i]] = np.repeat([np.cos(angle), np.sin(angle)], 2)
        matrix[i, j] *= -1
        return matrix

    def along(x, z):
        matrix = np.eye(4)
        matrix[[0, 2], 3] = x, z
        return matrix

    for q in poses():
        data.qpos[:] = q
        mujoco.mj_kinematics(arm, data)
        frame = along(0, 0.346)
        for i in range(7):
            body = data.body(f"link{i + 1}")
            np.testing.assert_allclose(body.xpos, frame[:3, 3], atol=1e-12)
            hinge = data.joint(f"joint{i + 1}").xaxis
            np.testing.assert_allclose(hinge, frame[:3, 2], atol=1e-12)
            frame = frame @ about("z", q[i]) @ along(0, d[i]) @ along(a[i], 0)
            frame = frame @ about("x", alpha[i])
        np.testing.assert_allclose(wam.frames(q)[-1], frame, atol=1e-12)
        cup = frame[:3, 3] + 0.1165 * frame[:3, 2]
        np.testing.assert_allclose(data.body("cup").xpos, cup, atol=1e-12)
        np.testing.assert_allclose(
            data.body("cup").xmat.reshape(3, 3)[:, 2], -frame[:3, 1], atol=1e-12
        )


def test_the_cup_stands_upright_at_the_start_with_the_ball_below():
    simulated = model.load_model()
    data = mujoco.MjData(simulated)
    data.qpos[:] = np.concatenate([wam.START, model.ball_start()])
    mujoco.mj_forward(simulated, data)
    assert data.body("cup").xmat.reshape(3, 3)[2, 2] > np.cos(0.06)
    assert data.ten_length[0] == pytest.approx(0.40, abs=1e-12)
    assert data.ncon == 0


def test_masses_centres_and_inertias_are_those_of_the_data_sheet():
    arm = model.load_arm()
    data = mujoco.MjData(arm)
    data.qpos[:] = poses()[3]
    mujoco.mj_kinematics(arm, data)
    mujoco.mj_comPos(arm, data)
    frames = wam.frames(data.qpos)
    for i, link in enumerate(wam.LINKS):
        body = arm.body(f"link{i + 1}")
        assert body.mass[0] == pytest.approx(link.mass, rel=1e-12)
        R, place = frames[i + 1][:3, :3], frames[i + 1][:3, 3]
        seen = data.body(f"link{i + 1}")
        np.testing.assert_allclose(seen.xipos, place + R @ link.centre, atol=1e-12)
        own = seen.ximat.reshape(3, 3)
        xx, yy, zz, xy, xz, yz = link.inertia
        sheet = np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])
        np.testing.assert_allclose(
            own @ np.diag(body.inertia) @ own.T, R @ sheet @ R.T, rtol=1e-6, atol=1e-10
        )
    assert arm.body("cup").mass[0] == pytest.approx(0.132, rel=1e-12)
    assert model.load_model().body("ball").mass[0] == pytest.approx(0.024)


def test_the_torque_of_inverse_dynamics_gives_its_acceleration():
    arm = model.load_arm()
    data = mujoco.MjData(arm)
    rng = np.random.default_rng(0)
    for q in poses(5):
        data.qpos[:], data.qvel[:] = q, rng.normal(size=7)
        wanted = 10 * rng.normal(size=7)
        data.qacc[:] = wanted
        mujoco.mj_inverse(arm, data)
        torque = data.qfrc_inverse.copy()
        data.qfrc_applied[:] = torque
        mujoco.mj_forward(arm, data)
        np.testing.assert_allclose(data.qacc, wanted, atol=1e-8)


def energies(simulated, data, steps):
    simulated.opt.enableflags |= mujoco.mjtEnableBit.mjENBL_ENERGY
    found = []
    for _ in range(steps):
        mujoco.mj_step(simulated, data)
        found.append(data.energy.sum())
    return np.array(found)


def test_the_free_arm_keeps_its_energy():
    drift = []
    for dt in (0.001, 0.0005):
        arm = model.load_arm(gravity=9.81, dt=dt)
        data = mujoco.MjData(arm)
        data.qpos[:] = wam.START
        total = energies(arm, data, round(0.5 / dt))
        drift.append(np.abs(total - total[0]).max())
    assert drift[0] < 1.0  # of some 60 J that change hands
    assert drift[1] < 0.7 * drift[0]


def test_the_string_takes_energy_and_never_gives_it():
    simulated = model.load_model(0.0005)
    simulated.opt.disableflags |= mujoco.mjtDisableBit.mjDSBL_ACTUATION
    data = mujoco.MjData(simulated)
    data.qpos[:] = np.concatenate([wam.START, model.ball_start()])
    ball = np.arange(7, 10)
    data.qpos[ball] += [0.25, 0.0, 0.2]  # falls until the string is taut, and swings
    simulated.dof_damping[:7] = 1e6  # the arm is held
    weight, lengths = 0.024, []
    total = []
    for _ in range(3000):
        mujoco.mj_step(simulated, data)
        lengths.append(data.ten_length[0])
        total.append(weight * (9.81 * data.qpos[9] + 0.5 * (data.qvel[ball] ** 2).sum()))
    total = np.array(total)
    rise = (total - np.minimum.accumulate(total)).max()
    assert rise < 0.03 * weight * 9.81 * 0.4
    assert max(lengths) < 0.40 + STRETCH


# Rollouts


def test_the_arm_follows_within_its_torque_limits(game, caught, start):
    rng = np.random.default_rng(0)
    weights = np.vstack([caught, start, start + 10 * rng.normal(size=(4, 70))])
    found = game.play(weights)
    assert found.simulated.all()
    assert (found.error < 0.05).all()
    assert (found.torque < wam.TORQUE).all()
    wild = game.play(300 * rng.normal(size=(6, 70)))
    assert (wild.torque <= wam.TORQUE * (1 + 1e-9)).all()
    assert (wild.torque == wam.TORQUE).any()  # and there they are reached


def test_the_string_is_never_longer_than_it_is(game, caught):
    rng = np.random.default_rng(1)
    spread = np.repeat([1.0, 10.0, 50.0, 200.0], 4)[:, None]
    found = game.play(caught + spread * rng.normal(size=(16, 70)))
    assert np.isfinite(found.string).all()
    assert found.string.max() < 0.40 + STRETCH


def test_the_demonstration_catches_and_its_imperfect_copy_does_not(game, caught, start):
    found = game.play(np.stack([caught, start]))
    assert found.caught.tolist() == [True, False]
    assert found.reward[0] > -0.01
    assert found.reward[1] == -100
    first = np.random.default_rng(0).normal(size=(60, 70))
    tried = game.play(start + 10 * first)
    assert np.isfinite(tried.crossing).mean() < 0.2  # few samples of the start reach the plane
    assert not tried.caught.any()


@pytest.mark.parametrize("dt", [0.004, 0.001, 0.0005])
def test_the_demonstration_catches_at_other_time_steps(dt, caught, game):
    found = BallInCup(dt=dt).play(caught)
    assert found.caught.all()
    assert found.reward[0] == pytest.approx(game.play(caught).reward[0], abs=0.01)


def test_longer_episodes_only_add_later_crossings(game, caught, start):
    noise = np.random.default_rng(0).normal(size=(8, 70))
    weights = np.vstack([caught + 5 * noise[:4], start + 10 * noise[4:]])
    short, longer = game.play(weights), BallInCup(duration=4.0).play(weights)
    known = np.isfinite(short.crossing)
    assert known[:4].all()
    np.testing.assert_allclose(longer.reward[known], short.reward[known], atol=1e-9)
    assert not (longer.crossing[~known] < 1.49).any()


def test_results_do_not_depend_on_the_number_of_threads(game, start):
    weights = start + 10 * np.random.default_rng(3).normal(size=(9, 70))
    one = game.play(weights, keep=True)
    three = BallInCup(threads=3).play(weights, keep=True)
    for name in ("reward", "caught", "string", "torque", "states"):
        np.testing.assert_array_equal(getattr(one, name), getattr(three, name))
    backwards = game.play(weights[::-1], keep=True)
    np.testing.assert_array_equal(backwards.states[::-1], one.states)
    assert one.states.shape == (9, 750, 21)


@pytest.mark.parametrize(
    "value", [np.nan, np.inf, -np.inf, 1e308, 1e9, 1e5, -3e4, 5e3], ids=lambda v: f"{v:g}"
)
def test_absurd_weights_are_the_worst_and_nothing_breaks(game, caught, folder, value):
    weights = np.stack([caught, caught, np.full(70, value)])
    weights[1, 33] = value
    found = game.play(weights)
    assert found.caught[0]
    assert (found.reward[1:] <= found.reward[0]).all()
    assert np.isfinite(found.reward).all()
    if not abs(value) < 1e4:
        assert found.reward[1:].tolist() == [-100, -100]
        assert not found.simulated[1:].any()
    np.testing.assert_array_equal(game(weights), found.reward)


def test_wild_but_simulated_weights_write_no_log(game, folder):
    rng = np.random.default_rng(5)
    found = game.play(np.vstack([s * rng.normal(size=(8, 70)) for s in (100, 500, 1500)]))
    assert found.simulated.sum() > 8
    assert np.isfinite(found.reward).all()
    assert np.isfinite(found.string[found.simulated]).all()


def test_feeding_forward_coarsely_changes_little(game, caught):
    """The torques are computed every 8 ms; here at every step."""
    controls, wanted = game.controls(caught[None])
    arm = model.load_arm()
    data = mujoco.MjData(arm)
    worst = 0.0
    for step in range(0, game.steps, 7):
        data.qpos[:], data.qvel[:] = wanted.q[0, step], wanted.qd[0, step]
        data.qacc[:] = wanted.qdd[0, step]
        mujoco.mj_inverse(arm, data)
        exact = wanted.q[0, step] + wam.DAMPING * wanted.qd[0, step] / wam.STIFFNESS
        exact += data.qfrc_inverse / wam.STIFFNESS
        worst = max(worst, np.abs(controls[0, step] - exact).max())
    assert worst < 0.005
    assert FEED == 0.008


def test_the_first_downward_crossing_counts():
    dt, height = 0.1, np.array([-0.1, 0.03, 0.05, -0.01, 0.1, -0.2])
    ball = np.zeros((2, 6, 3))
    ball[0, :, 2] = 0.02 + height
    ball[0, :, 0] = [0, 0, 0.1, 0.4, 9, 9]
    ball[1, :, 2] = [-1, -0.5, 0, 0.5, 1, 2]  # rises and never falls
    rim = np.zeros((2, 6, 3))
    rim[:, :, 1] = 0.3
    reward, when = first_crossing(rim, ball, dt)
    share = 0.05 / 0.06
    x = 0.1 + 0.3 * share
    assert when[0] == pytest.approx(dt * (2 + share))
    assert reward[0] == pytest.approx(-20 * (x**2 + 0.3**2))
    assert reward[1] == -100
    assert np.isnan(when[1])


def test_what_counts_as_caught():
    still = np.zeros(3)
    assert in_cup(np.array([0.01, 0, -0.06]), still)
    assert not in_cup(np.array([0.01, 0, 0.01]), still)
    assert not in_cup(np.array([0.05, 0, -0.06]), still)
    assert not in_cup(np.array([0.0, 0, -0.3]), still)
    assert not in_cup(np.array([0.01, 0, -0.06]), np.array([0, 0, 0.5]))


def test_imperfect_copies():
    demonstration = load_demonstration()
    assert demonstration.angles.shape[1] == 7
    np.testing.assert_allclose(demonstration.angles[0], wam.START, atol=1e-6)
    same = demonstration.imperfect(1.0, 0.0)
    np.testing.assert_allclose(same.angles, demonstration.angles, atol=1e-15)
    bumped = demonstration.imperfect(1.0, 0.2).angles - demonstration.angles
    np.testing.assert_allclose(bumped.max(axis=0), [0.2, 0, 0.2, 0, 0, 0, 0], atol=1e-9)
    np.testing.assert_allclose(bumped[100:], 0, atol=1e-12)
    assert isinstance(same, Demonstration)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"threads": 0}, "threads"),
        ({"duration": 0.1}, "duration"),
        ({"dt": 0.1}, "dt"),
        ({"dt": np.nan}, "dt"),
        ({"primitives": Primitives(np.zeros(3))}, "7 joints"),
    ],
)
def test_wrong_games_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        BallInCup(**options)


def test_without_mujoco_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "mujoco", None)
    with pytest.raises(ImportError, match=r"pip install 'mdpnewton\[mujoco\]'"):
        model.load_model()


# The environment


def test_the_environment_passes_gymnasiums_checks(folder):
    mode = "rgb_array" if pictures_available() else None
    environment = gymnasium.make(IDS["ball-in-cup"], render_mode=mode).unwrapped
    check_env(environment, skip_render_check=mode is None)
    environment.close()


def test_an_episode_of_the_environment():
    environment = gymnasium.make(IDS["ball-in-cup"]).unwrapped
    seen, info = environment.reset(seed=0)
    assert info == {"crossed": False, "caught": False}
    np.testing.assert_allclose(seen[:14], 0, atol=1e-7)
    earned = []
    for _ in range(75):
        seen, reward, over, _, info = environment.step(np.zeros(7))
        earned.append(reward)
    assert over
    assert earned[-1] == -100
    assert not any(earned[:-1])
    assert np.abs(seen[:7]).max() < 0.02  # it holds still against gravity
    environment.reset()
    _, reward, over, _, _ = environment.step(np.full(7, np.nan))
    assert over
    assert reward == -100
    with pytest.raises(ValueError, match="shape"):
        environment.step(np.zeros(3))
    with pytest.raises(ValueError, match="render_mode"):
        type(environment)(render_mode="human")


def test_an_episode_is_rewarded_once(game, caught):
    """The demonstration as targets; without torques fed forward the arm lags behind."""
    q = game.primitives.movement(caught, 0.02, 76)
    environment = gymnasium.make(IDS["ball-in-cup"]).unwrapped
    environment.reset()
    rewards = [environment.step(row - wam.START)[1] for row in q.q[1:]]
    assert np.count_nonzero(rewards) == 1


@pytest.mark.skipif(not pictures_available(), reason="no OpenGL on this machine")
def test_pictures(game, caught):
    states = game.play(caught, keep=True).states[0]
    camera = Camera(game.model, 160, 120)
    first, last = camera.picture(states[0]), camera.picture(states[-1])
    assert first.shape == (120, 160, 3)
    assert first.std() > 10
    assert np.abs(first.astype(float) - last).max() > 50
    camera.close()
    camera.close()
    with pytest.raises(ValueError, match="1280"):
        Camera(game.model, 4000, 10)


def test_where_pictures_cannot_be_drawn_the_error_says_so(monkeypatch):
    monkeypatch.setenv("MUJOCO_GL", "egl")

    def broken(*size):
        raise OSError("no display")

    monkeypatch.setattr(mujoco, "GLContext", broken)
    assert not pictures_available()
    with pytest.raises(PicturesUnavailableError, match=r"no display.*MUJOCO_GL"):
        Camera()


def test_without_a_screen_egl_and_osmesa_are_tried(monkeypatch):
    for name in ("MUJOCO_GL", "DISPLAY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("sys.platform", "linux")
    for name in ("mujoco.egl", "mujoco.osmesa"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(PicturesUnavailableError, match=r"egl.*osmesa"):
        Camera()

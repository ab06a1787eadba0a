"""Make the demonstration of ball-in-a-cup: a dip, a jerk and a catch, found by CMA-ES.

    python tools/make_demonstration.py --seed 1 --out demonstration.json

Six via points of joints 2, 4 and 6, begun with a rough sketch, make a spline; the motor
primitives imitate it; what they do is simulated, and the recorded movement is theirs. It must
catch at time steps of 4, 2, 1 and 0.5 ms. Its imperfect copy, from which the experiment starts,
must bring the ball nearly as high as the plane, and not above it in three seconds. Takes some
minutes; needs `pip install cma`.
"""

import argparse
import json
import sys
from pathlib import Path

import numpy as np
from scipy.interpolate import CubicSpline

from mdpnewton.domains.ball_in_cup import BallInCup, Demonstration, Rollouts, wam

TIMES = np.array([0.0, 0.15, 0.3, 0.5, 0.7, 0.9, 1.1, 1.5])  # s; at both ends the arm rests
JOINTS = [1, 3, 5]
SKETCH = np.array(  # rad from the start, one row a via point
    [
        [-0.1, 0.1, 0.7],
        [0.1, 0.1, -0.4],
        [-0.1, -0.5, 0.0],
        [-0.2, 0.7, -0.5],
        [0.2, 0.2, -0.1],
        [0.1, 0.0, -0.3],
    ]
)
RECORD = 0.01  # s between two rows of the recording
HEIGHT = (0.06, 0.25)  # m above the plane
BELOW = (-0.12, -0.08)  # m: where the copy's highest point should be
EFFORT = 0.8  # share of the torque limits: more, and the motors cannot follow
STEPS = (0.004, 0.002, 0.001, 0.0005)  # s


def splines(points: np.ndarray) -> np.ndarray:
    """The angles of via points of shape (n, 18), every 10 ms, shape (n, times, 7)."""
    away = np.zeros((len(points), TIMES.size, wam.JOINTS))
    away[:, 1:-1, JOINTS] = points.reshape(len(points), -1, len(JOINTS))
    moments = np.arange(0, TIMES[-1] + RECORD / 2, RECORD)
    return wam.START + CubicSpline(TIMES, away, axis=1, bc_type="clamped")(moments)


def outside(heights: np.ndarray, limits: tuple[float, float]) -> np.ndarray:
    """How far heights are out of their limits."""
    return np.abs(heights - np.clip(heights, *limits))


def costs(points: np.ndarray, played: Rollouts, copies: Rollouts, misfit: np.ndarray) -> np.ndarray:
    """First as high as the plane, then near the cup, then caught; small and smooth besides."""
    crosses = np.isfinite(played.crossing)
    low = 3 - 2 * np.clip(played.height, -1, 0)
    near = outside(played.height, HEIGHT) - 5 * played.reward + 0.3 * ~played.caught
    effort = (played.torque / wam.TORQUE).max(axis=1)
    cost = np.where(crosses, near, low) + outside(copies.height, BELOW)
    cost += 3 * np.maximum(effort - EFFORT, 0) + 0.5 * misfit + 1e-3 * (points**2).sum(axis=1)
    return np.where(played.simulated & copies.simulated, cost, 10.0)


def search_points(seed: int, rounds: int) -> np.ndarray:
    """The best via points that CMA-ES finds."""
    try:
        import cma
    except ImportError:
        sys.exit("this search is by CMA-ES; install it with: pip install cma")
    game, long_game = BallInCup(threads=2), BallInCup(dt=0.004, duration=3.0, threads=2)
    primitives = game.primitives
    options = {"seed": seed, "popsize": 16, "verbose": -9}
    search = cma.CMAEvolutionStrategy(SKETCH.ravel(), 0.1, options)
    for number in range(rounds):
        points = np.array(search.ask())
        wanted = splines(points)
        weights = np.stack([primitives.imitate(angles, RECORD) for angles in wanted])
        moved = primitives.movement(weights, RECORD, wanted.shape[1]).q
        played = game.play(weights)
        imperfect = [Demonstration(RECORD, angles).imperfect() for angles in moved]
        copies = long_game.play(np.stack([copy.weights(primitives) for copy in imperfect]))
        cost = costs(points, played, copies, np.abs(moved - wanted).max(axis=(1, 2)))
        search.tell(list(points), list(cost))
        if number % 10 == 0:
            caught = f"caught {played.caught.sum()} of 16"
            print(f"{number:4d}  cost {cost.min():.3f}  {caught}", flush=True)
    return search.best.x


def main() -> None:
    """Search, check and write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=80, help="generations of 16 movements")
    parser.add_argument("--out", type=Path, default=Path("demonstration.json"))
    options = parser.parse_args()
    best = splines(search_points(options.seed, options.rounds)[None])[0]
    primitives = BallInCup().primitives
    weights = primitives.imitate(best, RECORD)
    for dt in STEPS:
        played = BallInCup(dt=dt).play(weights[None])
        print(f"dt {1e3 * dt} ms: reward {played.reward[0]:.4f}, caught {played.caught[0]}")
        if not played.caught[0]:
            sys.exit("it does not catch at every time step; try another --seed or more --rounds")
    moved = primitives.movement(weights, RECORD, len(best)).q
    rows = ",\n".join("    " + json.dumps([round(x, 6) for x in row]) for row in moved.tolist())
    command = f"python tools/make_demonstration.py --seed {options.seed}"
    command += f" --rounds {options.rounds}"
    about = "Joint angles (rad) of a catch, one row every dt seconds."
    text = f'{{\n  "about": {json.dumps(about)},\n  "command": {json.dumps(command)},\n'
    text += f'  "dt": {RECORD},\n  "angles": [\n{rows}\n  ]\n}}\n'
    options.out.write_text(text, encoding="utf-8")
    print(f"wrote {options.out}")


if __name__ == "__main__":
    main()

"""Pieces and placements per second of CPU time: the compiled Tetris, the plain one, jumanji's.

    python benchmarks/tetris.py [--quick] [--json] [--jumanji PYTHON]

The board is 10x10, with one thread. The rows are greedy play with Bertsekas-Ioffe and with
Dellacherie-Thiery features, a Gibbs policy that is sampled, and one with gradient, H2 and Fisher
matrix, soft (differences -0.3, holes -1: some 20 of 23 placements count) and near-greedy (eight
times that). Rows with "diagonals" add up only the diagonals of both matrices; both are compared
with the gradient alone. A candidate is a placement that is scored: 162 / 7 per piece. Rounds go
through all rows, and the best round counts, because other work on the machine can only slow a round
down. Rates are per CPU time, because wall time says little on a busy machine.

jumanji (pip install jumanji) is not a dependency. `--jumanji` names the Python of an environment
that has it; by default the current one is tried. Its Tetris scores every afterstate of 256 games at
a time with the same features, in compiled and vectorised JAX. Its game is the same except for the
time limit and the rewards. The two-thread row compares two threads with one by wall time, which
needs two idle cores, and by CPU time.
"""

import argparse
import importlib.util
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

CANDIDATES = 162 / 7  # mean number of placements per piece
HINT = "jumanji is left out: pip install jumanji, there or here; --jumanji PYTHON names its Python"
SOFT = [0.0] * 10 + [-0.3] * 9 + [0.0, -1.0]
# Rows that add up matrices, their diagonals, and neither, by the features.
SUMS = {
    features: [
        f"Gibbs {features} with gradient {what}{ending}"
        for what in ("and H2", "and diagonals", "alone")
    ]
    for features, ending in (("BI", ", soft"), ("DT", ""))
}


def _weights() -> tuple[Any, Any]:
    """Soft and near-greedy weights, without ties."""
    import numpy as np

    near = 8 * np.array(SOFT) + 0.01 * np.random.default_rng(0).normal(size=21)
    return np.array(SOFT), near


def parts(quick: bool) -> dict[str, Callable[[], int]]:
    """What is timed, by name; each function returns the number of pieces it played."""
    from mdpnewton.domains.tetris import DT_10, RecurrentBoard, Survival, estimate, plain, play

    soft, near = _weights()
    size = 1 if quick else 5

    def games(weights: Any, count: int, **more: Any) -> Callable[[], int]:
        return lambda: int(play(weights, games=count * size, threads=1, **more).pieces.sum())

    def sums(weights: Any, count: int, rule: Any, **more: Any) -> Callable[[], int]:
        arguments = {"games": count * size, "threads": 1, **more}
        return lambda: int(estimate(weights, rule, **arguments).pieces.sum())

    def oracle() -> int:
        return sum(plain.play_game(near, game=game, cap=40).pieces for game in range(2))

    rule, survival = RecurrentBoard(), Survival(0.99, share=8)
    alone = Survival(0.99, share=1024)  # a covariance so seldom that it costs nothing
    dt: dict[str, Any] = {"features": "dt", "cap": 3000}
    return {
        "greedy BI": games(near, 600),
        "greedy DT": games(DT_10, 20, **dt),
        "Gibbs BI, sampling, near-greedy": games(near, 600, policy="gibbs"),
        "Gibbs BI, sampling, soft": games(soft, 2000, policy="gibbs"),
        "Gibbs BI with gradient and H2, soft": sums(soft, 2000, rule),
        "Gibbs BI with gradient and H2, near-greedy": sums(near, 200, rule),
        "Gibbs BI, survival, H2 on 1/8, near-greedy": sums(near, 200, survival),
        "Gibbs BI with gradient and diagonals, soft": sums(soft, 2000, rule, diagonal=True),
        "Gibbs BI with gradient alone, soft": sums(soft, 2000, alone, diagonal=True),
        "Gibbs DT with gradient and H2": sums(DT_10, 10, rule, **dt),
        "Gibbs DT with gradient and diagonals": sums(DT_10, 10, rule, diagonal=True, **dt),
        "Gibbs DT with gradient alone": sums(DT_10, 10, alone, diagonal=True, **dt),
        "plain Python, greedy BI": oracle,
    }


def jumanji_rate(seconds: float) -> float:
    """Pieces per CPU second of jumanji's Tetris under a greedy controller."""
    import jax
    import jax.numpy as jnp
    from jumanji.environments import Tetris

    environment = Tetris(num_rows=10, num_cols=10, time_limit=10**9)
    actions = jnp.array([[turn, x] for turn in range(4) for x in range(10)])
    weights = jnp.array(SOFT, jnp.float32)

    def score(state: Any) -> Any:
        board = state.grid_padded[:10, :10] > 0
        rows = jnp.arange(10, 0, -1)[:, None]
        heights = (board * rows).max(axis=0)
        holes = heights.sum() - board.sum()
        steps = jnp.abs(jnp.diff(heights))
        features = jnp.concatenate([heights, steps, heights.max()[None], holes[None]])
        return weights @ features.astype(jnp.float32)

    def move(state: Any, _: Any) -> tuple[Any, None]:
        after, _ = jax.vmap(environment.step, (None, 0))(state, actions)
        scores = jnp.where(state.action_mask.ravel(), jax.vmap(score)(after), -jnp.inf)
        chosen = jax.tree.map(lambda leaf: leaf[scores.argmax()], after)
        fresh, _ = environment.reset(chosen.key)
        over = ~chosen.action_mask.any()
        return jax.tree.map(lambda a, b: jnp.where(over, a, b), fresh, chosen), None

    count, length = 256, 20

    @jax.jit
    def run(states: Any) -> Any:
        return jax.vmap(lambda state: jax.lax.scan(move, state, None, length)[0])(states)

    states, _ = jax.vmap(environment.reset)(jax.random.split(jax.random.key(0), count))
    states = jax.block_until_ready(run(states))
    best, end = 0.0, time.perf_counter() + seconds
    while time.perf_counter() < end or best == 0.0:
        begin = time.process_time()
        states = jax.block_until_ready(run(states))
        best = max(best, count * length / (time.process_time() - begin))
    return best


def peer(python: str | None, seconds: float) -> float | None:
    """The rate of jumanji in its own process; None if it is not installed."""
    if python is None and importlib.util.find_spec("jumanji") is None:
        return None
    command = [python or sys.executable, str(Path(__file__)), "--only-jumanji", str(seconds)]
    theirs = {name: value for name, value in os.environ.items() if not name.startswith("JAX_")}
    theirs["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false"
    done = subprocess.run(command, capture_output=True, text=True, env=theirs)
    if done.returncode:
        print(f"jumanji failed:\n{done.stderr}", file=sys.stderr)
        return None
    return float(done.stdout)


def threads(quick: bool) -> dict[str, float]:
    """Two threads against one: by wall time, and twice the ratio of pieces per CPU second."""
    from mdpnewton.domains.tetris import play

    _, near = _weights()
    wall, rates = {1: 1e9, 2: 1e9}, {1: 0.0, 2: 0.0}
    for _ in range(3 if quick else 15):
        for count in (1, 2):
            begin = time.perf_counter()
            played = play(near, games=2000 if quick else 6000, threads=count)
            wall[count] = min(wall[count], time.perf_counter() - begin)
            rates[count] = max(rates[count], played.pieces.sum() / played.cpu_seconds)
    return {"wall": wall[1] / wall[2], "cpu": 2 * float(rates[2] / rates[1])}


def measure(rounds: int, quick: bool, python: str | None) -> dict[str, Any]:
    rows = parts(quick)
    rates = dict.fromkeys(rows, 0.0)
    for name, part in rows.items():
        if not name.startswith("plain"):
            part()  # compiles
    for _ in range(rounds):
        for name, part in rows.items():
            begin = time.process_time()
            pieces = part()
            rates[name] = max(rates[name], pieces / (time.process_time() - begin))
    theirs = peer(python, 5.0 if quick else 30.0)
    if theirs is not None:
        rates["jumanji, greedy BI, 256 games at once"] = theirs
    found: dict[str, Any] = {
        name: {"pieces_per_second": rate, "candidates_per_second": rate * CANDIDATES}
        for name, rate in rates.items()
    }
    found["times the gradient alone"] = {
        features: {
            "matrices": rates[alone] / rates[whole],
            "diagonals": rates[alone] / rates[diagonal],
        }
        for features, (whole, diagonal, alone) in SUMS.items()
    }
    found["two threads against one"] = threads(quick)
    if theirs is not None:
        found["times jumanji"] = rates["greedy BI"] / theirs
    found["times plain Python"] = rates["greedy BI"] / rates["plain Python, greedy BI"]
    return found


def show(found: dict[str, Any]) -> None:
    from rich.console import Console

    from mdpnewton.report.tables import new_table

    table = new_table("Tetris 10x10, one core, CPU time", "", "pieces/s", "candidates/s")
    for name, row in found.items():
        if isinstance(row, dict) and "pieces_per_second" in row:
            numbers = (row["pieces_per_second"], row["candidates_per_second"])
            table.add_row(name, *(f"{number:,.0f}" for number in numbers))
    console = Console()
    console.print(table)
    for name, times in found["times the gradient alone"].items():
        print(
            f"{name}, times the gradient alone: {times['matrices']:.2f} with the matrices, "
            f"{times['diagonals']:.2f} with their diagonals; "
            f"ratio {times['matrices'] / times['diagonals']:.2f}"
        )
    pair = found["two threads against one"]
    print(
        f"two threads against one: {pair['wall']:.2f} by wall time, {pair['cpu']:.2f} by CPU time"
    )
    for name in ("times jumanji", "times plain Python"):
        if name in found:
            print(f"greedy BI, {name}: {found[name]:,.0f}")
    if "times jumanji" not in found:
        print(HINT)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="measure small sizes in three rounds")
    parser.add_argument("--json", action="store_true", help="print JSON only")
    parser.add_argument("--jumanji", metavar="PYTHON", help="Python with jumanji")
    parser.add_argument("--repetitions", type=int, help="number of rounds (default 3 or 15)")
    parser.add_argument("--only-jumanji", type=float, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.only_jumanji is not None:
        print(jumanji_rate(options.only_jumanji))
        sys.exit()
    results = measure(
        options.repetitions or (3 if options.quick else 15), options.quick, options.jumanji
    )
    if options.json:
        print(json.dumps(results, indent=2))
        if "times jumanji" not in results:
            print(HINT, file=sys.stderr)
    else:
        show(results)

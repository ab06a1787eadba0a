"""Computes the results and figures that the documentation shows, part by part.

    python tools/figures.py                 every part, in this order
    python tools/figures.py cartpole hallway

The runs are under runs/figures. After an interruption the same command goes on with them, and a
part that is finished is only copied.
"""

import shlex
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
RESULTS, RUNS = ROOT / "docs" / "results", ROOT / "runs" / "figures"
STARTS = [
    f"{start}-{damping}" for start in ("soft", "zero", "bertsekas") for damping in (0.0, 0.001)
]
STARTS += ["zero-0.01", "bertsekas-0.01"]
FIVE = "--scale laptop --seed 100 --set runs=5 --set iterations=20"
LITERAL = "steepest,natural,compatible_natural,first_gauss_newton,second_gauss_newton,random"
SIZED = ",".join(
    [
        *(f"second_gauss_newton_{size}" for size in (10, 20, 30, 100, 250)),
        "expectation_maximization",
        *(
            f"{name}_{size}"
            for name in ("natural", "steepest")
            for size in (0.001, 0.01, 0.1, 1, 10, 20, 30, 100, 250)
        ),
    ]
)
RAW = (
    "second_gauss_newton_10,second_gauss_newton_30,second_gauss_newton_100,second_gauss_newton_250,"
    "expectation_maximization,natural_1,natural_10,natural_30,natural_100,steepest_0.001"
)
AT_ONE = "first_gauss_newton_at_1,second_gauss_newton_at_1"


def _start(name: str) -> str:
    start, damping = name.rsplit("-", 1)
    chosen = f"--set start={start} --set damping={damping}"
    return f"tetris {FIVE} --set methods=natural,second_gauss_newton {chosen}"


# What is shown: a folder of docs/results, or one file of results, and its `mdpnewton run`.
SHOWN = {
    "demo": "demo --scale laptop --seed 100",
    "offset": "offset --scale laptop --seed 100",
    "richness": "richness --scale laptop --seed 100",
    "invariance": "invariance --scale paper --seed 100",
    "hallway": "hallway --scale paper --seed 100",
    "mccallum": "mccallum --scale paper --seed 100",
    "careful": "careful --scale paper --seed 100",
    "fsc": "fsc --scale laptop --seed 100",
    "saddle": "saddle --scale laptop",
    "cartpole": "cartpole --scale laptop --seed 100",
    "cartpole-fresh": "cartpole --scale paper --seed 200 --set tuning_runs=0 "
    f"--set practical_runs=0 --set runs=20 --set methods={LITERAL},{AT_ONE}",
    "navigation": "navigation --scale laptop --seed 100",
    "navigation-100": "navigation --scale paper --seed 200 --set tuning_runs=6 "
    "--set practical_runs=0",
    "manipulator-fixed-step": "manipulator-fixed-step --scale laptop --seed 100",
    "manipulator-sizes": "manipulator-fixed-step --scale laptop --seed 200 --set runs=6 "
    f"--set iterations=300 --set methods={SIZED}",
    "manipulator-raw-sigma": "manipulator-fixed-step --scale laptop --seed 200 --set runs=6 "
    f"--set iterations=300 --set sigma=raw --set methods={RAW}",
    "manipulator-line-search": "manipulator-line-search --scale laptop --seed 100 --set runs=16",
    "ball-in-cup": "ball-in-cup --scale paper --seed 100 --set threads=1",
    "ball-in-cup/two-seconds.json": "ball-in-cup --scale laptop --seed 200 --set duration=2 "
    "--set methods=second_gauss_newton,expectation_maximization",
    "tetris": "tetris --scale laptop --seed 100",
    **{f"tetris/starts/{name}.json": _start(name) for name in STARTS},
    "tetris/starts/soft-0.01-first_gauss_newton.json": f"tetris {FIVE} "
    "--set methods=first_gauss_newton",
    "tetris-full": "tetris-full --scale laptop --seed 100 --set runs=1 --set iterations=40",
    "tetris-training/bi10": "tetris-training --scale laptop --seed 100",
    "tetris-training/bi20": "tetris-training --scale laptop --seed 100 --set runs=3 "
    "--set minutes=5 --set height=20",
    "tetris-training/dt10": "tetris-training --scale laptop --seed 100 --set runs=5 "
    "--set minutes=3 --set features=dt",
    "tetris-training/dt10/seeds-200-202.json": "tetris-training --scale laptop --seed 200 "
    "--set runs=3 --set minutes=3 --set features=dt --set methods=second_gauss_newton",
}
# Scripts that print their results.
PRINTED = {
    "estimates/costs.json": "benchmarks/sampled_directions.py --repetitions 3 --json",
    "estimates/noise.json": "benchmarks/estimates.py --json",
}


def part(name: str) -> None:
    """Run, or go on with, one part, and copy what it shows."""
    shown = RESULTS / name
    shown.parent.mkdir(parents=True, exist_ok=True)
    if name in PRINTED:
        command = [sys.executable, *shlex.split(PRINTED[name])]
        done = subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE)
        shown.write_bytes(done.stdout)
        return
    run = RUNS / name.removesuffix(".json")
    program = Path(sys.executable).with_name("mdpnewton")
    subprocess.run([program, "run", *shlex.split(SHOWN[name]), "--out", run], cwd=ROOT, check=True)
    if name.endswith(".json"):
        shutil.copyfile(run / "results.json", shown)
        return
    shown.mkdir(exist_ok=True)
    for path in run.iterdir():
        hidden = path.name.startswith(".") or path.name in ("sessions.json", "report.html")
        if path.is_file() and not hidden:
            shutil.copyfile(path, shown / path.name)


if __name__ == "__main__":
    known = [*SHOWN, *PRINTED]
    wanted = sys.argv[1:] or known
    for each in wanted:
        if each not in known:
            sys.exit(f"tools/figures.py: {each}: choose from {', '.join(known)}")
    for each in wanted:
        part(each)

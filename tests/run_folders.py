"""Run folders made by hand: as commands write them, damaged, and hostile."""

import io
import json
from pathlib import Path

import numpy as np

ATTACK = (
    "</script><script>document.title='taken'</script><img src=x onerror=document.title='taken'>"
)


def write(folder, **files):
    """A folder with JSON files by their names without ending."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (folder / f"{name}.json").write_text(json.dumps(content))
    return folder


def sessions(command="mdpnewton train X", ended="finished"):
    """What sessions.json holds of a command."""
    about = {"version": "0.1.0", "commit": "abcdef", "began": "2026-01-02T03:04:05+0000"}
    seconds = 12.5 if ended else None
    return {"sessions": [{"command": command, **about, "seconds": seconds, "ended": ended}]}


def metrics(count, seed=0):
    """Lines of metrics.jsonl."""
    draws = np.random.default_rng(seed)
    for n in range(count):
        yield {
            "iteration": n,
            "transitions": 400 * (n + 1),
            "return": 10.0 + n + float(draws.normal()),
            "accepted": n % 4 != 3,
            "reason": "",
            "kl": 0.05 + 0.001 * n,
            "step": 0.5 / (n + 1),
            "residual": 1e-12 * (n + 1),
            "solver_iterations": n % 7,
            "smallest_curvature": (-1) ** n * 10.0 ** (n % 5 - 3),
            "status": "solved",
            "gradient_norm": 3.0,
            "fisher_damping": 2.0 + n,
            "ridge": 0.1,
        }


def training(folder, seed=0, gain=0.0, finished=True, method="second_gauss_newton", **more):
    """The folder of a training."""
    config = {"command": "train", "environment": "CartPole-v1", "method": method}
    config |= {"policy": "rbf", "actions": "clipped", "seed": seed, "version": "0.1.0", **more}
    rows = list(metrics(12, seed))
    comparison = {"mean": 5.0, "difference": 20.0 + gain, "low": 15.0, "high": 25.0}
    verdict = {"status": "better", "sentence": "The policy returns 25, much more than nothing."}
    verdict |= {"nothing": comparison, "blind": comparison}
    results = {
        **config,
        "return": {"x": [1], "mean": [1.0]},
        "final": {"mean": 25.0 + gain, "stderr": 1.0, "episodes": 20},
        "verdict": verdict,
        "restarts": [3],
        "remarks": ["1 of 12 linear systems were indefinite"],
    }
    seen = [[np.sin(n / 5), np.cos(n / 5), n / 50, 0.0] for n in range(40)]
    episode = {"title": "One episode", "observations": seen, "actions": [[0.5]] * 40}
    episode |= {"rewards": [1.0] * 40, "pole": [n / 10 for n in range(40)]}
    write(folder, config=config)
    (folder / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    times = ({"iteration": n, "seconds": 1.0 + n * n} for n in range(len(rows)))
    (folder / "times.jsonl").write_text("".join(json.dumps(row) + "\n" for row in times))
    if finished:
        write(folder, results=results, sessions=sessions(), replay={"episode": episode})
    return folder


def experiment(folder, name="demo", seed=0):
    """The folder of an experiment with two methods."""
    config = {"experiment": name, "scale": "quick", "seed": seed, "settings": {"runs": 3}}
    draws, x = np.random.default_rng(seed), list(range(20))
    methods = {}
    for rank, method in enumerate(("second_gauss_newton", "natural")):
        runs = np.cumsum(draws.random((3, 20)) + 0.2 * rank, axis=1)
        error = runs.std(axis=0, ddof=1) / 3**0.5
        curve = {"x": x, "mean": runs.mean(axis=0).tolist(), "stderr": error.tolist()}
        final = {"mean": curve["mean"][-1], "stderr": curve["stderr"][-1], "runs": 3}
        methods[method] = {"curve": {**curve, "runs": runs.tolist()}, "final": final}
        methods[method]["final_returns"] = runs[:, -1].tolist()
    write(folder, config=config, results={**config, "methods": methods}, sessions=sessions())
    (folder / "replay.gif").write_bytes(film())
    return folder


def film(frames=6):
    """A small animation."""
    from PIL import Image

    pictures = [Image.new("RGB", (40, 30), (40 * n, 200 - 30 * n, 90)) for n in range(frames)]
    for n, one in enumerate(pictures):
        one.paste((255, 255, 255), (5 * n, 5, 5 * n + 8, 13))
    content = io.BytesIO()
    more = {"save_all": True, "append_images": pictures[1:], "duration": 50, "loop": 0}
    pictures[0].save(content, "GIF", **more)
    return content.getvalue()


def analysis(folder, count=6):
    """The folder of an analysis."""
    draws = np.random.default_rng(0)
    results = {"objective": 1.0, "parameters": [f"w{n}" for n in range(count)]}
    results |= {"gradient": [0.1] * count, "stationary": False, "singular": True}
    for name in ("hessian", "H1", "H2", "H12", "A1", "fisher"):
        half = draws.normal(size=(count, count))
        results[name] = (half + half.T).tolist()
    results["spectra"] = {
        name: {"smallest": -1.0, "largest": 1.0, "definiteness": "indefinite"}
        for name in ("hessian", "H2")
    }
    config = {"command": "analyze", "model": "model.npz"}
    return write(folder, config=config, results=results, sessions=sessions())


def controller(folder):
    """The folder of a search for a controller with three nodes."""
    transition = [[[0.8, 0.2, 0.0], [0, 0, 1]], [[1, 0, 0], [0, 0.5, 0.5]], [[1, 0, 0], [0, 1, 0]]]
    action = [[[1, 0], [1, 0]], [[0, 1], [0.5, 0.5]], [[1, 0], [0, 1]]]
    tables = {"initial": [[0, 0, 1], [0, 0, 1]], "transition": transition, "action": action}
    visits = {"initial": [1.0, 0.0], "transition": [[3, 2], [1, 1], [2, 2]]}
    saved = {"actions": ["listen", "open"], "observations": ["left", "right"], "visits": visits}
    saved["probabilities"] = tables
    config = {
        "command": "solve",
        "problem": "tiger",
        "nodes": 3,
        "method": "natural",
        "restarts": 2,
    }
    results = {"value": 19.3, "values": [19.3, 2.0]}
    return write(folder, config=config, results=results, controller=saved, sessions=sessions())


def plan(folder):
    """The folder of a finite MDP that was solved."""
    config = {"command": "solve", "problem": "lake", "criterion": "total", "method": "natural"}
    rows = [one | {"objective": n / 12} for n, one in enumerate(metrics(12))]
    results = {"value": 0.8, "optimum": 0.9, "values": [n / 12 for n in range(13)]}
    chosen = {"state": "s0", "action": "left", "probability": 0.9}
    results |= {"history": rows, "choices": [chosen], "remarks": ["it ended low"]}
    return write(folder, config=config, results=results, sessions=sessions())


def tetris(folder):
    """The folder of a training of Tetris weights."""
    config = {"command": "tetris train", "height": 4, "width": 4, "method": "natural", "seed": 0}
    rows = [[n / 10, 4, 2.0 + n] for n in range(20)]
    greedy = {"mean": 31.0, "stderr": 2.0, "games": 16, "capped": 0}
    results = {"greedy": greedy, "curve": rows, "weights": [1.0, -2.0]}
    boards = ["OO.." + "." * 12, "." * 12 + "OO..", "." * 12 + "##OO"]
    game = {"title": "A game", "width": 4, "height": 4, "boards": boards}
    return write(folder, config=config, results=results, replay={"game": game})


def hostile(folder):
    """A training whose every name and value is an attack, or nonsense."""
    names = {f"{ATTACK}{n}": ATTACK for n in range(3)}
    config = {"command": "train", "environment": ATTACK, "method": ATTACK, "policy": [ATTACK]}
    config |= {"seed": ATTACK, "libraries": names, "machine": {"cpu": ATTACK}, "settings": names}
    config |= {"long": "x" * 10_000_000, "large": 10**400, "\u2028": "\u2029 \ud800 \x00"}
    verdict = {"status": ATTACK, "sentence": ATTACK, "nothing": ATTACK, "blind": {"mean": ATTACK}}
    results = {"verdict": verdict, "final": [ATTACK], "return": {"x": ATTACK}, "restarts": ["x"]}
    results |= {"remarks": [ATTACK, {"a": 1}], "methods": {ATTACK: {"curve": {"x": [1, 2]}}}}
    commands = {"sessions": [{"command": ATTACK, "began": ATTACK, "seconds": ATTACK}, ATTACK]}
    replay = {"episode": {"title": ATTACK, "observations": [[ATTACK]] * 3, "actions": [[1]] * 3}}
    replay["game"] = {"title": ATTACK, "width": 1e9, "height": 2, "boards": [ATTACK]}
    controller = {"probabilities": {ATTACK: [[1]]}, "actions": [ATTACK]}
    write(folder, config=config, results=results, sessions=commands, replay=replay)
    write(folder, controller=controller)
    rows = [
        {**row, "status": ATTACK, "return": value}
        for row, value in zip(
            metrics(6), (float("nan"), float("inf"), 1e308, -1e308, ATTACK, None), strict=True
        )
    ]
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    (folder / "metrics.jsonl").write_text(lines + "{half")
    (folder / "times.jsonl").write_text('{"iteration": [[1]], "seconds": {}}\n' + lines)
    (folder / "arm.gif").write_bytes(b"GIF89a\xff\xff\xff\xff no film")
    return folder


def broken(folder):
    """A folder whose files are damaged."""
    folder.mkdir(parents=True)
    for name in ("config.json", "results.json", "sessions.json", "controller.json"):
        (folder / name).write_bytes(b"\xff\x00{" * 100)
    (folder / "replay.json").write_text("[" * 100_000)
    (folder / "metrics.jsonl").write_bytes(b"\x80\nnull\n{}\n[1]\n")
    (folder / "replay.gif").write_bytes(b"GIF")
    return folder


KINDS = {
    "training": training,
    "experiment": experiment,
    "analysis": analysis,
    "controller": controller,
    "plan": plan,
    "tetris": tetris,
    "hostile": hostile,
    "broken": broken,
    "empty": lambda folder: (folder.mkdir(), folder)[1],
}


def folder_of(kind, place):
    """A folder of a kind."""
    return KINDS[kind](Path(place) / kind)

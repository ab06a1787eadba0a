"""The command line: `mdpnewton list`, `run`, `analyze`, and what the other `cli_` files add.

Nothing heavy is imported before it is needed: `--help` answers at once.
"""

import argparse
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

from mdpnewton.checks import MissingExtraError
from mdpnewton.cli import solve, tetris, train
from mdpnewton.version import __version__

SCALES = ("quick", "laptop", "paper")


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise ValueError(f"{message}; see `{self.prog} --help`")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns the exit status."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    debug = "--debug" in given
    try:
        options = _parser().parse_args([word for word in given if word != "--debug"])
        options.command(options)
    except KeyboardInterrupt:
        print("mdpnewton: interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:  # `mdpnewton ... | head`
        sys.stderr.close()
        return 0
    except Exception as error:
        if debug:
            raise
        expected = isinstance(error, ValueError | OSError | ArithmeticError | MissingExtraError)
        text = " ".join(str(error).split()) or type(error).__name__
        if not expected:
            text = f"{type(error).__name__}: {text}; run it again with --debug to see where"
        print(f"mdpnewton: error: {text}", file=sys.stderr)
        return 2
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="mdpnewton",
        description="Second-order policy search for Markov decision processes.",
        epilog="Every command takes --debug, which shows the traceback of an error.",
    )
    parser.add_argument("--version", action="version", version=f"mdpnewton {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)

    listing = commands.add_parser("list", help="the experiments")
    listing.add_argument("--json", action="store_true", help="print JSON and nothing else")
    listing.set_defaults(command=_list)

    running = commands.add_parser("run", help="an experiment: a table, a figure and a run folder")
    running.add_argument("experiment", metavar="EXPERIMENT", help="a name from `mdpnewton list`")
    running.add_argument(
        "--scale",
        choices=SCALES,
        default="quick",
        help="seconds, minutes on two cores, or the paper's sizes (default: quick)",
    )
    running.add_argument("--seed", type=int, default=0, help="of all randomness (default: 0)")
    running.add_argument(
        "--out", type=Path, help="run folder (default: runs/EXPERIMENT-SCALE-SEED)"
    )
    running.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="change a setting of the experiment; may be repeated",
    )
    running.add_argument("--json", action="store_true", help="print results.json and nothing else")
    running.set_defaults(command=_run)

    analyzing = commands.add_parser("analyze", help="the curvature of a policy on your own MDP")
    analyzing.add_argument("model", type=Path, metavar="MODEL.npz", help="see docs/analyze.md")
    analyzing.add_argument("--out", type=Path, help="folder for the figure and results.json")
    analyzing.add_argument("--json", action="store_true", help="print JSON and nothing else")
    analyzing.set_defaults(command=_analyze)
    for other in (train, solve, tetris):
        other.add_commands(commands)
    return parser


def _list(options: argparse.Namespace) -> None:
    from mdpnewton.experiments import EXPERIMENTS

    if options.json:
        from mdpnewton.files.folder import to_json

        print(to_json({name: row.shows for name, row in EXPERIMENTS.items()}), end="")
        return
    from rich.table import Table

    table = Table("experiment", "shows", title="mdpnewton run EXPERIMENT")
    for name, row in EXPERIMENTS.items():
        table.add_row(name, row.shows)
    _show(table)


def _run(options: argparse.Namespace) -> None:
    from mdpnewton.experiments import EXPERIMENTS

    name, seed = options.experiment, options.seed
    if name not in EXPERIMENTS:
        raise ValueError(f"there is no experiment {name!r}; choose one of {', '.join(EXPERIMENTS)}")
    if seed < 0:
        raise ValueError(f"--seed must not be negative, got {seed}")
    changes = dict(_split(text) for text in options.set)
    row = EXPERIMENTS[name]
    module, config = row.load(), row.config(options.scale, changes)
    from mdpnewton.files.folder import prepare, to_json, write_run
    from mdpnewton.report.figures import figure_style, rendered
    from mdpnewton.report.progress import progress_bar

    folder = options.out or Path("runs") / f"{name}-{options.scale}-{seed}"
    prepare(folder)
    about = {"experiment": name, "scale": options.scale, "seed": seed, "version": __version__}
    with progress_bar(name, quiet=options.json) as progress:
        results = {**about, **module.run(config, seed, progress)}
    with figure_style():
        figures = module.draw(results, config)
    write_run(folder, {**about, "settings": asdict(config)}, results, rendered(figures))
    pictures = [folder / f"{figure}.png" for figure in figures]
    if hasattr(module, "pictures"):
        pictures += module.pictures(results, folder)
    if options.json:
        print(to_json(results), end="")
        return
    _show(module.table(results))
    shown = ", ".join(map(str, pictures))
    print(f"figure: {shown}\nresults: {folder / 'results.json'}")


def _analyze(options: argparse.Namespace) -> None:
    from mdpnewton.files.folder import prepare, to_json, write_run
    from mdpnewton.files.models import load_model
    from mdpnewton.report.figures import figure_style, rendered

    model = load_model(options.model)
    folder = options.out
    if folder is None and not options.json:
        folder = Path("runs") / f"analyze-{options.model.stem}"
    if folder is not None:
        prepare(folder)
    content, table, name, draw = _analysis(*model)
    if folder is not None:
        about = {"command": "analyze", "model": options.model.name, "version": __version__}
        with figure_style():
            figure = draw()
        write_run(folder, about, content, rendered({name: figure}))
    if options.json:
        print(to_json(content), end="")
        return
    _show(table)
    print(f"figure: {folder / f'{name}.png'}\nresults: {folder / 'results.json'}")


def _analysis(mdp: Any, policy: Any, w: Any) -> tuple[dict[str, Any], Any, str, Callable[[], Any]]:
    """As JSON, as a table, and as a picture: its name, and how it is drawn."""
    from mdpnewton.models.linear_gaussian import LinearGaussianMDP

    if isinstance(mdp, LinearGaussianMDP):
        from mdpnewton.analysis.linear_gaussian import analyze_linear_gaussian
        from mdpnewton.report import linear_gaussian as report

        linear = analyze_linear_gaussian(mdp, policy, w)
        draw = partial(report.draw, linear)
        return report.as_json(linear), report.table(linear), "linear-gaussian", draw
    from mdpnewton.analysis.finite import analyze
    from mdpnewton.report.analysis import analysis_table, as_json
    from mdpnewton.report.matrices import draw_terms

    finite = analyze(mdp, policy, w)
    return as_json(finite), analysis_table(finite), "hessian", partial(draw_terms, finite)


def _split(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not (name and equals):
        raise ValueError(f"--set {text}: write NAME=VALUE")
    return name, value


def _show(renderable: Any) -> None:
    from rich.console import Console

    Console().print(renderable)

"""`mdpnewton report`: run folders as one page that opens in any browser."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from mdpnewton.cli.flags import flag
from mdpnewton.cli.flow import REPORT, Command, Outcome, Plan, Progress


@dataclass(frozen=True, kw_only=True)
class Options:
    """What to show.

    Attributes:
        run: Run folders, or that of a sweep; several are compared.
        out: File to write (default: report.html in the run folder, or here if there are several).
        level: Value that curves are to reach in a comparison.
        figures: Draw the figures of experiments again, too, from their results.
    """

    run: tuple[Path, ...] = flag(positional=True, metavar="RUN")
    out: Path | None = flag(None, metavar="FILE.html")
    level: float | None = None
    figures: bool = False


def _plan(options: Options, folder: Path) -> Plan:
    from mdpnewton.cli.pages import write_report
    from mdpnewton.report.page.document import is_report

    out = options.out or (options.run[0] / REPORT if len(options.run) == 1 else Path(REPORT))
    if out.is_dir():
        raise ValueError(f"--out {out}: is a folder; name a file, as {out / REPORT}")
    if out.exists() and not is_report(out):
        raise ValueError(f"--out {out}: is no report that could be replaced; name another file")

    def run(progress: Progress) -> Outcome:
        files = _redrawn(options.run) if options.figures else []
        write_report(options.run, out, options.level)
        told = {"report": str(out), **({"figures": files} if files else {})}
        shown = [f"figure: {', '.join(files)}"] if files else []
        return Outcome(told, lambda: "\n".join([*shown, f"report: {out}"]))

    return Plan(run, writes=False)


def _redrawn(folders: Sequence[Path]) -> list[str]:
    """Draw the figures of every run; returns the pictures."""
    from mdpnewton.cli.figures import redraw
    from mdpnewton.files.found import run_folders

    files = [file for each in folders for one in run_folders(each) for file in redraw(one)]
    return [str(file) for file in files if file.suffix == ".png"]


COMMAND = Command("report", "one page of HTML about a run, or about several", Options, _plan)

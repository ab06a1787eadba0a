"""`mdpnewton status`: how far a run is."""

from dataclasses import dataclass
from pathlib import Path

from mdpnewton.cli.flags import flag
from mdpnewton.cli.flow import Command, Outcome, Plan, Progress
from mdpnewton.version import RESULTS


@dataclass(frozen=True)
class Options:
    """Which run.

    Attributes:
        run: Run folder of `mdpnewton run`.
    """

    run: Path = flag(positional=True, metavar="RUN")


def _plan(options: Options, folder: Path) -> Plan:
    from mdpnewton.cli import jobs
    from mdpnewton.experiments import EXPERIMENTS
    from mdpnewton.files.identity import MARK, run_in
    from mdpnewton.jobs import JobFolder

    about = run_in(options.run)
    name, made_by = about.get("experiment"), about.get("version")
    if name not in EXPERIMENTS or about[MARK] != RESULTS:
        raise ValueError(
            f"{options.run}: holds no run of this version; ask mdpnewton {made_by}, which made it"
        )
    module = EXPERIMENTS[name].load()
    config = module.Config(**about["settings"])

    def run(progress: Progress) -> Outcome:
        found = JobFolder(options.run).survey(module.work(config, about["seed"]))
        written = (options.run / "results.json").is_file()
        which = {word: about[word] for word in ("experiment", "scale", "seed")}
        results = {**which, **jobs.as_json(found), "results": written}
        lines = [f"{name}, {about['scale']} scale, seed {about['seed']}", jobs.counted(found)]
        lines.append("results: written" if written else "results: not yet; `mdpnewton run` goes on")
        return Outcome(results, lambda: "\n".join(lines))

    return Plan(run, writes=False)


COMMAND = Command("status", "how far a run is: jobs done, left and failed", Options, _plan)

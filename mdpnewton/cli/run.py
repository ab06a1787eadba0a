"""`mdpnewton run`: an experiment of the paper, job by job."""

from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

from mdpnewton.cli.flags import flag, split_setting
from mdpnewton.cli.flow import Command, Outcome, Plan, Progress
from mdpnewton.cli.settings import experiment_help, settings_plan
from mdpnewton.cli.tables import experiments
from mdpnewton.version import RESULTS, __version__


@dataclass(frozen=True, kw_only=True)
class Options:
    """Which experiment, and how.

    Attributes:
        experiment: A name from `mdpnewton list experiments`.
        scale: Under a minute, minutes to hours, or the paper's sizes: see `mdpnewton list`.
        seed: Random seed.
        set: Change a setting of the experiment; may be repeated.
        settings: Show the settings of the experiment and run nothing, as `--help` after its name
            does.
        workers: Number of processes that do jobs; one unless given, or with `--cluster local` as
            many as there are cores. The numbers do not depend on it.
        cluster: Do the jobs on a Ray cluster: `auto` for the one that this machine belongs to,
            `local` to start one here, or an address. The numbers do not depend on it.
        shard: Do only every N-th job, beginning with job I, beside others that do the rest.
        dry_run: List the jobs and estimate their time, and write nothing.
        restart: Move the run that is in the folder aside and begin a new one.
    """

    experiment: str = flag(positional=True, metavar="EXPERIMENT", known=experiments)
    scale: Literal["quick", "laptop", "paper"] = "quick"
    seed: int = flag(0, least=0)
    set: tuple[str, ...] = flag((), metavar="NAME=VALUE")
    settings: bool = False
    workers: int | None = flag(None, least=1)
    cluster: str | None = flag(None, metavar="auto|local|ADDRESS")
    shard: str | None = flag(None, metavar="I/N")
    dry_run: bool = False
    restart: bool = False


def _plan(options: Options, folder: Path) -> Plan:
    from mdpnewton.cli import jobs
    from mdpnewton.cli.workers import executor_for
    from mdpnewton.experiments import EXPERIMENTS
    from mdpnewton.files.identity import MARK, is_free, recognised

    name, row = options.experiment, EXPERIMENTS[options.experiment]
    changes = dict(split_setting(text) for text in options.set)
    if options.settings:
        return settings_plan(name, changes)
    module, config = row.load(), row.config(options.scale, changes)
    begin = partial(module.work, config, options.seed)
    next(begin())  # refuses what can be refused
    first, count = jobs.shard(options.shard)
    if options.restart and count > 1:
        raise ValueError("--restart with --shard: other shards may be at work; use one of them")
    about = {
        "experiment": name,
        "scale": options.scale,
        "seed": options.seed,
        "version": __version__,
    }
    identity = {**about, "settings": asdict(config), MARK: RESULTS}
    if options.dry_run:
        if not is_free(folder):
            recognised(folder, identity)
        listed = partial(jobs.listed, begin, folder, (options.workers or 1) * count)
        return Plan(listed, title=name, writes=False)

    executor = executor_for(options.workers, options.cluster)

    def run(progress: Progress) -> Outcome:
        found = jobs.done(begin, folder, progress, executor, (first, count))
        if found is None:
            return jobs.unfinished(begin, folder)
        from mdpnewton.cli.figures import SHORT, drawn

        results: dict[str, Any] = {**about, **found}
        more = getattr(module, "pictures", None)
        return Outcome(
            results,
            table=lambda: module.table(results),
            draw=lambda: drawn(row, results, config, options.scale),
            pictures=None if more is None else lambda: more(results, folder),
            note=SHORT.get(options.scale, ""),
        )

    return Plan(
        run,
        title=name,
        about=identity,
        resumes=True,
        restart=options.restart,
        part=f"shard-{first + 1}-of-{count}" if count > 1 else "",
    )


COMMAND = Command(
    "run",
    "an experiment: a table, a figure and a run folder",
    Options,
    _plan,
    folder="{experiment}-{scale}-{seed}-{set}",
    one_thread=True,
    more=experiment_help,
)

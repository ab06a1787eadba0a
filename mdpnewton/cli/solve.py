"""`mdpnewton solve`: a policy for a finite MDP, or a finite-state controller for a POMDP."""

from dataclasses import dataclass
from functools import partial
from pathlib import Path

from mdpnewton.cli.flags import flag
from mdpnewton.cli.flow import Command, Plan
from mdpnewton.cli.tables import method_names

NODES = 5  # of a controller, unless they are given


@dataclass(frozen=True, kw_only=True)
class Options:
    """Which problem, and how to search.

    Attributes:
        model: A .pomdp or .pomdpx file, the name of a shipped problem, as tiger, an .npz file of a
            finite MDP, or a tabular environment, as FrozenLake-v1.
        nodes: Number of nodes of the controller of a POMDP, 5 unless given; with --grow the
            largest.
        grow: Begin with one node, and add nodes where that gains most, until the gap to the upper
            bound is small, the nodes are all there, or the time is over.
        gap: With --grow the share of the upper bound that may be left; 0.01 unless given.
        minutes: With --grow the processor time that may be used; no limit unless given.
        method: Method of the search: one that `mdpnewton list methods` shows for `controller`
            or `exact`; for an MDP one for `exact`.
        restarts: Number of random controllers to start from; 20 unless given.
        iterations: Maximum number of iterations from each start.
        seed: Random seed of the starts; 0 unless given.
        workers: Number of processes that search; one unless given, or with `--cluster local` as
            many as there are cores. The numbers do not depend on it.
        cluster: Search on a Ray cluster: `auto` for the one that this machine belongs to, `local`
            to start one here, or an address. The numbers do not depend on it.
        restart: Move the run that is in the folder aside and begin a new one.
        lenient: Read a .pomdp file that breaks the grammar, and say what its words were taken for.
        discount: Discount factor, in place of that of the file.
        criterion: What the objective adds up: discounted, total, finite or average.
        horizon: Number of actions of a finite horizon.
    """

    model: Path = flag(positional=True, metavar="MODEL")
    nodes: int | None = flag(None, least=1)
    grow: bool = False
    gap: float | None = flag(None)
    minutes: float | None = flag(None)
    method: str = flag("second_gauss_newton", known=partial(method_names, "controller", "exact"))
    restarts: int | None = flag(None, least=1)
    iterations: int = flag(300, least=1)
    seed: int | None = flag(None, least=0)
    workers: int | None = flag(None, least=1)
    cluster: str | None = flag(None, metavar="auto|local|ADDRESS")
    restart: bool = False
    lenient: bool = False
    discount: float | None = flag(None)
    criterion: str | None = flag(None)
    horizon: int | None = flag(None)

    def __post_init__(self) -> None:
        if not self.is_mdp:  # an MDP has neither, which its plan says of what was given
            for name, usual in (("nodes", NODES), ("seed", 0)):
                if getattr(self, name) is None:
                    object.__setattr__(self, name, usual)

    @property
    def is_mdp(self) -> bool:
        """Whether the problem is an MDP, by its name."""
        from mdpnewton.training.bring import is_environment

        return self.model.suffix == ".npz" or is_environment(self.model)


def _plan(options: Options, folder: Path) -> Plan:
    if options.is_mdp:
        from mdpnewton.cli.solve_mdp import plan_mdp

        return plan_mdp(options, folder)
    from mdpnewton.cli.solve_pomdp import plan_pomdp

    return plan_pomdp(options, folder)


COMMAND = Command(
    "solve",
    "a policy for a finite MDP, or a controller for a POMDP",
    Options,
    _plan,
    folder="solve-{model}-{nodes}-{method}-{seed}",
    one_thread=True,
)

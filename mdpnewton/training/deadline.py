"""Whether the time matters in a task, from the episodes of its first batch."""

import numpy as np

from mdpnewton.simulators.trajectories import Trajectories

JUMP = 5.0  # times the usual change of the reward, for a last reward that is out of line


def common_length(batch: Trajectories) -> int:
    """The length of all episodes; 0 if they differ, or if there is only one."""
    valid = np.asarray(batch.valid)
    lengths = np.asarray(batch.times)[valid & np.asarray(batch.ends)] + 1
    return int(lengths[0]) if len(lengths) > 1 and len(set(lengths.tolist())) == 1 else 0


def deadline_of(batch: Trajectories) -> int:
    """The length of all episodes if the time matters in them, otherwise 0.

    It matters if all episodes terminate after the same number of steps, or if the last reward is
    out of line: on average over the episodes it differs from the one before by more than `JUMP`
    times the root mean square of all other changes. What is left to earn then depends on the time,
    and a policy that is not told it cannot know.
    """
    length = common_length(batch)
    if length < 2:
        return 0
    valid = np.asarray(batch.valid)
    terminated = np.asarray(batch.terminated)[valid].reshape(-1, length)[:, -1]
    changes = np.diff(np.asarray(batch.rewards)[valid].reshape(-1, length), axis=1)
    with np.errstate(over="ignore", invalid="ignore"):
        usual = np.sqrt(np.mean(changes[:, :-1] ** 2)) if length > 2 else np.inf
        jumps = abs(changes[:, -1].mean()) > JUMP * usual
    return length if terminated.all() or jumps else 0

"""Where a POMDP ends, and whether it can be averaged, under policies that try every action."""

import numpy as np
from scipy import sparse

from mdpnewton.models.names import listed
from mdpnewton.models.pomdp.model import FinitePOMDP
from mdpnewton.models.recurrence import ChainError, ends, recurrent_classes


def goes_on(pomdp: FinitePOMDP) -> np.ndarray:
    """1 in the states in which the process has not ended, 0 in the others, shape (S,).

    A softmax takes every action at times, so that this does not depend on its parameters.

    Args:
        pomdp: The problem, of any criterion.

    Raises:
        ChainError: A total reward goes on for ever, or an average has several recurrent classes.
    """
    if pomdp.criterion not in ("total", "average"):
        return np.ones(pomdp.n_states)
    steps = sum(sparse.csr_array(pomdp.transition[a]) for a in range(pomdp.n_actions))
    classes = recurrent_classes(steps, np.zeros(pomdp.n_states, dtype=bool))
    names = pomdp.labels("states")
    if pomdp.criterion == "total":
        earns = (np.asarray(pomdp.reward) != 0).any(axis=1)
        return (~ends(classes, earns, names, "FinitePOMDP")).astype(float)
    if len(classes) != 1:
        shown = "; ".join(f"{{{listed(names, states)}}}" for states in classes[:4])
        more = f" and {len(classes) - 4} more" if len(classes) > 4 else ""
        raise ChainError(
            f"`FinitePOMDP(criterion='average')` needs one recurrent class, but under a controller "
            f"there are {len(classes)}, with the states {shown}{more}; connect them, keep one, or "
            f"use criterion 'discounted' or 'finite'."
        )
    return np.ones(pomdp.n_states)

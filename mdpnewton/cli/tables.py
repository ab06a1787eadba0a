"""What a command can name: experiments, methods and environments, each from its one table."""

from typing import Any

# Where a method applies, and what it is there for.
PLACES = {
    "exact": "models that are solved exactly",
    "sampled": "estimates from episodes",
    "network": "mdpnewton train",
    "bandit": "mdpnewton.maximize",
    "controller": "mdpnewton solve",
    "tetris": "mdpnewton tetris train",
}
_EXACT_ALONE = ("newton", "conjugate_gradient_newton", "hessian_free_newton")


def method_names(place: str) -> tuple[str, ...]:
    """The methods that apply at a place of `PLACES`; this is the one lookup of the commands."""
    from mdpnewton.methods import METHODS

    if place == "exact":
        return tuple(METHODS)
    if place == "sampled":
        return tuple(name for name in METHODS if name not in _EXACT_ALONE)
    if place == "network":
        from mdpnewton.training.presets import TRAINING_METHODS

        return TRAINING_METHODS
    if place == "bandit":
        from mdpnewton.training.black_box import BLACK_BOX_METHODS

        return tuple(BLACK_BOX_METHODS)
    if place == "controller":
        from mdpnewton.methods.rows import ROW_METHODS

        return tuple(dict.fromkeys((*ROW_METHODS, *METHODS)))
    from mdpnewton.training.tetris import METHODS as TETRIS_METHODS

    return tuple(TETRIS_METHODS)


def method_label(name: str) -> str:
    """What a method is called in figures and tables."""
    from mdpnewton.report.figures import LABELS

    return LABELS.get(name, name.replace("_", " "))


def experiments() -> dict[str, str]:
    """What every experiment shows, by its name."""
    from mdpnewton.experiments import EXPERIMENTS

    return {name: row.shows for name, row in EXPERIMENTS.items()}


def methods() -> dict[str, dict[str, Any]]:
    """Label and places of every method, by its name."""
    found: dict[str, dict[str, Any]] = {}
    for place in PLACES:
        for name in method_names(place):
            row = found.setdefault(name, {"label": method_label(name), "places": []})
            row["places"].append(place)
    return found


def environments() -> dict[str, dict[str, str]]:
    """Gymnasium's id and the sentence of every environment, by its name."""
    from mdpnewton.environments import ENVIRONMENTS

    return {name: {"id": row.id, "sentence": row.sentence} for name, row in ENVIRONMENTS.items()}

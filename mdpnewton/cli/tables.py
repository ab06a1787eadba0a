"""What a command can name: experiments, methods and environments, each from its one table."""

from typing import Any

from mdpnewton.cli.flags import attribute_docs


def method_names(*places: str) -> tuple[str, ...]:
    """The methods that apply in one of the places; this is the one lookup of the commands."""
    from mdpnewton.methods.table import names

    return tuple(dict.fromkeys(name for place in places for name in names(place)))


def experiments() -> dict[str, dict[str, Any]]:
    """What every experiment shows and how long each scale takes, by its name."""
    from mdpnewton.experiments import EXPERIMENTS

    return {
        name: {"shows": row.shows, "takes": row.takes._asdict()}
        for name, row in EXPERIMENTS.items()
    }


def methods() -> dict[str, dict[str, Any]]:
    """Label and places of every method, by its name."""
    from mdpnewton.methods.table import listed

    return {name: {"label": label, "places": list(where)} for name, label, where in listed()}


def places() -> dict[str, str]:
    """What a place is, as the table of methods says it."""
    from mdpnewton.methods.places import PLACES, Row

    docs = attribute_docs(Row)
    return {place: docs[place] for place in PLACES}


def environments() -> dict[str, dict[str, str]]:
    """Gymnasium's id and the sentence of every environment, by its name."""
    from mdpnewton.environments import ENVIRONMENTS

    return {name: {"id": row.id, "sentence": row.sentence} for name, row in ENVIRONMENTS.items()}

"""The weights that a Tetris command was given."""

from pathlib import Path
from typing import Any


def given_weights(path: Path | None, features: str | None) -> tuple[Any, str]:
    """The weights of the file, and the features they are for; without a file, published ones."""
    from mdpnewton.files.weights import load_weights

    if path is None:
        from mdpnewton.domains.tetris import DT_10

        if features == "bi":
            raise ValueError("--features bi needs --weights FILE.json")
        return DT_10, "dt"
    return load_weights(path, features)

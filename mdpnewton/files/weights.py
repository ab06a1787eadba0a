"""Weights of a Tetris policy in a JSON file."""

import json
from pathlib import Path

FEATURES = ("bi", "dt")


def load_weights(path: Path, features: str | None = None) -> tuple[list[float], str]:
    """The weights in the file, and the features that they belong to.

    Args:
        path: JSON file with a list of numbers, or with an object that has `weights` and possibly
            `features`.
        features: Features that the weights must belong to. With None the file decides, and "bi" is
            assumed if it does not say.
    """
    try:
        content = json.loads(path.read_text())
    except OSError as error:
        raise ValueError(f"{path}: {error.strerror}; name a JSON file of weights") from None
    except ValueError as error:  # not JSON, or not text
        raise ValueError(f"{path}: not JSON ({error})") from None
    if isinstance(content, dict):
        said = content.get("features")
        if said is not None and said not in FEATURES:
            raise ValueError(f"{path}: `features` is 'bi' or 'dt', got {said!r}")
        if features is not None and said is not None and said != features:
            raise ValueError(f"{path} has weights for {said!r} features, not {features!r}")
        features, content = features or said, content.get("weights")
    numbers = isinstance(content, list) and all(
        isinstance(value, int | float) and not isinstance(value, bool) for value in content
    )
    if not numbers:
        raise ValueError(
            f"{path}: needs a list of numbers, or an object with such a list as `weights`"
        )
    return content, features or "bi"

"""What `--method` may be: checked after parsing, so that `--help` needs no JAX."""

HELP = "a name from `mdpnewton list methods` (default: second_gauss_newton)"
DEFAULT = "second_gauss_newton"


def check_method(name: str, *places: str) -> None:
    """Refuse a method that applies in none of the places.

    Args:
        name: What was given as `--method`.
        places: Some of `mdpnewton.methods.PLACES`.
    """
    from mdpnewton.methods import names

    known = list(dict.fromkeys(each for place in places for each in names(place)))
    if name not in known:
        raise ValueError(f"--method: there is no method {name!r}; choose one of {', '.join(known)}")

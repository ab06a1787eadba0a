"""What an objective adds up, and the numbers that each criterion needs."""

from typing import Any, Literal, get_args

from mdpnewton.checks import choice, number, refuse, told, whole

Criterion = Literal["discounted", "total", "finite", "average"]
OTHERS = "; for undiscounted rewards pass criterion='total', 'finite' or 'average'"


def checked_criterion(
    call: str, criterion: Any, discount: Any, horizon: Any
) -> tuple[float, int | None]:
    """The discount factor and the horizon that a criterion has.

    Args:
        call: Name of the class or function that was called.
        criterion: One of "discounted", "total", "finite" and "average".
        discount: What was given; None to leave it out, which all but "discounted" may.
        horizon: What was given; None to leave it out, which all but "finite" must.
    """
    choice(call, "criterion", criterion, get_args(Criterion))
    if criterion == "finite":
        if horizon is None:
            refuse(call, "horizon", "is missing; criterion 'finite' needs the number of actions")
        found = 1.0 if discount is None else number(call, "discount", discount, least=0, most=1)
        return found, whole(call, "horizon", horizon, 1)
    if horizon is not None:
        rule = f"belongs to criterion 'finite', got {told(horizon)} with {criterion!r}"
        refuse(call, "horizon", f"{rule}; leave it out, or pass criterion='finite'")
    if criterion == "discounted":
        try:
            return number(call, "discount", discount, least=0, below=1), None
        except ValueError as error:
            raise ValueError(f"{str(error).rstrip('.')}{OTHERS}.") from None
    if discount is not None and (isinstance(discount, bool) or discount != 1):
        rule = f"is 1 for criterion {criterion!r}, got {told(discount)}"
        refuse(call, "discount", f"{rule}; leave it out, or pass criterion='discounted'")
    return 1.0, None

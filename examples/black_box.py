"""Black-box optimisation with the methods of the paper, and with CMA-ES if it is installed.

    python examples/black_box.py

The methods use only values of the function. It is flat far from its minimum, and its ten
coordinates differ in scale by ten. The program prints the best value that each method found with
the same budget, start and seed, and how narrow its Gaussian became. The covariance is diagonal: it
learns such scales, but unlike CMA-ES it does not learn a valley that is not parallel to the axes.
"""

import numpy as np

import mdpnewton as mn

METHODS = ("second_gauss_newton", "natural", "expectation_maximization", "steepest")
BUDGET, SAMPLES, REUSE = 3000, 30, 3
START, SIGMA = np.full(10, 0.5), 0.1
SCALES = np.arange(1, 11)


def bowl_in_a_plain(x: np.ndarray) -> float:
    """An ellipsoid with its minimum, zero, at ones; above 100 it is flat."""
    value = float(((SCALES * (x - 1)) ** 2).sum())
    return value if value < 100 else 1000.0


def main() -> None:
    """Run every method and print what it found."""
    print(f"{'method':38}{'best value':>12}{'evaluations':>13}{'sigma':>10}")
    for name in METHODS:
        found = mn.minimize(
            bowl_in_a_plain,
            START,
            sigma=SIGMA,
            method=name,
            step=0.001 if name == "steepest" else 1.0,  # the gradient has its own scale
            budget=BUDGET,
            samples=SAMPLES,
            reuse=REUSE,
        )
        sigma = np.exp(np.log(found.sigma).mean())
        print(f"{name:38}{found.value:12.2e}{found.evaluations:13}{sigma:10.1e}")
    try:
        import cma
    except ImportError:
        print("to compare with CMA-ES: pip install cma")
        return
    options = {"maxfevals": BUDGET, "seed": 1, "verbose": -9}
    best = cma.fmin2(bowl_in_a_plain, START, SIGMA, options)[1].result
    print(f"{'CMA-ES (full covariance)':38}{best.fbest:12.2e}{best.evaluations:13}")


if __name__ == "__main__":
    main()

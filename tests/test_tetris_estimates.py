"""Gradient, H2 and Fisher matrix of Tetris: the kernel, the plain sums and the exact values.

On 4 rows and 3 columns there are 541 boards: the chain over them is solved exactly.
"""

import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import mdpnewton as mn
from mdpnewton.domains.tetris import DT_10, RecurrentBoard, Survival, estimate, plain, play
from mdpnewton.domains.tetris import plain_estimates as oracle
from mdpnewton.domains.tetris.evaluator import AfterstatePolicy, TetrisEvaluator

HEIGHT, WIDTH, SIZE = 4, 3, 7
TINY = {"height": HEIGHT, "width": WIDTH}
W = np.array([-0.3, 0.1, -0.2, -0.5, -0.4, 0.2, -0.8])
MATRICES = ("gradient", "h1", "h2", "h2_diagonal", "fisher")
DIAGONALS = ("h1", "h2", "fisher")
RULES = (
    RecurrentBoard(),
    RecurrentBoard(h1=True),
    RecurrentBoard("start"),
    RecurrentBoard("empty", include_start=False),
    RecurrentBoard("start", include_start=False, h1=True),
    Survival(0.9),
    Survival(0.8, critic=0.4),
    Survival(0.95, critic=np.linspace(0, 0.8, HEIGHT + 1), share=4),
)


class Chain:
    """Every board that can be reached, every piece, every placement."""

    def __init__(self):
        boards, index, self.nodes = [np.zeros((HEIGHT, WIDTH), bool)], {}, []
        index[boards[0].tobytes()] = 0
        for board in boards:  # grows on the way
            here = []
            for piece in range(7):
                options = list(plain.candidates(board, piece).values())
                for option in options:
                    if option.board.tobytes() not in index:
                        index[option.board.tobytes()] = len(boards)
                        boards.append(option.board)
                here.append(
                    (
                        np.array([plain.bertsekas_ioffe(o) for o in options]).reshape(-1, SIZE),
                        np.array([index[o.board.tobytes()] for o in options], int),
                        np.array([o.lines for o in options], float),
                    )
                )
            self.nodes.append(here)

    def expected(self, w, worth, *, dead=0.0, keep=None):
        """V = E[worth(lines) + discount V(next)] over boards, by a linear solve.

        Args:
            w: Weights.
            worth: The reward of a step that removes so many lines, and its discount.
            dead: Value where no placement is left.
            keep: Boards where the value goes on; elsewhere it is 0 on arrival.
        """
        n = len(self.nodes)
        matrix, right = np.eye(n), np.zeros(n)
        for b, here in enumerate(self.nodes):
            for phi, after, lines in here:
                if not len(phi):
                    right[b] += dead / 7
                    continue
                p = plain.gibbs(phi @ w)
                reward, discount = worth(lines)
                right[b] += p @ reward / 7
                onward = discount * p / 7 * (1.0 if keep is None else keep[after])
                np.subtract.at(matrix[b], after, onward)
        return np.linalg.solve(matrix, right), matrix

    def moments(self, w, value, visits):
        """Gradient, H2 and Fisher matrix for Q = value(lines, next boards)."""
        gradient, (h1, h2, fisher) = np.zeros(SIZE), np.zeros((3, SIZE, SIZE))
        for b, here in enumerate(self.nodes):
            for phi, after, lines in here:
                if not len(phi):
                    continue
                p = plain.gibbs(phi @ w)
                centred = phi - p @ phi
                covariance = centred.T @ (p[:, None] * centred)
                q = value(lines, after)
                gradient += visits[0][b] / 7 * (p * q) @ centred
                h1 += visits[0][b] / 7 * centred.T @ ((p * q)[:, None] * centred)
                h2 -= visits[0][b] / 7 * (p @ q) * covariance
                fisher += visits[1][b] / 7 * covariance
        found = {"gradient": gradient, "h1": h1, "h2": h2, "fisher": fisher}
        return {**found, "h2_diagonal": np.diag(h2)}

    def lines_of_a_game(self, w):
        return self.expected(w, lambda lines: (lines, 1.0))[0][0]

    def visits(self, w):
        """How often a game comes to each board."""
        _, matrix = self.expected(w, lambda lines: (lines, 1.0))
        start = np.zeros(len(matrix))
        start[0] = 1.0
        return np.linalg.solve(matrix.T, start)

    def exact(self, w, rule):
        seen = self.visits(w)
        weighed = seen.copy()
        if isinstance(rule, Survival):
            beta, scale = rule.beta, 4 / (WIDTH * (1 - rule.beta))
            d, _ = self.expected(w, lambda lines: (0 * lines, beta), dead=1.0)
            return self.moments(w, lambda _, after: scale * (1 - beta * d[after]), (seen, seen))
        keep = np.ones(len(seen))
        keep[0] = rule.reset == "start"
        value, _ = self.expected(w, lambda lines: (lines, 1.0), keep=keep)
        if not rule.include_start:
            weighed[0] = 0.0 if rule.reset == "empty" else seen[0] - 1.0
        return self.moments(w, lambda lines, after: lines + (keep * value)[after], (weighed, seen))


@pytest.fixture(scope="module")
def chain():
    return Chain()


@pytest.mark.parametrize("rule", [*RULES, RecurrentBoard("piece")], ids=str)
@pytest.mark.parametrize("features", ["bi", "dt"])
@pytest.mark.parametrize(("height", "width"), [(10, 10), (6, 5), (20, 4), (8, 16)])
def test_the_kernel_adds_up_what_the_plain_sums_do(rule, features, height, width):
    if isinstance(rule, Survival) and not np.isscalar(rule.critic) and rule.critic is not None:
        rule = Survival(rule.beta, np.linspace(0, 0.8, height + 1), rule.share)
    size = 9 if features == "dt" else 2 * width + 1
    w = -0.2 * np.abs(np.random.default_rng(height).normal(size=size))
    for cap in (1000, 9) if features == "bi" else (12,):
        common = {"features": features, "height": height, "width": width, "seed": 3, "cap": cap}
        expected = oracle.estimate(w, rule, games=2, **common)
        found = estimate(w, rule, games=2, **common)
        assert_alike(found, expected)
        alone = estimate(w, rule, games=2, diagonal=True, **common)
        assert_alike(alone, expected._replace(h1=None, h2=None, fisher=None))
        assert_same_diagonals(alone, found)


def assert_alike(found, expected):
    for name in found._fields:
        one, other = getattr(found, name), getattr(expected, name)
        if other is None:
            assert one is None
            continue
        one, other = np.asarray(one), np.asarray(other)
        scale = np.abs(other).max() or 1.0
        np.testing.assert_allclose(one, other, rtol=0, atol=1e-10 * scale, err_msg=name)


def assert_same_diagonals(alone, whole):
    """Everything but the matrices is the same, bit for bit, and there are no matrices."""
    for name in alone._fields:
        if name in DIAGONALS:
            assert getattr(alone, name) is None
            matrix, diagonal = getattr(whole, name), getattr(whole, f"{name}_diagonal")
            assert (matrix is None) == (diagonal is None)
            assert matrix is None or np.array_equal(np.diag(matrix), diagonal)
        else:
            np.testing.assert_array_equal(getattr(alone, name), getattr(whole, name), name)


def test_an_empty_board_with_another_piece_is_a_visit_only_if_the_piece_is_ignored():
    found = {
        reset: [
            rule(W, RecurrentBoard(reset), **TINY, games=400)
            for rule in (estimate, oracle.estimate)
        ]
        for reset in ("start", "piece", "empty")
    }
    for one, other in found.values():
        assert one.cycles == other.cycles
        np.testing.assert_allclose(one.gradient, other.gradient, atol=1e-12)
    start, piece, empty = (found[reset][0].cycles for reset in ("start", "piece", "empty"))
    assert start == 400
    assert empty - 400 > 5 * (piece - 400) > 0  # one of seven pieces


@pytest.mark.parametrize("features", ["bi", "dt"])
@pytest.mark.parametrize(
    "rule", [RecurrentBoard(h1=True), Survival(0.98, 0.3, share=4)], ids=["recurrent", "survival"]
)
def test_the_diagonals_of_many_games_are_those_of_the_matrices(rule, features):
    w = np.r_[np.zeros(10), np.full(9, -1.2), 0.0, -4.0] if features == "bi" else np.array(DT_10)
    common = {"features": features, "games": 150, "cap": 400}
    whole = estimate(w, rule, **common)
    assert whole.lines.max() > 10
    assert_same_diagonals(estimate(w, rule, diagonal=True, **common), whole)


def test_well_played_games_are_added_up_alike():
    rng = np.random.default_rng(3)
    w = np.r_[np.zeros(10), np.full(9, -2.0), -0.5, -8.0] + 0.3 * rng.normal(size=21)
    for rule in (RecurrentBoard(), Survival(0.99, share=2)):
        found, expected = (f(0.5 * w, rule, games=2, cap=200) for f in (estimate, oracle.estimate))
        assert found.lines.max() > 20
        for name in ("gradient", "h2", "h2_diagonal", "fisher"):
            one, other = getattr(found, name), getattr(expected, name)
            np.testing.assert_allclose(one, other, rtol=0, atol=1e-10 * np.abs(other).max())


@pytest.mark.parametrize("rule", [RecurrentBoard(), Survival(0.98, 0.3, 2)], ids=str)
@pytest.mark.parametrize("diagonal", [False, True])
def test_any_number_of_threads_gives_the_same_bits(rule, diagonal):
    w = np.r_[np.zeros(10), np.full(9, -0.3), 0.0, -1.0]
    one, two, three = (
        estimate(w, rule, games=100, threads=n, diagonal=diagonal) for n in (1, 2, 3)
    )
    for other in (two, three):
        assert all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))


def test_the_games_are_those_of_play():
    w = np.r_[np.zeros(10), np.full(9, -0.3), 0.0, -1.0]
    games = play(w, policy="gibbs", games=40, seed=7)
    for rule in (RecurrentBoard(), Survival()):
        assert np.array_equal(estimate(w, rule, games=40, seed=7).lines, games.lines)


def batches(rule, count=40, games=2500, w=W):
    found = [estimate(w, rule, **TINY, games=games, first=k * games) for k in range(count)]
    seen = [name for name in MATRICES if getattr(found[0], name) is not None]
    return {name: np.array([getattr(one, name) for one in found]) for name in seen}, found


@pytest.mark.parametrize("rule", RULES, ids=str)
def test_estimates_are_within_four_standard_errors_of_the_exact_values(chain, rule):
    exact = chain.exact(W, rule)
    sampled, _ = batches(rule)
    for name, values in sampled.items():
        error = values.std(axis=0, ddof=1) / len(values) ** 0.5
        gap = np.abs(values.mean(axis=0) - exact[name])
        assert (gap <= 4 * error + 1e-12).all(), name


def test_the_exact_gradient_is_that_of_the_expected_lines(chain):
    found = chain.exact(W, RecurrentBoard("start"))["gradient"]
    for i in range(SIZE):
        step = np.zeros(SIZE)
        step[i] = 1e-5
        rise = chain.lines_of_a_game(W + step) - chain.lines_of_a_game(W - step)
        assert found[i] == pytest.approx(rise / 2e-5, abs=1e-8)


def test_the_gradient_is_that_of_the_score_with_common_random_numbers():
    rng = np.random.default_rng(0)
    direction = rng.normal(size=SIZE)
    up, down = (
        play(W + sign * 0.1 * direction, **TINY, policy="gibbs", games=60_000) for sign in (1, -1)
    )
    rises = (up.lines - down.lines) / 0.2
    sampled, _ = batches(RecurrentBoard("start"))
    slopes = sampled["gradient"] @ direction
    error = np.hypot(rises.std() / len(rises) ** 0.5, slopes.std(ddof=1) / len(slopes) ** 0.5)
    assert abs(rises.mean() - slopes.mean()) < 4 * error
    apart = np.corrcoef(up.lines, down.lines)[0, 1]
    assert apart > 0.5  # the pieces are the same


def test_the_mean_of_the_lines_is_exact(chain):
    played = estimate(W, **TINY, games=50_000)
    assert abs(played.mean - chain.lines_of_a_game(W)) < 4 * played.stderr


def test_a_critic_lowers_the_variance_and_leaves_the_mean(chain):
    plain_rule = Survival(0.95)
    sampled, found = batches(plain_rule, count=20)
    fitted = np.mean([one.survival for one in found], axis=0)
    helped, _ = batches(Survival(0.95, critic=fitted), count=20)
    assert helped["gradient"].var(axis=0).sum() < 0.8 * sampled["gradient"].var(axis=0).sum()


def test_the_fitted_critic_is_the_exact_one_averaged_over_boards(chain):
    d, _ = chain.expected(W, lambda lines: (0 * lines, 0.9), dead=1.0)
    found = estimate(W, Survival(0.9), **TINY, games=40_000)
    assert found.survival[0] == pytest.approx(d[0], abs=0.01)  # the empty board
    assert found.visits.sum() == found.pieces.sum()


def test_the_bias_of_survival_falls_with_one_minus_beta(chain):
    """Discounting is the bias of the estimator: it vanishes linearly as beta tends to 1."""
    limit = chain.exact(W, Survival(1 - 1e-7))
    for name in ("gradient", "h2"):
        gaps = [
            np.linalg.norm(chain.exact(W, Survival(beta))[name] - limit[name])
            for beta in (0.9, 0.99, 0.999)
        ]
        assert gaps[0] > 5 * gaps[1] > 25 * gaps[2]
        assert gaps[1] < 0.1 * np.linalg.norm(limit[name])


def test_survival_is_lines_but_for_the_cells_left(chain):
    """Without discount, survival counts 4 / width lines a piece: lines and the cells left."""
    seen = chain.visits(W)
    pieces = sum(
        seen[b] / 7 for b, here in enumerate(chain.nodes) for phi, _, _ in here if len(phi)
    )
    played = play(W, **TINY, policy="gibbs", games=50_000)
    cells = np.array([sum(int(c).bit_count() for c in board) for board in played.boards])
    assert np.array_equal(WIDTH * played.lines, 4 * played.pieces - cells)
    assert abs(played.pieces.mean() - pieces) < 0.05


def test_covariances_on_a_share_of_the_steps_leave_the_gradient_alone():
    whole, part = (estimate(W, Survival(0.9, share=share), **TINY, games=200) for share in (1, 8))
    assert np.array_equal(whole.gradient, part.gradient)
    assert not np.array_equal(whole.fisher, part.fisher)


def test_the_matrices_are_symmetric_and_definite_as_they_should_be():
    w = np.r_[np.zeros(10), np.full(9, -0.3), 0.0, -1.0]
    for rule in (RecurrentBoard(), Survival(0.99)):
        found = estimate(w, rule, games=200)
        for matrix, sign in ((found.h2, -1), (found.fisher, 1)):
            assert np.array_equal(matrix, matrix.T)
            assert np.linalg.eigvalsh(sign * matrix).min() > -1e-9 * np.abs(matrix).max()
        assert np.array_equal(found.h2_diagonal, np.diag(found.h2))


def test_memory_does_not_grow_with_the_length_of_a_game():
    code = (
        "import resource, sys\n"
        "from mdpnewton.domains.tetris import *\n"
        "from mdpnewton.domains.tetris import DT_20\n"
        "def peak(cap):\n"
        "    for rule in (RecurrentBoard(), Survival(0.99)):\n"
        "        found = estimate(DT_20, rule, features='dt', height=20, games=2, cap=cap)\n"
        "        assert found.pieces.max() == cap\n"
        "    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "peak(100)\n"
        "short = peak(2_000)\n"
        "print(peak(200_000) - short)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < 2000  # kB


def evaluations():
    """The same evaluation twice, with matrices and with diagonals alone."""
    policy, w = AfterstatePolicy("bi", HEIGHT, WIDTH), jnp.asarray(W)
    pair = [
        TetrisEvaluator(RecurrentBoard(h1=True), games=50, diagonal=diagonal).evaluate(
            jax.random.key(3), policy, w
        )
        for diagonal in (False, True)
    ]
    return policy, w, *pair


@pytest.mark.parametrize("form", ["H1", "H2", "A1+A2", "fisher"])
def test_a_diagonal_direction_needs_only_the_diagonals(form):
    policy, w, whole, alone = evaluations()
    for solver in (mn.Diagonal(relative_ridge=1e-2), mn.Diagonal(absolute=True)):
        method = mn.Precondition(form, solver)
        one, other = (mn.direction(method, policy, w, found) for found in (whole, alone))
        assert one.report == other.report
        np.testing.assert_array_equal(one.value, other.value)
    damped = mn.Precondition(form, mn.Diagonal(), fisher_damping=0.5)
    one, other = (mn.direction(damped, policy, w, found) for found in (whole, alone))
    np.testing.assert_array_equal(one.value, other.value)


@pytest.mark.parametrize("solver", [mn.Dense(), mn.Block(), mn.ConjugateGradient()], ids=str)
def test_what_needs_the_whole_matrix_is_refused_in_one_line(solver):
    policy, w, _, alone = evaluations()
    with pytest.raises(ValueError, match="only the diagonal was accumulated; ") as caught:
        mn.direction(mn.Precondition("H2", solver), policy, w, alone)
    assert "\n" not in str(caught.value)


def test_the_divergence_of_a_step_needs_the_whole_fisher_matrix():
    _, w, whole, alone = evaluations()
    d = whole.gradient
    curved = d @ whole.matrix(w, "fisher").mv(d)
    assert curved == pytest.approx(d @ whole.matrices["fisher"] @ d)
    with pytest.raises(ValueError, match=r"only the diagonal was accumulated; .*divergence"):
        alone.matrix(w, "fisher").mv(d)


def test_a_matrix_and_a_diagonal_add_up_only_among_themselves():
    _, w, whole, alone = evaluations()
    both = whole.matrix(w, "H1") + whole.matrix(w, "H2")
    diagonals = 2.0 * (alone.matrix(w, "H1") + alone.matrix(w, "H2"))
    np.testing.assert_array_equal((-2.0 * both).diagonal(), (-diagonals).diagonal())
    with pytest.raises(ValueError, match="only the diagonal"):
        whole.matrix(w, "H1") + alone.matrix(w, "H2")


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: RecurrentBoard("never"), "'start', 'empty' or 'piece'"),
        (lambda: Survival(1.0), r"in \(0, 1\)"),
        (lambda: Survival(0.9, share=3), "power of two"),
        (lambda: Survival(0.9, share=4096), "power of two"),
        (lambda: estimate(W, Survival(0.9, critic=[0.0] * 3), **TINY), "5 finite numbers"),
        (lambda: estimate(W, "recurrent", **TINY), "RecurrentBoard"),
        (lambda: estimate(DT_10, **TINY), "needs 7 numbers"),
        (lambda: estimate(W, **TINY, games=0), "games"),
        (lambda: estimate(W, **TINY, diagonal="yes"), "one of False, True, got 'yes'"),
    ],
)
def test_bad_rules_are_refused(make, words):
    with pytest.raises(ValueError, match=words):
        make()

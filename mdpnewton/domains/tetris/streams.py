"""Random numbers that the plain game and the compiled one share: splitmix64.

Steele, Lea and Flood, "Fast splittable pseudorandom number generators" (2014), with the constants
of Vigna's public C version. A game has two streams, one for its pieces and one for its actions, so
that two policies are compared on the same pieces.
"""

WORD = (1 << 64) - 1
STEP = 0x9E3779B97F4A7C15
FIRST, SECOND = 0xBF58476D1CE4E5B9, 0x94D049BB133111EB
PIECE_STREAM, ACTION_STREAM = 1, 2
SPARE_BITS = 11  # the lowest bits of an action's number, which the uniform does not use


def mixed(word: int) -> int:
    """A 64-bit word scrambled, one to one."""
    word = ((word ^ (word >> 30)) * FIRST) & WORD
    word = ((word ^ (word >> 27)) * SECOND) & WORD
    return word ^ (word >> 31)


class Stream:
    """The stream of a game: the (2 game + which)-th number of the run's stream starts it.

    Args:
        seed: Random seed of the run.
        game: Its index, from 0.
        which: `PIECE_STREAM` or `ACTION_STREAM`.
    """

    def __init__(self, seed: int, game: int, which: int):
        self.state = mixed((mixed(seed) + (2 * game + which) * STEP) & WORD)

    def word(self) -> int:
        """The next 64 bits."""
        self.state = (self.state + STEP) & WORD
        return mixed(self.state)


def piece_of(word: int) -> int:
    """A number from 0 to 6, uniform to within 2^-29."""
    return ((word >> 32) * 7) >> 32


def uniform_of(word: int) -> float:
    """A number in [0, 1) from the highest 53 bits."""
    return (word >> SPARE_BITS) * 2.0**-53

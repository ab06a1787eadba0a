"""Second-order policy search for Markov decision processes.

    domain, policy --evaluator--> Evaluation --curvature--> operator --method--> direction
    --step rule--> new w

The public names are listed in `__init__.pyi` and load on first use, so that importing the
package costs little. It leaves global state alone but for one thing: the library computes in 64
bits, so it sets `JAX_ENABLE_X64=1` unless the variable is set already.
"""

import os as _os
import sys as _sys

import lazy_loader as _lazy

from mdpnewton.version import __version__ as __version__

_os.environ.setdefault("JAX_ENABLE_X64", "1")
if "jax" in _sys.modules:  # it read the variable before we set it
    _wanted = _os.environ["JAX_ENABLE_X64"].lower() in ("1", "true", "yes", "on", "y", "t")
    _sys.modules["jax"].config.update("jax_enable_x64", _wanted)

__getattr__, __dir__, __all__ = _lazy.attach_stub(__name__, __file__)

"""Policies in a form that needs neither this library nor JAX."""

import io
from pathlib import Path
from pprint import pformat
from typing import Any

import numpy as np

from mdpnewton.files.folder import prepare, write_whole
from mdpnewton.policies import alone, alone_controller
from mdpnewton.version import __version__

PROGRAM, ARRAYS = "policy.py", "weights.npz"
HEAD = '''"""{what}, exported by mdpnewton {version}. It needs NumPy alone.

{usage}
"""'''
TAIL = """with np.load(Path(__file__).with_name("{arrays}"), allow_pickle=False) as file:
    POLICY = {kind}(ABOUT, dict(file))
act, reset = POLICY.act, POLICY.reset
"""
USAGE = """    from policy import act, reset

    reset()  # when an episode begins
    action = act(observation)"""


def export_numpy(folder: Path, about: dict[str, Any], arrays: dict[str, np.ndarray]) -> Path:
    """Write policy.py and weights.npz of a policy; see `Acting`.

    Args:
        folder: The folder, which is created. One that holds an export already is refused.
        about: Description of the policy.
        arrays: Its arrays.

    Returns:
        The file policy.py.
    """
    what = f"Policy ({about['kind']}) trained on {about['environment'] or 'a simulator'}"
    return _written(folder, what, about, arrays, Path(alone.__file__), "Acting")


def export_controller(folder: Path, about: dict[str, Any], arrays: dict[str, np.ndarray]) -> Path:
    """Write policy.py and weights.npz of a controller; see `Remembering` and `export_numpy`."""
    what = f"Controller for {about.get('problem', 'a problem')}"
    return _written(folder, what, about, arrays, Path(alone_controller.__file__), "Remembering")


def _written(
    folder: Path,
    what: str,
    about: dict[str, Any],
    arrays: dict[str, np.ndarray],
    source: Path,
    kind: str,
) -> Path:
    """Write a program and its arrays; the program is a source of ours with what it needs."""
    for name in (PROGRAM, ARRAYS):
        if (folder / name).exists():
            raise ValueError(f"export: {folder / name} exists already; name another folder")
    prepare(folder, "export")
    content = io.BytesIO()
    np.savez(content, **arrays)  # type: ignore[arg-type]
    write_whole(folder / ARRAYS, content.getvalue())
    _, _, code = source.read_text(encoding="utf-8").split('"""', 2)
    imports = "from typing import Any\n"
    parts = [
        HEAD.format(what=what, version=__version__, usage=USAGE),
        code.replace(imports, f"from pathlib import Path\n{imports}", 1),
        f"\n\nABOUT = {pformat(about, width=99, sort_dicts=False)}\n",
        TAIL.format(arrays=ARRAYS, kind=kind),
    ]
    write_whole(folder / PROGRAM, "".join(parts).encode())
    return folder / PROGRAM


def export_onnx(file: Path, content: bytes) -> Path:
    """Write an ONNX model to a file that does not exist yet."""
    if file.exists():
        raise ValueError(f"export: {file} exists already; name another file")
    prepare(file.parent, "export")
    write_whole(file, content)
    return file

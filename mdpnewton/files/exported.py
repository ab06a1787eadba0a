"""Policies in a form that needs neither this library nor JAX."""

import ast
import io
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

import numpy as np

from mdpnewton.files.folder import prepare, write_whole
from mdpnewton.version import __version__

FORMATS = ("numpy", "onnx")
PROGRAM, ARRAYS = "policy.py", "weights.npz"
HEAD = '''"""{what}.

Exported by mdpnewton {version}; it needs NumPy alone.

    from policy import act, reset

    reset()  # when {begins} begins
    {example}
"""

{code}

with np.load(Path(__file__).with_name("{arrays}"), allow_pickle=False) as file:
    ARRAYS = dict(file)
POLICY = {expression}
act, reset = POLICY.act, POLICY.reset
'''
EXAMPLE, GAME = ("an episode", "action = act(observation)"), ("a game", "move = act(board, piece)")


def export_numpy(
    folder: Path,
    what: str,
    expression: str,
    sources: Sequence[ModuleType],
    arrays: dict[str, np.ndarray],
    usage: tuple[str, str] = EXAMPLE,
) -> Path:
    """Write policy.py and weights.npz of a policy.

    Args:
        folder: The folder, which is created. One that holds an export already is refused.
        what: What it is, in a few words.
        expression: What makes the policy, with the names of the sources and with `ARRAYS`.
        sources: Modules of ours that need NumPy alone: what the expression uses of them is written.
        arrays: The arrays by name.
        usage: What begins, and a line that acts.

    Returns:
        The file policy.py.
    """
    for name in (PROGRAM, ARRAYS):
        if (folder / name).exists():
            raise ValueError(f"export: {folder / name} exists already; name another folder")
    prepare(folder, "export")
    content = io.BytesIO()
    np.savez(content, **arrays)  # type: ignore[arg-type]
    write_whole(folder / ARRAYS, content.getvalue())
    begins, example = usage
    text = HEAD.format(
        what=what.replace("\\", "/").replace('"', "'"),
        version=__version__,
        begins=begins,
        example=example,
        code=cut(sources, expression),
        arrays=ARRAYS,
        expression=expression,
    )
    write_whole(folder / PROGRAM, text.encode())
    return folder / PROGRAM


def cut(sources: Sequence[ModuleType], expression: str) -> str:
    """What an expression uses of some modules, and what that uses, with its imports, as a program.

    Types are left out, and of docstrings all but the first paragraph, except for `act`. Imports of
    this library are left out too: what they bring is in another of the modules.
    """
    imports: dict[str, str] = {"Path": "from pathlib import"}  # the line that brings a name
    pieces: dict[str, ast.stmt] = {}  # what defines a name
    for module in sources:
        text = Path(str(module.__file__)).read_text(encoding="utf-8")
        for node in ast.parse(text).body:
            if isinstance(node, ast.Import):
                imports |= {(one.asname or one.name): ast.unparse(node) for one in node.names}
            elif isinstance(node, ast.ImportFrom) and not str(node.module).startswith("mdpnewton"):
                imports |= {one.name: f"from {node.module} import" for one in node.names}
            else:
                bare: ast.stmt = _Bare().visit(node)
                pieces |= dict.fromkeys(_defined(bare), bare)
    needed: set[str] = set()
    waiting: list[ast.AST] = [ast.parse(f"Path, {expression}")]
    while waiting:
        used = {one.id for one in ast.walk(waiting.pop()) if isinstance(one, ast.Name)}
        waiting += [pieces[name] for name in used - needed if name in pieces]
        needed |= used
    kept = dict.fromkeys(pieces[name] for name in pieces if name in needed)
    lines = [ast.unparse(node) for node in kept]
    spaces = ["\n\n" if isinstance(node, ast.FunctionDef | ast.ClassDef) else "" for node in kept]
    program = [f"{space}{line}" for space, line in zip(spaces, lines, strict=True)]
    brought = _joined({name: line for name, line in imports.items() if name in needed})
    return "\n".join(brought) + "\n\n" + "\n".join(program).strip("\n") + "\n"


class _Bare(ast.NodeTransformer):
    """Takes types and the longer part of docstrings away; fields of classes keep their types."""

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        node.body = [
            one if isinstance(one, ast.AnnAssign) else self.visit(one) for one in node.body
        ]
        return _with_short_docstring(node)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        self.generic_visit(node)
        node.returns = None
        return node if node.name == "act" else _with_short_docstring(node)

    def visit_arg(self, node: ast.arg) -> ast.AST:
        node.annotation = None
        return node

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        if node.value is None:
            return node
        return ast.copy_location(ast.Assign([node.target], node.value), node)


def _with_short_docstring(node: ast.FunctionDef | ast.ClassDef) -> ast.AST:
    if text := ast.get_docstring(node):
        node.body[0] = ast.Expr(ast.Constant(text.partition("\n\n")[0]))
    return ast.fix_missing_locations(node)


def _defined(node: ast.stmt) -> list[str]:
    """The names that a statement of a module defines."""
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        return [node.name]
    targets = node.targets if isinstance(node, ast.Assign) else []
    return [one.id for each in targets for one in ast.walk(each) if isinstance(one, ast.Name)]


def _joined(imports: dict[str, str]) -> list[str]:
    """Lines of imports, one for each module."""
    from_modules = {line for line in imports.values() if line.startswith("from ")}
    joined = [
        f"{line} {', '.join(sorted(name for name, each in imports.items() if each == line))}"
        for line in from_modules
    ]
    return [*sorted(joined), *sorted(set(imports.values()) - from_modules)]


def export_onnx(file: Path, content: bytes) -> Path:
    """Write an ONNX model to a file that does not exist yet."""
    if file.exists():
        raise ValueError(f"export: {file} exists already; name another file")
    prepare(file.parent, "export")
    write_whole(file, content)
    return file

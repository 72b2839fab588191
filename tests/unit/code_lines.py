"""How long emitted code is: lines of code, without comments, docstrings and blanks."""

import ast
import io
import tokenize


def code_lines(text: str) -> set[int]:
    """Return the numbers of the lines that hold code: no comments, no blanks."""
    skipped = (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER)
    found: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in skipped:
            found |= set(range(token.start[0], token.end[0] + 1))
    return found


def docstring_lines(tree: ast.Module) -> set[int]:
    """Return the numbers of the lines of all docstrings."""
    found: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.FunctionDef | ast.ClassDef) and ast.get_docstring(node) is not None:
            found |= set(range(node.body[0].lineno, node.body[0].end_lineno + 1))
    return found


def parts_of(text: str) -> dict[str, int]:
    """Return how many code lines each top-level statement has, by its name."""
    tree = ast.parse(text)
    code = code_lines(text) - docstring_lines(tree)
    found: dict[str, int] = {}
    for node in tree.body:
        first = min([node.lineno, *(d.lineno for d in getattr(node, "decorator_list", []))])
        targets = [ast.unparse(t) for t in getattr(node, "targets", [])]
        name = getattr(node, "name", None) or (targets or [""])[0]
        found[name] = found.get(name, 0) + len(code & set(range(first, node.end_lineno + 1)))
    return found


def called_by(text: str, function: str) -> set[str]:
    """Return a function with all functions of the file that it calls, directly or not."""
    functions = {n.name: n for n in ast.parse(text).body if isinstance(n, ast.FunctionDef)}
    found, stack = {function}, [function]
    while stack:
        used = {n.id for n in ast.walk(functions[stack.pop()]) if isinstance(n, ast.Name)} & functions.keys()
        stack += used - found
        found |= used
    return found

"""The reference of a spec: its text, its entry and its argument names, read with `ast` and never executed here."""

import ast
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate
from pathlib import Path

from kgen.errors.base import Where
from kgen.errors.spec import (
    CastError,
    FileEscapesFolderError,
    InlineStyleError,
    ReferenceEntryError,
    ReferenceFileError,
    ReferenceSyntaxError,
    UnknownNameError,
)
from kgen.ir.dtype import DType
from kgen.spec.document import IDENTIFIER, ReferenceBlock
from kgen.spec.model import Reference, ReferenceKind
from kgen.spec.validate import place_name, suggest
from kgen.spec.yaml_text import Document
from kgen.spec.yaml_text import Path as KeyPath

FORMS = "Python as a literal block, file.py::name, or package.module:name"


@dataclass(frozen=True, slots=True)
class SourceText:
    """Python text and where it stands: line 1 of `text` is line `first_line` of `file`, `indent` columns in."""

    text: str
    file: str
    first_line: int = 1
    indent: int = 0
    path: Path | None = None


def resolve_reference(document: Document, key: KeyPath, block: str | ReferenceBlock, folder: Path) -> Reference:
    """Return the reference at a key of the spec; files must lie in `folder` or below."""
    if isinstance(block, str):
        block = ReferenceBlock(source=block)
    else:
        key = (*key, "source")
    init_kwargs, dtype = tuple(block.init_kwargs.items()), DType(block.dtype) if block.dtype else None
    text = block.source
    if "\n" in text or text.lstrip().startswith(("def ", "class ", "import ", "from ", "@")):
        source = _inline(document, key, text)
        kind, entry = ReferenceKind.INLINE, block.entry
    elif "::" in text:
        file, _, name = text.partition("::")
        source = _file(document, key, file.strip(), folder)
        kind, entry = ReferenceKind.FILE, block.entry or name.strip()
    elif text.count(":") == 1 and all(IDENTIFIER.match(p) for p in text.replace(":", ".").split(".")):
        module, _, name = text.partition(":")
        init_args = tuple(block.init_args)
        return Reference(ReferenceKind.IMPORT, name, module, init_args=init_args, init_kwargs=init_kwargs, dtype=dtype)
    else:
        where = document.where(key)
        raise UnknownNameError(where=where, place=place_name(key), name=text, kind="a reference", suggestion=FORMS)
    definition = find_entry(source, entry, document.where(key))
    reference = Reference(
        kind,
        definition.name,
        source.file,
        source.text,
        source.first_line,
        isinstance(definition, ast.ClassDef),
        tuple(block.init_args),
        init_kwargs,
        dtype,
        source.path,
    )
    cast_source(reference)  # for its errors
    return reference


def _inline(document: Document, key: KeyPath, text: str) -> SourceText:
    if key not in document.literal:
        raise InlineStyleError(where=document.where(key), key=key[-1])
    first = document.values[key][0] + 1  # the block starts on the line below its `|`
    filled = next((line for line in document.lines[first:] if line.strip()), "")
    return SourceText(text, document.file, first + 1, len(filled) - len(filled.lstrip()))


def _file(document: Document, key: KeyPath, name: str, folder: Path) -> SourceText:
    where = document.where(key)
    path = (folder / name).resolve()
    if Path(name).is_absolute() or not path.is_relative_to(folder.resolve()):
        raise FileEscapesFolderError(where=where, path=name)
    try:
        text = path.read_bytes().decode("utf-8")  # as it stands: a copy of it is byte for byte the same
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise ReferenceFileError(where=where, path=name, reason=reason) from None
    return SourceText(text, Path(name).as_posix(), path=path)


def parse_source(source: SourceText) -> ast.Module:
    """Parse Python text; raise `ReferenceSyntaxError` at its place in the file."""
    try:
        return ast.parse(source.text)
    except SyntaxError as error:
        lines = source.text.splitlines()
        row = min(error.lineno or 1, len(lines) or 1)
        line = lines[row - 1] if lines else ""
        where = Where(
            source.file,
            row + source.first_line - 1,
            (error.offset or 1) + source.indent,
            " " * source.indent + line,
        )
        raise ReferenceSyntaxError(where=where, problem=error.msg) from None
    except ValueError as error:
        raise ReferenceSyntaxError(where=Where(source.file), problem=str(error)) from None


def find_entry(source: SourceText, entry: str | None, where: Where) -> ast.FunctionDef | ast.ClassDef:
    """Return the definition of the entry; without a name there must be exactly one definition."""
    tree = parse_source(source)
    found = {d.name: d for d in tree.body if isinstance(d, ast.FunctionDef | ast.ClassDef)}
    shown = " and ".join(found) if found else "nothing"
    if entry is None:
        if len(found) == 1:
            return next(iter(found.values()))
        wanted, suggestion = (
            "not named",
            "define one function or class, or name it: reference: {source: ..., entry: ...}",
        )
        raise ReferenceEntryError(where=where, found=shown, wanted=wanted, suggestion=suggestion)
    if entry not in found:
        suggestion = suggest(entry, tuple(found), "definition")
        raise ReferenceEntryError(where=where, found=shown, wanted=repr(entry), suggestion=suggestion)
    return found[entry]


@dataclass(frozen=True, slots=True)
class Signature:
    """The argument names of a reference; `required` of them have no default; `rest` tells of *args."""

    names: tuple[str, ...]
    required: int
    rest: bool


def signature_of(reference: Reference) -> Signature | None:
    """Return the arguments of a reference whose text is known (of `forward` for a class), else None."""
    args = _arguments(reference)
    if args is None:
        return None
    names = [a.arg for a in (*args.posonlyargs, *args.args)]
    skipped = 1 if reference.is_module else 0
    required = max(len(names) - len(args.defaults) - skipped, 0)
    return Signature(tuple(names[skipped:]), required, args.vararg is not None)


def with_defaults(reference: Reference, values: Mapping[str, bool | int | float]) -> str:
    """Return the text of a reference in which some arguments have these defaults; else it stays as it is."""
    args = _arguments(reference)
    assert args is not None
    text = reference.source.encode("utf-8")
    starts = (0, *accumulate(len(line) for line in text.splitlines(keepends=True)))  # columns of `ast` are bytes
    positional = [*args.posonlyargs, *args.args]
    known = [*([None] * (len(positional) - len(args.defaults))), *args.defaults]
    for argument, default in reversed(list(zip(positional, known, strict=True))):
        if argument.arg in values:
            assert argument.end_lineno is not None and argument.end_col_offset is not None
            begin = end = starts[argument.end_lineno - 1] + argument.end_col_offset
            sign = " = " if argument.annotation else "="
            if default is not None:
                assert default.end_lineno is not None and default.end_col_offset is not None
                begin, sign = starts[default.lineno - 1] + default.col_offset, ""
                end = starts[default.end_lineno - 1] + default.end_col_offset
            text = text[:begin] + f"{sign}{values[argument.arg]!r}".encode() + text[end:]
    return text.decode("utf-8")


_CAST_METHODS = {DType.FP16: "half", DType.BF16: "bfloat16", DType.FP32: "float", DType.FP64: "double"}


def cast_source(reference: Reference) -> str:
    """Return the text of a reference whose class casts its parameters and buffers to `dtype` when it is constructed.

    Raises `CastError` for a function, and for a constructor that returns before its end.
    """
    if reference.dtype is None:
        return reference.source
    if not reference.is_module:
        raise _uncast(reference, reference.first_line, "it is a function, and has no parameters")
    cast = f"self.{_CAST_METHODS[reference.dtype]}()"
    body = ast.parse(reference.source).body
    cls = next(d for d in body if isinstance(d, ast.ClassDef) and d.name == reference.entry)
    made = next((d for d in cls.body if isinstance(d, ast.FunctionDef) and d.name == "__init__"), None)
    lines = reference.source.splitlines()
    if made is None:
        row, pad = (cls.body[0].end_lineno or 0) if ast.get_docstring(cls) else cls.body[0].lineno - 1, " " * 4
        added = ["", f"{pad}def __init__(self, *args, **kwargs):", f"{pad * 2}super().__init__(*args, **kwargs)"]
        added += [f"{pad * 2}{cast}", ""]
    else:
        if any(isinstance(n, ast.Return) for n in ast.walk(made)):
            raise _uncast(reference, made.lineno + reference.first_line - 1, "its constructor returns before its end")
        row, added = made.end_lineno or 0, [f"{' ' * made.body[0].col_offset}{cast}"]
    return "\n".join([*lines[:row], *added, *lines[row:]]) + "\n"


def _uncast(reference: Reference, line: int, reason: str) -> CastError:
    return CastError(where=reference.where(line), entry=reference.entry, dtype=reference.dtype, reason=reason)


def _arguments(reference: Reference) -> ast.arguments | None:
    """Return the arguments of a reference's function, of `forward` for a class, where its text has one."""
    body = ast.parse(reference.source).body if reference.source else []
    named = (d for d in body if isinstance(d, ast.FunctionDef | ast.ClassDef) and d.name == reference.entry)
    definition: ast.FunctionDef | ast.ClassDef | None = next(named, None)
    if isinstance(definition, ast.ClassDef):
        methods = (d for d in definition.body if isinstance(d, ast.FunctionDef) and d.name == "forward")
        definition = next(methods, None)
    return definition.args if isinstance(definition, ast.FunctionDef) else None


def stands_alone(reference: Reference) -> bool:
    """Whether the reference's own text runs where only torch is installed."""
    return reference.kind in (ReferenceKind.INLINE, ReferenceKind.FILE) and _needs_only_torch(reference.source)


@lru_cache(maxsize=16)  # asked for by the trace and by the package of every device
def _needs_only_torch(source: str) -> bool:
    for node in ast.walk(ast.parse(source)):
        modules: list[str] = []
        if isinstance(node, ast.Import):
            modules = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            modules = ["." * node.level + (node.module or "")]
        if any(m.split(".")[0] not in ("torch", *sys.stdlib_module_names) for m in modules):
            return False
    return True

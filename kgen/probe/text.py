"""The text of a device file, in the form of those in `targets/`, and its place in the file system."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

from kgen.errors.base import KgenError
from kgen.errors.probe import NotAProbedFileError, ProbeFileNameError
from kgen.probe.describe import Described
from kgen.target import UNITS, Quantity, load_device

_NAME = re.compile(r"[a-z0-9][a-z0-9_]*\.yaml")


def device_text(described: Described) -> str:
    """Return the YAML of a device file."""
    return "\n".join(_lines(described)) + "\n"


def _lines(described: Described) -> Iterator[str]:
    probe = described.probe
    taken = "" if described.nearest is None else f" Figures that are carried_over come from the {described.nearest}."
    yield f"# Written by `kgen probe`.{taken}"
    yield from (f"# Not here: {missing.name}: {_one_line(missing.reason)}" for missing in described.missing)
    yield f"title: {_quoted(described.title)}"
    yield f"arch: {described.arch}"
    fields = {"date": probe.date, "gpu": probe.gpu, "driver": probe.driver, "torch": probe.torch}
    yield f"probe: {{{', '.join(f'{name}: {_quoted(text)}' for name, text in fields.items())}}}"
    if described.limits:
        yield "limits:"
        yield from (f"  {name}: {_quantity(quantity)}" for name, quantity in described.limits)
    for section in UNITS:
        found = [(n, q) for n, q in described.quantities if n.startswith(f"{section}.")]
        if found or section == "dense_peak":  # which every device file has
            yield f"{section}:" if found else f"{section}: {{}}"
            yield from (f"  {name.partition('.')[2]}: {_quantity(quantity)}" for name, quantity in found)


def _quantity(quantity: Quantity) -> str:
    parts = [f"value: {_number(quantity.value)}", f"unit: {quantity.unit}", f"source: {quantity.source}"]
    parts.append(f"confidence: {quantity.confidence}")
    if (spread := quantity.spread) is not None:
        parts.append(f"spread: [{_number(spread.low)}, {_number(spread.high)}], rounds: {spread.rounds}")
    if quantity.note:
        parts.append(f"note: {_quoted(quantity.note)}")
    return f"{{{', '.join(parts)}}}"


def _number(value: float) -> str:
    """Return all digits of a number, and no point behind a whole one."""
    return f"{value:.12g}"


def _quoted(text: str) -> str:
    """Return a text as JSON writes it, which YAML reads the same."""
    return json.dumps(_one_line(text), ensure_ascii=False)


def _one_line(text: str) -> str:
    return " ".join(text.split())


def check_place(path: Path) -> None:
    """Raise `ProbeFileNameError` or `NotAProbedFileError` where no probe may write: before anything is measured."""
    if not _NAME.fullmatch(path.name) or not path.parent.is_dir():
        raise ProbeFileNameError(path=path)
    if path.exists() and not _is_probed(path):
        raise NotAProbedFileError(path=path)


def _is_probed(path: Path) -> bool:
    try:
        return load_device(path).probe is not None
    except (KgenError, OSError, UnicodeDecodeError):
        return False

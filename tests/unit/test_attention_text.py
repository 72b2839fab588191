"""Emitted attention packages are clean: default lint, default format, no unread field of a view."""

import subprocess
import sys
from pathlib import Path

import attention_specs
import pytest
from code_lines import parts_of

from kgen.backends.cutedsl.attention_decode import decode_templates, decode_view
from kgen.backends.cutedsl.attention_decode_views import DecodeView
from kgen.backends.cutedsl.attention_device import CONSUMER_FIELDS, FOLDER, attention_view, section_templates
from kgen.backends.cutedsl.attention_modes import whole_operands
from kgen.backends.cutedsl.attention_views import AttentionFileView, AttentionView
from kgen.planning.plan_attention import AttentionVariant
from kgen.render.fields import unread_fields

ROOT = Path(__file__).resolve().parents[2]
FILE = f"{FOLDER}/file.py.j2"
FILE_LINES = 600
FINDER_LINES = 25  # of the kernel that finds the keys of row blocks, before that of the attention
DEVICE_LINES, HOST_LINES = 440, 120  # of code: no comments, docstrings and blanks
HOST = ("NAME", "SIGNATURES", "PLAN", "CACHE", "compile_variant", "loaded", "compiled", "refusal", "aligned", "kernel")


@pytest.mark.parametrize("command", [("check", "--output-format", "concise"), ("format", "--check", "--diff")])
def test_lint_and_format(tmp_path: Path, command: tuple[str, ...]) -> None:
    for name in attention_specs.NAMES:
        (tmp_path / f"{name}.py").write_text(attention_specs.files_of(name)["kernel.py"], encoding="utf-8")
    config = ("--config", str(ROOT / "pyproject.toml"))
    done = subprocess.run(
        [sys.executable, "-m", "ruff", *command, *config, str(tmp_path)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def _view(variant: AttentionVariant) -> AttentionView | DecodeView:
    whole = whole_operands(variant.form)
    return decode_view(variant, whole) if variant.few_rows else attention_view(variant, whole)


def _templates(variant: AttentionVariant) -> set[str]:
    view = _view(variant)
    found = decode_templates(view) if isinstance(view, DecodeView) else section_templates(variant, view)
    return {CONSUMER_FIELDS, *found.variant, *found.before, *found.consumer, *found.after}


def test_every_section_is_printed_by_some_spec() -> None:
    printed = set[str]().union(*(_templates(attention_specs.variant_of(name)) for name in attention_specs.NAMES))
    templates = ROOT / "templates"
    folders = [templates / "cutedsl" / "sm90" / name for name in ("attention", "attention_decode")]
    files = {str(path.relative_to(templates)) for folder in folders for path in folder.glob("*.j2")}
    assert printed | {FILE} == files


@pytest.mark.parametrize("view", [AttentionView, DecodeView])
def test_no_field_of_a_view_is_unread(view: type) -> None:
    variants = [v for v in map(attention_specs.variant_of, attention_specs.NAMES) if isinstance(_view(v), view)]
    templates = set[str]().union(*map(_templates, variants))
    assert set.intersection(*(set(unread_fields(name, view)) for name in templates)) == set()


def test_no_field_of_the_file_is_unread() -> None:
    assert unread_fields(FILE, AttentionFileView) == (
        "AttentionFileView.imports",
    )  # they stand in the head of the file


# The length of a file: all lines count. Of the code in it, host and device have budgets of their own.


@pytest.mark.parametrize("path", sorted(ROOT.glob("generated/h200/attention_*/kernel.py")), ids=lambda p: p.parent.name)
def test_the_length_of_a_golden(path: Path) -> None:
    assert len(path.read_text(encoding="utf-8").splitlines()) <= FILE_LINES


@pytest.mark.parametrize("name", attention_specs.NAMES)
def test_the_budgets_of_lines(name: str) -> None:
    text = attention_specs.files_of(name)["kernel.py"]
    parts = parts_of(text)
    host = sum(lines for part, lines in parts.items() if part in HOST)
    assert host <= HOST_LINES and sum(parts.values()) - host <= DEVICE_LINES, parts
    finder = FINDER_LINES if attention_specs.variant_of(name).ranges_keys else 0
    assert len(text.splitlines()) <= FILE_LINES + finder

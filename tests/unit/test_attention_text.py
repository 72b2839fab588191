"""Emitted attention packages are clean: default lint, default format, no unread field of a view."""

import subprocess
import sys
from pathlib import Path

import attention_specs
import pytest

from kgen.backends.cutedsl.attention_decode import decode_templates, decode_view
from kgen.backends.cutedsl.attention_decode_views import DecodeView
from kgen.backends.cutedsl.attention_device import attention_view, section_templates
from kgen.render.fields import unread_fields

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("command", [("check", "--output-format", "concise"), ("format", "--check", "--diff")])
def test_lint_and_format(tmp_path: Path, command: tuple[str, ...]) -> None:
    for name in attention_specs.NAMES:
        (tmp_path / f"{name}.py").write_text(attention_specs.files_of(name)["kernel.py"], encoding="utf-8")
    config = ("--config", str(ROOT / "pyproject.toml"))
    done = subprocess.run(
        [sys.executable, "-m", "ruff", *command, *config, str(tmp_path)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_section_is_printed_by_some_spec() -> None:
    variants = [attention_specs.variant_of(name) for name in attention_specs.NAMES]
    tiled = (section_templates(v, attention_view(v)) for v in variants if not v.few_rows)
    walking = (decode_templates(decode_view(v)) for v in variants if v.few_rows)
    printed = {name for names in (*tiled, *walking) for name in names}
    templates = ROOT / "templates"
    folders = [templates / "cutedsl" / "sm90" / name for name in ("attention", "attention_decode")]
    assert printed == {str(path.relative_to(templates)) for folder in folders for path in folder.glob("*.j2")}


def test_no_field_of_a_view_is_unread() -> None:
    variants = [v for v in map(attention_specs.variant_of, attention_specs.NAMES) if v.few_rows]
    templates = {name for v in variants for name in decode_templates(decode_view(v))}
    unread = [set(unread_fields(name, DecodeView)) for name in templates]
    assert set.intersection(*unread) == set()

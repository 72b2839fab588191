"""Emitted attention packages are clean: default lint, default format, no unread field of a view."""

import subprocess
import sys
from pathlib import Path

import attention_specs
import pytest

from kgen.backends.cutedsl.attention_device import attention_view, section_templates

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
    printed = {Path(t).name for v in variants for t in section_templates(v, attention_view(v))}
    folder = ROOT / "templates" / "cutedsl" / "sm90" / "attention"
    assert printed == {path.name for path in folder.glob("*.j2")}

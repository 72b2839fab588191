"""The README's support table is the one that is computed from the files."""

from pathlib import Path

from kgen.support import support_matrix

README = Path(__file__).parents[2] / "README.md"


def table() -> str:
    matrix = support_matrix()
    families = sorted({s.family for s in matrix})
    lines = [f"| ISA | {' | '.join(families)} |", "|---" * (len(families) + 1) + "|"]
    for isa in sorted({s.isa for s in matrix}):
        levels = {s.family: s.level for s in matrix if s.isa == isa}
        lines.append(f"| {isa} | {' | '.join(levels[f] for f in families)} |")
    return "\n".join(lines)


def test_the_support_table_is_current() -> None:
    text = README.read_text(encoding="utf-8")
    shown = text.split("<!-- support: printed by tests/unit/test_readme.py -->\n")[1].split("\n<!-- /support -->")[0]
    assert shown == table()

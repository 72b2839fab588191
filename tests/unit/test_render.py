"""Rendering is strict: a template and its view match exactly, and only text and integers are printed."""

from dataclasses import dataclass

import pytest
from jinja2 import DictLoader, UndefinedError

from kgen.render import environment as environment_module
from kgen.render import fields as fields_module
from kgen.render import render
from kgen.render.environment import environment
from kgen.render.fields import unread_fields

TEMPLATES = {
    "plain.j2": "{{ k.name }} = {{ k.count }}\n",
    "missing.j2": "{{ k.nmae }}\n",
    "missing_flag.j2": "{% if k.nmae %}\nx\n{% endif %}\n",
    "globals.j2": "{{ range }}\n",
    "loop.j2": "{% for op in k.ops %}\n{{ op.name }}({{ op.inner.value }})\n{% endfor %}\n",
    "pairs.j2": "{% for op, number in k.pairs %}\n{{ op.name }} {{ number }}\n{% endfor %}\n{{ k.ops | join }}\n",
    "lib.j2": (
        "{% macro show(op) %}\n{{ op.name }}\n{% for i in op.chain %}\n{{ show(i) }}\n{% endfor %}\n{% endmacro %}\n"
    ),
    "imports.j2": '{% import "lib.j2" as lib %}\n{% for op in k.ops %}\n{{ lib.show(op) }}\n{% endfor %}\n',
    "includes.j2": 'before\n{% include "loop.j2" %}\n',
}


@dataclass(frozen=True, slots=True)
class Plain:
    name: str
    count: object = 3


@dataclass(frozen=True, slots=True)
class Inner:
    value: int
    unused: int = 0


@dataclass(frozen=True, slots=True)
class Op:
    name: str
    inner: Inner | None = None
    chain: tuple["Op", ...] = ()


@dataclass(frozen=True, slots=True)
class Body:
    ops: tuple[Op, ...]


@dataclass(frozen=True, slots=True)
class Pairs:
    ops: tuple[Op, ...]
    pairs: tuple[tuple[Op, int], ...]


@pytest.fixture
def templates(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environment(), "loader", DictLoader(TEMPLATES))
    monkeypatch.setattr(environment(), "cache", {})
    fields_module.parse.cache_clear()
    monkeypatch.setattr(fields_module, "template_source", TEMPLATES.__getitem__)
    monkeypatch.setattr(environment_module, "template_source", TEMPLATES.__getitem__)
    yield
    fields_module.parse.cache_clear()


@pytest.mark.usefixtures("templates")
class TestRender:
    def test_fills_fields_and_keeps_the_last_newline(self):
        assert render("plain.j2", Plain("x")) == "x = 3\n"

    def test_blocks_leave_no_lines_behind(self):
        assert render("loop.j2", Body((Op("a", Inner(1)), Op("b", Inner(2))))) == "a(1)\nb(2)\n"

    @pytest.mark.parametrize("template", ["missing.j2", "missing_flag.j2"])
    def test_a_missing_name_is_named(self, template):
        with pytest.raises(UndefinedError, match="nmae"):
            render(template, Plain("x"))

    def test_jinja_globals_are_not_there(self):
        with pytest.raises(UndefinedError, match="range"):
            render("globals.j2", Plain("x"))

    @pytest.mark.parametrize("value", [1.5, None, (1, 2)])
    def test_only_text_and_integers_are_printed(self, value):
        with pytest.raises(TypeError, match="prints text and integers"):
            render("plain.j2", Plain("x", value))


@pytest.mark.usefixtures("templates")
class TestUnreadFields:
    def test_a_loop_reads_the_fields_of_its_elements(self):
        assert unread_fields("loop.j2", Body) == ("Inner.unused", "Op.chain")

    def test_an_included_template_reads_for_its_includer(self):
        assert unread_fields("includes.j2", Body) == ("Inner.unused", "Op.chain")

    def test_a_macro_of_another_file_reads_for_its_caller(self):
        assert unread_fields("imports.j2", Body) == ("Inner.unused", "Inner.value", "Op.inner")

    def test_pairs_are_told_apart(self):
        assert "Op.name" not in unread_fields("pairs.j2", Pairs)
        assert "Pairs.pairs" not in unread_fields("pairs.j2", Pairs)

    def test_a_field_read_in_vain_is_found(self):
        assert unread_fields("missing.j2", Plain) == ("Plain.count", "Plain.name")

"""Templates hold text, loops and bare flags; every decision is Python's."""

import pytest

from kgen.render.environment import template_names
from kgen.render.lint import lint, lint_text

ALLOWED = {
    "field": "{{ k.field }}",
    "nested field": "{{ k.plan.tile }}",
    "loop": "{% for op in k.ops %}{{ op.text }}{% endfor %}",
    "pairs": "{% for name, value in k.pairs %}{{ name }}={{ value }}{% endfor %}",
    "flag": "{% if k.has_bias %}x{% else %}y{% endif %}",
    "filters": "{{ k.body | indent(4) }}{{ k.names | join(', ') }}",
    "macro": "{% macro line(op) %}{{ op.text }}{% endmacro %}{{ line(k.op) }}",
    "imported macro": '{% import "lib.j2" as lib %}{{ lib.line(k.op) }}',
    "macro by name": '{% from "lib.j2" import line as show %}{{ show(k.op) }}',
    "include": '{% include "other.j2" %}',
    "comment": "{# why #}",
    "three ifs": "{% if k.a %}{% endif %}" * 3,
}

FORBIDDEN = {
    "set": ("{% set x = 1 %}", "Assign is not allowed"),
    "arithmetic": ("{{ k.a + 1 }}", "Add is not allowed"),
    "comparison": ("{% if k.a == 1 %}{% endif %}", "an if tests one bare name"),
    "and": ("{% if k.a and k.b %}{% endif %}", "And is not allowed"),
    "or": ("{{ k.a or k.b }}", "Or is not allowed"),
    "not": ("{% if not k.a %}{% endif %}", "Not is not allowed"),
    "inline if": ("{{ k.a if k.b }}", "CondExpr is not allowed"),
    "test": ("{% if k.a is defined %}{% endif %}", "Test is not allowed"),
    "index": ("{{ k.a[0] }}", "Getitem is not allowed"),
    "concatenation": ("{{ k.a ~ k.b }}", "Concat is not allowed"),
    "method": ("{{ k.name.upper() }}", "a call names a macro"),
    "method of a loop variable": ("{% for op in k.ops %}{{ op.text() }}{% endfor %}", "a call names a macro"),
    "other filter": ("{{ k.name | upper }}", "the filter upper is not allowed"),
    "filtered loop": ("{% for op in k.ops if op.on %}{% endfor %}", "a for walks one bare name"),
    "list": ("{% for x in [1, 2] %}{% endfor %}", "a for walks one bare name"),
    "computed include": ("{% include k.name %}", "an import or include names its template"),
    "inheritance": ('{% extends "base.j2" %}', "Extends is not allowed"),
    "do nothing block": ("{% with %}{% endwith %}", "With is not allowed"),
    "four ifs": ("{% if k.a %}{% endif %}" * 4, "4 ifs: make two templates and a macro"),
    "elif counts": ("{% if k.a %}{% elif k.b %}{% elif k.c %}{% elif k.d %}{% endif %}", "4 ifs"),
}


@pytest.mark.parametrize("text", ALLOWED.values(), ids=ALLOWED)
def test_allowed(text):
    assert lint_text("t.j2", text) == ()


@pytest.mark.parametrize(("text", "problem"), FORBIDDEN.values(), ids=FORBIDDEN)
def test_forbidden(text, problem):
    assert problem in [v.problem[: len(problem)] for v in lint_text("t.j2", text)]


def test_a_violation_names_its_line():
    assert str(lint_text("t.j2", "one\n{{ k.a + 1 }}\n")[0]) == "t.j2:2: Add is not allowed"


def test_ifs_of_a_macro_are_counted_apart():
    ifs = "{% if k.a %}{% endif %}" * 3
    assert lint_text("t.j2", f"{ifs}{{% macro m(k) %}}{ifs}{{% endmacro %}}") == ()


def test_there_are_templates():
    assert "package/test_kernel.py.j2" in template_names()


@pytest.mark.parametrize("name", template_names())
def test_every_template(name):
    assert [str(v) for v in lint(name)] == []

"""Axes that a spec decides: checked against the rules of the families that it has kernels of, and dealt out to them."""

from collections.abc import Iterable
from typing import Any

from kgen.families.attention.rules import attention_rules
from kgen.families.gemm.rules import gemm_rules
from kgen.families.strided.rules import loop_rules
from kgen.rules.model import Value
from kgen.rules.ruleset import RuleSet
from kgen.rules.solve import check_point
from kgen.spec.model import FixedAxis
from kgen.target import Arch, Device


def rules_of(family: str, arch: Arch) -> RuleSet:
    """Return the rules of a family on an arch. Raises `FamilyNotOnArchError`."""
    if family == "attention":
        return attention_rules(arch)
    return gemm_rules(arch) if family == "gemm" else loop_rules(family, arch)


def fixed_axes(fixed: tuple[FixedAxis, ...], families: Iterable[str], device: Device) -> dict[str, dict[str, Value]]:
    """Return by family the axis values that a spec decides; an axis binds every family that has it.

    Raises at its place in the spec for an axis that none of them has, and for a value that a family's axis has not.
    """
    rules = {family: rules_of(family, device.arch) for family in families} if fixed else {}
    values: dict[str, dict[str, Value]] = {family: {} for family in families}
    for axis in fixed:
        value: Any = axis.value  # a list of numbers, too: `check_point` refuses it, for it is in no domain
        concerned = [family for family in rules if rules[family].axis(axis.axis) is not None]
        for family in concerned or list(rules)[:1]:
            check_point(rules[family], {axis.axis: value}, axis.where)
            values[family][axis.axis] = value
    return values

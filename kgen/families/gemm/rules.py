"""The compiled rules of the GEMM family on one arch: what the hardware allows and what the templates print."""

from kgen.families.gemm.rules_facts import GEMM_VOCABULARY, GemmFacts
from kgen.families.rules_files import family_rules
from kgen.rules.ruleset import RuleSet
from kgen.rules.solve import BoundRules, bind
from kgen.target import Arch, Device


def gemm_rules(arch: Arch, *, lowered: bool = True) -> RuleSet:
    """Return the rules of an arch; without `lowered`, what the hardware allows alone."""
    return family_rules(GEMM_VOCABULARY, arch, lowered=lowered)


def bind_gemm(facts: GemmFacts, device: Device, *, lowered: bool = True) -> BoundRules:
    """Give the rules of a device's arch the facts of one problem."""
    return bind(gemm_rules(device.arch, lowered=lowered), {**device.rule_fields(), **facts.as_mapping()})

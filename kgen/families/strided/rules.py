"""The compiled rules of the loop families on one arch: what the hardware allows and what the templates print."""

from functools import cache

from kgen.families.rules_files import family_rules
from kgen.families.strided.facts import LoopFacts, vocabulary
from kgen.rules.ruleset import RuleSet, Vocabulary
from kgen.rules.solve import BoundRules, bind
from kgen.target import Arch, Device


def loop_rules(family: str, arch: Arch, *, lowered: bool = True) -> RuleSet:
    """Return the rules of `reduction` or `pointwise` on an arch; without `lowered`, what the hardware allows alone."""
    return family_rules(_vocabulary(family), arch, lowered=lowered)


def bind_loop(family: str, facts: LoopFacts, device: Device, *, lowered: bool = True) -> BoundRules:
    """Give the rules of a device's arch the facts of one kernel."""
    return bind(loop_rules(family, device.arch, lowered=lowered), {**device.rule_fields(), **facts.as_mapping()})


@cache
def _vocabulary(family: str) -> Vocabulary:
    return vocabulary(family)

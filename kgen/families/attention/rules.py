"""The compiled rules of the attention family on one arch: what the hardware allows and what the templates print."""

from kgen.families.attention.rules_facts import ATTENTION_VOCABULARY, AttentionFacts
from kgen.families.rules_files import family_rules, is_lowered
from kgen.rules.ruleset import RuleSet
from kgen.rules.solve import BoundRules, bind
from kgen.target import Arch, Device


def attention_rules(arch: Arch, *, lowered: bool = True) -> RuleSet:
    """Return the rules of an arch; without `lowered`, what the hardware allows alone.

    Raises `FamilyNotOnArchError` where the arch has none, and where no template prints them.
    """
    return family_rules(ATTENTION_VOCABULARY, arch, lowered=lowered)


def bind_attention(facts: AttentionFacts, device: Device) -> BoundRules:
    """Give the rules of a device's arch the facts of one problem; without templates, those of the hardware alone."""
    rules = attention_rules(device.arch, lowered=is_lowered("attention", device.arch))
    return bind(rules, {**device.rule_fields(), **facts.as_mapping()})

"""Refusals of the rules language and of the solver: a bad rules file, a bad point, no legal candidate."""

from kgen.errors.base import BadInputError, UnsupportedError, Where


class RulesSyntaxError(BadInputError):
    """A rules file does not follow the grammar."""

    message = "this is not a statement of the rules language: unexpected {found}"
    remedy = "expected {expected}"


class UnknownNameError(BadInputError):
    """A rules file uses a name outside its closed vocabulary."""

    message = "unknown name '{name}'"
    remedy = "nearest known: {nearest}"


class NameDefinedTwiceError(BadInputError):
    """Two statements define one name."""

    message = "'{name}' is already defined at {previous}"
    remedy = "rename one of them; a `let` may repeat only with a `when`, the last one without"


class RuleKindError(BadInputError):
    """An expression is of the wrong kind: a number where a condition is needed, or values of two enumerations."""

    message = "'{text}' is {found}, and {wanted} is needed here"


class MissingLetError(BadInputError):
    """A family's rules lack one of the names that its cost model reads."""

    message = "the rules of {family} must define `let {name}`"
    remedy = "its cost model reads {names}"


class UnknownAxisError(BadInputError):
    """A point names an axis that the rules do not have."""

    message = "unknown axis '{name}'"
    remedy = "nearest known: {nearest}; the axes are {known}"


class OutsideDomainError(BadInputError):
    """A point gives an axis a value that its domain does not hold."""

    message = "{axis} = {value} is outside of {domain}"
    remedy = "nearest value: {nearest}"


class MissingFactError(BadInputError):
    """The solver was not given a fact that the rules' vocabulary names."""

    message = "the rules need the fact '{name}'"
    remedy = "given: {given}"


class BadFactError(BadInputError):
    """A fact has a value that its enumeration does not hold."""

    message = "{name} = {value!r} is not one of {members}"


class NoLegalCandidateError(UnsupportedError):
    """Every point of the grid breaks a rule."""

    message = "no legal {family} candidate: {total} points, all rejected\n{table}"
    remedy = "{advice}"

    def __init__(self, *, rules: tuple[dict[str, object], ...], where: Where | None = None, **fields: object) -> None:
        self.rules = rules
        super().__init__(where=where, **fields)

    def to_json(self) -> dict[str, object]:
        """Return the error with one entry per rule that removed candidates."""
        return {**super().to_json(), "rules": list(self.rules)}

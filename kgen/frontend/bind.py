"""The arguments of a node by name, for torch's graphs leave out defaults and mix positions with keywords."""

from dataclasses import dataclass

from kgen.ir.graph import Argument, Node, ValueRef

# Keywords that say where or how a result lies in memory; its type already says so.
IGNORED = frozenset({"memory_format", "device", "layout", "pin_memory", "non_blocking", "copy", "implicit"})


@dataclass(frozen=True, slots=True)
class Call:
    """A node with its arguments by name."""

    node: Node
    args: dict[str, Argument]

    def ref(self, name: str) -> ValueRef:
        """Return an argument that is a tensor."""
        value = self.args[name]
        assert isinstance(value, ValueRef), f"{self.node.op}: {name} is a tensor"
        return value

    def integer(self, name: str) -> int:
        """Return an argument that is an integer."""
        value = self.args[name]
        assert isinstance(value, int), f"{self.node.op}: {name} is an integer"
        return value

    def integers(self, name: str) -> tuple[int, ...]:
        """Return an argument that is an integer or a sequence of them."""
        value = self.args[name]
        values = value if isinstance(value, tuple) else (value,)
        return tuple(v for v in values if isinstance(v, int))

    def number(self, name: str) -> float:
        """Return an argument that is a Python number, as a float."""
        value = self.args[name]
        assert isinstance(value, bool | int | float), f"{self.node.op}: {name} is a number"
        return float(value)


def bind(node: Node, names: str, **defaults: Argument) -> Call:
    """Return the node's arguments by the given names (separated by blanks); those left out take their defaults."""
    args: dict[str, Argument] = dict(zip(names.split(), node.args, strict=False))
    args.update((k, v) for k, v in node.kwargs if k not in IGNORED)
    return Call(node, {**defaults, **args})

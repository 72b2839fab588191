"""Makes `torch.cuda` work on a CPU as far as measuring processes use it; Python imports it at its start.

Replays of a graph call what was captured again; times are those of the host. Only the order of events, the values that
the arms compute and what becomes of failures can be tested with it, no speed.
"""

import importlib.abc
import importlib.util
import sys
import time
from contextlib import contextmanager
from types import SimpleNamespace


class Event:
    """A point in time."""

    def __init__(self, enable_timing=False):
        self.at = 0.0

    def record(self):
        self.at = time.perf_counter()

    def synchronize(self):
        pass

    def elapsed_time(self, other):
        return max((other.at - self.at) * 1e3, 1e-3)


class Graph:
    """Calls the captured functions again, into the results of the capture."""

    current = None

    def __init__(self):
        self.calls = []

    def replay(self):
        for again in self.calls:
            again()


@contextmanager
def graph(made):
    Graph.current = made
    try:
        yield
    finally:
        Graph.current = None


def install(torch):
    """Replace what needs a GPU."""
    cuda = torch.cuda
    found = SimpleNamespace(name="a CPU", multi_processor_count=4, L2_cache_size=1 << 12, major=9, minor=0)
    cuda.get_device_properties = lambda index: found
    cuda.synchronize = lambda: None
    cuda.Event, cuda.CUDAGraph, cuda.graph = Event, Graph, graph
    cuda.Stream = lambda: None
    cuda.stream = contextmanager(lambda stream: (yield))
    cuda._sleep = lambda cycles: None
    torch.kgen_graph = Graph


class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Imports torch as usual, then installs the stand-in."""

    def find_spec(self, name, path, target=None):
        if name != "torch":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        self.loader, spec.loader = spec.loader, self
        return spec

    def create_module(self, spec):
        return self.loader.create_module(spec)

    def exec_module(self, module):
        self.loader.exec_module(module)
        install(module)


sys.meta_path.insert(0, Finder())

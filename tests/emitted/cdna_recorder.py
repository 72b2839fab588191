"""The simulating process of kgen.check, with one thing added: it pickles what its largest launch was simulated with.

Run as `python -P cdna_recorder.py FILE`, in the place of `python -P -m kgen.check.flydsl.simulation`.
"""

import pickle
import sys
from pathlib import Path
from typing import Any

from kgen.check.flydsl import executor, simulation
from kgen.simulator import simulate


def record(file: Path) -> None:
    """Make the executor write the arguments of the simulation with most memory to a file."""
    most = 0

    def recording(isa_text: str, launch: Any, buffers: Any, **choice: Any) -> Any:
        nonlocal most
        size = sum(buffer.data.size for buffer in buffers)
        if size > most:
            most = size
            copies = [(buffer.address, buffer.data.copy(), buffer.name) for buffer in buffers]
            file.write_bytes(pickle.dumps((isa_text, launch, copies)))
        return simulate(isa_text, launch, buffers, **choice)

    executor.simulate = recording  # type: ignore[assignment]


if __name__ == "__main__":
    record(Path(sys.argv[1]))
    simulation.main()

"""Made-up devices for the tests of `kgen diff`: the H200 with some figures changed, as files of their own."""

import re
from pathlib import Path

from kgen.resources import targets_dir

ARCH = "sm90a"


def device_file(folder: Path, name: str, **figures: float) -> Path:
    """Write a device file with its arch beside it and return its path; a figure is of the device or of the arch."""
    root = folder / f"of_{name}" / ARCH
    (root / "devices").mkdir(parents=True)
    device = (targets_dir() / ARCH / "devices" / "h200.yaml").read_text()
    arch = (targets_dir() / ARCH / "arch.yaml").read_text()
    for figure, value in figures.items():
        pattern = re.compile(rf"(?m)^(  {figure}: \{{value: )[0-9.]+")
        device, of_device = pattern.subn(rf"\g<1>{value}", device)
        arch, of_arch = pattern.subn(rf"\g<1>{value}", arch)
        assert of_device + of_arch == 1, figure
    (root / "arch.yaml").write_text(arch)
    path = root / "devices" / f"{name}.yaml"
    path.write_text(device)
    return path

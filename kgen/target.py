"""Arches and devices, read from `targets/`: every number with its unit, its source and how far it is trusted.

A number of low confidence never decides whether something passes (`Device.decisive` leaves it out), and a run-time
probe may replace it (`Device.with_measured`). `UNITS` fixes the unit of each name, so that no reader converts twice.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from dataclasses import fields as dataclass_fields
from difflib import get_close_matches
from enum import StrEnum
from functools import cache
from pathlib import Path

from ruamel.yaml.nodes import Node

from kgen.errors.base import Where
from kgen.errors.target import (
    DeviceFileMissingError,
    TargetFieldError,
    UnknownArchError,
    UnknownDeviceError,
    UnknownSourceError,
)
from kgen.ir.dtype import DType
from kgen.layout import DEVICE_FILE
from kgen.resources import targets_dir
from kgen.target_yaml import YamlFile

_PEAKS = {
    **dict.fromkeys(
        ("fp64", "fp64_matrix", "fp32", "fp32_planes", "tf32", "bf16", "fp16", "fp8", "fp6", "fp4"), "TFLOP/s"
    ),
    "int8": "TOP/s",
}
# Quantities of a device file: section -> name -> unit.
UNITS: Mapping[str, Mapping[str, str]] = {
    "quantities": {
        "compute_units": "count",
        "dies": "count",  # XCDs; 1 where the scheduler sees one die
        "gpcs": "count",  # groups of units that a cluster cannot span
        # clusters of 4, 8 and 16 CTAs that run at once, one CTA on a unit: cudaOccupancyMaxActiveClusters
        **{f"clusters_of_{size}": "count" for size in (4, 8, 16)},
        "clock": "GHz",  # the clock that the dense peaks are stated for
        "boost_clock": "GHz",  # of what the power limit of the tensor cores leaves alone
        "memory": "GB",
        "memory_bandwidth": "TB/s",
        "l2": "MB",  # of the whole device
        "last_level_cache": "MB",
        "board_power": "W",
    },
    "dense_peak": _PEAKS,
    "measured": {  # by `kgen probe`: what torch and the vendor's libraries reach; no plan reads them
        "copy_bandwidth": "TB/s",  # read and written
        "read_bandwidth": "TB/s",
        "l2_copy_bandwidth": "TB/s",  # the same copy of what the L2 holds, without the launch: no more than that
        "launch": "us",  # an empty kernel among its like in a graph
        **_PEAKS,  # products of random operands by the vendor's library, the best of several large shapes
        "sustained_mma": "TFLOP/s",  # of one type, for a second on end: what the power limit leaves
        "sustained_clock": "GHz",  # meanwhile
        "sustained_power": "W",
    },
    "fitted": {
        "launch": "us",  # start and end of a kernel, with the first tile's descriptors
        "launch_overlap": "us",  # of it that a kernel saves which starts while the one before it in the stream ends
        "cluster_start": "us",  # more for each further CTA of a cluster
        "load_latency": "us",  # from the issue of a tile load to its arrival
        "outside_row": "ns",  # a row of a tile that a bulk load fills with zeros, in each k step
        "memory_latency": "us",  # the same where each byte is loaded once and so from memory, while all units load
        "loop_efficiency": "ratio",  # sustained memory bandwidth of loop kernels over the peak
        "loop_latency": "us",  # from the first load of a CTA to its arrival, under load
        "cluster_exchange": "us",  # of one combination over the CTAs of a cluster
        "cta_start": "ns",  # between the starts of two CTAs on the whole device
        "unit_bandwidth": "GB/s",  # that one unit can draw from memory
        "unit_lanes": "threads",  # of one unit that issue in one cycle
        "unit_l1": "kB",  # of one unit, beside what kernels exchange through shared memory
        "mma_efficiency": "ratio",  # sustained tensor rate under the power limit over the dense peak
        "simt_efficiency": "ratio",
        "memory_efficiency": "ratio",
        "l2_bandwidth": "TB/s",  # L2 to shared memory, whole device
        "kept_reads": "ratio",  # time of memory where the L2 keeps reads beside writes, over that where all leave alike
        "row_run": "kB",  # neighbouring bytes of a row that a CTA reads at once than which more are no better
        "epilogue_step": "us",  # barriers and fences of one sub-tile of D
        "epilogue_rate": "elements/ns",  # of one compute unit
        "mma_latency": "cycles",  # from one MMA to the next one that adds to the same accumulators
        "direct_rate": "elements/ns",  # element-wise stores of one compute unit
        "staged_rate": "elements/ns",  # element-wise loads through registers, one compute unit
        "part_latency": "us",  # from the last product of a cluster's CTAs to the arrival of their sums at one another
        "part_rate": "GB/s",  # of such sums into the smem of one compute unit
    },
}
RATE_UNITS = {name: unit.replace("T", "", 1).replace("/s", "/clk") for name, unit in _PEAKS.items()}  # of an arch
REQUIRED = ("compute_units", "dies", "clock", "memory", "memory_bandwidth", "l2")
# Element type of a problem -> the peak that bounds its products.
PEAK_OF = {"fp8_e4m3": "fp8", "fp8_e5m2": "fp8"}


class Fp8(StrEnum):
    """Which encodings an arch means by fp8."""

    OCP = "ocp"  # float8_e4m3fn and float8_e5m2
    FNUZ = "fnuz"  # one NaN, no infinity, no negative zero: float8_e4m3fnuz and float8_e5m2fnuz


class Confidence(StrEnum):
    """How far a number is trusted; conflicts between sources are told in its note."""

    HIGH = "high"
    MEDIUM = "medium"
    LOW = "low"


@dataclass(frozen=True, slots=True)
class Source:
    """An entry of the citation register."""

    id: str
    document: str
    revision: str
    date: str
    evidence: str


_PER_SECOND = {"TFLOP/s": 1e12, "TOP/s": 1e12, "TB/s": 1e12}


@dataclass(frozen=True, slots=True)
class Spread:
    """The 10th and 90th percentile of a measurement whose median is the number, and how many samples it has."""

    low: float
    high: float
    rounds: int


@dataclass(frozen=True, slots=True)
class Quantity:
    """A number with its unit, the id of its source and its confidence; with its spread where it was sampled."""

    value: float | int
    unit: str
    source: str
    confidence: Confidence
    note: str = ""
    spread: Spread | None = None

    @property
    def per_second(self) -> float:
        """A peak in operations or bytes per second; KeyError for a unit that is no rate."""
        return self.value * _PER_SECOND[self.unit]

    def __str__(self) -> str:
        return f"{self.value:g} {self.unit} [{self.source}, {self.confidence}]"

    def to_json(self) -> dict[str, object]:
        """Return a JSON object."""
        sampled = {} if self.spread is None else {"spread": asdict(self.spread)}
        return {
            "value": self.value,
            "unit": self.unit,
            "source": self.source,
            "confidence": str(self.confidence),
            "note": self.note or None,
            **sampled,
        }


@dataclass(frozen=True, slots=True)
class InstructionShape:
    """The shapes of one MMA instruction: m x n x k, n from `n_min` to `n_max` in steps."""

    name: str
    dtypes: tuple[str, ...]
    m: int
    n_min: int
    n_max: int
    n_step: int
    k: int
    source: str


@dataclass(frozen=True, slots=True)
class MachineCode:
    """How an arch spells in its disassembly what a reader of machine code counts; the lists may be empty.

    A mnemonic covers its modifiers: "BPT.TRAP" stands for itself and for all that starts with "BPT.TRAP.".
    """

    mma: tuple[tuple[str, str], ...]  # element type -> the mnemonic that proves the intended path
    tensor_core: tuple[str, ...]  # all mnemonics of tensor cores: a fall to a slower one is seen as well
    mma_wait: tuple[str, ...]
    bulk_load: tuple[str, ...]
    bulk_store: tuple[str, ...]
    multicast: tuple[str, ...]  # modifiers of bulk loads
    bulk_copy: tuple[str, ...]  # between memories, without a tensor map
    memory_access: tuple[str, ...]  # of a thread to device memory; modifiers say how wide it is
    matrix_store: tuple[str, ...]  # registers of an MMA's result to shared memory
    cluster_store: tuple[str, ...]  # to the shared memory of another CTA of a cluster
    grid_wait: tuple[str, ...]  # for the kernel before in the stream, while which this one may have started
    multiply_add: tuple[str, ...]  # fp32, on the ordinary cores
    spill_load: tuple[str, ...]
    spill_store: tuple[str, ...]
    register_pool: tuple[str, ...]  # registers given to or taken from other warps; the last operand is how many
    trap: tuple[str, ...]
    external_call: tuple[str, ...]  # to a function that is not in the same binary
    assert_function: tuple[str, ...]  # names that an assert calls
    errata: tuple[str, ...]  # what the hardware gets wrong: a mnemonic, then modifiers that it has all of

    def mma_of(self, dtype: str) -> str | None:
        """Return the MMA mnemonic for an element type, or None where the arch has none."""
        return dict(self.mma).get(PEAK_OF.get(dtype, dtype))


@dataclass(frozen=True, slots=True)
class Arch:
    """An instruction set and what all devices that have it share."""

    name: str
    title: str
    isa: str
    templates: str  # folder of templates/<backend>/
    backend: str
    fp8: Fp8
    machine_code: MachineCode
    instructions: tuple[InstructionShape, ...]
    limits: tuple[tuple[str, Quantity], ...]
    rates: tuple[tuple[str, Quantity], ...] = ()  # dense operations of one unit in a cycle, by name of a dense peak

    def limit(self, name: str) -> Quantity:
        """Return a limit by name."""
        return dict(self.limits)[name]

    def torch_name(self, dtype: DType) -> str:
        """Return torch's name of an element type, as in `torch.bfloat16`, in the encoding that the arch has."""
        if self.fp8 is Fp8.FNUZ and dtype in (DType.FP8_E4M3, DType.FP8_E5M2):
            return f"{dtype.torch_name.removesuffix('fn')}fnuz"
        return dtype.torch_name

    def encoded(self, source: str) -> str:
        """Return Python source that names OCP's fp8 types with those of the encoding that the arch has."""
        for dtype in (DType.FP8_E4M3, DType.FP8_E5M2):
            name = dtype.torch_name.removeprefix("torch.")
            source = re.sub(rf"\b{name}\b", self.torch_name(dtype).removeprefix("torch."), source)
        return source


@dataclass(frozen=True, slots=True)
class Probe:
    """When and with what `kgen probe` wrote a device file: it dates every number whose source is `probe`."""

    date: str
    gpu: str  # as its driver names it
    driver: str
    torch: str


@dataclass(frozen=True, slots=True)
class Device:
    """One GPU model; quantities are named `section.name` with the sections of `UNITS`.

    `arch` has the limits of this device, which may be others than those of its arch at large.
    """

    name: str
    title: str
    arch: Arch
    quantities: tuple[tuple[str, Quantity], ...]
    probe: Probe | None = None  # None: nobody probed it
    text: str = ""  # of its file, where kgen does not ship it: its packages carry it along

    def quantity(self, name: str) -> Quantity | None:
        """Return a quantity such as `quantities.clock` or `dense_peak.bf16`, or None where it is not known."""
        return dict(self.quantities).get(name)

    def value(self, name: str) -> float:
        """Return the number of a quantity that this device must have."""
        found = self.quantity(name)
        if found is None:
            raise TargetFieldError(field=f"{self.name}: {name}", problem="not known", valid="add it to the device file")
        return found.value

    def decisive(self, name: str) -> Quantity | None:
        """Return a quantity that may decide PASS or FAIL: None where it is unknown or of low confidence."""
        found = self.quantity(name)
        return None if found is None or found.confidence is Confidence.LOW else found

    def dense_peak(self, dtype: str) -> Quantity | None:
        """Return the dense peak for products of an element type, in TFLOP/s (TOP/s for int8)."""
        return self.quantity(f"dense_peak.{PEAK_OF.get(dtype, dtype)}")

    @property
    def compute_units(self) -> int:
        """Number of compute units (SMs or CUs)."""
        return int(self.value("quantities.compute_units"))

    def with_measured(self, **values: float) -> "Device":
        """Return the device with numbers that a probe measured, e.g. `compute_units=78`; they gain high confidence."""
        known, units = dict(self.quantities), UNITS["quantities"]
        for name, value in values.items():
            if name not in units:
                valid = f"one of {', '.join(units)}"
                raise TargetFieldError(field=f"{self.name}: {name}", problem="not a quantity", valid=valid)
            known[f"quantities.{name}"] = Quantity(value, units[name], "measured", Confidence.HIGH)
        return replace(self, quantities=tuple(known.items()))

    def to_json(self) -> dict[str, object]:
        """Return a JSON object."""
        named = {"name": self.name, "title": self.title, "arch": self.arch.name, "isa": self.arch.isa}
        numbers = {name: quantity.to_json() for name, quantity in self.quantities}
        probed = {} if self.probe is None else {"probe": asdict(self.probe)}
        return {**named, "backend": self.arch.backend, "quantities": numbers, **probed}

    def rule_fields(self) -> dict[str, int | float]:
        """Return the numbers that rules may name: the arch's limits, units, and FLOP per cycle of one unit."""
        fields: dict[str, int | float] = {name: q.value for name, q in self.arch.limits}
        fields["compute_units"] = self.compute_units
        cycles_per_us = self.value("quantities.clock") * 1e3 * self.compute_units
        for dtype in ("bf16", "fp16", "fp8", "int8", "tf32", "fp32"):
            peak = self.dense_peak(dtype)
            fields[f"{dtype}_flops_per_cycle"] = round(peak.value * 1e6 / cycles_per_us) if peak else 0
        return fields


def list_devices() -> tuple[str, ...]:
    """Return the names of all devices, by arch and then by name."""
    return tuple(path.stem for path in _device_files())


def all_devices() -> tuple[Device, ...]:
    """Load every device."""
    return tuple(_load(path) for path in _device_files())


def load_device(name: str | Path, where: Where | None = None) -> Device:
    """Load a device by its name, or from the path of its file; `where` says who asked.

    A file has the arch that it names, or else that of the folder it lies in: `<arch>/devices/<device>.yaml`.
    """
    text = str(name)
    if text.endswith(".yaml"):
        if not Path(text).is_file():
            raise DeviceFileMissingError(path=text, known=", ".join(list_devices()))
        path = Path(text).resolve()
        return _load(path) if path in _device_files() else _load(path, path.read_text(encoding="utf-8"))
    found = [path for path in _device_files() if path.stem == text.lower()]
    if not found:
        known = list_devices()
        nearest = _nearest(text.lower(), known)
        raise UnknownDeviceError(where=where, name=text, nearest=nearest, known=", ".join(known))
    return _load(found[0])


def device_file(name: str, package: Path | None = None) -> Path | None:
    """Return the file of a device: the one that its package carries, else the one that kgen ships, or None."""
    if package is not None and (carried := package / DEVICE_FILE).is_file():
        return carried
    return next((path for path in _device_files() if path.stem == name), None)


def device_of_package(folder: Path, name: str) -> Device:
    """Return the device of that name, for which a package was planned; it may carry the file of one not shipped."""
    carried = folder / DEVICE_FILE
    return replace(load_device(carried), name=name) if carried.is_file() else load_device(name)


def arch_of_isa(isa: str) -> Arch:
    """Return the arch with that ISA; KeyError where no arch file has it."""
    return {device.arch.isa: device.arch for device in all_devices()}[isa]


def all_arches() -> tuple[Arch, ...]:
    """Load every arch."""
    return tuple(_arch(path) for path in sorted(targets_dir().glob("*/arch.yaml")))


def load_sources() -> Mapping[str, Source]:
    """Load the citation register."""
    return _sources(targets_dir() / "sources.yaml")


def _nearest(name: str, known: Iterable[str]) -> str:
    return next(iter(get_close_matches(name, known, n=1, cutoff=0)), "none")


@cache
def _device_files() -> tuple[Path, ...]:
    return tuple(sorted(targets_dir().glob("*/devices/*.yaml")))


@cache
def _sources(path: Path) -> Mapping[str, Source]:
    file = _File(path)
    return {name: file.source(name, node) for name, node in file.fields(file.root).items()}


@cache
def _load(path: Path, text: str = "") -> Device:
    """Load a file; `text` is that of one that kgen does not ship, which may change while this process runs."""
    file = _File(path)
    optional = ("arch", "probe", "fitted", "measured", "limits")
    fields = file.fields(file.root, required=("title", "quantities", "dense_peak"), optional=optional)
    quantities: dict[str, Quantity] = {}
    for section, units in UNITS.items():
        if section in fields:
            required = REQUIRED if section == "quantities" else ()
            entries = file.fields(fields[section], required, tuple(units))
            quantities |= {f"{section}.{name}": file.quantity(node, units[name]) for name, node in entries.items()}
    title, arch = file.text(fields["title"]), _arch_of(file, fields.get("arch"), path)
    if "limits" in fields:
        arch = replace(arch, limits=file.changed_limits(fields["limits"], arch))
    probe = file.probe(fields["probe"]) if "probe" in fields else None
    if text and "arch" not in fields:
        text = f"arch: {arch.name}\n{text}"  # elsewhere no folder will say it
    return Device(path.stem, title, arch, tuple(quantities.items()), probe, text)


def _arch_of(file: "_File", named: Node | None, path: Path) -> Arch:
    if named is not None:
        return file.arch(named)
    beside = path.parent.parent / "arch.yaml"
    if not beside.is_file():
        known = ", ".join(arch.name for arch in all_arches())
        valid = f"say which arch the device has, e.g. `arch: sm90a`; known: {known}"
        raise TargetFieldError(where=Where(file.name), field="arch", problem="missing", valid=valid)
    return _arch(beside)


@cache
def _arch(path: Path) -> Arch:
    file = _File(path)
    names = ("title", "isa", "templates", "backend", "fp8", "machine_code", "instructions", "limits")
    fields = file.fields(file.root, required=names, optional=("rates",))
    rates = file.fields(fields["rates"], optional=tuple(RATE_UNITS)) if "rates" in fields else {}
    mnemonics = tuple(field.name for field in dataclass_fields(MachineCode) if field.name != "mma")
    code = file.fields(fields["machine_code"], required=("mma", *mnemonics))
    return Arch(
        name=path.parent.name,
        title=file.text(fields["title"]),
        isa=file.text(fields["isa"]),
        templates=file.text(fields["templates"]),
        backend=file.text(fields["backend"]),
        fp8=file.fp8(fields["fp8"]),
        machine_code=MachineCode(
            mma=tuple((name, file.text(node)) for name, node in file.fields(code["mma"]).items()),
            **{name: file.texts(code[name]) for name in mnemonics},
        ),
        instructions=tuple(file.instruction(node) for node in file.items(fields["instructions"])),
        limits=tuple((name, file.quantity(node, None)) for name, node in file.fields(fields["limits"]).items()),
        rates=tuple((name, file.quantity(node, RATE_UNITS[name])) for name, node in rates.items()),
    )


class _File(YamlFile):
    """A file of `targets/`."""

    def fp8(self, node: Node) -> Fp8:
        """Return a name of encodings."""
        name = self.text(node)
        if name not in set(Fp8):
            raise self.error(node, name, "unknown encodings", f"one of {', '.join(Fp8)}")
        return Fp8(name)

    def quantity(self, node: Node, unit: str | None) -> Quantity:
        """Return a quantity; `unit` is the unit it must have, if that is fixed."""
        required, optional = ("value", "unit", "source", "confidence"), ("note", "spread", "rounds")
        fields = self.fields(node, required, optional)
        stated, level = self.text(fields["unit"]), self.text(fields["confidence"])
        if unit is not None and stated != unit:
            raise self.error(fields["unit"], stated, "wrong unit", f"state it in {unit}")
        if level not in set(Confidence):
            raise self.error(fields["confidence"], level, "unknown level", f"one of {', '.join(Confidence)}")
        note = self.text(fields["note"]) if "note" in fields else ""
        spread = self.spread(node, fields) if "spread" in fields or "rounds" in fields else None
        number, source = self.number(fields["value"]), self.cited(fields["source"])
        return Quantity(number, stated, source, Confidence(level), note, spread)

    def spread(self, node: Node, fields: Mapping[str, Node]) -> Spread:
        """Return the spread of a sampled quantity."""
        if not {"spread", "rounds"} <= fields.keys():
            raise self.error(node, "spread", "not with its rounds", "e.g. spread: [4.24, 4.26], rounds: 24")
        ends = [self.number(item) for item in self.items(fields["spread"])]
        if len(ends) != 2 or ends[0] > ends[1]:
            raise self.error(fields["spread"], "spread", "not [low, high]", "e.g. [4.24, 4.26]")
        return Spread(ends[0], ends[1], int(self.number(fields["rounds"])))

    def arch(self, node: Node) -> Arch:
        """Return the arch of that name in `targets/`."""
        name, known = self.text(node), {arch.name: arch for arch in all_arches()}
        if name not in known:
            raise UnknownArchError(where=self.where(node.start_mark), name=name, known=", ".join(known))
        return known[name]

    def changed_limits(self, node: Node, arch: Arch) -> tuple[tuple[str, Quantity], ...]:
        """Return an arch's limits with those that a device states instead."""
        limits = dict(arch.limits)
        for name, stated in self.fields(node, optional=tuple(limits)).items():
            limits[name] = self.quantity(stated, limits[name].unit)
        return tuple(limits.items())

    def probe(self, node: Node) -> Probe:
        """Return the date and the tools of a probe."""
        names = tuple(field.name for field in dataclass_fields(Probe))
        fields = self.fields(node, required=names)
        return Probe(**{name: self.text(fields[name]) for name in names})

    def cited(self, node: Node) -> str:
        """Return the id of a source that the register holds."""
        name, known = self.text(node), load_sources()
        if name not in known:
            raise UnknownSourceError(where=self.where(node.start_mark), source=name, nearest=_nearest(name, known))
        return name

    def source(self, name: str, node: Node) -> Source:
        """Return an entry of the register."""
        names = ("document", "revision", "date", "evidence")
        fields = self.fields(node, required=names)
        return Source(name, *(self.text(fields[n]) for n in names))

    def instruction(self, node: Node) -> InstructionShape:
        """Return the shapes of an MMA instruction."""
        fields = self.fields(node, required=("name", "dtypes", "m", "n", "k", "source"))
        n = [int(self.number(item)) for item in self.items(fields["n"])]
        if len(n) != 3:
            raise self.error(fields["n"], "n", "not [least, most, step]", "e.g. [8, 256, 8]")
        m, k = int(self.number(fields["m"])), int(self.number(fields["k"]))
        name, dtypes = self.text(fields["name"]), self.texts(fields["dtypes"])
        return InstructionShape(name, dtypes, m, n[0], n[1], n[2], k, self.cited(fields["source"]))

"""Made-up GPUs for `kgen probe`: what drivers say of an H200, an H20 and an MI300X, and what a process measures there.

The H200's figures are those that were measured on one: the driver's, and medians of torch's copies and products.
"""

from dataclasses import replace
from typing import Any

from kgen.probe.driver import Facts
from kgen.probe.measure import Measurement, measurement_of
from kgen.probe.sizes import LARGE_PRODUCTS

H200_LIMITS = {
    "warp_size": 32,
    "max_ctas_per_unit": 32,
    "threads_per_cta": 1024,
    "registers_per_unit": 65536,
    "smem_bytes_per_unit": 233472,
    "smem_bytes_per_cta": 232448,
    "warps_per_unit": 64,
}
H200 = Facts(
    api="cuda",
    name="NVIDIA H200",
    isa="sm_90",
    driver="580.95.05, CUDA 13.0",
    compute_units=132,
    dies=None,
    clock_mhz=1980.0,
    memory_clock_mhz=3201.0,
    memory_bus_bits=6144,
    memory_bytes=150_754_820_096,
    l2_bytes=62_914_560,
    last_level_cache_bytes=None,
    power_limit_w=700.0,
    limits=tuple(H200_LIMITS.items()),
    sensor="00000000:1B:00.0",
)
H20 = replace(H200, name="NVIDIA H20", compute_units=78, memory_bus_bits=5120, memory_bytes=102_000_000_000)
MI300X = Facts(
    api="hip",
    name="AMD Instinct MI300X",
    isa="gfx942",
    driver="amdgpu 6.12.12",
    compute_units=304,
    dies=8,
    clock_mhz=2100,
    memory_clock_mhz=1300,
    memory_bus_bits=8192,
    memory_bytes=206_141_652_992,
    l2_bytes=8 * 4 * 2**20,
    last_level_cache_bytes=256 * 2**20,
    power_limit_w=750.0,
    limits=(("warp_size", 64), ("smem_bytes_per_cta", 65536)),
)
# TFLOP/s of the best large product
H200_RATES = {"bf16": 727.9, "fp16": 731.0, "tf32": 398.2, "fp8": 1319.1, "int8": 911.6, "fp32": 50.5}


def times(rate: float, amount: float, rounds: int = 24) -> list[float]:
    """Return microseconds per call about a rate in 10^12 a second, one percent to either side."""
    return [amount / rate / 1e6 * (1 + 0.01 * (place % 3 - 1)) for place in range(rounds)]


def events_of(
    facts: Facts = H200,
    copy: float = 4.25,
    rates: dict[str, float] | None = None,
    mhz: float | None = 1500.0,
    capped: float | None = 0.97,
) -> list[dict[str, Any]]:
    """Return the events of a measurement; smaller products and the other kernels are a tenth slower."""
    made: list[dict[str, Any]] = [
        {"event": "device", "name": facts.name, "isa": facts.isa, "compute_units": facts.compute_units, "torch": "2.13"}
    ]

    def samples(quantity: str, label: str, amount: int, rate: float) -> None:
        event = {"event": "samples", "quantity": quantity, "label": label, "amount": amount}
        made.append({**event, "us": times(rate, amount)})

    made.append({"event": "step", "what": "memory"})
    for name, rate in (("copy_bandwidth", copy), ("read_bandwidth", 0.97 * copy)):
        samples(name, "the best of 2048 MiB", 2**32, rate)
        samples(name, "another of 512 MiB", 2**30, 0.9 * rate)
    made.append({"event": "samples", "quantity": "launch", "label": "an empty kernel", "amount": 0, "us": [1.2] * 24})
    if facts.api == "cuda":
        made.append({"event": "cached", "bytes": [4 * 2**20, 24 * 2**20], "us": [[2.8, 6.3]] * 24})
    for dtype, rate in (H200_RATES if rates is None else rates).items():
        for place, (m, n, k) in enumerate(LARGE_PRODUCTS):
            samples(dtype, f"{m}x{n}x{k}", 2 * m * n * k, rate * (1 if place == 2 else 0.9))
    first = next(iter(H200_RATES if rates is None else rates))
    load = {"mhz": mhz, "watts": None if mhz is None else 690.0, "capped": capped}
    made.append({"event": "products", **load})
    rate = (H200_RATES if rates is None else rates)[first]
    amount = 2 * 8192 * 4096 * 14336
    sustained = {"event": "sustained", "quantity": first, "label": "8192x4096x14336", "amount": amount}
    return [*made, {**sustained, "us": times(0.98 * rate, amount), **load}]


def measured(facts: Facts = H200, **fields: Any) -> Measurement:
    """Return the measurement of these events."""
    return measurement_of(events_of(facts, **fields))

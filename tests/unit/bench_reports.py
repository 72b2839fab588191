"""Made-up reports for tests: no figure in them was measured anywhere."""

from typing import Any

from kgen.bench.report import (
    Agreement,
    Arm,
    Band,
    Case,
    Code,
    Comparison,
    Constraint,
    Control,
    Correctness,
    Geometry,
    Gpu,
    Incumbent,
    Integration,
    IsaTarget,
    KernelCode,
    Launch,
    LedgerRow,
    Machine,
    Metric,
    Peak,
    Profile,
    Release,
    Report,
    Source,
    Speed,
)
from kgen.bench.statistics import Interval, Verdict, verdict_of

FIXED_AT, MEASURED_AT = "2031-01-02T03:00:00Z", "2031-01-02T03:05:00Z"
FLOPS, BYTES_READ, BYTES_WRITTEN = 137_438_953_472, 67_108_864, 33_554_432
PEAKS = (
    Peak(name="dense bf16 peak", value=1000, unit="TFLOP/s", source="made_up_sheet", confidence="medium"),
    Peak(name="memory bandwidth", value=4, unit="TB/s", source="made_up_page", confidence="low"),
)


def around(median: float, share: float = 0.004) -> Interval:
    """Return an interval of that share either way."""
    return Interval(median, median * (1 - share), median * (1 + share))


def arm(device_us: float, **fields: Any) -> Arm:
    """Return one side of a comparison with one launch."""
    launch = Launch(kernel="gemm<bf16|bf16>", grid=(132, 1, 1), block=(384, 1, 1), registers=168, smem_bytes=213_000)
    return Arm(**{"device_us": around(device_us), "spread": 0.01, "host_us": 21.5, "launches": (launch,)} | fields)


def comparison(ratio: float = 0.98, half_width: float = 0.012, kgen_us: float = 180.0, **fields: Any) -> Comparison:
    """Return a comparison with that ratio and band."""
    band = Band(half_width=half_width, ratio=around(1.0), turns=40, fixed_at=FIXED_AT)
    defaults = {
        "order": "A B B A",
        "method": "graph",
        "sets": 3,
        "turns": 40,
        "band": band,
        "kgen": arm(kgen_us),
        "incumbent": arm(kgen_us / ratio, host_us=33.25),
        "ratio": around(ratio),
        "verdict": verdict_of(ratio, half_width),
        "measured_at": MEASURED_AT,
    }
    return Comparison(**defaults | fields)


def speed(latency_us: float = 180.0, flops: int = FLOPS) -> Speed:
    """Return what a case uses of the made-up device."""
    tflops, gbps = flops / latency_us * 1e-6, (BYTES_READ + BYTES_WRITTEN) / latency_us * 1e-3
    return Speed(
        latency_us=latency_us,
        tflops=tflops,
        bandwidth_gbps=gbps,
        tflops_peak_utilization_pct=tflops / 10,
        bandwidth_peak_utilization_pct=gbps / 40,
        bound="compute_bound",
        roofline_us=flops / 1e15 * 1e6,
    )


def right(**fields: Any) -> Correctness:
    """Return the correctness of a case that passes."""
    return Correctness(**{"status": "PASS", "rel_err": 2.1e-3, "max_abs_err": 0.5, "max_rel_err": 8.25e-3} | fields)


def case(name: str = "default", **fields: Any) -> Case:
    """Return a case that passes, timed and compared."""
    geometry = Geometry(
        variant="default_tma",
        ctas=512,
        ctas_per_unit=1,
        compute_units=132,
        slots=132,
        waves=4,
        last_wave=116,
        efficiency=0.97,
        statement="512 tiles on 132 slots: 4 grid waves, the last with 116; 97.0 % of all slots filled",
    )
    defaults = {
        "id": name,
        "flops": FLOPS,
        "bytes_read": BYTES_READ,
        "bytes_written": BYTES_WRITTEN,
        "correctness": right(),
        "speed": speed(),
        "comparison": comparison(),
        "geometry": geometry,
    }
    return Case(**defaults | fields)


def failed(name: str = "broken", status: str = "FAIL", **fields: Any) -> Case:
    """Return a case that fails: no time of it exists."""
    found = right(status=status, rel_err=0.75, failures=(f"{name}, seed 0: rel_err 0.75 is above 0.01",))
    return case(name, **{"correctness": found, "speed": None, "comparison": None, "note": "it failed"} | fields)


def report(*cases: Case, **fields: Any) -> Report:
    """Return a report of these cases, of one that passes by default."""
    defaults = {
        "name": "gemm_bf16",
        "family": "gemm",
        "target": "h200",
        "version": "v0",
        "date": MEASURED_AT,
        "command": "kgen bench gemm_bf16",
        "kernel_sha256": "a" * 64,
        "code_digest": "c" * 16,
        "gauge": "default",
        "machine": Machine(
            gpu=Gpu(name="Made-up GPU", isa="sm_90a", compute_units=132, l2_bytes=62_914_560, driver="999.1"),
            python="3.11.9",
            versions={"torch": "2.99", "nvidia-cutlass-dsl": None},
        ),
        "peaks": PEAKS,
        "sources": (Source(id="made_up_sheet", document="A sheet", revision="1", date="2031", evidence="recalled"),),
        "configuration": (("default_tma", "128 x 256 x 64, 384 threads, TMA loads"),),
        "reference": "a @ b.T in bf16",
        "tolerance": 0.01,
        "incumbent": Incumbent(origin="ours.py::gemm", entry="gemm", sha256="b" * 64, is_reference=False),
        "cases": cases or (case(),),
    }
    return Report(**defaults | fields)


def full() -> Report:
    """Return a report in which every part is there."""
    agreement = Agreement(rel_err=1.5e-3, limit=0.02, operand_scale=0.25, decides=True)
    slower = comparison(1.05)
    return report(
        case("square", agreement=agreement), case("tall", comparison=slower), **_code_parts(), **_other_parts()
    )


def _code_parts() -> dict[str, Any]:
    """Return what the machine code and the builds say."""
    kernel = KernelCode(
        kernel="gemm<bf16|bf16>",
        mma={"HGMMA.64x256x16.F32.BF16": 8},
        bulk_loads=4,
        bulk_stores=1,
        spills=0,
        registers=168,
        instructions=2100,
    )
    return {
        "code": (
            Code(arm="kgen", origin="default_tma", arch="sm_90a", digest="d" * 16, kernels=(kernel,)),
            Code(arm="incumbent", origin="ours.so", arch=None, digest=None, kernels=()),
        ),
        "release": (_release("kgen"), _release("incumbent", problems=("-O0 | no NDEBUG",), asserts_off=None)),
        "isa_targets": (IsaTarget(metric="MMA", target="HGMMA", current="HGMMA", met=True),),
        "git_commit": "f" * 40,
    }


def _other_parts() -> dict[str, Any]:
    """Return what stands beside the cases."""
    return {
        "unmeasured_cases": ("huge",),
        "ledger": (
            LedgerRow(
                count=1,
                name="stages",
                change="stages 4 -> 3 | smem",
                code_digest="e" * 16,
                ratio=around(1.03),
                verdict=Verdict.SLOWER,
                result="dropped",
            ),
        ),
        "runners_up": ("128 x 128 x 64: predicted 190 us",),
        "constraints": (
            Constraint(name="output dtype", value="bf16", fixed=True, because="the caller reads it"),
            Constraint(name="tile", value="128 x 256 x 64", fixed=False, because="no contract names it"),
        ),
        "profile": Profile(
            tool="ncu 2031.1",
            case="square",
            kernel="gemm",
            metrics=(Metric(name="gpu__time_duration.sum", value=180.5, unit="us", meaning="duration"),),
            failure=None,
        ),
        "control": Control(case="square", ratio=around(1.001), band=0.012, holds=True),
        "integration": Integration(command="make it | tee log", exit_status=0, seconds=12.5, log="measured/it.log"),
        "notes": ("a note with a | bar",),
        "logs": ("measured/log.txt",),
    }


def _release(arm: Any, **fields: Any) -> Release:
    defaults = {"target": "sm_90a", "optimization": "-O3", "asserts_off": True, "evidence": ("-O3 -DNDEBUG",)}
    return Release(**defaults | {"arm": arm, "problems": ()} | fields)

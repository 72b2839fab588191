"""What drivers say of a GPU: the CUDA driver and NVML behind stand-ins, the AMD kernel driver as a folder of sysfs."""

import ctypes
import math
from pathlib import Path
from typing import Any

import pytest
from probe_machine import H200, H200_LIMITS, MI300X

from kgen.check import cuda
from kgen.check.cuda import CudaDriver, DeviceAttribute, Management
from kgen.check.kfd import KfdGpu, shown
from kgen.probe import driver
from kgen.probe.driver import find_facts
from kgen.probe.sensors import Watch, sensor_of

# cuda.h of CUDA 13.0, enum CUdevice_attribute
DOCUMENTED = {
    "MAX_THREADS_PER_BLOCK": 1,
    "WARP_SIZE": 10,
    "CLOCK_RATE": 13,
    "MULTIPROCESSOR_COUNT": 16,
    "MEMORY_CLOCK_RATE": 36,
    "GLOBAL_MEMORY_BUS_WIDTH": 37,
    "L2_CACHE_SIZE": 38,
    "MAX_THREADS_PER_MULTIPROCESSOR": 39,
    "COMPUTE_CAPABILITY_MAJOR": 75,
    "COMPUTE_CAPABILITY_MINOR": 76,
    "MAX_SHARED_MEMORY_PER_MULTIPROCESSOR": 81,
    "MAX_REGISTERS_PER_MULTIPROCESSOR": 82,
    "MAX_SHARED_MEMORY_PER_BLOCK_OPTIN": 97,
    "MAX_BLOCKS_PER_MULTIPROCESSOR": 106,
}
# what the driver of an H200 answers, by number
ANSWERS = {
    1: 1024, 10: 32, 13: 1_980_000, 16: 132, 36: 3_201_000, 37: 6144, 38: 62_914_560, 39: 2048,
    75: 9, 76: 0, 81: 233472, 82: 65536, 97: 232448, 106: 32,
}  # fmt: skip


class Cuda:
    """A CUDA driver with one GPU at index 0; attributes that it does not know are errors."""

    def __init__(self, answers: dict[int, int], count: int = 1) -> None:
        self.answers, self.count = answers, count

    def cuInit(self, flags: int) -> int:
        return 0

    def cuDriverGetVersion(self, out: Any) -> int:
        out._obj.value = 13000
        return 0

    def cuDeviceGetCount(self, out: Any) -> int:
        out._obj.value = self.count
        return 0

    def cuDeviceGet(self, out: Any, index: int) -> int:
        out._obj.value = index
        return 0

    def cuDeviceGetAttribute(self, out: Any, number: int, device: ctypes.c_int) -> int:
        out._obj.value = self.answers.get(number, 77)
        return 0 if number in self.answers else 1

    def cuDeviceGetName(self, text: Any, size: int, device: ctypes.c_int) -> int:
        text.value = b"NVIDIA H200"
        return 0

    def cuDeviceGetPCIBusId(self, text: Any, size: int, device: ctypes.c_int) -> int:
        text.value = b"00000000:1B:00.0"
        return 0

    def cuDeviceTotalMem_v2(self, out: Any, device: ctypes.c_int) -> int:
        out._obj.value = 150_754_820_096
        return 0


class Nvml:
    """NVML with the same GPU."""

    def nvmlSystemGetDriverVersion(self, text: Any, size: int) -> int:
        text.value = b"580.95.05"
        return 0

    def nvmlDeviceGetHandleByPciBusId_v2(self, place: bytes, out: Any) -> int:
        out._obj.value = 1
        return 0 if place == b"00000000:1B:00.0" else 6

    def nvmlDeviceGetMaxClockInfo(self, handle: Any, kind: Any, out: Any) -> int:
        out._obj.value = {1: 1980}[kind.value]
        return 0

    def nvmlDeviceGetClockInfo(self, handle: Any, kind: Any, out: Any) -> int:
        out._obj.value = {1: 1455}[kind.value]
        return 0

    def nvmlDeviceGetEnforcedPowerLimit(self, handle: Any, out: Any) -> int:
        out._obj.value = 700_000
        return 0

    def nvmlDeviceGetPowerUsage(self, handle: Any, out: Any) -> int:
        out._obj.value = 691_000
        return 0

    def nvmlDeviceGetCurrentClocksThrottleReasons(self, handle: Any, out: Any) -> int:
        out._obj.value = 0x4
        return 0


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    def install(answers: dict[int, int] = ANSWERS, count: int = 1, nvml: bool = True) -> None:
        managed = Management(Nvml()) if nvml else None
        monkeypatch.setattr(driver, "cuda_driver", lambda: CudaDriver(Cuda(answers, count)))
        monkeypatch.setattr(driver, "management", lambda: managed)
        for variable in ("ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES"):
            monkeypatch.delenv(variable, raising=False)
        monkeypatch.setattr("kgen.probe.sensors.management", lambda: managed)

    return install


def test_attributes_have_their_documented_numbers() -> None:
    assert {a.name: a.value for a in DeviceAttribute} == DOCUMENTED


def test_numbers_are_those_of_the_bindings_that_nvidia_makes() -> None:
    bindings = pytest.importorskip("cuda.bindings.driver")
    for attribute in DeviceAttribute:
        assert int(getattr(bindings.CUdevice_attribute, f"CU_DEVICE_ATTRIBUTE_{attribute.name}")) == attribute
    nvml = pytest.importorskip("cuda.bindings.nvml")
    assert (int(nvml.ClockType.CLOCK_SM), int(nvml.ClocksEventReasons.EVENT_REASON_SW_POWER_CAP)) == (
        cuda._SM_CLOCK,
        cuda._POWER_CAP,
    )


def test_an_h200_is_described_by_its_driver(machine: Any, tmp_path: Path) -> None:
    machine()
    (facts,) = find_facts(tmp_path)
    assert facts == H200
    assert dict(facts.limits) == H200_LIMITS
    assert "sensor" not in facts.to_json() and facts.to_json()["limits"]["warp_size"] == 32


def test_what_a_driver_does_not_know_is_not_there(machine: Any, tmp_path: Path) -> None:
    machine({n: v for n, v in ANSWERS.items() if n not in (36, 38, 97, 106)}, nvml=False)
    (facts,) = find_facts(tmp_path)
    assert (facts.memory_clock_mhz, facts.l2_bytes, facts.power_limit_w, facts.sensor) == (None, None, None, None)
    assert facts.clock_mhz == 1980 and facts.driver == "not known, CUDA 13.0"
    assert set(dict(facts.limits)) == set(H200_LIMITS) - {"smem_bytes_per_cta", "max_ctas_per_unit"}


def test_no_gpu_is_no_facts(machine: Any, tmp_path: Path) -> None:
    machine(count=0)
    assert find_facts(tmp_path) == ()


def amd_tree(sysfs: Path) -> None:
    """Write what the kernel driver shows of an MI300X behind a CPU."""
    nodes, card = sysfs / "class/kfd/kfd/topology/nodes", sysfs / "class/drm/renderD128/device"
    files = {
        nodes / "0/properties": "cpu_cores_count 64\ngfx_target_version 0\n",
        nodes / "1/properties": (
            "simd_count 1216\nsimd_per_cu 4\nmax_waves_per_simd 8\nwave_front_size 64\nlds_size_in_kb 64\nnum_xcc 8\n"
            "gfx_target_version 90402\ndrm_render_minor 128\nmax_engine_clk_fcompute 2100\n"
        ),
        nodes / "1/mem_banks/0/properties": "size_in_bytes 206141652992\nwidth 8192\nmem_clk_max 1300\n",
        nodes / "1/caches/0/properties": "level 1\nsize 32\n",
        nodes / "1/caches/1/properties": "level 2\nsize 4096\n",
        nodes / "1/caches/2/properties": "level 3\nsize 262144\n",
        sysfs / "module/amdgpu/version": "6.12.12\n",
        card / "product_name": "AMD Instinct MI300X\n",
        card / "hwmon/hwmon3/power1_cap": "750000000\n",
        card / "hwmon/hwmon3/freq1_input": "1305000000\n",
        card / "hwmon/hwmon3/power1_average": "748000000\n",
    }
    for file, text in files.items():
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)


def test_an_mi300x_is_described_by_the_kernel_driver(machine: Any, tmp_path: Path) -> None:
    machine(count=0)
    amd_tree(tmp_path)
    (facts,) = find_facts(tmp_path)
    fields = {f: getattr(facts, f) for f in MI300X.__slots__ if f not in ("limits", "sensor")}
    assert fields == {f: getattr(MI300X, f) for f in fields}
    assert dict(facts.limits) == {
        "warp_size": 64,
        "simds_per_unit": 4,
        "warps_per_unit": 32,
        "smem_bytes_per_unit": 65536,
        "smem_bytes_per_cta": 65536,
    }
    sensor = sensor_of("hip", facts.sensor)
    assert sensor is not None
    assert (sensor().mhz, sensor().watts, sensor().is_capped) == (1305, 748, True)


@pytest.mark.parametrize(
    ("environment", "places"),
    [
        ({}, [0, 1, 2]),
        ({"HIP_VISIBLE_DEVICES": "2,0"}, [2, 0]),
        ({"CUDA_VISIBLE_DEVICES": "1"}, [1]),
        ({"CUDA_VISIBLE_DEVICES": "1", "HIP_VISIBLE_DEVICES": "0"}, [0]),
        ({"ROCR_VISIBLE_DEVICES": "2, 1", "HIP_VISIBLE_DEVICES": "1"}, [1]),
        ({"ROCR_VISIBLE_DEVICES": "GPU-00000000000000ab,7,0"}, [1]),
        ({"ROCR_VISIBLE_DEVICES": ""}, []),
    ],
)
def test_the_gpus_that_rocm_shows(environment: dict[str, str], places: list[int]) -> None:
    gpus = [KfdGpu({"gfx_target_version": 90402, "unique_id": 0xAA + place}, (), ()) for place in range(3)]
    assert [found.numbers["unique_id"] - 0xAA for found in shown(gpus, environment)] == places


def test_a_watch_reads_clock_power_and_cap_while_something_runs(machine: Any) -> None:
    import time

    machine()
    sensor = sensor_of("cuda", "00000000:1B:00.0")
    with Watch(sensor) as watch:
        time.sleep(0.2)
    assert watch.within((0.0, math.inf)) == {"mhz": 1455, "watts": 691.0, "capped": 1.0}
    assert watch.within((0.0, 1e-9))["mhz"] is None
    assert sensor_of("cuda", "elsewhere") is None and sensor_of("cuda", None) is None
    with Watch(None) as unwatched:
        pass
    assert unwatched.within((0.0, math.inf)) == {"mhz": None, "watts": None, "capped": None}

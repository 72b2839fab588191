"""`kgen probe` against libraries in C with the documented signatures: what ctypes passes is what a driver takes.

The prototypes are those of the CUDA driver API and NVML API references. Handles are checked: a wrong width or a missing
indirection ends the process or gives an error.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.emitted
ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "unit"))
from probe_machine import H200  # noqa: E402
from test_probe_driver import ANSWERS  # noqa: E402

CUDA = """
#include <stddef.h>
#include <string.h>
typedef int CUdevice;
typedef enum { ANY = 0 } CUdevice_attribute;
typedef enum { CUDA_SUCCESS = 0, INVALID_VALUE = 1, NOT_INITIALIZED = 3, INVALID_DEVICE = 101 } CUresult;
static int up = 0;
CUresult cuInit(unsigned int flags) { up = flags == 0; return up ? CUDA_SUCCESS : INVALID_VALUE; }
CUresult cuDriverGetVersion(int *version) { *version = 13000; return CUDA_SUCCESS; }
CUresult cuDeviceGetCount(int *count) { *count = 1; return up ? CUDA_SUCCESS : NOT_INITIALIZED; }
CUresult cuDeviceGet(CUdevice *device, int ordinal) {
  *device = 41; return ordinal == 0 ? CUDA_SUCCESS : INVALID_DEVICE;
}
CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute attribute, CUdevice device) {
  if (device != 41) return INVALID_DEVICE;
  switch ((int)attribute) { ANSWERS default: return INVALID_VALUE; }
  return CUDA_SUCCESS;
}
CUresult cuDeviceGetName(char *name, int len, CUdevice device) {
  if (device != 41) return INVALID_DEVICE;
  strncpy(name, "NVIDIA H200", len); return CUDA_SUCCESS;
}
CUresult cuDeviceGetPCIBusId(char *place, int len, CUdevice device) {
  if (device != 41) return INVALID_DEVICE;
  strncpy(place, "00000000:1B:00.0", len); return CUDA_SUCCESS;
}
CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice device) {
  if (device != 41) return INVALID_DEVICE;
  *bytes = 150754820096ull; return CUDA_SUCCESS;
}
"""
NVML = """
#include <string.h>
typedef struct nvmlDevice_st { int tag; } *nvmlDevice_t;
typedef enum { NVML_CLOCK_GRAPHICS = 0, NVML_CLOCK_SM = 1, NVML_CLOCK_MEM = 2 } nvmlClockType_t;
typedef enum { NVML_SUCCESS = 0, UNINITIALIZED = 1, INVALID_ARGUMENT = 2, NOT_FOUND = 6 } nvmlReturn_t;
static struct nvmlDevice_st device = {4711};
static int up = 0;
#define CHECK(d) if (!up) return UNINITIALIZED; if (d != &device || d->tag != 4711) return INVALID_ARGUMENT
nvmlReturn_t nvmlInit_v2(void) { up = 1; return NVML_SUCCESS; }
nvmlReturn_t nvmlSystemGetDriverVersion(char *version, unsigned int length) {
  strncpy(version, "580.95.05", length); return NVML_SUCCESS;
}
nvmlReturn_t nvmlDeviceGetHandleByPciBusId_v2(const char *place, nvmlDevice_t *found) {
  if (strcmp(place, "00000000:1B:00.0")) return NOT_FOUND;
  *found = &device; return NVML_SUCCESS;
}
nvmlReturn_t nvmlDeviceGetMaxClockInfo(nvmlDevice_t d, nvmlClockType_t type, unsigned int *clock) {
  CHECK(d); if (type != NVML_CLOCK_SM) return INVALID_ARGUMENT; *clock = 1980; return NVML_SUCCESS;
}
nvmlReturn_t nvmlDeviceGetClockInfo(nvmlDevice_t d, nvmlClockType_t type, unsigned int *clock) {
  CHECK(d); if (type != NVML_CLOCK_SM) return INVALID_ARGUMENT; *clock = 1455; return NVML_SUCCESS;
}
nvmlReturn_t nvmlDeviceGetEnforcedPowerLimit(nvmlDevice_t d, unsigned int *limit) {
  CHECK(d); *limit = 700000; return NVML_SUCCESS;
}
nvmlReturn_t nvmlDeviceGetPowerUsage(nvmlDevice_t d, unsigned int *power) {
  CHECK(d); *power = 691000; return NVML_SUCCESS;
}
nvmlReturn_t nvmlDeviceGetCurrentClocksThrottleReasons(nvmlDevice_t d, unsigned long long *reasons) {
  CHECK(d); *reasons = 0x4; return NVML_SUCCESS;
}
"""
ASK = """
import json, pathlib, dataclasses
from kgen.check.gpu import cuda_driver_version, driver_version, find_gpus
from kgen.probe.driver import find_facts
from kgen.probe.sensors import sensor_of
none = pathlib.Path("none")
(facts,), (gpu,) = find_facts(none), find_gpus(none)
reading = dataclasses.asdict(sensor_of("cuda", facts.sensor)())
found = {"facts": {**facts.to_json(), "sensor": facts.sensor}, "reading": reading}
print(json.dumps({**found, "gpu": dataclasses.asdict(gpu), "versions": [cuda_driver_version(), driver_version()]}))
"""


@pytest.fixture(scope="module")
def libraries(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("ziglang")
    folder = tmp_path_factory.mktemp("drivers")
    answers = " ".join(f"case {number}: *value = {value}; break;" for number, value in ANSWERS.items())
    for name, text in (("libcuda.so.1", CUDA.replace("ANSWERS", answers)), ("libnvidia-ml.so.1", NVML)):
        source = folder / f"{name}.c"
        source.write_text(text)
        command = [sys.executable, "-m", "ziglang", "cc", "-shared", "-fPIC", "-o", str(folder / name), str(source)]
        subprocess.run(command, check=True, capture_output=True)
    return folder


def test_a_driver_in_c_is_asked_as_it_is_documented(libraries: Path, tmp_path: Path) -> None:
    environment = {**os.environ, "LD_LIBRARY_PATH": str(libraries), "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", ASK]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["facts"] == {**json.loads(json.dumps(H200.to_json())), "sensor": H200.sensor}
    assert found["reading"] == {"mhz": 1455, "watts": 691.0, "is_capped": True}
    assert found["gpu"] == {
        "name": "NVIDIA H200",
        "isa": "sm_90",
        "compute_units": 132,
        "memory_bytes": 150754820096,
        "smem_bytes_per_cta": 232448,
        "address": "00000000:1B:00.0",
    }
    assert found["versions"] == ["13.0", "580.95.05"]

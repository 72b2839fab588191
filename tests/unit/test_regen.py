"""`kgen regen` without processes: what is done, what is finished already, what a failure costs, what is recorded."""

import json
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from regen_runs import write_specs

from kgen.api import load_spec
from kgen.errors.base import KgenError
from kgen.records import Kind, Status, Store
from kgen.regen import identity
from kgen.regen.run import Asked, devices_of, regenerate
from kgen.regen.summary import Summary
from kgen.regen.tasks import Done, EmitTask, Lost, PackageTask, Step, Task
from kgen.regen.worker import Worker
from kgen.resources import targets_dir
from kgen.target import Device, device_of_package, load_device


class Inline:
    """An engine that does one task after the other, here; `ends` says which tasks end their process instead."""

    def __init__(self, scratch: Path, ends: Callable[[Task], bool] = lambda task: False) -> None:
        self._worker, self._waiting, self._ends = Worker(scratch), deque[Task](), ends
        self.started: list[Task] = []

    def gpus(self, device: Device) -> int:
        return 0

    def has_room(self, device: Device | None = None) -> bool:
        return not self._waiting

    @property
    def is_busy(self) -> bool:
        return bool(self._waiting)

    def start(self, task: Task) -> None:
        self.started.append(task)
        self._waiting.append(task)

    def wait(self) -> Done:
        task = self._waiting.popleft()
        return Done(task, Lost("killed by SIGKILL") if self._ends(task) else self._worker.do(task))

    def close(self) -> None:
        self._worker.close()


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Path]:
    (tmp_path / "scratch").mkdir()
    yield tmp_path


def regen(place: Path, specs: list[Path], targets: str, engine: Inline | None = None) -> tuple[Summary, Inline]:
    engine = engine or Inline(place / "scratch")
    asked = Asked(tuple(specs), devices_of(targets), place / "out")
    with Store.open(place / "records.sqlite") as store:
        return regenerate(asked, engine, store, lambda title, done, total: None), engine


def test_what_is_finished_is_not_done_again(place: Path) -> None:
    specs = write_specs(place, ["x + 1", "x * 2"])
    first, _ = regen(place, specs, "h200,mi300x")
    assert (first.packages, first.done, first.records, first.exit_code) == (4, {"emit": 4}, 4, 0)
    second, engine = regen(place, specs, "h200,mi300x")
    assert (second.kept, second.records, engine.started) == ({"emit": 4}, 0, [])


def test_a_spec_is_one_task_for_the_devices_that_lack_it(place: Path) -> None:
    specs = write_specs(place, ["x + 1"])
    regen(place, specs, "h200")
    _, engine = regen(place, specs, "h200,h20,mi300x")
    (task,) = engine.started
    assert isinstance(task, EmitTask) and [device.name for device in task.devices] == ["h20", "mi300x"]


@pytest.mark.parametrize("change", ["kernel edited", "reference removed", "records removed"])
def test_a_package_that_is_not_as_recorded_is_made_again(place: Path, change: str) -> None:
    specs = write_specs(place, ["x + 1"])
    regen(place, specs, "h200")
    folder = place / "out" / "h200" / "small_0"
    before = {file.name: file.read_bytes() for file in folder.glob("*.*")}
    match change:
        case "kernel edited":
            (folder / "kernel.py").write_text("edited")
        case "reference removed":
            (folder / "reference.py").unlink()
        case _:
            (place / "records.sqlite").unlink()
    again, _ = regen(place, specs, "h200")
    assert again.done == {"emit": 1} and {file.name: file.read_bytes() for file in folder.glob("*.*")} == before


def test_a_changed_spec_or_kgen_is_made_again(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    specs = write_specs(place, ["x + 1"])
    regen(place, specs, "h200")
    specs[0].write_text(specs[0].read_text().replace("x + 1", "x + 2"))
    assert regen(place, specs, "h200")[0].done == {"emit": 1}
    monkeypatch.setattr(identity, "generator", lambda: "another")
    monkeypatch.setattr("kgen.regen.worker.generator", lambda: "another")
    assert regen(place, specs, "h200")[0].done == {"emit": 1}


def test_a_reference_that_imports_others_is_never_finished(place: Path) -> None:
    (spec,) = write_specs(place, ["x + 1"])
    spec.write_text(spec.read_text().replace("import torch\n", "import torch\n  import numpy\n", 1))
    regen(place, [spec], "h200")
    assert regen(place, [spec], "h200")[0].done == {"emit": 1}


def test_a_failing_spec_stops_no_other_and_is_told_with_its_reason(place: Path) -> None:
    specs = write_specs(place, ["x + 1", "x.cumsum(0).sort().values", "x * 2"])
    broken = place / "broken.yaml"
    broken.write_text("name: [")
    found, _ = regen(place, [*specs, broken], "h200")
    assert found.done == {"emit": 3} and found.exit_code == 3
    load, refused = found.failures
    assert load.title == f"{broken}" and "not valid YAML" in load.reason
    assert refused.title == "small_1 for h200" and "sort" in refused.reason
    again, engine = regen(place, specs, "h200")
    assert engine.started == [] and [f.title for f in again.failures] == ["small_1 for h200"]
    with Store.read(place / "records.sqlite") as store:
        (row,) = store.find(status=Status.REFUSED)
    assert row.kind is Kind.EMIT and row.kernel_digest is None


def test_a_folder_that_cannot_be_replaced_fails_and_is_tried_again(place: Path) -> None:
    specs = write_specs(place, ["x + 1"])
    occupied = place / "out" / "h200" / "small_0"
    occupied.mkdir(parents=True)
    (occupied / "mine.txt").write_text("keep me")
    (failure,) = regen(place, specs, "h200")[0].failures
    assert "is no package of kgen" in failure.reason and (occupied / "mine.txt").exists()
    (occupied / "mine.txt").unlink()
    assert regen(place, specs, "h200")[0].failures == ()


def test_a_package_that_cannot_be_read_fails_alone(place: Path) -> None:
    class Losing(Inline):
        """Makes a file of the package unreadable before a task for it is made."""

        def has_room(self, device: Device | None = None) -> bool:
            if (file := place / "out" / "h200" / "small_0" / "input.py").is_file():
                file.unlink()
                file.symlink_to("nowhere")
            return super().has_room(device)

    asked = Asked(tuple(write_specs(place, ["x + 1"])), devices_of("h200"), place / "out", check=True)
    with Store.open(place / "records.sqlite") as store:
        found = regenerate(asked, Losing(place / "scratch"), store, lambda title, done, total: None)
        (row,) = store.find(status=Status.FAILED)
    assert (found.done, row.kind) == ({"emit": 1, "check": 1}, Kind.CHECK)
    assert row.error is not None and "small_0 cannot be read: " in row.error and "input.py" in row.error
    assert [(f.title, f.step) for f in found.failures] == [("small_0 for h200", Step.CHECK)]


def test_what_ends_its_process_costs_one_device(place: Path) -> None:
    specs = write_specs(place, ["x + 1"])

    def ends(task: Task) -> bool:
        return isinstance(task, EmitTask) and "h20" in (device.name for device in task.devices)

    found, _ = regen(place, specs, "h200,h20", Inline(place / "scratch", ends))
    assert found.done == {"emit": 2}
    (failure,) = found.failures
    assert (failure.title, failure.reason) == ("small_0 for h20", "killed by SIGKILL")
    assert regen(place, specs, "h200,h20")[0].done == {"emit": 1}, "what failed is tried again"


def test_ctrl_c_leaves_what_is_finished_and_says_so(place: Path) -> None:
    specs = write_specs(place, ["x + 1", "x * 2"])

    def interrupts(task: Task) -> bool:
        if task.origins[0].spec == "small_1":
            raise KeyboardInterrupt
        return False

    found, _ = regen(place, specs, "h200", Inline(place / "scratch", interrupts))
    assert found.is_interrupted and found.exit_code == 130 and found.done == {"emit": 1}
    assert regen(place, specs, "h200")[0].done == {"emit": 1}


def test_a_record_says_what_made_the_package(place: Path) -> None:
    regen(place, write_specs(place, ["x + 1"]), "h200")
    plan = json.loads((place / "out" / "h200" / "small_0" / "plan.json").read_text())
    with Store.read(place / "records.sqlite") as store:
        (row,) = store.find()
    assert row.kernel_digest == plan["kernel_digest"] and json.loads(str(row.plan)) == plan["variants"]
    assert set(row.toolchain) == {"torch", "python"} and row.kgen == identity.generator()
    assert row.device_digest == identity.device_digest(load_device("h200"))


def card(folder: Path, title: str = "Made up") -> Path:
    """Write the file of a card that kgen does not ship: less units, bandwidth and shared memory than the H200."""
    text = (targets_dir() / "sm90a" / "devices" / "h200.yaml").read_text(encoding="utf-8")
    text = text.replace("title: NVIDIA H200 SXM", f"title: {title}\narch: sm90a")
    text = text.replace("compute_units: {value: 132", "compute_units: {value: 96")
    text = text.replace("memory_bandwidth: {value: 4.8", "memory_bandwidth: {value: 2.4")
    smem = "{{value: {}, unit: B, source: recalled, confidence: low}}"
    text += f"limits:\n  smem_bytes_per_unit: {smem.format(167936)}\n  smem_bytes_per_cta: {smem.format(166912)}\n"
    file = folder / "made_up.yaml"
    file.write_text(text, encoding="utf-8")
    return file


def test_a_device_file_is_enough_for_a_new_card_and_its_packages_carry_it(place: Path) -> None:
    specs, file = write_specs(place, ["x + 1"]), card(place)
    assert regen(place, specs, f"{file},h200")[0].exit_code == 0
    folder = place / "out" / "made_up" / "small_0"
    assert (folder / "device.yaml").read_text() == file.read_text()
    assert not (place / "out" / "h200" / "small_0" / "device.yaml").exists()
    found = device_of_package(folder, "made_up")
    assert found.name == "made_up" and found.arch.limit("smem_bytes_per_cta").value == 166912


def test_a_changed_device_file_is_another_device(place: Path) -> None:
    specs = write_specs(place, ["x + 1"])
    regen(place, specs, str(card(place)))
    assert regen(place, specs, str(card(place)))[0].kept == {"emit": 1}
    assert regen(place, specs, str(card(place, "Changed")))[0].done == {"emit": 1}


def test_targets_that_share_a_name_are_refused(place: Path) -> None:
    file = card(place).rename(place / "h200.yaml")
    with pytest.raises(KgenError, match="are both called h200"):
        devices_of(f"h200,{file}")
    with pytest.raises(KgenError, match="names no device"):
        devices_of(" , ")


def test_a_worker_of_another_kgen_makes_nothing(place: Path) -> None:
    (spec,) = write_specs(place, ["x + 1"])
    _, engine = regen(place, [spec], "h200")
    (task,) = engine.started
    assert isinstance(task, EmitTask)
    other = replace(task, origins=(replace(task.origins[0], kgen="0.0 older"),))
    ((made,),) = (Worker(place / "scratch").do(other),)
    assert made.records[0].status is Status.FAILED and "0.0 older is asked for" in str(made.records[0].error)
    later = PackageTask(Step.CHECK, task.devices[0], other.origins[0], {"plan.json": b"{}"})
    ((made,),) = (Worker(place / "scratch").do(later),)
    assert made.records[0].kind is Kind.CHECK and made.records[0].status is Status.FAILED


def test_the_exit_code_says_that_nothing_could_be_measured(place: Path) -> None:
    specs = tuple(write_specs(place, ["x + 1"]))
    with Store.open(place / "records.sqlite") as store:
        asked = Asked(specs, ("h200",), place / "out", measure=True)
        found = regenerate(asked, Inline(place / "scratch"), store, lambda title, done, total: None)
    assert found.absent == ("h200",) and found.exit_code == 4 and found.done == {"emit": 1}


class OnGpu(Inline):
    """An engine that has a GPU of each device until the first package is made."""

    def gpus(self, device: Device) -> int:
        return int(not self.started)

    def has_room(self, device: Device | None = None) -> bool:
        return super().has_room(device) and (device is None or bool(self.gpus(device)))


def test_a_gpu_that_is_lost_meanwhile_is_told(place: Path) -> None:
    specs = tuple(write_specs(place, ["x + 1"]))
    with Store.open(place / "records.sqlite") as store:
        asked = Asked(specs, ("h200",), place / "out", measure=True)
        found = regenerate(asked, OnGpu(place / "scratch"), store, lambda title, done, total: None)
    assert found.done == {"emit": 1} and found.absent == ("h200",) and found.exit_code == 4


def test_what_cannot_be_measured_is_a_failure_of_each_case(place: Path) -> None:
    regen(place, write_specs(place, ["x + 1"]), "h200")
    folder, device = place / "out" / "h200" / "small_0", load_device("h200")
    files = {name: (folder / name).read_bytes() for name in ("plan.json", "shapes.json", "kernel.py")}
    origin = identity.origin_of(load_spec(place / "small_0.yaml"), device)
    ((made,),) = (Worker(place / "scratch").do(PackageTask(Step.BENCH, device, origin, files)),)
    assert made.records and all(row.status is Status.FAILED and row.kind is Kind.BENCH for row in made.records)
    assert [row.case for row in made.records] == list(json.loads(files["shapes.json"]))
    assert "and the package is for h200" in str(made.records[0].error)

"""`kgen.build`: a generated kernel in the caller's own process, in place of a function or module.

Stands above the pipeline. The one place where a finished package is imported by the process that made it, and so the
one that has to see to it that only one DSL is loaded.
"""

import inspect
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from importlib.util import module_from_spec, spec_from_file_location
from itertools import chain
from operator import attrgetter
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

from kgen.check.cache import default_cache_dir, digest_of
from kgen.check.gpu import find_gpus
from kgen.check.match import match_gpus
from kgen.check.package import read_package
from kgen.check.toolchain import compiler_versions, installed_version
from kgen.check.toolchains import TOOLCHAINS
from kgen.errors.base import KgenError
from kgen.errors.check import CompilerMissingError
from kgen.errors.cli import (
    KeywordTensorError,
    NoDeviceHereError,
    NotATensorError,
    OtherDslLoadedError,
    UnknownGpuError,
)
from kgen.frontend.dynamic_axes import slowest_stride, with_dynamic_axes
from kgen.frontend.importers import spec_from_callable
from kgen.frontend.trace import Trace, trace_live
from kgen.ir.graph import GraphInput, InputKind
from kgen.package.write import write_package
from kgen.pipeline import run
from kgen.resources import sources_digest
from kgen.spec.dynamic import DynamicAxes
from kgen.spec.model import Spec
from kgen.target import Device, all_devices, list_devices, load_device

Kernel = Callable[..., Any]
Signature = tuple[tuple[torch.dtype, tuple[int, ...], tuple[int, ...], torch.device], ...]  # shape and strides
_LOADING = threading.Lock()


class BuiltKernel:
    """A drop-in for a function or `nn.Module`: same arguments, same result, computed by generated kernels.

    Forward only: the result has no gradient. Parameters, buffers and tensors that the reference closes over are read at
    each call, so that an update of them is seen; Python numbers, the control flow and the training mode are baked in.
    A kernel serves one set of shapes, strides and dtypes. Tensors with others get a kernel of their own, on the first
    call with them: it costs an export and a compile, once per process, and belongs before the capture of a CUDA graph.
    Extents along `dynamic` axes are taken at run time: tensors that differ in them alone share a kernel.
    """

    def __init__(
        self, fn: Callable[..., Any], target: Device | str | None = None, dynamic: DynamicAxes | None = None
    ) -> None:
        self._fn = fn
        self._dynamic = dynamic or {}
        self._axes: tuple[int | None, ...] | None = None  # of each argument the one of run time
        self._target = load_device(target) if isinstance(target, str) else target
        self._kernels: dict[tuple[object, ...], _Bound] = {}

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the kernel on the current stream of the tensors' device."""
        tensors = self._tensors(args, kwargs)
        return self._bound(tensors)(tensors)

    def prepare(self, example_inputs: Sequence[Any]) -> None:
        """Make the kernel for tensors like these; on a GPU also compile it, by one run."""
        tensors = self._tensors(tuple(example_inputs), {})
        bound = self._bound(tensors)
        if tensors and all(tensor.is_cuda for tensor in tensors):
            bound.try_out(tensors)

    @property
    def folders(self) -> tuple[Path, ...]:
        """The packages in use so far, in the order they were made."""
        return tuple(bound.folder for bound in self._kernels.values())

    def _tensors(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[torch.Tensor, ...]:
        if kwargs:
            args = _positional(self._fn, args, kwargs)
        for position, value in enumerate(args):
            if not isinstance(value, torch.Tensor):
                raise NotATensorError(position=position, kind=type(value).__name__)
        return args

    def _bound(self, tensors: tuple[torch.Tensor, ...]) -> "_Bound":
        signature: Signature = tuple((t.dtype, t.shape, t.stride(), t.device) for t in chain(tensors, self._state()))
        if self._dynamic:
            signature = self._for_all_values(signature, tensors)
        key = (*signature, getattr(self._fn, "training", None))
        found = self._kernels.get(key)
        if found is None:
            target = self._target or device_of_gpu(tensors[0].device.index or 0 if tensors else 0)
            found = self._kernels[key] = _Bound(self._fn, tensors, target, self._dynamic)
        return found

    def _for_all_values(self, signature: Signature, tensors: tuple[torch.Tensor, ...]) -> Signature:
        """Return a signature that is the same for all values of the extent of run time."""
        if self._axes is None:
            names = [i.name for i in spec_from_callable(self._fn, tensors).inputs]
            self._axes = tuple(next(iter(self._dynamic.get(name, ())), None) for name in names)
        found = list(signature)
        for position, axis in enumerate(self._axes):
            if axis is not None:
                dtype, shape, strides, device = found[position]
                stride = slowest_stride(shape, strides, axis)
                found[position] = (
                    dtype,
                    (*shape[:axis], -1, *shape[axis + 1 :]),
                    (*strides[:axis], stride, *strides[axis + 1 :]),
                    device,
                )
        return tuple(found)

    def _state(self) -> Iterator[torch.Tensor]:
        """The parameters and buffers: a module that is cast or moved needs another kernel."""
        if isinstance(self._fn, torch.nn.Module):
            return chain(self._fn.parameters(), self._fn.buffers())
        return iter(())


class _Bound:
    """One kernel and where its further arguments come from."""

    def __init__(
        self, fn: Callable[..., Any], tensors: tuple[torch.Tensor, ...], device: Device, dynamic: DynamicAxes
    ) -> None:
        spec = spec_from_callable(fn, tensors)
        spec = with_dynamic_axes(spec, dynamic) if dynamic else spec
        traced = trace_live(spec, spec.cases[0])
        self.folder = default_cache_dir() / "build" / build_key(spec, traced, device)
        _emit(spec, device, self.folder)
        self._kernel = load_kernel(self.folder, device)
        hidden = [i for i in traced.graph.inputs if i.kind is not InputKind.USER]
        self._hidden = tuple(_reader(fn, i, traced.hidden[i.name]) for i in hidden)
        names = [i.name for i in (*(i for i in traced.graph.inputs if i.kind is InputKind.USER), *hidden)]
        updated = {m.input for m in traced.graph.mutations}
        self._updated = tuple(name in updated for name in names)

    def __call__(self, tensors: tuple[torch.Tensor, ...]) -> Any:
        """Run the kernel; DLPack, which launches go through, takes no tensor that requires a gradient."""
        return self._kernel(*self._arguments(tensors))

    def try_out(self, tensors: tuple[torch.Tensor, ...]) -> None:
        """Run the kernel once, so that it is compiled; what it would update is left as it is."""
        pairs = zip(self._arguments(tensors), self._updated, strict=True)
        self._kernel(*(_copied(t) if is_updated else t for t, is_updated in pairs))

    def _arguments(self, tensors: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, ...]:
        return tuple(t.detach() if t.requires_grad else t for t in (*tensors, *(read() for read in self._hidden)))


def _copied(tensor: torch.Tensor) -> torch.Tensor:
    """Return a copy with the same strides."""
    copy = torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device=tensor.device)
    return copy.copy_(tensor)


def _reader(fn: Callable[..., Any], graph_input: GraphInput, traced: torch.Tensor) -> Callable[[], torch.Tensor]:
    """Return what gives a hidden tensor at a call: the module's attribute of that time, or the tensor closed over."""
    get = attrgetter(graph_input.path) if graph_input.path else None
    if get is not None and isinstance(fn, torch.nn.Module):
        try:
            if isinstance(get(fn), torch.Tensor):
                return lambda: get(fn)
        except AttributeError:
            pass  # a tensor that forward closes over has no path in the module
    return lambda: traced


def _positional(fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
    target = fn.forward if isinstance(fn, torch.nn.Module) else fn
    name = getattr(fn, "__name__", type(fn).__name__)
    try:
        bound = inspect.signature(target).bind(*args, **kwargs)
    except ValueError as error:  # builtins have no signature
        raise KeywordTensorError(name=name, reason="its arguments have no names") from error
    if bound.kwargs:
        names = ", ".join(bound.kwargs)
        raise KeywordTensorError(name=name, reason=f"{names} cannot be passed by position here")
    return bound.args


def device_of_gpu(index: int = 0) -> Device:
    """Return the device file of a GPU of this machine; raises `NoDeviceHereError` or `UnknownGpuError`."""
    devices = all_devices()
    matches = match_gpus(find_gpus(), devices)
    if not matches:
        raise NoDeviceHereError(known=", ".join(list_devices()))
    match = matches[min(index, len(matches) - 1)]
    if match.device is None:
        gpu = match.gpu
        like = next((d.name for d in devices if gpu.runs(d.arch.isa)), devices[0].name)
        memory = round(gpu.memory_bytes / 2**30)
        raise UnknownGpuError(gpu=gpu.name, isa=gpu.isa, units=gpu.compute_units, memory=memory, example=like)
    return load_device(match.device)


def build_key(spec: Spec, traced: Trace, device: Device) -> str:
    """Return the digest of all that the package has baked in; the values of constants are not, they are arguments."""
    return digest_of(
        {
            "graph": str(traced.graph),
            "arguments": [repr((i.name, str(i.kind), i.type)) for i in traced.graph.inputs],
            "reference": [spec.name, spec.file, spec.reference.entry],
            "accepts": repr((spec.inputs, spec.cases, spec.accepts, spec.fixed, spec.tolerance)),
            "device": repr(device),
            "kgen": sources_digest(),
            "distributions": compiler_versions(),
        }
    )


def _emit(spec: Spec, device: Device, folder: Path) -> None:
    """Write the package unless it stands there, whole and as it was emitted."""
    try:
        if not read_package(folder).is_edited:
            return
    except KgenError:
        pass  # absent, or not a package any more: write it
    write_package(run(spec, device).made["render"], folder)


def load_kernel(folder: Path, device: Device) -> Kernel:
    """Import the kernel.py of a package by its path, under a name of its own, once per process."""
    name = f"kgen_built_{folder.name}"
    with _LOADING:
        module = sys.modules.get(name) or _imported(name, folder, device.arch.backend)
    kernel: Kernel = module.kernel
    assert callable(kernel)
    return kernel


def _imported(name: str, folder: Path, backend: str) -> ModuleType:
    wanted = TOOLCHAINS[backend]
    for other in TOOLCHAINS.values():  # two DSLs in one process abort it
        if other is not wanted and other.dsl_module in sys.modules:
            raise OtherDslLoadedError(wanted=wanted.dsl_module, loaded=other.dsl_module)
    if installed_version(wanted.distribution) is None:
        raise CompilerMissingError(
            folder=folder, distribution=wanted.distribution, python=sys.executable, extra=wanted.extra
        )
    spec = spec_from_file_location(name, folder / "kernel.py")
    assert spec is not None and spec.loader is not None
    module = sys.modules[name] = module_from_spec(spec)  # dataclasses look their module up while it runs
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module

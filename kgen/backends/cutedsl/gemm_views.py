"""What the GEMM templates print: flat, printable values. Made by `gemm.py`, `gemm_rows.py` and `gemm_host.py`."""

from dataclasses import dataclass

from kgen.backends.source.file_views import UnreadView


@dataclass(frozen=True, slots=True)
class TensorView:
    """A tensor argument of the launch function."""

    name: str


@dataclass(frozen=True, slots=True)
class DeviceView:
    """What the templates of device code and launch functions read.

    `fused` is ", fused" where the epilogue reads tensors, else empty; `store` and `d` are what the epilogue and the
    kernel take to write D.
    """

    tensors: tuple[TensorView, ...]
    a_pointer: str
    b_pointer: str
    fused: str
    fused_views: tuple[str, ...]
    a_ops: tuple[str, ...]
    a_result: str
    b_ops: tuple[str, ...]
    b_result: str
    has_epilogue: bool
    epilogue: tuple[str, ...]
    result: str
    stores_by_tma: bool
    store: str
    d: str
    to_smem_atom: str


@dataclass(frozen=True, slots=True)
class SignatureView:
    """All tensors of one variant, D last, a tuple each."""

    variant: str
    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PlanEntryView:
    """One case of the host function: `key` opens the entry, `choices` is a dict of variants and base alignments."""

    key: tuple[str, ...]
    result_shape: str
    result_stride: str
    choices: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class HostView:
    """What the template of the host code reads.

    `compiled` is what one call of `compiled` gives, `function` the names it is unpacked to, `call` the launch.
    """

    name: str
    load_paths: tuple[str, ...]
    signatures: tuple[SignatureView, ...]
    plan: tuple[PlanEntryView, ...]
    parameters: tuple[str, ...]
    first: str
    unread: tuple[UnreadView, ...]
    bases: str
    out_type: str
    result: str
    may_be_empty: bool
    grid_example: str
    compiled_doc: str
    compiled: str
    function: str
    call: tuple[str, ...]

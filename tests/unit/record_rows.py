"""Made-up records for tests: no figure in them was measured anywhere."""

import string
from datetime import datetime
from typing import Any

from hypothesis import strategies as st

from kgen.records import Kind, Record, Status
from kgen.records.model import SPEEDS

AT = "2031-01-02T03:04:05.678+00:00"
PLAN = '[{"name":"default_tma","case":"default","kernel":"gemm","choice":{"choices":{"tile_m":128},"time_us":1.5}}]'
FIELDS: dict[str, Any] = {
    "kind": Kind.EMIT,
    "spec": "gemm_bf16",
    "spec_digest": "a" * 64,
    "device": "h200",
    "device_digest": "b" * 64,
    "probe": None,
    "kernel_digest": "c" * 64,
    "kgen": "0.1.0",
    "toolchain": {"torch": "2.99", "driver": "999.1"},
    "host": "here",
    "gpu": None,
    "status": Status.OK,
    "error": None,
    "case": None,
    "how": "planned and written, with no GPU",
    "figures": {"variants": 2},
    "plan": PLAN,
    "at": AT,
}


def emitted(**fields: Any) -> Record:
    """Return the row of a package that was written."""
    return Record(**FIELDS | fields)


def benched(latency_us: float = 180.0, **fields: Any) -> Record:
    """Return the row of a case that was measured; the device could do it in 100 us."""
    figures = {"latency_us": latency_us, "ratio": 0.98, "roofline_us": 100.0}
    return emitted(
        **{"kind": Kind.BENCH, "case": "default", "how": "interleaved", "plan": None, "figures": figures} | fields
    )


texts = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=20)
names = st.text(string.ascii_lowercase + "_", min_size=1, max_size=8)
_some = st.none() | texts
_times = st.datetimes(datetime(1970, 1, 2), datetime(2100, 1, 1), timezones=st.timezones()).map(datetime.isoformat)
_figures = st.dictionaries(names.filter(lambda n: n not in SPEEDS), st.floats(allow_nan=False, allow_infinity=False))


@st.composite
def records(draw: st.DrawFn) -> Record:
    """Draw any row that the model accepts."""
    kind, status = draw(st.sampled_from(Kind)), draw(st.sampled_from(Status))
    if status is Status.ERROR:
        kind = Kind.BENCH
    figures = draw(_figures)
    figures.pop("roofline_us", None)
    if kind is Kind.BENCH and status is Status.OK:
        times = draw(st.dictionaries(st.sampled_from(sorted(SPEEDS)), st.floats(1e-3, 1e9)))
        figures |= {"latency_us": 1.0} | times | draw(st.sampled_from([{}, {"roofline_us": 1e-3}]))
    return emitted(
        kind=kind,
        status=status,
        figures=figures,
        case=draw(texts) if kind is Kind.BENCH else None,
        error=None if status is Status.OK else draw(texts),
        kernel_digest=draw(texts if status is Status.OK else _some),
        toolchain=draw(st.dictionaries(names, texts)),
        at=draw(_times),
        **{name: draw(texts) for name in ("spec", "spec_digest", "device", "kgen", "how")},
        **{name: draw(_some) for name in ("device_digest", "probe", "host", "gpu", "plan")},
    )

"""What a check found, as typed values: evidence per variant, findings, and their JSON."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from kgen.check.evidence import KernelEvidence, combined_digest, kernels_digest


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is not as the plan says; `variant` is `None` for the package as a whole."""

    variant: str | None
    what: str
    expected: str
    found: str

    def __str__(self) -> str:
        place = f"{self.variant}: " if self.variant else ""
        return f"{place}{self.what}: expected {self.expected}, found {self.found}"


@dataclass(frozen=True, slots=True)
class VariantEvidence:
    """One variant as it was compiled; `failure` is the compiler's last word when it was not.

    `listing` is the assembly of its kernels, `warnings` are what the compiler said of them.
    """

    variant: str
    seconds: float = 0.0
    arch: str | None = None
    kernels: tuple[KernelEvidence, ...] = ()
    failure: str | None = None
    listing: str = ""
    warnings: tuple[str, ...] = ()

    @classmethod
    def from_json(cls, stored: dict[str, Any]) -> "VariantEvidence":
        """Return the evidence that `dataclasses.asdict` made `stored` of."""
        kernels = tuple(KernelEvidence.from_json(row) for row in stored["kernels"])
        return cls(**stored | {"kernels": kernels, "warnings": tuple(stored["warnings"])})

    @property
    def code_digest(self) -> str | None:
        """The digest of its kernels' machine code, however they are named; `None` where nothing was compiled."""
        return kernels_digest(self.kernels)

    def to_json(self) -> dict[str, Any]:
        """Return everything but the listing."""
        return {
            "variant": self.variant,
            "seconds": round(self.seconds, 3),
            "arch": self.arch,
            "code_digest": self.code_digest,
            "kernels": [kernel.to_json() for kernel in self.kernels],
            "failure": self.failure,
            "warnings": list(self.warnings),
        }


@dataclass(frozen=True, slots=True)
class CheckResult:
    """The proof without a GPU of one package. `seconds` is the time this check took, cache hits included."""

    folder: Path
    name: str
    device: str
    arch: str
    variants: tuple[VariantEvidence, ...]
    findings: tuple[Finding, ...]
    notes: tuple[str, ...]
    from_cache: bool
    seconds: float

    @property
    def ok(self) -> bool:
        """Whether everything is as the plan says."""
        return not self.findings

    @property
    def code_digest(self) -> str | None:
        """The digest of all variants' machine code, by order of their names; `None` unless all were compiled."""
        digests = [variant.code_digest for variant in sorted(self.variants, key=lambda variant: variant.variant)]
        compiled = [digest for digest in digests if digest is not None]
        return combined_digest(compiled) if compiled and len(compiled) == len(digests) else None

    def to_json(self) -> dict[str, Any]:
        """Return the result as one JSON object."""
        return {
            "folder": str(self.folder),
            "name": self.name,
            "device": self.device,
            "arch": self.arch,
            "ok": self.ok,
            "code_digest": self.code_digest,
            "variants": [variant.to_json() for variant in self.variants],
            "findings": [asdict(finding) | {"message": str(finding)} for finding in self.findings],
            "notes": list(self.notes),
            "from_cache": self.from_cache,
            "seconds": round(self.seconds, 3),
        }

    def listing(self) -> str:
        """Return the assembly of all variants, each under a heading."""
        return "".join(f"// variant {v.variant}\n{v.listing}\n" for v in self.variants if v.listing)

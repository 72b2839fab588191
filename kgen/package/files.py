"""What a compile made, to {file name: text} of one package; `kgen.package.write` puts it on disk.

The `render` stage of the pipeline.
"""

from collections.abc import Mapping
from typing import Any

from kgen.frontend.reference import ReferenceText, init_kwargs, reference_text
from kgen.layout import DEVICE_FILE
from kgen.package.constraints import port_view
from kgen.package.extraction import extraction_view
from kgen.package.folder import KERNEL_FILE, PLAN_FILE
from kgen.package.incumbent import incumbent_files
from kgen.package.input_text import input_text
from kgen.package.kernel_test import kernel_test_view
from kgen.package.parts import PackageParts, expected_evidence
from kgen.package.plan_json import TEST_TEMPLATE, plan_text, shapes_text
from kgen.package.readme import readme_view
from kgen.render import Page, render
from kgen.spec.model import Spec


def package_files(spec: Spec, made: Mapping[str, Any]) -> dict[str, str]:
    """Return the package of a run: `made` holds what the stages `trace`, `partition`, `plan` and `view` made."""
    page: Page = made["view"]
    reference = reference_text(spec, next(iter(made["trace"].values())))
    return package_texts(
        PackageParts(
            spec=spec,
            programs=tuple(made["partition"].items()),
            plan=made["plan"],
            kernel=page.render(),
            kernel_template=page.template,
            reference=made["plan"].device.arch.encoded(with_fixed_name(reference)),
            is_module=reference.is_module,
            init_kwargs=tuple((init_kwargs(spec.reference) or {}).items()) if reference.is_module else (),
            evidence=expected_evidence(made["plan"]),
        )
    )


def package_texts(parts: PackageParts) -> dict[str, str]:
    """Return every file of a package; the same parts give the same bytes."""
    files = {
        KERNEL_FILE: parts.kernel,
        "reference.py": parts.reference,
        "test_kernel.py": render(TEST_TEMPLATE, kernel_test_view(parts)),
        "input.py": input_text(parts),
        "shapes.json": shapes_text(parts),
        "plans/v0_plan.md": render("package/v0_plan.md.j2", extraction_view(parts)),
        "README.md": render("package/README.md.j2", readme_view(parts)),
        **_port_files(parts),
        **({DEVICE_FILE: device.text} if (device := parts.plan.device).text else {}),
    }
    return {**files, PLAN_FILE: plan_text(parts, (*files, PLAN_FILE))}


def _port_files(parts: PackageParts) -> dict[str, str]:
    if parts.spec.incumbent is None:
        return {}
    return {**incumbent_files(parts.spec.incumbent), "plans/port.md": render("package/port.md.j2", port_view(parts))}


def with_fixed_name(reference: ReferenceText) -> str:
    """Return the text of reference.py, in which the user's function or class also has the name that tests import."""
    name = "Model" if reference.is_module else "reference"
    if reference.entry == name:
        return reference.text
    return f"{reference.text}\n\n{name} = {reference.entry}\n"

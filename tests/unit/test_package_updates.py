"""The emitted test on kernels that update an input in place: it is compared, and nothing else may be written to."""

import sys
from dataclasses import replace

import pytest
from kernel_test_package import KERNEL, SHAPES, TEST_VIEW, arguments_of, load_test, package

VIEW = replace(TEST_VIEW, updated='"bias",')
REFERENCE = """
import torch

def reference(a, b, bias):
    bias.add_(1.0)
    return torch.relu(a @ b.T)
"""
RIGHT = "out.copy_(torch.relu(a.float() @ b.float().T)); bias.add_(1.0)"


@pytest.fixture
def failures_of(tmp_path, monkeypatch):
    """Check the case of a package with this body in this process."""

    def check(body, kernel=KERNEL, reference=REFERENCE):
        folder = package(tmp_path, body, kernel=kernel, view=VIEW, reference=reference)
        module = load_test(folder, monkeypatch)
        result = module.Result("base")
        module.check_case("base", SHAPES, arguments_of(module), "cpu", result)
        return result.failures

    yield check
    for name in ("kernel", "reference", "input"):
        sys.modules.pop(name, None)


def test_a_right_update_has_no_failure(failures_of):
    assert failures_of(RIGHT) == []


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (RIGHT.replace("; bias.add_(1.0)", ""), "input bias, updated in place: rel_err"),
        (f"{RIGHT}; a.zero_()", "input a was written to"),
        (
            f"{RIGHT}; bias.as_strided((1,), (1,), bias.storage_offset() - 1).zero_()",
            "input bias was written to outside of its elements",
        ),
        (RIGHT.replace("out.copy_", "out.sub_"), "output 0"),
    ],
)
def test_a_wrong_update_fails_for_its_reason(failures_of, body, reason):
    assert any(reason in failure for failure in failures_of(body))


def test_a_result_may_be_the_updated_input(failures_of):
    returns_input = KERNEL.replace("return out", "return bias")
    reference = REFERENCE.replace("return torch.relu(a @ b.T)", "return bias")
    assert failures_of("bias.add_(1.0)", kernel=returns_input, reference=reference) == []
    of_other = failures_of("bias.add_(1.0)", kernel=returns_input.replace("return bias", "return bias.clone()"),
                           reference=reference)  # fmt: skip
    assert of_other == []

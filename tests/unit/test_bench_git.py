"""`kgen bench --git`: two commits of a package and of nothing else, with a real git and a made-up machine."""

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from bench_machine import MadeUpMachine, emitted

from kgen.bench.git import commit, commit_of
from kgen.bench.harness import Asked, bench
from kgen.check.result import Finding
from kgen.errors.bench import GitFailedError

NAME = ("GIT_AUTHOR_NAME", "GIT_COMMITTER_NAME", "GIT_AUTHOR_EMAIL", "GIT_COMMITTER_EMAIL")


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return emitted(tmp_path_factory.mktemp("built"))


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> MadeUpMachine:
    return MadeUpMachine().install(monkeypatch)


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder whose git sees nothing of this machine."""
    for name in NAME:
        monkeypatch.setenv(name, "someone@example.org")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path))
    for name in ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "root").mkdir()
    return tmp_path / "root"


def git(folder: Path, *arguments: str) -> str:
    done = subprocess.run(["git", "-C", str(folder), *arguments], capture_output=True, text=True, check=True)
    return done.stdout.rstrip("\n")


@pytest.fixture
def package(root: Path, built: Path) -> Path:
    """A package in a repository in which another file is committed, one changed, one staged and one foreign."""
    git(root, "init", "--quiet", "--initial-branch", "main")
    for name in ("committed.txt", "changed.txt"):
        (root / name).write_text("1\n")
    git(root, "add", ".")
    git(root, "commit", "--quiet", "--message", "before")
    (root / "changed.txt").write_text("2\n")
    (root / "staged.txt").write_text("1\n")
    git(root, "add", "staged.txt")
    folder = Path(shutil.copytree(built, root / "kernels" / "package"))
    (folder / "notes.txt").write_text("the user's\n")
    return folder


def measured(package: Path, **asked: Any) -> dict[str, Any]:
    bench(package, Asked(git=True, **asked))
    version = asked.get("version", "v0")
    document: dict[str, Any] = json.loads((package / "measured" / "memory" / f"{version}.json").read_text())
    return document


def messages(root: Path) -> list[str]:
    return git(root, "log", "--reverse", "--format=%s").splitlines()


def files_in(root: Path, revision: str) -> set[str]:
    return set(git(root, "show", "--format=", "--name-only", revision).splitlines())


def test_two_commits_of_the_package_and_of_nothing_else(package: Path, machine: MadeUpMachine) -> None:
    root = package.parents[1]
    measured(package)
    assert messages(root) == ["before", "V0: baseline kernel", "V0: record baseline measurement"]
    sources = set(json.loads((package / "plan.json").read_text())["files"])
    assert files_in(root, "HEAD~1") == {f"kernels/package/{name}" for name in sources}
    measurement = {p.relative_to(root).as_posix() for p in (package / "measured").rglob("*") if p.is_file()}
    assert files_in(root, "HEAD") == measurement and "kernels/package/measured/report.json" in measurement
    left = {" M changed.txt", "A  staged.txt", "?? kernels/package/notes.txt"}
    assert set(git(root, "status", "--porcelain").splitlines()) == left  # as it was


def test_the_memory_file_names_the_commit_of_the_sources(package: Path, machine: MadeUpMachine) -> None:
    root = package.parents[1]
    document = measured(package)
    first = git(root, "rev-parse", "HEAD~1")
    assert document["git_commit_hash"] == first
    committed = json.loads(git(root, "show", "HEAD:kernels/package/measured/memory/v0.json"))
    assert committed["git_commit_hash"] == first
    assert git(root, "show", f"{first}:kernels/package/kernel.py") == (package / "kernel.py").read_text().rstrip("\n")


def test_committed_sources_make_no_empty_commit(package: Path, machine: MadeUpMachine) -> None:
    root = package.parents[1]
    first = measured(package)["git_commit_hash"]
    again = measured(package, again=True)["git_commit_hash"]
    assert again == first
    assert messages(root)[1:3] == ["V0: baseline kernel", "V0: record baseline measurement"]
    assert messages(root).count("V0: baseline kernel") == 1
    machine.us = 150.0
    assert measured(package, again=True, version="v1")["git_commit_hash"] == first
    assert messages(root)[-1] == "V1: record measurement" and "V1: kernel" not in messages(root)
    with (package / "kernel.py").open("a") as stream:
        stream.write("# faster\n")
    assert measured(package, again=True, version="v2")["git_commit_hash"] == git(root, "rev-parse", "HEAD~1") != first
    assert messages(root)[-2:] == ["V2: kernel", "V2: record measurement"]
    assert files_in(root, "HEAD~1") == {"kernels/package/kernel.py"}


@pytest.mark.parametrize("reason", ["wrong", "not as planned"])
def test_a_failed_gate_commits_nothing(package: Path, machine: MadeUpMachine, reason: str) -> None:
    if reason == "wrong":
        machine.tested["small"] = {"status": "FAIL", "failures": ["small: wrong"], "latency_us": None}
    else:
        machine.findings = (Finding("small_tma", "spills", "at most 0", "3"),)
    document = measured(package)
    assert document["quality_gate"]["result"] == "FAIL" and document["git_commit_hash"] is None
    assert messages(package.parents[1]) == ["before"]
    assert (package / "measured" / "report.json").is_file()


def test_a_part_of_the_cases_commits_nothing(package: Path, machine: MadeUpMachine) -> None:
    bench(package, Asked(git=True, cases=("small",)))
    assert messages(package.parents[1]) == ["before"]


def test_without_a_repository_git_is_refused_and_a_plain_run_says_null(
    root: Path, built: Path, machine: MadeUpMachine
) -> None:
    package = Path(shutil.copytree(built, root / "package"))
    with pytest.raises(GitFailedError, match=r"git add in .*package: .*not a git repository"):
        bench(package, Asked(git=True))
    report = bench(package, Asked(again=True)).report
    assert report is not None and report.git_commit is None


def test_a_plain_run_names_the_commit_only_of_sources_as_they_stand(package: Path, machine: MadeUpMachine) -> None:
    report = bench(package, Asked()).report
    assert report is not None and report.git_commit is None  # not committed yet
    first = measured(package, again=True)["git_commit_hash"]
    report = bench(package, Asked(again=True)).report
    assert report is not None and report.git_commit == first
    (package / "input.py").write_text("")
    report = bench(package, Asked(again=True)).report
    assert report is not None and report.git_commit is None


def test_no_git_is_said(package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(GitFailedError, match=r"git add in .*: No such file or directory"):
        commit(package, ("kernel.py",), "message")
    assert commit_of(package, ("kernel.py",)) is None


def test_what_git_ignores_is_refused(package: Path) -> None:
    root = package.parents[1]
    (root / ".gitignore").write_text("kernels/\n")
    with pytest.raises(GitFailedError, match="ignored"):
        commit(package, ("kernel.py",), "message")
    assert commit_of(package, ("kernel.py",)) is None and messages(root) == ["before"]


def test_a_hook_that_refuses_is_an_error(package: Path) -> None:
    root = package.parents[1]
    hook = root / ".git" / "hooks" / "pre-commit"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\necho no such message >&2\nexit 1\n")
    hook.chmod(0o755)
    with pytest.raises(GitFailedError, match=r"git commit in .*: no such message"):
        commit(package, ("kernel.py",), "message")
    assert messages(root) == ["before"]

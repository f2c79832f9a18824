"""What ``make wheel`` builds runs where it is installed."""

from __future__ import annotations

import asyncio
import shutil
import signal
import subprocess
import sys
import sysconfig
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest

from podsched.lib.network import free_port

pytestmark = pytest.mark.integration

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with the wheel and the sources."""
    clone = tmp_path_factory.mktemp("clone")
    for name in ("Makefile", "pyproject.toml", "README.md", "LICENSE", "requirements.lock"):
        shutil.copy(ROOT / name, clone)
    shutil.copytree(
        ROOT / "sched",
        clone / "sched",
        ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"),
    )
    # This environment has what .venv has.
    make = ["make", "wheel", f"PYTHON={sys.executable}", "--old-file=.venv/installed"]
    subprocess.run(make, cwd=clone, check=True, capture_output=True)
    return clone / "dist"


def install(package: Path, directory: Path) -> Path:
    """Install a package into an environment of its own and return that one's folder of programs.

    What it depends on is that of the environment of the tests.
    """
    venv.create(directory, with_pip=False)
    programs = directory / "bin"
    paths = {"base": str(directory), "platbase": str(directory)}
    installed = Path(sysconfig.get_path("purelib", "venv", paths))
    (installed / "dependencies.pth").write_text(sysconfig.get_path("purelib"))
    subprocess.run(
        [*(sys.executable, "-m", "pip", "--python", str(programs / "python"), "install"),
         *("--no-index", "--no-deps", "--no-build-isolation", "--ignore-installed", "--no-compile"),
         str(package)],
        check=True, capture_output=True,
    )  # fmt: skip
    assert (installed / "podsched" / "__init__.py").is_file()
    return programs


def files_of_the_package() -> set[str]:
    package = ROOT / "sched" / "podsched"
    files = (path for path in package.rglob("*") if path.is_file())
    return {
        path.relative_to(package.parent).as_posix()
        for path in files
        if "__pycache__" not in path.parts
    }


def test_the_wheel_and_the_sources_have_every_file_of_the_package(built: Path) -> None:
    [wheel], [sources] = built.glob("*.whl"), built.glob("*.tar.gz")
    assert files_of_the_package() <= set(zipfile.ZipFile(wheel).namelist())
    with tarfile.open(sources) as archive:
        inside = {name.partition("/sched/")[2] for name in archive.getnames()}
    assert files_of_the_package() <= inside


@pytest.fixture(scope="module")
def sched(built: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The command of an environment with the wheel, and of one with the sources."""
    [wheel], [sources] = built.glob("*.whl"), built.glob("*.tar.gz")
    return {
        name: install(package, tmp_path_factory.mktemp(name)) / "sched"
        for name, package in (("wheel", wheel), ("sources", sources))
    }


@pytest.mark.parametrize("package", ["wheel", "sources"])
def test_sched_runs_where_it_is_installed(package: str, sched: dict[str, Path]) -> None:
    done = subprocess.run([sched[package], "--help"], check=True, capture_output=True, text=True)
    assert "Usage: sched" in done.stdout


@pytest.mark.long
async def test_a_cluster_starts_where_the_wheel_is_installed(
    sched: dict[str, Path], tmp_path: Path
) -> None:
    addresses = [f"--{name}=127.0.0.1:{free_port()}" for name in ("api", "kube", "web")]
    process = await asyncio.create_subprocess_exec(
        *(sched["wheel"], "up", "--evaluator", "local"),
        *("--replicas", "1", "--nodes", "1", *addresses),
        cwd=tmp_path,
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None
    try:
        async with asyncio.timeout(120):
            await process.stdout.readuntil(b"podsched is ready")
            process.send_signal(signal.SIGINT)
            await process.stdout.read()
            assert await process.wait() == 0
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()

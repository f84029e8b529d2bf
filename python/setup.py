"""Puts the ``astropile`` program into the wheel: from ``../bin``, or built where Go is installed."""

from __future__ import annotations

import atexit
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from setuptools import setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build import build
from setuptools.command.build_py import build_py
from setuptools.command.egg_info import egg_info

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent


# What is made on the way. In the source folder an old program there would go into later wheels.
SCRATCH = Path(tempfile.mkdtemp(prefix="astropile-build-"))
atexit.register(shutil.rmtree, SCRATCH, ignore_errors=True)


def program(into: Path) -> bool:
    """Copies or builds the program; False where neither can be done."""
    built = ROOT / "bin" / "astropile"
    if built.is_file() and os.access(built, os.X_OK):
        shutil.copy2(built, into)
        return True
    go = shutil.which("go")
    if go is None or not (ROOT / "go.mod").is_file():
        return False
    subprocess.run(
        [go, "build", "-trimpath", "-buildvcs=false", "-ldflags", "-s -w", "-o", str(into), "./cmd/astropile"],
        cwd=ROOT,
        env={**os.environ, "CGO_ENABLED": "0"},
        check=True,
    )
    return True


class BuildElsewhere(build):
    def initialize_options(self) -> None:
        super().initialize_options()
        self.build_base = str(SCRATCH / "build")


class InfoElsewhere(egg_info):
    def initialize_options(self) -> None:
        super().initialize_options()
        if "sdist" not in sys.argv:  # which packs it
            self.egg_base = str(SCRATCH)


class BuildWithProgram(build_py):
    """Adds ``astropile/_bin/astropile`` to what is built; the source tree stays as it is."""

    def run(self) -> None:
        super().run()
        if self.editable_mode:
            return
        folder = Path(self.build_lib) / "astropile" / "_bin"
        folder.mkdir(parents=True, exist_ok=True)
        if not program(folder / "astropile"):
            folder.rmdir()
            self.warn(
                "this wheel holds no astropile program: neither bin/astropile nor Go was found; "
                "set ASTROPILE_BIN or put the program on PATH"
            )


class PlatformWheel(bdist_wheel):
    """The program belongs to a machine, the Python code to any Python 3."""

    def finalize_options(self) -> None:
        super().finalize_options()
        self.root_is_pure = False

    def get_tag(self) -> tuple[str, str, str]:
        _, _, platform = super().get_tag()
        # The program is static: it runs on any Linux, whatever its C library.
        return "py3", "none", platform


setup(
    cmdclass={
        "build": BuildElsewhere,
        "build_py": BuildWithProgram,
        "bdist_wheel": PlatformWheel,
        "egg_info": InfoElsewhere,
    }
)

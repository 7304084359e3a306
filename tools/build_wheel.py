#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Makes the wheel of Heddle: `pip install heddle_mpi-*.whl` gives mpicc, mpirun and the module heddle.channel.

    pip wheel .                                 in the sources: builds Heddle, and writes heddle_mpi-VERSION-py3-none-manylinux_*.whl
    tools/build_wheel.py --build BUILD [OUT]    the same of a finished build, in OUT (dist)

pip calls the functions build_wheel and get_requires_for_build_wheel (pyproject.toml, PEP 517). It fetches CMake and Ninja if the
machine has none. Without the headers of UCX and PMIx the wheel has no jobs of several processes, without gfortran no
compiled modules, without CUDA (CUDA_HOME) no device buffers: `pip wheel -v .` shows lines about them.

The installation is the folder of the Python package (site-packages/heddle/bin, lib, include): pip leaves out lib folders
elsewhere with --target. The commands in the environment's bin are scripts that find that folder. A wheel has no links, so
the second name of a program is a copy, and that of a library a linker script: two copies of a library would be two libraries.

The tag manylinux_2_N is the newest version of glibc that a file needs. Files that need libraries outside of manylinux (UCX,
PMIx: jobs of several processes) are used only if mpirun is told to start processes; all others are checked.
"""
import argparse
import base64
import hashlib
import os
import pathlib
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import zipfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
# Libraries that PEP 600 allows and that we need, and the files that may need others.
ALLOWED = re.compile(r"lib(c|m|dl|rt|pthread)\.so|ld-linux|lib(mpi_abi|heddle_mpifort)\.so\.1")
OPTIONAL = {"lib/heddle/machine_ucx.so", "libexec/heddle/mpirun-procs"}
COMMAND = """#!/bin/sh
# Runs {name} of the package heddle, wherever pip put it: beside bin (--target), in site-packages or dist-packages.
bin=$(readlink -f "$0")
bin=${{bin%/*}}
for folder in "$bin"/../heddle "$bin"/../lib*/python3*/*-packages/heddle "$bin"/heddle; do
    [ -x "$folder/bin/{name}" ] && exec "$folder/bin/{name}" "$@"
done
echo "{name}: no package heddle near $bin: install heddle-mpi again" >&2
exit 127
"""


def fail(text):
    sys.exit(f"tools/build_wheel.py: {text}")


def run(*command):
    if not shutil.which(command[0]):
        fail(f"there is no {command[0]}")
    result = subprocess.run([str(word) for word in command], stdout=subprocess.PIPE, text=True)
    if result.returncode:
        fail(f"{' '.join(map(str, command[:3]))} ... failed:\n{result.stdout}")
    return result.stdout


def is_elf(path):
    with open(path, "rb") as file:
        return file.read(4) == b"\x7fELF"


def newest_glibc(package):
    """The N of the newest symbol version GLIBC_2.N of all files; an error if one needs another library."""
    newest = 17
    for path in package.rglob("*"):
        if path.is_dir() or not is_elf(path):
            continue
        name = str(path.relative_to(package))
        needed = re.findall(r"NEEDED +(\S+)", run("objdump", "-p", path))
        foreign = [library for library in needed if not ALLOWED.match(library)]
        if foreign and name not in OPTIONAL:
            fail(f"{name} needs {', '.join(foreign)}, which manylinux does not have")
        newest = max([newest] + [int(n) for n in re.findall(r"\bGLIBC_2\.(\d+)", run("objdump", "-T", path))])
    return newest


def stage(build_folder, package):
    """Installs into the package's folder, without links and pages."""
    run("cmake", "--install", build_folder, "--prefix", package, "--strip")
    python = package / "share/heddle/python/heddle"
    if not (package / "lib/libmpi_abi.so.1").exists() or not python.exists():
        fail("the build has other folders than bin, lib, share; configure it with -DCMAKE_INSTALL_LIBDIR=lib")
    for file in python.glob("*.py"):
        shutil.move(file, package)
    for folder in ("share/heddle/python", "share/doc", "share/man"):
        shutil.rmtree(package / folder)
    for path in [path for path in package.rglob("*") if path.is_symlink()]:
        target = path.resolve()
        path.unlink()
        if ".so" in target.name:
            path.write_text(f"INPUT({target.name})\n")
        else:
            shutil.copy2(target, path)


def write_wheel(package, out, version):
    machine = sysconfig.get_platform().split("-")[-1]
    tag = f"py3-none-manylinux_2_{newest_glibc(package)}_{machine}"
    base = f"heddle_mpi-{version}"
    record = []
    name = out / f"{base}-{tag}.whl"
    out.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(name, "w", zipfile.ZIP_DEFLATED) as wheel:

        def add(file, data, mode=0o644):
            info = zipfile.ZipInfo(file)  # the same files give the same wheel: all are of 1980
            info.external_attr = (0o100000 | mode) << 16
            info.compress_type = zipfile.ZIP_DEFLATED
            wheel.writestr(info, data)
            digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            record.append(f"{file},sha256={digest},{len(data)}\n")

        for path in sorted(path for path in package.rglob("*") if path.is_file()):
            mode = 0o755 if os.access(path, os.X_OK) else 0o644
            add(f"heddle/{path.relative_to(package)}", path.read_bytes(), mode)
            if path.parent == package / "bin":
                add(f"{base}.data/scripts/{path.name}", COMMAND.format(name=path.name).encode(), 0o755)
        info = f"{base}.dist-info"
        add(f"{info}/licenses/LICENSE", (ROOT / "LICENSE").read_bytes())
        add(f"{info}/METADATA", f"""Metadata-Version: 2.4
Name: heddle-mpi
Version: {version}
Summary: MPI library that runs many ranks as user-level threads in one process
License-Expression: BSD-3-Clause
License-File: LICENSE
Requires-Python: >=3.8
Description-Content-Type: text/plain

mpicc, mpicxx, mpifort, mpirun and libmpi_abi.so.1. Jobs of one process need nothing else; mpirun --procs needs the
libraries of UCX and PMIx (Debian: libucx0 libpmix2). Python programs need an mpi4py that `python3 -m heddle.mpi4py_wheel` has built.
""".encode())
        add(f"{info}/WHEEL", f"Wheel-Version: 1.0\nGenerator: heddle\nRoot-Is-Purelib: false\nTag: {tag}\n".encode())
        add(f"{info}/RECORD", ("".join(record) + f"{info}/RECORD,,\n").encode())
    return name


def wheel_of(build_folder, out):
    version = re.search(r"project\(heddle VERSION ([\d.]+)", (ROOT / "CMakeLists.txt").read_text()).group(1)
    with tempfile.TemporaryDirectory() as work:
        package = pathlib.Path(work) / "heddle"
        stage(build_folder, package)
        return write_wheel(package, out, version)


# ---- What pip calls ----


def has_cmake():
    """CMake 3.25 or newer, the oldest that the build accepts."""
    if not shutil.which("cmake"):
        return False
    major, minor = re.search(r"(\d+)\.(\d+)", run("cmake", "--version")).groups()
    return (int(major), int(minor)) >= (3, 25)


def get_requires_for_build_wheel(config_settings=None):
    return ([] if has_cmake() else ["cmake>=3.25"]) + ([] if shutil.which("ninja") or shutil.which("make") else ["ninja"])


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    """Builds in a new folder, so that nothing of an earlier build or configuration is in the wheel."""
    with tempfile.TemporaryDirectory() as work:
        generator = ["-G", "Ninja"] if shutil.which("ninja") else []
        configured = run("cmake", "-S", ROOT, "-B", work, *generator, "-DHEDDLE_TESTS=OFF", "-DCMAKE_INSTALL_LIBDIR=lib")
        print(*re.findall(r"-- No .*|-- .*not found:.*", configured), sep="\n")
        run("cmake", "--build", work, "-j", len(os.sched_getaffinity(0)))
        return wheel_of(work, pathlib.Path(wheel_directory)).name


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=pathlib.Path, required=True, help="the finished build")
    parser.add_argument("out", nargs="?", type=pathlib.Path, default=pathlib.Path("dist"))
    options = parser.parse_args()
    print(wheel_of(options.build, options.out))


if __name__ == "__main__":
    main()

# SPDX-License-Identifier: BSD-3-Clause
"""Stands in for Spack's module of the same name, and builds a recipe as Spack does: cmake.py PACKAGE.PY PREFIX BUILD_FOLDER."""
import importlib.util
import os
import pathlib
import re
import subprocess
import sys
import types
import urllib.parse

from spack.package import stated


class CMakePackage:
    def __init__(self, prefix):
        self.prefix = types.SimpleNamespace(bin=os.path.join(prefix, "bin"))
        self.spec = types.SimpleNamespace()

    def define(self, name, value):
        return f"-D{name}:BOOL={'ON' if value else 'OFF'}" if isinstance(value, bool) else f"-D{name}:STRING={value}"

    def define_from_variant(self, name, variant):
        return self.define(name, stated["variants"][variant])


def run(*command):
    print("$", *command, flush=True)
    done = subprocess.run(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if done.returncode:
        sys.exit(done.stdout[-4000:])
    return done.stdout


def main(recipe, prefix, build):
    specification = importlib.util.spec_from_file_location("package", recipe)
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    package = module.Heddle(prefix)
    source = build + "-source"
    run("git", "clone", "-q", urllib.parse.urlparse(package.git).path, source)
    options = [f"-DCMAKE_INSTALL_PREFIX:STRING={prefix}", f"-DCMAKE_BUILD_TYPE:STRING={stated['variants']['build_type']}",
               "-DCMAKE_INSTALL_RPATH_USE_LINK_PATH:BOOL=ON", f"-DCMAKE_INSTALL_RPATH:STRING={prefix}/lib;{prefix}/lib64"]
    configured = run("cmake", "-S", source, "-B", build, *options, *package.cmake_args())
    assert "not used by the project" not in configured, configured
    run("cmake", "--build", build, "-j", "2")
    run("cmake", "--install", build)
    print("depends on", *sorted(stated["dependencies"]), "and provides", *stated["provided"])

    class Environment(dict):
        set = dict.__setitem__

    environment = Environment()
    dependent = types.SimpleNamespace(package=types.SimpleNamespace(module=types.SimpleNamespace(spack_cc="gcc", spack_cxx="g++")))
    package.setup_dependent_build_environment(environment, dependent)
    package.setup_dependent_package(None, dependent)
    print("for dependents:", *(f"{name}={value}" for name, value in environment.items()))
    for name in ("mpicc", "mpicxx", "mpifc", "mpif77"):
        assert pathlib.Path(getattr(package.spec, name)).exists(), name
    assert re.match(r"mpi@", stated["provided"][0]) and "main" in stated["versions"]


if __name__ == "__main__":
    main(*sys.argv[1:])

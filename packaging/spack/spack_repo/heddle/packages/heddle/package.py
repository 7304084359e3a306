# SPDX-License-Identifier: BSD-3-Clause
"""Spack's recipe of Heddle; it builds the clone that it is in. tests/install/spack_test.sh runs it."""
import pathlib

from spack_repo.builtin.build_systems.cmake import CMakePackage

from spack.package import *


class Heddle(CMakePackage):
    """MPI library that runs many ranks as user-level threads in one process."""

    git = pathlib.Path(__file__).resolve().parents[6].as_uri()
    license("BSD-3-Clause")
    version("main", branch="main")

    variant("cuda", default=False, description="Device buffers")
    variant("fortran", default=True, description="mpifort and the modules mpi and mpi_f08")
    variant("build_type", default="RelWithDebInfo", values=("Debug", "RelWithDebInfo"), description="CMake's build type")

    provides("mpi@:5.0")

    depends_on("c", type="build")
    depends_on("cxx", type="build")
    depends_on("fortran", type="build", when="+fortran")
    depends_on("cmake@3.25:", type="build")
    depends_on("python@3.8:", type="build")
    depends_on("pkgconfig", type="build")
    depends_on("ucx")
    depends_on("pmix")
    depends_on("cuda", when="+cuda")

    def cmake_args(self):
        return [
            self.define("HEDDLE_TESTS", False),
            self.define_from_variant("HEDDLE_CUDA", "cuda"),
        ]

    def setup_dependent_build_environment(self, env, dependent_spec):
        """mpicc and the others call the compilers that Spack chose for the dependent package."""
        for language in ("cc", "cxx", "fc"):
            compiler = getattr(dependent_spec.package.module, "spack_" + language, None)
            if compiler:
                env.set("HEDDLE_" + language.upper(), compiler)

    def setup_dependent_package(self, module, dependent_spec):
        """The names by which Spack's packages call the compilers of an MPI."""
        for name, command in (("mpicc", "mpicc"), ("mpicxx", "mpicxx"), ("mpifc", "mpifort"), ("mpif77", "mpifort")):
            setattr(self.spec, name, join_path(self.prefix.bin, command))

# SPDX-License-Identifier: BSD-3-Clause
#
# `cpack -G DEB` in the build folder makes a Debian package that lies beside Open MPI and MPICH: everything is in
# /usr/lib/heddle, and mpicc and mpirun are alternatives (update-alternatives --config mpi, ... mpirun) that do not
# take over from those two by themselves.
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME heddle)
set(CPACK_PACKAGE_VENDOR "Heddle")
set(CPACK_PACKAGE_CONTACT "Heddle maintainers <maintainers@users.noreply.a-seed-1ebb704d.example>")
set(CPACK_PACKAGE_VERSION ${PROJECT_VERSION})
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "${PROJECT_DESCRIPTION}")
set(CPACK_DEBIAN_PACKAGE_DESCRIPTION "Existing MPI programs run with thousands of ranks in one process,
each with its own copy of the program's globals; deadlocks are reported,
and device buffers (CUDA) accepted. mpicc and mpirun are alternatives
beside those of Open MPI and MPICH.")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr/lib/heddle)
set(CPACK_RESOURCE_FILE_LICENSE ${PROJECT_SOURCE_DIR}/LICENSE)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_DEBUGINFO_PACKAGE ON) # what gdb needs, in heddle-dbgsym_*.ddeb
set(CPACK_DEBIAN_PACKAGE_SECTION devel)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_RECOMMENDS "gcc | c-compiler")
set(CPACK_DEBIAN_PACKAGE_SUGGESTS "g++ | c++-compiler")
set(CPACK_DEBIAN_PACKAGE_CONTROL_EXTRA
    ${PROJECT_SOURCE_DIR}/cmake/debian/postinst ${PROJECT_SOURCE_DIR}/cmake/debian/prerm)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_PRE_BUILD_SCRIPTS ${PROJECT_SOURCE_DIR}/cmake/debian/stage.cmake)
include(CPack)

# What people read, laid out so that its links work: licence, guide, results, examples; and the commands for gdb.
install(FILES LICENSE README.md CONTRIBUTING.md SECURITY.md CHANGELOG.md DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(DIRECTORY docs DESTINATION ${CMAKE_INSTALL_DOCDIR} FILES_MATCHING PATTERN "*.md" PATTERN "*.svg" PATTERN "timeline.*" PATTERN "launch.json")
install(DIRECTORY examples DESTINATION ${CMAKE_INSTALL_DOCDIR} PATTERN .gitignore EXCLUDE)
install(FILES src/image/heddle-gdb.py src/machine_ucx/heddle-lsan.supp DESTINATION ${CMAKE_INSTALL_DATADIR}/heddle)
install(DIRECTORY src/python/heddle DESTINATION ${CMAKE_INSTALL_DATADIR}/heddle/python FILES_MATCHING PATTERN "*.py" PATTERN __pycache__ EXCLUDE)

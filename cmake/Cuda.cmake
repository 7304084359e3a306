# SPDX-License-Identifier: BSD-3-Clause
#
# Looks for CUDA: cuda.h to pass device buffers at all, nvcc for the kernels that pack and combine on GPUs. A GPU or a
# driver is not needed to build.
#
#   HEDDLE_HAS_CUDA      there is cuda.h, in HEDDLE_CUDA_INCLUDE
#   HEDDLE_HAS_NVCC      there is HEDDLE_NVCC as well
set(HEDDLE_HAS_CUDA OFF)
set(HEDDLE_HAS_NVCC OFF)
if(HEDDLE_CUDA)
  set(cuda_roots $ENV{CUDA_HOME} $ENV{CUDA_PATH} /usr/local/cuda /opt/cuda)
  find_path(HEDDLE_CUDA_INCLUDE cuda.h HINTS ${cuda_roots} PATH_SUFFIXES include targets/x86_64-linux/include)
  find_program(HEDDLE_NVCC nvcc HINTS ${cuda_roots} PATH_SUFFIXES bin)
  if(HEDDLE_CUDA_INCLUDE)
    file(STRINGS ${HEDDLE_CUDA_INCLUDE}/cuda.h cuda_version REGEX "^#define CUDA_VERSION [0-9]+")
    string(REGEX REPLACE ".* " "" cuda_version "${cuda_version}")
  endif()
  if(HEDDLE_CUDA_INCLUDE AND cuda_version GREATER_EQUAL 12000)
    set(HEDDLE_HAS_CUDA ON)
    if(HEDDLE_NVCC)
      set(HEDDLE_HAS_NVCC ON)
    else()
      message(STATUS "nvcc not found: derived datatypes and reductions of device buffers go through the host")
    endif()
  elseif(NOT HEDDLE_CUDA STREQUAL "AUTO")
    message(FATAL_ERROR "HEDDLE_CUDA=${HEDDLE_CUDA}, but cuda.h of CUDA 12 or later was not found "
                        "(set CUDA_HOME, or HEDDLE_CUDA=OFF)")
  else()
    message(STATUS "cuda.h of CUDA 12 or later not found: no support for device buffers")
  endif()
endif()

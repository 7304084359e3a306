! SPDX-License-Identifier: BSD-3-Clause
!
! Shows that a library or a program knows the addresses with a meaning. With -DINTERFACE_mpif, _mpi or _mpi_f08;
! -DCHECK=name of the function; with -DPROGRAM a main program calls it.
function CHECK() result(errors) bind(C)
  use, intrinsic :: iso_c_binding, only: C_INT
#ifdef INTERFACE_mpi
  use mpi
#endif
#ifdef INTERFACE_mpi_f08
  use mpi_f08
#endif
  implicit none
#ifdef INTERFACE_mpif
  include 'mpif.h'
#endif
#ifdef INTERFACE_mpi_f08
  type(MPI_Comm) :: ring
#else
  integer :: ring
#endif
  integer(C_INT) :: errors
  integer :: ranks, value, weights(1), ierror

  errors = 0
  call MPI_Comm_size(MPI_COMM_WORLD, ranks, ierror)
  value = 1
  call MPI_Allreduce(MPI_IN_PLACE, value, 1, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, ierror)
  if (value /= ranks) errors = errors + 1
  call MPI_Sendrecv(value, 1, MPI_INTEGER, MPI_PROC_NULL, 0, weights, 1, MPI_INTEGER, MPI_PROC_NULL, 0, MPI_COMM_WORLD, &
                    MPI_STATUS_IGNORE, ierror)
  call MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 1, [0], MPI_UNWEIGHTED, 1, [0], MPI_UNWEIGHTED, MPI_INFO_NULL, .false., &
                                      ring, ierror)
  call MPI_Comm_free(ring, ierror)
end function

#ifdef PROGRAM
program main
  use, intrinsic :: iso_c_binding, only: C_INT
  implicit none
  interface
    function CHECK() result(errors) bind(C)
      import
      integer(C_INT) :: errors
    end function
  end interface
  integer :: ierror

  call MPI_Init(ierror)
  if (CHECK() /= 0) stop 1
  call MPI_Finalize(ierror)
end program
#endif

! SPDX-License-Identifier: BSD-3-Clause
!
! Shows: in module mpi each way to access a file moves the data and fills the status, and a file's properties are right (io_forms.f90).
program io_forms_f90
  use mpi
  implicit none
  integer, parameter :: n = 100
  character(len=*), parameter :: interface_name = 'f90_'
  integer, asynchronous :: out(n), in(n)
  integer :: rank, ierror, seed = 0
  integer(kind=MPI_OFFSET_KIND), parameter :: start = 0, at = 3
  integer :: file, status(MPI_STATUS_SIZE), request, info, handler
  character(len=60) :: name

  include 'io_forms.f90'
end program io_forms_f90

! SPDX-License-Identifier: BSD-3-Clause
!
! Shows: in module mpi_f08 each way to access a file moves the data and fills the status, and a file's properties are right (io_forms.f90).
program io_forms_f08
  use mpi_f08
  implicit none
  integer, parameter :: n = 100
  character(len=*), parameter :: interface_name = 'f08_'
  integer, asynchronous :: out(n), in(n)
  integer :: rank, ierror, seed = 0
  integer(kind=MPI_OFFSET_KIND), parameter :: start = 0, at = 3
  type(MPI_File) :: file
  type(MPI_Status) :: status
  type(MPI_Request) :: request
  type(MPI_Info) :: info
  type(MPI_Errhandler) :: handler
  character(len=60) :: name

  include 'io_forms.f90'
end program io_forms_f08

! SPDX-License-Identifier: BSD-3-Clause
!
! A tool in Fortran: counts calls of MPI_SEND of mpif.h and module mpi, and of two functions of mpi_f08.
module counts
  implicit none
  integer :: n_send = 0, n_send_f08 = 0, n_rank_f08 = 0
end module

subroutine mpi_send(buf, count, datatype, dest, tag, comm, ierror)
  use counts
  implicit none
  integer :: buf(*), count, datatype, dest, tag, comm, ierror
  external :: pmpi_send
  n_send = n_send + 1
  call pmpi_send(buf, count, datatype, dest, tag, comm, ierror)
end subroutine

! A procedure with choice buffers gets descriptors in C's form, so it has BIND(C) and the linker name.
subroutine MPI_Send_f08ts(buf, count, datatype, dest, tag, comm, ierror) bind(C, name="mpi_send_f08ts_")
  use counts
  use mpi_f08, only: MPI_Comm, MPI_Datatype, PMPI_Send
  implicit none
  type(*), dimension(..), intent(in) :: buf
  integer, intent(in) :: count, dest, tag
  type(MPI_Datatype), intent(in) :: datatype
  type(MPI_Comm), intent(in) :: comm
  integer, optional, intent(out) :: ierror
  n_send_f08 = n_send_f08 + 1
  call PMPI_Send(buf, count, datatype, dest, tag, comm, ierror)
end subroutine

subroutine MPI_Comm_rank_f08(comm, rank, ierror)
  use counts
  use mpi_f08, only: MPI_Comm, PMPI_Comm_rank
  implicit none
  type(MPI_Comm), intent(in) :: comm
  integer, intent(out) :: rank
  integer, optional, intent(out) :: ierror
  n_rank_f08 = n_rank_f08 + 1
  call PMPI_Comm_rank(comm, rank, ierror)
end subroutine

! SPDX-License-Identifier: BSD-3-Clause
!
! For reports_test.sh: one communicator is never freed; requests and a datatype are.
program reports
  use mpi_f08
  implicit none
  type(MPI_Comm) :: dup
  type(MPI_Datatype) :: type
  type(MPI_Request) :: requests(2)
  integer :: rank, size, x, y

  call MPI_Init()
  call MPI_Comm_rank(MPI_COMM_WORLD, rank)
  call MPI_Comm_size(MPI_COMM_WORLD, size)
  call MPI_Comm_dup(MPI_COMM_WORLD, dup) ! dup
  y = rank
  call MPI_Irecv(x, 1, MPI_INTEGER, mod(rank + size - 1, size), 1, dup, requests(1))
  call MPI_Isend(y, 1, MPI_INTEGER, mod(rank + 1, size), 1, dup, requests(2))
  call MPI_Waitall(2, requests, MPI_STATUSES_IGNORE)
  call MPI_Type_contiguous(3, MPI_REAL, type)
  call MPI_Type_free(type)
  call MPI_Finalize()
end program

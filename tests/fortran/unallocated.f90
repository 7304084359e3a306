! SPDX-License-Identifier: BSD-3-Clause
!
! Shows: module mpi_f08 takes an array that is not allocated as a buffer without memory: calls with count 0 work (messages, persistent
! requests, collectives), and calls with another count return MPI_ERR_BUFFER.
program unallocated
  use mpi_f08
  implicit none
  integer :: rank, size, right, left, error, class
  integer, allocatable, asynchronous :: none(:), no_table(:, :, :)
  integer, pointer, asynchronous :: nowhere(:, :) => null()
  integer :: all(64)
  type(MPI_Request) :: requests(2)

  call MPI_Init()
  call MPI_Comm_rank(MPI_COMM_WORLD, rank)
  call MPI_Comm_size(MPI_COMM_WORLD, size)
  right = mod(rank + 1, size)
  left = mod(rank + size - 1, size)

  call MPI_Sendrecv(no_table, 0, MPI_INTEGER, right, 1, nowhere, 0, MPI_INTEGER, left, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE)
  call MPI_Irecv(none, 0, MPI_INTEGER, left, 2, MPI_COMM_WORLD, requests(1))
  call MPI_Isend(nowhere, 0_MPI_COUNT_KIND, MPI_INTEGER, right, 2, MPI_COMM_WORLD, requests(2))
  call MPI_Waitall(2, requests, MPI_STATUSES_IGNORE)
  call MPI_Recv_init(nowhere, 0, MPI_INTEGER, left, 3, MPI_COMM_WORLD, requests(1))
  call MPI_Send_init(no_table, 0, MPI_INTEGER, right, 3, MPI_COMM_WORLD, requests(2))
  call MPI_Startall(2, requests)
  call MPI_Waitall(2, requests, MPI_STATUSES_IGNORE)
  call MPI_Request_free(requests(1))
  call MPI_Request_free(requests(2))
  call MPI_Allreduce(none, nowhere, 0, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD)
  ! Only the root has a receive buffer.
  if (rank == 0) then
    call MPI_Gather(rank, 1, MPI_INTEGER, all, 1, MPI_INTEGER, 0, MPI_COMM_WORLD)
  else
    call MPI_Gather(rank, 1, MPI_INTEGER, no_table, 1, MPI_INTEGER, 0, MPI_COMM_WORLD)
  end if
  if (rank == 0 .and. all(size) /= size - 1) error stop 'wrong data in gather'

  call MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN)
  call MPI_Send(no_table, 5, MPI_INTEGER, right, 4, MPI_COMM_WORLD, error)
  call MPI_Error_class(error, class)
  if (class /= MPI_ERR_BUFFER) error stop 'MPI_Send without memory'
  call MPI_Irecv(nowhere, 7, MPI_INTEGER, left, 4, MPI_COMM_WORLD, requests(1), error)
  call MPI_Error_class(error, class)
  if (class /= MPI_ERR_BUFFER) error stop 'MPI_Irecv without memory'
  call MPI_Bcast(none, 5, MPI_INTEGER, 0, MPI_COMM_WORLD, error)
  call MPI_Error_class(error, class)
  if (class /= MPI_ERR_BUFFER) error stop 'MPI_Bcast without memory'
  call MPI_Finalize()
end program

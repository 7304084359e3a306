! SPDX-License-Identifier: BSD-3-Clause
!
! Shows: module mpi_f08: types of handles, ierror left out, both kinds of counts, statuses, comparison of handles.
program p2p_f08
  use mpi_f08
  implicit none
  integer :: rank, size, left, right, n, index, outcount, indices(3), ierr
  integer(kind=MPI_COUNT_KIND) :: large, large_count
  type(MPI_Status) :: status, statuses(3)
  type(MPI_Request) :: requests(3)
  type(MPI_Message) :: message
  type(MPI_Comm) :: comm
  type(MPI_Group) :: group
  type(MPI_Datatype) :: type, types(1)
  integer(kind=MPI_ADDRESS_KIND) :: lb, extent
  integer :: list(6), f_status(MPI_STATUS_SIZE), n_integers, n_addresses, n_types, combiner, integers(3)
  integer(kind=MPI_ADDRESS_KIND) :: addresses(1)
  logical :: flag
  double precision :: matrix(2, 2)

  call MPI_Init()
  call MPI_Comm_dup(MPI_COMM_WORLD, comm)
  call check(comm /= MPI_COMM_WORLD .and. comm == comm, 'comparison of handles')
  call MPI_Comm_rank(comm, rank, ierr)
  call check(ierr == MPI_SUCCESS, 'ierror')
  call MPI_Comm_size(comm, size)
  right = mod(rank + 1, size)
  left = mod(rank + size - 1, size)

  matrix = rank
  call MPI_Sendrecv_replace(matrix, 4, MPI_DOUBLE_PRECISION, right, 1, left, 1, comm, status)
  call check(all(matrix == left) .and. status%MPI_SOURCE == left .and. status%MPI_TAG == 1, 'sendrecv_replace')
  large = 3
  call MPI_Isend([4, 5, 6], large, MPI_INTEGER, right, 2, comm, requests(1))
  call MPI_Mprobe(left, 2, comm, message, status)
  call MPI_Get_count(status, MPI_INTEGER, large_count)
  call MPI_Get_count(status, MPI_INTEGER, n)
  call check(n == 3 .and. large_count == 3, 'counts of both kinds')
  call MPI_Mrecv(list, large_count, MPI_INTEGER, message, MPI_STATUS_IGNORE)
  call check(all(list(1:3) == [4, 5, 6]) .and. message == MPI_MESSAGE_NULL, 'mrecv')
  call MPI_Wait(requests(1), MPI_STATUS_IGNORE)
  call check(requests(1) == MPI_REQUEST_NULL, 'wait')

  call MPI_Irecv(n, 1, MPI_INTEGER, left, 4, comm, requests(2))
  requests(3) = MPI_REQUEST_NULL
  call MPI_Send(rank, 1, MPI_INTEGER, right, 4, comm)
  call MPI_Waitsome(3, requests, outcount, indices, statuses)
  call check(outcount == 1 .and. indices(1) == 2 .and. n == left, 'waitsome')
  call MPI_Testany(3, requests, index, flag, status)
  call check(flag .and. index == MPI_UNDEFINED, 'testany')
  call MPI_Status_f082f(statuses(1), f_status)
  call check(f_status(MPI_SOURCE) == left .and. f_status(MPI_TAG) == 4, 'Status_f082f')
  call MPI_Status_f2f08(f_status, status)
  call check(status%MPI_TAG == 4, 'Status_f2f08')

  call MPI_Type_vector(3, 1, 2, MPI_INTEGER, type)
  call MPI_Type_commit(type)
  call MPI_Type_get_extent(type, lb, extent)
  call check(lb == 0 .and. extent == 20, 'extent')
  call MPI_Type_get_envelope(type, n_integers, n_addresses, n_types, combiner)
  call check(n_integers == 3 .and. n_types == 1 .and. combiner == MPI_COMBINER_VECTOR, 'envelope')
  call MPI_Type_get_contents(type, 3, 0, 1, integers, addresses, types)
  call check(all(integers == [3, 1, 2]) .and. types(1) == MPI_INTEGER, 'contents')
  list = [1, 2, 3, 4, 5, 6] + rank * 10
  call MPI_Sendrecv_replace(list, 1, type, right, 5, left, 5, comm, status)
  call check(all(list == [left * 10 + 1, rank * 10 + 2, left * 10 + 3, rank * 10 + 4, left * 10 + 5, rank * 10 + 6]), 'vector')
  call MPI_Type_free(type)
  call check(type == MPI_DATATYPE_NULL, 'type is freed')
  call MPI_Comm_group(comm, group)
  call MPI_Group_size(group, n)
  call check(n == size, 'group')
  call MPI_Group_free(group)
  call MPI_Comm_free(comm)
  call check(comm == MPI_COMM_NULL .and. MPI_Wtime() > 0, 'the end')
  call MPI_Finalize()
contains
  include 'checks.f90'
end program

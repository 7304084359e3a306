! SPDX-License-Identifier: BSD-3-Clause
!
! Shows: module mpi_f08 leaves alone the elements of a section that an operation does not receive: two receives with datatypes
! that have gaps fill parts of one section, the program stores into others meanwhile; a send of a section may be freed at once, a
! receive into a copy of it may not; arguments that are not significant may be anything.
program sections_apart
  use mpi_f08
  implicit none
  integer, parameter :: n = 200000
  integer :: rank, size, left, right, i, round, ierror
  type(MPI_Request) :: requests(3)
  type(MPI_Datatype) :: odd, undefined
  integer, allocatable, asynchronous :: a(:, :), b(:, :), all_of(:, :)
  integer, allocatable :: other(:)

  call MPI_Init()
  call MPI_Comm_rank(MPI_COMM_WORLD, rank)
  call MPI_Comm_size(MPI_COMM_WORLD, size)
  right = mod(rank + 1, size)
  left = mod(rank + size - 1, size)
  allocate (a(2, n), b(2, n), all_of(2, size))
  ! Every second element of what it is used on.
  call MPI_Type_vector(n / 4, 1, 2, MPI_INTEGER, odd)
  call MPI_Type_commit(odd)

  do round = 1, 3
    a = round * 1000 + rank
    b = -1
    call MPI_Irecv(b(1, 1:n - 1), 1, odd, left, 1, MPI_COMM_WORLD, requests(1))
    call MPI_Irecv(b(1, 2:n), 1, odd, left, 2, MPI_COMM_WORLD, requests(2))
    call MPI_Barrier(MPI_COMM_WORLD)
    b(1, n) = 77
    b(1, n / 2 + 1) = 78
    call MPI_Send(a(1, 1:n / 4), n / 4, MPI_INTEGER, right, 2, MPI_COMM_WORLD)
    call MPI_Wait(requests(2), MPI_STATUS_IGNORE)
    call MPI_Send(a(2, 1:n / 4), n / 4, MPI_INTEGER, right, 1, MPI_COMM_WORLD)
    call MPI_Wait(requests(1), MPI_STATUS_IGNORE)
    call MPI_F_sync_reg(b)
    call check(all(b(1, 1:n / 2) == round * 1000 + left), 'two receives into one section')
    call check(b(1, n) == 77 .and. b(1, n / 2 + 1) == 78, 'stored meanwhile')
    call check(all(b(2, :) == -1) .and. all(b(1, n / 2 + 2:n - 1) == -1), 'nothing else')
  end do

  ! The message waits for its receive, and so does the copy that it is sent from.
  a(1, :) = [(i + rank, i=1, n)]
  call MPI_Isend(a(1, :), 1, odd, right, 3, MPI_COMM_WORLD, requests(1))
  call MPI_Request_free(requests(1))
  call check(requests(1) == MPI_REQUEST_NULL, 'freed')
  allocate (other(n))
  other = -5
  call MPI_Barrier(MPI_COMM_WORLD)
  b = -1
  call MPI_Recv(b(1, :), n / 4, MPI_INTEGER, left, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE)
  call check(all(b(1, 1:n / 4) == [(i + left, i=1, n / 2, 2)]), 'a send that was freed')
  call check(all(other == -5), 'other memory')
  call MPI_Barrier(MPI_COMM_WORLD)

  call MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN)
  b = -1
  call MPI_Irecv(b(1, :), 1, odd, left, 4, MPI_COMM_WORLD, requests(1))
  call MPI_Request_free(requests(1), ierror)
  call MPI_Error_class(ierror, i)
  call check(i == MPI_ERR_REQUEST .and. requests(1) /= MPI_REQUEST_NULL, 'a receive into a copy is not freed')
  call MPI_Barrier(MPI_COMM_WORLD)
  call MPI_Send(a(1, 1:n / 4), n / 4, MPI_INTEGER, right, 4, MPI_COMM_WORLD)
  call MPI_Wait(requests(1), MPI_STATUS_IGNORE)
  call MPI_F_sync_reg(b)
  call check(all(b(1, 1:n / 2:2) == [(i + left, i=1, n / 4)]), 'but may be waited for')

  undefined%MPI_VAL = 123456
  all_of = -1
  all_of(2, rank + 1) = rank
  call MPI_Allgather(MPI_IN_PLACE, -3, undefined, all_of(2, :), 1, MPI_INTEGER, MPI_COMM_WORLD)
  call check(all(all_of(2, :) == [(i, i=0, size - 1)]) .and. all(all_of(1, :) == -1), 'what is not significant')
  call MPI_Type_free(odd)
  call MPI_Finalize()
contains
  include 'checks.f90'
end program

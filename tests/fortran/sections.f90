! SPDX-License-Identifier: BSD-3-Clause
!
! Shows: module mpi_f08 takes array sections with gaps: blocking and nonblocking messages, part of a section, collectives,
! reductions, one-sided access; MPI_SUBARRAYS_SUPPORTED is .true.
program sections
  use mpi_f08
  implicit none
  integer :: rank, size, left, right, i, j, k, expected
  integer, target, asynchronous :: a(6, 5, 4), b(6, 5, 4)
  integer, asynchronous :: line(20), lines(3, 40)
  integer, pointer :: view(:, :)
  type(MPI_Request) :: requests(2)
  type(MPI_Status) :: status
  type(MPI_Win) :: win
  integer, allocatable, asynchronous :: all_of(:, :)
  complex :: z(8)
  integer :: remote(10)

  if (.not. MPI_SUBARRAYS_SUPPORTED .or. .not. MPI_ASYNC_PROTECTS_NONBLOCKING) error stop 'sections are not supported'
  call MPI_Init()
  call MPI_Comm_rank(MPI_COMM_WORLD, rank)
  call MPI_Comm_size(MPI_COMM_WORLD, size)
  right = mod(rank + 1, size)
  left = mod(rank + size - 1, size)

  do k = 1, 4
    do j = 1, 5
      do i = 1, 6
        a(i, j, k) = value(rank, i, j, k)
      end do
    end do
  end do
  ! A section in three dimensions to a line, and back into another section.
  line = 0
  call MPI_Sendrecv(a(1:6:3, 2:5:2, 1:4), 16, MPI_INTEGER, right, 1, line, 16, MPI_INTEGER, left, 1, MPI_COMM_WORLD, status)
  call check(all(line(1:16) == [(((value(left, i, j, k), i=1, 6, 3), j=2, 5, 2), k=1, 4)]), 'section to line')
  b = 0
  call MPI_Sendrecv(line, 16, MPI_INTEGER, right, 1, b(6:1:-3, 5:2:-2, :), 16, MPI_INTEGER, left, 1, MPI_COMM_WORLD, status)
  i = mod(left + size - 1, size)
  call check(b(6, 5, 1) == value(i, 1, 2, 1) .and. b(3, 5, 1) == value(i, 4, 2, 1) .and. b(3, 3, 4) == value(i, 4, 4, 4), &
             'line to a section that runs backwards')
  call check(count(b /= 0) == 16, 'nothing else is written')

  ! Nonblocking, and only the first 7 elements of a section with 3 in a column.
  b = -1
  call MPI_Irecv(b(1:5:2, :, 2), 7, MPI_INTEGER, left, 2, MPI_COMM_WORLD, requests(1))
  call MPI_Isend(a(2, 1:5, 1:4), 7, MPI_INTEGER, right, 2, MPI_COMM_WORLD, requests(2))
  call MPI_Waitall(2, requests, MPI_STATUSES_IGNORE)
  call check(all([b(1, 1, 2), b(3, 1, 2), b(5, 1, 2), b(1, 2, 2), b(3, 2, 2), b(5, 2, 2), b(1, 3, 2)] == &
                 [value(left, 2, 1, 1), value(left, 2, 2, 1), value(left, 2, 3, 1), value(left, 2, 4, 1), value(left, 2, 5, 1), &
                  value(left, 2, 1, 2), value(left, 2, 2, 2)]), 'a part of a section')
  call check(count(b /= -1) == 7, 'a part of a section, nothing else')

  ! A pointer to a section; two elements of the datatype in one of the array.
  view => a(2:6:2, :, 3)
  call MPI_Send_init(view, 15_MPI_COUNT_KIND, MPI_INTEGER, right, 3, MPI_COMM_WORLD, requests(1))
  call MPI_Recv_init(b(1, :, 1:3), 15, MPI_INTEGER, left, 3, MPI_COMM_WORLD, requests(2))
  do k = 1, 2
    b = 0
    view(2, 2) = 1000 * k + rank
    call MPI_F_sync_reg(b)
    call MPI_Startall(2, requests)
    call MPI_Waitall(2, requests, MPI_STATUSES_IGNORE)
    call MPI_F_sync_reg(b)
    call check(b(1, 5, 1) == 1000 * k + left, 'persistent requests with sections')
  end do
  call MPI_Request_free(requests(1))
  call MPI_Request_free(requests(2))
  z = cmplx(rank, 1)
  call MPI_Bcast(z(1:8:2), 8, MPI_REAL, 0, MPI_COMM_WORLD)
  call check(all(z(1:8:2) == (0.0, 1.0)) .and. all(z(2:8:2) == cmplx(rank, 1)), 'two datatypes in an element')

  ! Collectives and reductions.
  lines = -1
  lines(2, 1:20) = rank
  call MPI_Allreduce(MPI_IN_PLACE, lines(2, 1:20), 20, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD)
  expected = size * (size - 1) / 2
  call check(all(lines(2, 1:20) == expected) .and. all(lines(1, :) == -1) .and. all(lines(2, 21:) == -1), 'allreduce in place')
  lines(1, 1:20) = rank
  lines(3, :) = -3
  call MPI_Iallreduce(lines(1, 1:20:2), lines(3, 2:20:2), 10, MPI_INTEGER, MPI_MAX, MPI_COMM_WORLD, requests(1))
  call MPI_Wait(requests(1), MPI_STATUS_IGNORE)
  call check(all(lines(3, 2:20:2) == size - 1) .and. all(lines(3, 1:19:2) == -3), 'nonblocking reduction')
  allocate (all_of(2, 2 * size))
  all_of = -1
  call MPI_Allgather(lines(1, 1:4:2), 2, MPI_INTEGER, all_of(2, :), 2, MPI_INTEGER, MPI_COMM_WORLD)
  call check(all(all_of(2, :) == [((i, j=1, 2), i=0, size - 1)]) .and. all(all_of(1, :) == -1), 'allgather')
  all_of = -1
  call MPI_Igather(rank, 1, MPI_INTEGER, all_of(1, 1:2 * size:2), 1, MPI_INTEGER, 0, MPI_COMM_WORLD, requests(1))
  call MPI_Waitall(1, requests, MPI_STATUSES_IGNORE)
  if (rank == 0) call check(all(all_of(1, 1:2 * size:2) == [(i, i=0, size - 1)]), 'igather')
  call check(all(all_of(1, 2:2 * size:2) == -1), 'igather, nothing else')
  all_of(1, :) = rank
  call MPI_Alltoall(all_of(1, :), 2, MPI_INTEGER, all_of(2, :), 2, MPI_INTEGER, MPI_COMM_WORLD)
  call check(all(all_of(2, :) == [((i, j=1, 2), i=0, size - 1)]), 'alltoall')

  ! One-sided.
  remote = 0
  call MPI_Win_create(remote, 40_MPI_ADDRESS_KIND, 4, MPI_INFO_NULL, MPI_COMM_WORLD, win)
  call MPI_Win_fence(0, win)
  call MPI_Put(a(1, 1:5, 1), 5, MPI_INTEGER, right, 2_MPI_ADDRESS_KIND, 5, MPI_INTEGER, win)
  call MPI_Win_fence(0, win)
  call check(all(remote(3:7) == [(value(left, 1, j, 1), j=1, 5)]), 'put')
  lines(2, :) = 0
  call MPI_Get(lines(2, 1:10:2), 5, MPI_INTEGER, right, 2_MPI_ADDRESS_KIND, 5, MPI_INTEGER, win)
  call MPI_Win_fence(0, win)
  call check(all(lines(2, 1:10:2) == [(value(rank, 1, j, 1), j=1, 5)]) .and. all(lines(2, 2:10:2) == 0), 'get')
  call MPI_Win_free(win)
  call assumed(a, 6 * 5 * 4)
  call MPI_Finalize()
contains
  integer function value(of, i, j, k)
    integer, intent(in) :: of, i, j, k
    value = of * 10000 + i * 100 + j * 10 + k
  end function
  ! An array without a last extent.
  subroutine assumed(x, n)
    integer :: x(6, *)
    integer, intent(in) :: n
    call MPI_Bcast(x, n, MPI_INTEGER, 0, MPI_COMM_WORLD)
    call check(x(6, 20) == value(0, 6, 5, 4), 'assumed size')
    call MPI_Bcast(x(2, 1:4), 4, MPI_INTEGER, 0, MPI_COMM_WORLD)
  end subroutine
  include 'checks.f90'
end program

! SPDX-License-Identifier: BSD-3-Clause
!
! Shows: persistent requests of module mpi_f08 take array sections with gaps, and each start reads the section as it is then:
! reductions, collectives with a block per rank, datatypes with gaps; partitions of a section; what a section cannot be.
program sections_persistent
  use mpi_f08
  implicit none
  integer :: rank, size, left, right, i, j, round, ierror
  logical :: flag
  type(MPI_Request) :: request, requests(2)
  type(MPI_Datatype) :: with_gaps
  type(MPI_Errhandler) :: errors_return
  type(MPI_Status) :: status
  type(MPI_Win) :: win
  integer, asynchronous :: a(3, 12), b(3, 12)
  integer, allocatable, asynchronous :: all_of(:, :), answer(:, :)
  integer, allocatable :: counts(:), displs(:)

  call MPI_Init()
  call MPI_Comm_rank(MPI_COMM_WORLD, rank)
  call MPI_Comm_size(MPI_COMM_WORLD, size)
  right = mod(rank + 1, size)
  left = mod(rank + size - 1, size)

  ! A reduction: operations need a predefined datatype, so both sections are copied at each start and end.
  call MPI_Allreduce_init(a(2, 1:12:2), b(3, 2:12:2), 6, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, MPI_INFO_NULL, request)
  do round = 1, 3
    call fill(round)
    b = -round
    call MPI_Start(request)
    call MPI_Wait(request, MPI_STATUS_IGNORE)
    call MPI_F_sync_reg(b)
    call check(all(b(3, 2:12:2) == [(sum_of(round, 2, i), i=1, 12, 2)]), 'allreduce, persistent')
    call check(all(b(1:2, :) == -round) .and. all(b(3, 1:11:2) == -round), 'allreduce, nothing else')
  end do
  ! What the program stores between two starts stays, also when the request is freed.
  b = 77
  call MPI_Request_free(request)
  call check(all(b == 77), 'a freed request writes nothing')

  ! In place; the end is seen by MPI_Request_get_status first, then by MPI_Testall.
  call MPI_Scan_init(MPI_IN_PLACE, a(1, 2:11:3), 4, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, MPI_INFO_NULL, requests(1))
  call MPI_Reduce_init(a(2, ::3), b(2, ::3), 4, MPI_INTEGER, MPI_MAX, size - 1, MPI_COMM_WORLD, MPI_INFO_NULL, requests(2))
  do round = 1, 3
    call fill(round)
    b = -round
    call MPI_Startall(2, requests)
    if (round == 2) then
      flag = .false.
      do while (.not. flag)
        call MPI_Request_get_status(requests(1), flag, MPI_STATUS_IGNORE)
      end do
      call MPI_F_sync_reg(a)
      call check(a(1, 5) == partial_sum(round, 1, 5), 'data is there when MPI_Request_get_status says so')
    end if
    flag = .false.
    do while (.not. flag)
      call MPI_Testall(2, requests, flag, MPI_STATUSES_IGNORE)
    end do
    call MPI_F_sync_reg(a)
    call MPI_F_sync_reg(b)
    call check(all(a(1, 2:11:3) == [(partial_sum(round, 1, i), i=2, 11, 3)]), 'scan in place')
    call check(a(1, 1) == value(rank, round, 1, 1) .and. a(1, 3) == value(rank, round, 1, 3), 'scan, nothing else')
    if (rank == size - 1) call check(all(b(2, ::3) == [(value(size - 1, round, 2, i), i=1, 12, 3)]), 'reduce')
    if (rank /= size - 1) call check(all(b == -round), 'not the root of reduce')
  end do
  call MPI_Request_free(requests(1))
  call MPI_Request_free(requests(2))

  ! A block per rank: alltoall with rows of an array, gatherv and scatter with every other element.
  allocate (all_of(3, 2 * size), answer(3, 2 * size), counts(size), displs(size))
  call MPI_Alltoall_init(all_of(2, :), 2, MPI_INTEGER, answer(3, :), 2, MPI_INTEGER, MPI_COMM_WORLD, MPI_INFO_NULL, &
                         requests(1))
  requests(2) = MPI_REQUEST_NULL
  do round = 1, 2
    answer = -1
    all_of(2, :) = [((100 * round + 10 * rank + j, j=1, 2), i=1, size)]
    call MPI_Start(requests(1))
    call MPI_Waitany(2, requests, i, MPI_STATUS_IGNORE)
    call MPI_F_sync_reg(answer)
    call check(all(answer(3, :) == [((100 * round + 10 * i + j, j=1, 2), i=0, size - 1)]), 'alltoall, persistent')
    call check(all(answer(1:2, :) == -1), 'alltoall, nothing else')
  end do
  call MPI_Request_free(requests(1))
  counts = 1
  displs = [(size - i, i=1, size)]
  call MPI_Gatherv_init(a(1, 2), 1, MPI_INTEGER, answer(1, ::2), counts, displs, MPI_INTEGER, 0, MPI_COMM_WORLD, MPI_INFO_NULL, &
                        requests(1))
  call MPI_Scatter_init(all_of(1, 1:2 * size:2), 1, MPI_INTEGER, b(3, 12), 1, MPI_INTEGER, 0, MPI_COMM_WORLD, MPI_INFO_NULL, &
                        requests(2))
  do round = 1, 2
    call fill(round)
    b = -round
    answer = -1
    all_of(1, ::2) = [(1000 * round + i, i=1, size)]
    call MPI_Startall(2, requests)
    call MPI_Waitall(2, requests, MPI_STATUSES_IGNORE)
    call MPI_F_sync_reg(answer)
    if (rank == 0) call check(all(answer(1, ::2) == [(value(size - i, round, 1, 2), i=1, size)]), 'gatherv, persistent')
    call check(all(answer(:, 2::2) == -1), 'gatherv, nothing else')
    call check(b(3, 12) == 1000 * round + rank + 1, 'scatter, persistent')
  end do
  call MPI_Request_free(requests(1))
  call MPI_Request_free(requests(2))

  ! A message whose datatype has gaps: it counts in the elements of the section.
  call MPI_Type_vector(3, 1, 2, MPI_INTEGER, with_gaps)
  call MPI_Type_commit(with_gaps)
  call MPI_Send_init(a(2, ::2), 1, with_gaps, right, 7, MPI_COMM_WORLD, requests(1))
  call MPI_Recv_init(b(1, 1:12:2), 1, with_gaps, left, 7, MPI_COMM_WORLD, requests(2))
  do round = 1, 3
    call fill(round)
    b = -round
    call MPI_Startall(2, requests)
    call MPI_Waitall(2, requests, MPI_STATUSES_IGNORE)
    call MPI_F_sync_reg(b)
    call check(all(b(1, [1, 5, 9]) == [(value(left, round, 2, i), i=1, 9, 4)]), 'a datatype with gaps')
    call check(all(b(1, [3, 7, 11]) == -round), 'a datatype with gaps, nothing else')
  end do
  call MPI_Request_free(requests(1))
  call MPI_Request_free(requests(2))

  ! Partitions: rows, a section that runs backwards, and columns with gaps between them.
  call partitions(a(2, 1:12), b(3, 12:1:-1), 4, 3)
  call partitions(a(1:2, ::2), b(2:3, 1:6), 6, 2)
  call partitions(a(::2, :), b(1:2, :), 3, 8)

  call MPI_Psend_init(a(1:2, ::2), 4, 0_MPI_COUNT_KIND, MPI_INTEGER, right, 1, MPI_COMM_WORLD, MPI_INFO_NULL, requests(1))
  call MPI_Precv_init(b(1, ::2), 4, 0_MPI_COUNT_KIND, MPI_INTEGER, left, 1, MPI_COMM_WORLD, MPI_INFO_NULL, requests(2))
  b = 5
  call MPI_Startall(2, requests)
  call MPI_Pready_range(0, 3, requests(1))
  call MPI_Waitall(2, requests, MPI_STATUSES_IGNORE)
  call MPI_F_sync_reg(b)
  call check(all(b == 5), 'partitions without elements')
  call MPI_Request_free(requests(1))
  call MPI_Request_free(requests(2))

  ! What a section cannot be.
  call MPI_Comm_create_errhandler(ignore, errors_return)
  call MPI_Comm_set_errhandler(MPI_COMM_WORLD, errors_return)
  call MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN)
  ! 3 elements in a partition, 2 in a column.
  call MPI_Psend_init(a(1:2, ::2), 4, 3_MPI_COUNT_KIND, MPI_INTEGER, right, 1, MPI_COMM_WORLD, MPI_INFO_NULL, request, ierror)
  call MPI_Error_class(ierror, i)
  call check(i == MPI_ERR_BUFFER, 'partitions of different shape')
  call MPI_Precv_init(a(1, ::2), 2, 4_MPI_COUNT_KIND, MPI_INTEGER, left, 1, MPI_COMM_WORLD, MPI_INFO_NULL, request, ierror)
  call MPI_Error_class(ierror, i)
  call check(i == MPI_ERR_BUFFER, 'partitions beyond the end of the section')
  call MPI_Win_create(b, 144_MPI_ADDRESS_KIND, 4, MPI_INFO_NULL, MPI_COMM_WORLD, win)
  call MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN)
  call MPI_Win_fence(0, win)
  call MPI_Put(a(2, ::2), 1, with_gaps, right, 0_MPI_ADDRESS_KIND, 3, MPI_INTEGER, win, ierror)
  call MPI_Error_class(ierror, i)
  call check(i == MPI_ERR_BUFFER, 'a datatype with gaps in a section, one-sided')
  call MPI_Win_fence(MPI_MODE_NOSUCCEED, win)
  call fill(4)
  call MPI_Win_lock(MPI_LOCK_SHARED, right, 0, win)
  call MPI_Rput(a(2, ::2), 1, with_gaps, right, 0_MPI_ADDRESS_KIND, 3, MPI_INTEGER, win, request)
  call MPI_Wait(request, MPI_STATUS_IGNORE)
  call MPI_Win_unlock(right, win)
  call MPI_Barrier(MPI_COMM_WORLD)
  call MPI_Win_lock(MPI_LOCK_SHARED, rank, 0, win)
  call check(all(b(:, 1) == [(value(left, 4, 2, i), i=1, 9, 4)]), 'a datatype with gaps in a section, with a request')
  call MPI_Win_unlock(rank, win)
  call MPI_Win_free(win)
  call MPI_Win_create(a(2, ::2), 24_MPI_ADDRESS_KIND, 4, MPI_INFO_NULL, MPI_COMM_WORLD, win, ierror)
  call MPI_Error_class(ierror, i)
  call check(i == MPI_ERR_BUFFER, 'a window of a section')
  call MPI_Type_free(with_gaps)
  call MPI_Errhandler_free(errors_return)
  call MPI_Finalize()
contains
  subroutine ignore(comm, error_code)
    type(MPI_Comm) :: comm
    integer :: error_code
  end subroutine
  integer function value(of, round, i, j)
    integer, intent(in) :: of, round, i, j
    value = of * 10000 + round * 1000 + i * 100 + j
  end function
  integer function partial_sum(round, i, j)
    integer, intent(in) :: round, i, j
    integer :: k
    partial_sum = sum([(value(k, round, i, j), k=0, rank)])
  end function
  integer function sum_of(round, i, j)
    integer, intent(in) :: round, i, j
    integer :: k
    sum_of = sum([(value(k, round, i, j), k=0, size - 1)])
  end function
  subroutine fill(round)
    integer, intent(in) :: round
    integer :: i, j
    do j = 1, 12
      do i = 1, 3
        a(i, j) = value(rank, round, i, j)
      end do
    end do
  end subroutine
  ! Sends a section in n partitions of count elements to the right, each when it is written.
  subroutine partitions(from, to, n, count)
    integer, asynchronous :: from(..), to(..)
    integer, intent(in) :: n, count
    type(MPI_Request) :: requests(2)
    integer :: received(n * count), i, round
    call MPI_Psend_init(from, n, int(count, MPI_COUNT_KIND), MPI_INTEGER, right, 9, MPI_COMM_WORLD, MPI_INFO_NULL, requests(1))
    call MPI_Precv_init(to, n, int(count, MPI_COUNT_KIND), MPI_INTEGER, left, 9, MPI_COMM_WORLD, MPI_INFO_NULL, requests(2))
    do round = 1, 2
      b = -round
      a = 0
      call MPI_Startall(2, requests)
      call fill(round)
      do i = n - 1, 0, -1
        call MPI_Pready(i, requests(1))
      end do
      call MPI_Waitall(2, requests, MPI_STATUSES_IGNORE)
      call MPI_F_sync_reg(b)
      ! The elements in the order of the sections, by a message of the rank to itself.
      call MPI_Sendrecv(to, n * count, MPI_INTEGER, 0, 1, received, n * count, MPI_INTEGER, 0, 1, MPI_COMM_SELF, status)
      call check(all(received == expected(from, n * count)), 'partitions')
      call check(count_of_other() == 36 - n * count, 'partitions, nothing else')
    end do
    call MPI_Request_free(requests(1))
    call MPI_Request_free(requests(2))
  end subroutine
  integer function count_of_other()
    count_of_other = count(b < 0)
  end function
  ! The left neighbor's elements of the section: its rank's values instead of ours.
  function expected(from, n)
    integer :: from(..)
    integer, intent(in) :: n
    integer :: expected(n)
    call MPI_Sendrecv(from, n, MPI_INTEGER, 0, 1, expected, n, MPI_INTEGER, 0, 1, MPI_COMM_SELF, status)
    expected = expected + (left - rank) * 10000
  end function
  include 'checks.f90'
end program

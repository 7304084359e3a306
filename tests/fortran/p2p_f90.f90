! SPDX-License-Identifier: BSD-3-Clause
!
! Shows: module mpi: choice buffers of any type and rank, probes, persistent requests, messages matched
! before they are received, tests.
program p2p_f90
  use mpi
  implicit none
  integer :: rank, size, ierr, left, right, n, message, index, outcount
  integer :: status(MPI_STATUS_SIZE), requests(3), indices(3), statuses(MPI_STATUS_SIZE, 3)
  real, asynchronous :: matrix(3, 4), scalar
  complex(kind=8) :: z
  character(len=12) :: text
  logical :: flag
  integer, allocatable :: list(:)
  type(MPI_Status) :: f08

  call MPI_Init_thread(MPI_THREAD_FUNNELED, n, ierr)
  call check(n >= MPI_THREAD_SINGLE, 'thread level')
  call MPI_Initialized(flag, ierr)
  call check(flag, 'initialized')
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierr)
  call MPI_Comm_size(MPI_COMM_WORLD, size, ierr)
  right = mod(rank + 1, size)
  left = mod(rank + size - 1, size)

  matrix = rank
  call MPI_Sendrecv_replace(matrix, 12, MPI_REAL, right, 1, left, 1, MPI_COMM_WORLD, status, ierr)
  call check(all(matrix == left), 'a matrix')
  z = cmplx(rank, 1, 8)
  call MPI_Sendrecv_replace(z, 1, MPI_DOUBLE_COMPLEX, right, 1, left, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE, ierr)
  call check(z == cmplx(left, 1, 8), 'a complex number')
  write (text, '(a,i0)') 'rank ', rank
  call MPI_Bcast(text, len(text), MPI_CHARACTER, 0, MPI_COMM_WORLD, ierr)
  call check(text == 'rank 0', 'text')

  call MPI_Isend([1, 2, 3], 3, MPI_INTEGER, right, 2, MPI_COMM_WORLD, requests(1), ierr)
  call MPI_Mprobe(left, 2, MPI_COMM_WORLD, message, status, ierr)
  call MPI_Get_count(status, MPI_INTEGER, n, ierr)
  allocate (list(n))
  call MPI_Mrecv(list, n, MPI_INTEGER, message, status, ierr)
  call check(message == MPI_MESSAGE_NULL .and. all(list == [1, 2, 3]), 'mprobe')
  call MPI_Wait(requests(1), MPI_STATUS_IGNORE, ierr)
  call MPI_Iprobe(left, 99, MPI_COMM_WORLD, flag, status, ierr)
  call check(.not. flag, 'iprobe')

  call MPI_Send_init(scalar, 1, MPI_REAL, right, 3, MPI_COMM_WORLD, requests(1), ierr)
  call MPI_Recv_init(matrix(2, 2), 1, MPI_REAL, left, 3, MPI_COMM_WORLD, requests(2), ierr)
  requests(3) = MPI_REQUEST_NULL
  do n = 1, 3
    scalar = rank + n * 1000
    call MPI_F_sync_reg(scalar)
    call MPI_Startall(2, requests, ierr)
    call MPI_Waitall(3, requests, statuses, ierr)
    call MPI_F_sync_reg(matrix)
    call check(matrix(2, 2) == left + n * 1000, 'persistent')
  end do
  call MPI_Request_free(requests(1), ierr)
  call MPI_Request_free(requests(2), ierr)
  call check(requests(1) == MPI_REQUEST_NULL, 'request is freed')

  call MPI_Irecv(n, 1, MPI_INTEGER, left, 4, MPI_COMM_WORLD, requests(2), ierr)
  call MPI_Send(rank, 1, MPI_INTEGER, right, 4, MPI_COMM_WORLD, ierr)
  call MPI_Waitsome(3, requests, outcount, indices, statuses, ierr)
  call check(outcount == 1 .and. indices(1) == 2 .and. n == left, 'waitsome')
  call MPI_Testall(3, requests, flag, MPI_STATUSES_IGNORE, ierr)
  call check(flag, 'testall')
  call MPI_Testany(3, requests, index, flag, status, ierr)
  call check(flag .and. index == MPI_UNDEFINED, 'testany')

  call MPI_Status_f2f08(statuses(:, 1), f08, ierr)
  call check(f08%MPI_SOURCE == left .and. f08%MPI_TAG == 4, 'Status_f2f08')
  f08%MPI_TAG = 5
  call MPI_Status_f082f(f08, status, ierr)
  call check(status(MPI_TAG) == 5 .and. status(MPI_SOURCE) == left, 'Status_f082f')
  call MPI_Finalize(ierr)
contains
  include 'checks.f90'
end program

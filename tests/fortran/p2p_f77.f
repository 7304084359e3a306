! SPDX-License-Identifier: BSD-3-Clause
!
! Shows: mpif.h in fixed form: messages between ranks, statuses, COMMON per rank, arrays of requests.
      program p2p_f77
      include 'mpif.h'
      integer rank, size, ierr, i, n, left, right
      integer status(MPI_STATUS_SIZE), requests(2)
      integer statuses(MPI_STATUS_SIZE, 2), many(200)
      double precision x(10), y(10), t
      integer mine
      common /block/ mine
      data n /5/

      call mpi_init(ierr)
      call mpi_comm_rank(MPI_COMM_WORLD, rank, ierr)
      call mpi_comm_size(MPI_COMM_WORLD, size, ierr)
      right = mod(rank + 1, size)
      left = mod(rank + size - 1, size)
      mine = rank
      do i = 1, 10
        x(i) = rank * 100 + i
      end do
      call mpi_irecv(y, 10, MPI_DOUBLE_PRECISION, left, 7,
     &               MPI_COMM_WORLD, requests(1), ierr)
      call mpi_isend(x, 8, MPI_DOUBLE_PRECISION, right, 7,
     &               MPI_COMM_WORLD, requests(2), ierr)
      call mpi_waitall(2, requests, statuses, ierr)
      call check(ierr .eq. MPI_SUCCESS, 'waitall')
      call check(requests(1) .eq. MPI_REQUEST_NULL, 'request is null')
      call check(statuses(MPI_SOURCE, 1) .eq. left, 'source')
      call check(statuses(MPI_TAG, 1) .eq. 7, 'tag')
      call mpi_get_count(statuses(1, 1), MPI_DOUBLE_PRECISION, n, ierr)
      call check(n .eq. 8, 'count')
      call check(y(8) .eq. left * 100 + 8, 'data')
      call check(mine .eq. rank, 'COMMON is the rank''s')

      call mpi_sendrecv(rank, 1, MPI_INTEGER, right, 1, n, 1,
     &                  MPI_INTEGER, left, 1, MPI_COMM_WORLD, status,
     &                  ierr)
      call check(n .eq. left .and. status(MPI_SOURCE) .eq. left,
     &           'sendrecv')
! More requests than are converted without an allocation
      do i = 1, 100
        call mpi_irecv(many(i), 1, MPI_INTEGER, left, i,
     &                 MPI_COMM_WORLD, many(100 + i), ierr)
      end do
      call exchange(many(101), right)
      do i = 1, 100
        call check(many(i) .eq. i * i, 'many requests')
      end do
! Waitany counts from 1
      call mpi_irecv(n, 1, MPI_INTEGER, left, 2, MPI_COMM_WORLD,
     &               requests(2), ierr)
      requests(1) = MPI_REQUEST_NULL
      call mpi_send(42, 1, MPI_INTEGER, right, 2, MPI_COMM_WORLD, ierr)
      call mpi_waitany(2, requests, i, MPI_STATUS_IGNORE, ierr)
      call check(i .eq. 2 .and. n .eq. 42, 'waitany')
      call mpi_waitany(2, requests, i, status, ierr)
      call check(i .eq. MPI_UNDEFINED, 'waitany without requests')
      t = mpi_wtime()
      call check(t .gt. 0 .and. mpi_wtick() .gt. 0, 'wtime')
      call mpi_allreduce(MPI_IN_PLACE, mine, 1, MPI_INTEGER, MPI_SUM,
     &                   MPI_COMM_WORLD, ierr)
      call check(mine .eq. size * (size - 1) / 2, 'allreduce')
      call mpi_finalize(ierr)
      end

      subroutine exchange(requests, right)
      include 'mpif.h'
      integer requests(100), right, i, ierr
      do i = 1, 100
        call mpi_send(i * i, 1, MPI_INTEGER, right, i, MPI_COMM_WORLD,
     &                ierr)
      end do
      call mpi_waitall(100, requests, MPI_STATUSES_IGNORE, ierr)
      end

      subroutine check(ok, text)
      include 'mpif.h'
      logical ok
      character*(*) text
      integer ierr
      if (.not. ok) then
        print *, 'FAILED: ', text
        call mpi_abort(MPI_COMM_WORLD, 1, ierr)
      end if
      end

! SPDX-License-Identifier: BSD-3-Clause
!
! The same by mpif.h in fixed form.
      program hello
      include 'mpif.h'
      integer rank, total, wanted, ierr
      character*8 text
      call mpi_init(ierr)
      call mpi_comm_rank(MPI_COMM_WORLD, rank, ierr)
      call mpi_allreduce(1, total, 1, MPI_INTEGER, MPI_SUM,
     &                   MPI_COMM_WORLD, ierr)
      call getarg(1, text)
      read (text, *) wanted
      if (total .ne. wanted) call mpi_abort(MPI_COMM_WORLD, 1, ierr)
      if (rank .eq. 0) write (*, '(a,i0,a)') 'hello from ', total,
     &  ' ranks'
      call mpi_finalize(ierr)
      end

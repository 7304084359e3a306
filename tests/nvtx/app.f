! SPDX-License-Identifier: BSD-3-Clause
! Each rank sends itself a message.
      program app
      include 'mpif.h'
      integer rank, error
      call MPI_INIT(error)
      call MPI_COMM_RANK(MPI_COMM_WORLD, rank, error)
      call MPI_SEND(rank, 1, MPI_INTEGER, rank, 0, MPI_COMM_WORLD,
     &              error)
      call MPI_RECV(rank, 1, MPI_INTEGER, rank, 0, MPI_COMM_WORLD,
     &              MPI_STATUS_IGNORE, error)
      call MPI_FINALIZE(error)
      end

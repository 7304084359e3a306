! SPDX-License-Identifier: BSD-3-Clause
!
! Sends 3 messages by mpif.h, 2 by mpi_f08 and an array section, and prints what the tools counted.
program pmpi_app
  use counts
  implicit none
  include 'mpif.h'
  integer :: rank, ierr, n, i, status(MPI_STATUS_SIZE)
  integer, external :: c_sends
  call mpi_init(ierr)
  call mpi_comm_rank(MPI_COMM_WORLD, rank, ierr)
  do i = 1, 3
    if (rank == 0) call mpi_send(i, 1, MPI_INTEGER, 1, i, MPI_COMM_WORLD, ierr)
    if (rank == 1) call mpi_recv(n, 1, MPI_INTEGER, 0, i, MPI_COMM_WORLD, status, ierr)
  end do
  call modern(rank)
  print '(a,i0,4(a,i0))', 'rank ', rank, ': send ', n_send, ', send_f08 ', n_send_f08, ', rank_f08 ', n_rank_f08, ', C ', c_sends()
  call mpi_finalize(ierr)
end program

subroutine modern(rank)
  use mpi_f08
  implicit none
  integer, intent(in) :: rank
  integer :: me, x(4), y(2)
  call MPI_Comm_rank(MPI_COMM_WORLD, me)
  if (me /= rank) error stop 'the rank of the tool'
  x = [1, 2, 3, 4]
  if (rank == 0) then
    call MPI_Send(x, 2, MPI_INTEGER, 1, 7, MPI_COMM_WORLD)
    call MPI_Send(x(2:4:2), 2, MPI_INTEGER, 1, 7, MPI_COMM_WORLD)
  else if (rank == 1) then
    call MPI_Recv(y, 2, MPI_INTEGER, 0, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE)
    call MPI_Recv(y, 2, MPI_INTEGER, 0, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE)
    if (any(y /= [2, 4])) error stop 'the section through the tool'
  end if
end subroutine

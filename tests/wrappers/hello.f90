! SPDX-License-Identifier: BSD-3-Clause
!
! Prints "hello from N ranks" if there are as many as the first argument says; uses both modules.
program hello
  use mpi_f08
  implicit none
  integer :: rank, size, total, wanted
  character(len=8) :: argument
  call MPI_Init()
  call MPI_Comm_rank(MPI_COMM_WORLD, rank)
  call MPI_Comm_size(MPI_COMM_WORLD, size)
  call MPI_Allreduce(1, total, 1, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD)
  call get_command_argument(1, argument)
  read (argument, *) wanted
  if (total /= wanted .or. size /= wanted) error stop 'wrong number of ranks'
  if (rank == 0) print '(a,i0,a)', 'hello from ', total, ' ranks'
  call by_mpi()
  call MPI_Finalize()
contains
  subroutine by_mpi()
    use mpi, only: WORLD => MPI_COMM_WORLD, BARRIER => MPI_Barrier
    integer :: ierr
    call BARRIER(WORLD, ierr)
    if (ierr /= 0) error stop 'MPI_Barrier'
  end subroutine
end program

! SPDX-License-Identifier: BSD-3-Clause
!
! Shows: `stop 3` of all ranks and `error stop` of one end the job with their exit code; their texts are printed.
program stop_code
  use mpi
  implicit none
  integer :: rank, ierr
  character(len=8) :: how

  call MPI_Init(ierr)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierr)
  call get_command_argument(1, how)
  call MPI_Barrier(MPI_COMM_WORLD, ierr)
  if (how == 'stop') then
    call MPI_Finalize(ierr)
    stop 3
  end if
  if (how == 'error' .and. rank == 1) error stop 5
  if (how == 'text' .and. rank == 1) error stop 'a text'
  call MPI_Barrier(MPI_COMM_WORLD, ierr) ! the rank that stopped is missing: without its end of the job this would wait
  call MPI_Finalize(ierr)
end program

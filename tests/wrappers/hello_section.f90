! SPDX-License-Identifier: BSD-3-Clause
!
! The same by mpi_f08: the ranks are counted in each second element of an array.
program hello_section
  use mpi_f08
  implicit none
  type(MPI_Request) :: request
  integer :: i, rank, wanted
  integer, asynchronous :: ones(9), totals(9)
  character(len=8) :: text

  call MPI_Init()
  call MPI_Comm_rank(MPI_COMM_WORLD, rank)
  call get_command_argument(1, text)
  read (text, *) wanted
  ones = [(mod(i, 2), i=1, 9)]
  totals = -1
  call MPI_Iallreduce(ones(1::2), totals(1::2), 5, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, request)
  call MPI_Wait(request, MPI_STATUS_IGNORE)
  if (any(totals(1::2) /= wanted) .or. any(totals(2::2) /= -1)) call MPI_Abort(MPI_COMM_WORLD, 1)
  if (rank == 0) write (*, '(a,i0,a)') 'hello from ', totals(1), ' ranks'
  call MPI_Finalize()
end program hello_section

! SPDX-License-Identifier: BSD-3-Clause
!
! Shows: an integer that is not a handle is named.
program bad_handle
  use mpi
  implicit none
  integer :: ierr
  call MPI_Init(ierr)
  call MPI_Barrier(123456, ierr)
  print *, 'the barrier returned', ierr
  call MPI_Finalize(ierr)
end program

! SPDX-License-Identifier: BSD-3-Clause
!
! Shows: a local array of a recursive procedure that does not fit on the rank's stack ends the job with a report that names +stacksize.
program big_stack
  use mpi
  implicit none
  integer :: ierr
  call MPI_Init(ierr)
  print *, total(4000000)
  call MPI_Finalize(ierr)
contains
  recursive double precision function total(n)
    integer, intent(in) :: n
    double precision :: x(4000000)
    x = n
    x(n / 2) = 1
    total = sum(x(1:n:3))
  end function
end program

! SPDX-License-Identifier: BSD-3-Clause
!
! Shows: each rank has its own generator of random numbers: the same seed gives the same numbers, however the ranks' calls alternate.
program private_random
  use mpi
  implicit none
  integer :: rank, ierr, n, i
  integer, allocatable :: seed(:)
  real :: mine(20), alone(20), first(20)

  call MPI_Init(ierr)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierr)
  call random_seed(size=n)
  allocate (seed(n), source=42)
  call random_seed(put=seed)
  call random_number(alone)
  seed = 42
  call random_seed(put=seed)
  do i = 1, 20
    call MPI_Barrier(MPI_COMM_WORLD, ierr)
    call random_number(mine(i))
  end do
  call check(all(mine == alone), 'numbers of one seed')
  first = alone
  call MPI_Bcast(first, 20, MPI_REAL, 0, MPI_COMM_WORLD, ierr)
  call check(all(first == alone), 'the same numbers in all ranks')
  seed = 7 + rank
  call random_seed(put=seed)
  call MPI_Barrier(MPI_COMM_WORLD, ierr)
  call random_seed(get=seed)
  call random_number(mine)
  call check(rank == 0 .or. any(mine /= first), 'other numbers of another seed')
  call MPI_Finalize(ierr)
contains
  include 'checks.f90'
end program

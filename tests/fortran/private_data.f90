! SPDX-License-Identifier: BSD-3-Clause
!
! Shows: COMMON, SAVE, DATA, module variables, allocatable module arrays and initialized pointers are the rank's.
module state
  implicit none
  integer :: counter = 7
  real, allocatable :: field(:)
  integer, target :: goal = 3
  integer, pointer :: to_goal => goal
  type list
    integer :: n = 5
    character(len=8) :: name = 'initial'
  end type
  type(list) :: items(3)
end module

block data
  integer :: shared, more(4)
  common /global/ shared, more
  data shared, more /11, 1, 2, 3, 4/
end block data

program private_data
  use mpi
  use state
  implicit none
  integer :: rank, size, ierr, i, shared, more(4), n
  common /global/ shared, more

  call MPI_Init(ierr)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierr)
  call MPI_Comm_size(MPI_COMM_WORLD, size, ierr)
  call check(shared == 11 .and. all(more == [1, 2, 3, 4]) .and. counter == 7 .and. items(2)%name == 'initial', 'initial values')
  call check(.not. allocated(field) .and. associated(to_goal, goal), 'initial state of a module')
  do i = 1, 5
    shared = shared + rank
    more(2) = rank * i
    counter = counter + rank
    to_goal = rank
    items(3)%n = rank
    if (i == 1) allocate (field(rank + 1), source=real(rank))
    n = calls()
    call MPI_Barrier(MPI_COMM_WORLD, ierr)
    call check(shared == 11 + i * rank .and. more(2) == rank * i, 'COMMON')
    call check(counter == 7 + i * rank .and. goal == rank .and. items(3)%n == rank, 'module variables')
    call check(ubound(field, 1) == rank + 1 .and. all(field == rank), 'allocatable array')
    call check(n == 100 + i, 'SAVE')
    call MPI_Barrier(MPI_COMM_WORLD, ierr)
  end do
  call MPI_Finalize(ierr)
contains
  integer function calls()
    integer, save :: n_calls = 100
    n_calls = n_calls + 1
    calls = n_calls
  end function
  include 'checks.f90'
end program

! SPDX-License-Identifier: BSD-3-Clause
!
! Shows: windows and allocated memory as Fortran pointers, in modules mpi_f08 and mpi; atomic operations; Comm_idup.
program rma
  use, intrinsic :: iso_c_binding
  use mpi_f08
  implicit none
  integer :: rank, size, one, before, i
  type(C_PTR) :: base
  integer, pointer :: counter(:)
  type(MPI_Win) :: win
  type(MPI_Comm) :: comm
  type(MPI_Request) :: request

  call MPI_Init()
  call MPI_Comm_rank(MPI_COMM_WORLD, rank)
  call MPI_Comm_size(MPI_COMM_WORLD, size)
  call MPI_Win_allocate(8_MPI_ADDRESS_KIND, 4, MPI_INFO_NULL, MPI_COMM_WORLD, base, win)
  call c_f_pointer(base, counter, [2])
  counter = 0
  call MPI_Barrier(MPI_COMM_WORLD)
  one = 1
  call MPI_Win_lock_all(0, win)
  do i = 0, size - 1
    call MPI_Fetch_and_op(one, before, MPI_INTEGER, i, 1_MPI_ADDRESS_KIND, MPI_SUM, win)
    call MPI_Win_flush(i, win)
    call check(before >= 0 .and. before < size, 'value before')
  end do
  call MPI_Win_unlock_all(win)
  call MPI_Barrier(MPI_COMM_WORLD)
  call check(counter(2) == size .and. counter(1) == 0, 'MPI_Fetch_and_op')
  call MPI_Win_free(win)
  call check(win == MPI_WIN_NULL, 'the window is freed')
  call MPI_Alloc_mem(400_MPI_ADDRESS_KIND, MPI_INFO_NULL, base)
  call c_f_pointer(base, counter, [100])
  counter = rank
  call MPI_Free_mem(counter)
  call MPI_Comm_idup(MPI_COMM_WORLD, comm, request)
  call MPI_Wait(request, MPI_STATUS_IGNORE)
  call check(comm /= MPI_COMM_NULL .and. comm /= MPI_COMM_WORLD, 'MPI_Comm_idup')
  call MPI_Barrier(comm)
  call MPI_Comm_free(comm)
  call by_mpi()
  call MPI_Finalize()
contains
  ! The same memory as an address and as a C_PTR.
  subroutine by_mpi()
    use mpi, only: ALLOC => MPI_Alloc_mem, FREE => MPI_Free_mem, NONE => MPI_INFO_NULL
    integer(kind=MPI_ADDRESS_KIND) :: address
    integer :: ierr
    type(C_PTR) :: pointer
    call ALLOC(80_MPI_ADDRESS_KIND, NONE, address, ierr)
    call check(address /= 0, 'memory as an address')
    call ALLOC(80_MPI_ADDRESS_KIND, NONE, pointer, ierr)
    call check(c_associated(pointer), 'memory as a C_PTR')
    call c_f_pointer(pointer, counter, [20])
    counter = 5
    call FREE(counter, ierr)
  end subroutine
  include 'checks.f90'
end program

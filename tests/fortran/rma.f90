! SPDX-License-Identifier: BSD-3-Clause
!
! Shows: windows and allocated memory as Fortran pointers, in modules mpi_f08 and mpi; atomic operations, also on the first element of an
! array section; errors that the bindings find are the window's, and have one code for each text; Comm_idup.
program rma
  use, intrinsic :: iso_c_binding
  use mpi_f08
  implicit none
  integer :: rank, size, one, before, i
  type(C_PTR) :: base
  integer, pointer :: counter(:)
  integer :: n_errors, last_error
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
  call with_sections()
  call MPI_Finalize()
contains
  ! Each rank on its own window: the first elements of sections with gaps; then one error twice.
  subroutine with_sections()
    integer, asynchronous :: memory(4), origin(4), compared(4), found(4)
    integer(kind=MPI_ADDRESS_KIND) :: last_code
    integer :: ierror, first_code
    type(MPI_Errhandler) :: handler
    type(MPI_Datatype) :: spaced
    logical :: is_set
    memory = 5
    origin = [9, 1, 7, 1]
    compared = 5
    found = -1
    call MPI_Win_create(memory, 16_MPI_ADDRESS_KIND, 4, MPI_INFO_NULL, MPI_COMM_SELF, win)
    call MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, win)
    call MPI_Compare_and_swap(origin(1::2), compared(1::2), found(1::2), MPI_INTEGER, 0, 0_MPI_ADDRESS_KIND, win)
    call MPI_Fetch_and_op(origin(3::-2), found(2::2), MPI_INTEGER, 0, 1_MPI_ADDRESS_KIND, MPI_SUM, win)
    call MPI_Win_unlock(0, win)
    call check(all(memory == [9, 12, 5, 5]) .and. all(found == [5, 5, -1, -1]), 'atomic operations on sections')

    n_errors = 0
    call MPI_Win_create_errhandler(count_error, handler)
    call MPI_Win_set_errhandler(win, handler)
    call MPI_Type_vector(2, 1, 2, MPI_INTEGER, spaced)
    call MPI_Type_commit(spaced)
    call MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, win)
    call MPI_Put(origin(1::2), 1, spaced, 0, 0_MPI_ADDRESS_KIND, 1, MPI_INTEGER, win, ierror)
    first_code = ierror
    call MPI_Put(origin(1::2), 1, spaced, 0, 0_MPI_ADDRESS_KIND, 1, MPI_INTEGER, win, ierror)
    call MPI_Win_unlock(0, win)
    call check(n_errors == 2 .and. last_error == ierror .and. ierror == first_code, 'the errors are the window''s')
    call MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_LASTUSEDCODE, last_code, is_set)
    call check(is_set .and. last_code == first_code, 'an error has one code')
    call MPI_Type_free(spaced)
    call MPI_Errhandler_free(handler)
    call MPI_Win_free(win)
  end subroutine
  subroutine count_error(win, error_code)
    type(MPI_Win) :: win
    integer :: error_code
    if (win == MPI_WIN_NULL) stop 1
    n_errors = n_errors + 1
    last_error = error_code
  end subroutine
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

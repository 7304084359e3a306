! SPDX-License-Identifier: BSD-3-Clause
!
! Shows: module mpi_f08 calls Fortran's procedures with its types: operations with both kinds of counts, attributes of
! datatypes and windows, error handlers, generalized requests.
module callbacks
  use, intrinsic :: iso_c_binding
  use mpi_f08
  implicit none
  integer :: deleted = 0, last_error = 0, freed = 0
  type(MPI_Win) :: error_win
contains
  subroutine add(invec, inoutvec, len, datatype)
    type(C_PTR), value :: invec, inoutvec
    integer :: len
    type(MPI_Datatype) :: datatype
    integer, pointer :: a(:), b(:)
    call c_f_pointer(invec, a, [len])
    call c_f_pointer(inoutvec, b, [len])
    if (datatype == MPI_INTEGER) b = a + b
  end subroutine
  subroutine multiply(invec, inoutvec, len, datatype)
    type(C_PTR), value :: invec, inoutvec
    integer(kind=MPI_COUNT_KIND) :: len
    type(MPI_Datatype) :: datatype
    real, pointer :: a(:), b(:)
    call c_f_pointer(invec, a, [len])
    call c_f_pointer(inoutvec, b, [len])
    if (datatype == MPI_REAL) b = a * b
  end subroutine
  subroutine copy_type(oldtype, keyval, extra_state, value_in, value_out, flag, ierror)
    type(MPI_Datatype) :: oldtype
    integer :: keyval, ierror
    integer(kind=MPI_ADDRESS_KIND) :: extra_state, value_in, value_out
    logical :: flag
    value_out = value_in * extra_state
    flag = value_in > 0
    ierror = MPI_SUCCESS
  end subroutine
  subroutine delete_type(datatype, keyval, value, extra_state, ierror)
    type(MPI_Datatype) :: datatype
    integer :: keyval, ierror
    integer(kind=MPI_ADDRESS_KIND) :: value, extra_state
    deleted = deleted + int(value)
    ierror = MPI_SUCCESS
  end subroutine
  subroutine on_error(win, code)
    type(MPI_Win) :: win
    integer :: code
    last_error = code
    error_win = win
  end subroutine
  subroutine query(extra_state, status, ierror)
    integer(kind=MPI_ADDRESS_KIND) :: extra_state
    type(MPI_Status) :: status
    integer :: ierror
    status%MPI_TAG = int(extra_state)
    call MPI_Status_set_elements(status, MPI_INTEGER, 1_MPI_COUNT_KIND, ierror)
    call MPI_Status_set_cancelled(status, .false., ierror)
  end subroutine
  subroutine free_request(extra_state, ierror)
    integer(kind=MPI_ADDRESS_KIND) :: extra_state
    integer :: ierror
    freed = freed + 1
    ierror = MPI_SUCCESS
  end subroutine
  subroutine cancel_request(extra_state, complete, ierror)
    integer(kind=MPI_ADDRESS_KIND) :: extra_state
    logical :: complete
    integer :: ierror
    ierror = MPI_SUCCESS
  end subroutine
end module

program callbacks_f08
  use mpi_f08
  use callbacks
  implicit none
  integer :: rank, size, keyval, in, out, class
  integer(kind=MPI_ADDRESS_KIND) :: value, extra
  real :: x, y
  logical :: flag
  type(MPI_Op) :: op
  type(MPI_Datatype) :: type, copy
  type(MPI_Win) :: win
  type(MPI_Errhandler) :: handler
  type(MPI_Request) :: request
  type(MPI_Status) :: status
  type(C_PTR) :: base

  call MPI_Init()
  call MPI_Comm_rank(MPI_COMM_WORLD, rank)
  call MPI_Comm_size(MPI_COMM_WORLD, size)
  call MPI_Op_create(add, .true., op)
  in = rank
  call MPI_Allreduce(in, out, 1, MPI_INTEGER, op, MPI_COMM_WORLD)
  call check(out == size * (size - 1) / 2, 'operation')
  call MPI_Op_free(op)
  call MPI_Op_create_c(multiply, .false., op)
  call MPI_Op_commutative(op, flag)
  call check(.not. flag, 'the operation does not commute')
  x = 2
  call MPI_Allreduce(x, y, 1, MPI_REAL, op, MPI_COMM_WORLD)
  call check(y == 2.0**size, 'operation with large counts')
  call MPI_Op_free(op)

  extra = 3
  call MPI_Type_create_keyval(copy_type, delete_type, keyval, extra)
  call MPI_Type_contiguous(2, MPI_INTEGER, type)
  value = 5
  call MPI_Type_set_attr(type, keyval, value)
  call MPI_Type_dup(type, copy)
  call MPI_Type_get_attr(copy, keyval, value, flag)
  call check(flag .and. value == 15, 'attribute of a datatype')
  call MPI_Type_free(copy)
  call check(deleted == 15, 'deleted attribute')
  call MPI_Type_free(type)
  call check(deleted == 20, 'deleted attributes')
  call MPI_Type_free_keyval(keyval)

  call MPI_Win_allocate(80_MPI_ADDRESS_KIND, 8, MPI_INFO_NULL, MPI_COMM_WORLD, base, win)
  call MPI_Win_create_keyval(MPI_WIN_NULL_COPY_FN, MPI_WIN_NULL_DELETE_FN, keyval, extra)
  value = -1
  call MPI_Win_set_attr(win, keyval, value)
  value = 0
  call MPI_Win_get_attr(win, keyval, value, flag)
  call check(flag .and. value == -1, 'attribute of a window')
  call MPI_Win_get_attr(win, MPI_WIN_SIZE, value, flag)
  call check(flag .and. value == 80, 'MPI_WIN_SIZE')
  call MPI_Win_get_attr(win, MPI_WIN_DISP_UNIT, value, flag)
  call check(flag .and. value == 8, 'MPI_WIN_DISP_UNIT')
  call MPI_Win_get_attr(win, MPI_WIN_BASE, value, flag)
  call check(flag .and. value == transfer(base, value), 'MPI_WIN_BASE')
  call MPI_Win_create_errhandler(on_error, handler)
  call MPI_Win_set_errhandler(win, handler)
  call MPI_Win_lock(MPI_LOCK_SHARED, size, 0, win)
  call MPI_Error_class(last_error, class)
  call check(class == MPI_ERR_RANK .and. error_win == win, 'error handler of a window')
  call MPI_Win_free_keyval(keyval)
  call MPI_Win_free(win)
  call MPI_Errhandler_free(handler)

  value = 23
  call MPI_Grequest_start(query, free_request, cancel_request, value, request)
  call MPI_Grequest_complete(request)
  call MPI_Wait(request, status)
  call check(status%MPI_TAG == 23 .and. freed == 1, 'generalized request')
  call MPI_Finalize()
contains
  include 'checks.f90'
end program

! SPDX-License-Identifier: BSD-3-Clause
!
! Shows: module mpi calls Fortran's procedures: operations, attributes old and new, error handlers, generalized requests.
module callbacks
  use mpi
  implicit none
  integer :: deleted = 0, last_error = 0, error_comm = 0, freed = 0, cancelled = 0
contains
  subroutine add_or_max(invec, inoutvec, len, datatype)
    integer :: len, datatype, invec(len), inoutvec(len)
    if (datatype == MPI_INTEGER) inoutvec = inoutvec + invec + 1000
  end subroutine
  subroutine copy_attr(comm, keyval, extra_state, value_in, value_out, flag, ierror)
    integer :: comm, keyval, ierror
    integer(kind=MPI_ADDRESS_KIND) :: extra_state, value_in, value_out
    logical :: flag
    value_out = value_in + extra_state
    flag = .true.
    ierror = MPI_SUCCESS
  end subroutine
  subroutine delete_attr(comm, keyval, value, extra_state, ierror)
    integer :: comm, keyval, ierror
    integer(kind=MPI_ADDRESS_KIND) :: value, extra_state
    deleted = deleted + int(value)
    ierror = MPI_SUCCESS
  end subroutine
  subroutine old_copy(comm, keyval, extra_state, value_in, value_out, flag, ierror)
    integer :: comm, keyval, extra_state, value_in, value_out, ierror
    logical :: flag
    value_out = value_in * extra_state
    flag = .true.
    ierror = MPI_SUCCESS
  end subroutine
  subroutine old_delete(comm, keyval, value, extra_state, ierror)
    integer :: comm, keyval, value, extra_state, ierror
    deleted = deleted + value
    ierror = MPI_SUCCESS
  end subroutine
  subroutine on_error(comm, code)
    integer :: comm, code
    last_error = code
    error_comm = comm
  end subroutine
  subroutine query(extra_state, status, ierror)
    integer(kind=MPI_ADDRESS_KIND) :: extra_state
    integer :: status(MPI_STATUS_SIZE), ierror
    status(MPI_SOURCE) = int(extra_state)
    status(MPI_TAG) = 9
    call MPI_Status_set_elements(status, MPI_INTEGER, 3, ierror)
    call MPI_Status_set_cancelled(status, .false., ierror)
  end subroutine
  subroutine free_request(extra_state, ierror)
    integer(kind=MPI_ADDRESS_KIND) :: extra_state
    integer :: ierror
    freed = freed + int(extra_state)
    extra_state = 99
    ierror = MPI_SUCCESS
  end subroutine
  subroutine cancel_request(extra_state, complete, ierror)
    integer(kind=MPI_ADDRESS_KIND) :: extra_state
    logical :: complete
    integer :: ierror
    cancelled = merge(1, 2, complete)
    ierror = MPI_SUCCESS
  end subroutine
end module

program callbacks_f90
  use mpi
  use callbacks
  implicit none
  integer :: rank, size, ierr, op, keyval, comm, handler, request, status(MPI_STATUS_SIZE), n, class
  integer(kind=MPI_ADDRESS_KIND), asynchronous :: value
  integer :: in(2), out(2), old_value
  logical :: flag

  call MPI_Init(ierr)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierr)
  call MPI_Comm_size(MPI_COMM_WORLD, size, ierr)

  call MPI_Op_create(add_or_max, .true., op, ierr)
  in = [rank, 1]
  call MPI_Allreduce(in, out, 2, MPI_INTEGER, op, MPI_COMM_WORLD, ierr)
  call check(out(1) == size * (size - 1) / 2 + 1000 * (size - 1) .and. out(2) == size + 1000 * (size - 1), 'operation')
  call MPI_Op_commutative(op, flag, ierr)
  call check(flag, 'the operation commutes')
  call MPI_Op_free(op, ierr)
  call check(op == MPI_OP_NULL, 'the operation is freed')

  value = 100
  call MPI_Comm_create_keyval(copy_attr, delete_attr, keyval, value, ierr)
  value = rank
  call MPI_Comm_set_attr(MPI_COMM_WORLD, keyval, value, ierr)
  call MPI_Comm_dup(MPI_COMM_WORLD, comm, ierr)
  call MPI_Comm_get_attr(comm, keyval, value, flag, ierr)
  call check(flag .and. value == rank + 100, 'copied attribute')
  call MPI_Comm_free(comm, ierr)
  call check(deleted == rank + 100, 'deleted attribute')
  call MPI_Comm_delete_attr(MPI_COMM_WORLD, keyval, ierr)
  call check(deleted == 2 * rank + 100, 'attribute of MPI_COMM_WORLD')
  call MPI_Comm_free_keyval(keyval, ierr)
  call check(keyval == MPI_KEYVAL_INVALID, 'the key is freed')

  call MPI_Comm_create_keyval(MPI_COMM_DUP_FN, MPI_COMM_NULL_DELETE_FN, keyval, value, ierr)
  value = -7_8 * 2_8**33
  call MPI_Comm_set_attr(MPI_COMM_WORLD, keyval, value, ierr)
  call MPI_Comm_dup(MPI_COMM_WORLD, comm, ierr)
  value = 0
  call MPI_Comm_get_attr(comm, keyval, value, flag, ierr)
  call check(flag .and. value == -7_8 * 2_8**33, 'MPI_COMM_DUP_FN')
  call MPI_Comm_free(comm, ierr)
  call MPI_Comm_free_keyval(keyval, ierr)
  call MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, value, flag, ierr)
  call check(flag .and. value >= 32767, 'MPI_TAG_UB')

  deleted = 0
  call MPI_Keyval_create(old_copy, old_delete, keyval, 3, ierr)
  call MPI_Attr_put(MPI_COMM_WORLD, keyval, rank + 1, ierr)
  call MPI_Comm_dup(MPI_COMM_WORLD, comm, ierr)
  call MPI_Attr_get(comm, keyval, old_value, flag, ierr)
  call check(flag .and. old_value == 3 * (rank + 1), 'attribute of MPI-1')
  call MPI_Comm_free(comm, ierr)
  call check(deleted == 3 * (rank + 1), 'deleted attribute of MPI-1')
  call MPI_Attr_delete(MPI_COMM_WORLD, keyval, ierr)
  call MPI_Keyval_free(keyval, ierr)

  call MPI_Comm_dup(MPI_COMM_WORLD, comm, ierr)
  call MPI_Comm_create_errhandler(on_error, handler, ierr)
  call MPI_Comm_set_errhandler(comm, handler, ierr)
  call MPI_Errhandler_free(handler, ierr)
  call MPI_Send(rank, 1, MPI_INTEGER, size, 0, comm, ierr)
  call MPI_Error_class(last_error, class, n)
  call check(class == MPI_ERR_RANK .and. ierr == last_error .and. error_comm == comm, 'error handler')
  call MPI_Comm_call_errhandler(comm, MPI_ERR_OTHER, ierr)
  call check(last_error == MPI_ERR_OTHER, 'MPI_Comm_call_errhandler')
  call MPI_Comm_free(comm, ierr)

  value = 17
  call MPI_Grequest_start(query, free_request, cancel_request, value, request, ierr)
  call MPI_Cancel(request, ierr)
  call check(cancelled == 2, 'cancelled')
  call MPI_Grequest_complete(request, ierr)
  call MPI_Wait(request, status, ierr)
  call MPI_Get_count(status, MPI_INTEGER, n, ierr)
  call check(status(MPI_SOURCE) == 17 .and. status(MPI_TAG) == 9 .and. n == 3 .and. freed == 17, 'generalized request')
  call MPI_F_sync_reg(value)
  call check(value == 99, 'a callback changes extra_state')
  call MPI_Finalize(ierr)
contains
  include 'checks.f90'
end program

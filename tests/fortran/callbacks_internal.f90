! SPDX-License-Identifier: BSD-3-Clause
!
! Shows: internal procedures that use variables of their host are callbacks: the compiler passes the address of code that it builds on
! the stack. Error handlers, operations, attributes and generalized requests; while the host waits, and from another procedure.
! There can be any number of operations one after another, also while a nonblocking call uses one that was freed.
module deep
  use mpi_f08
  use, intrinsic :: iso_c_binding, only: C_PTR, c_f_pointer
  implicit none
contains
  ! At each depth of the stack the operation has another address.
  recursive subroutine at_depth(n)
    integer, intent(in) :: n
    type(MPI_Op) :: op
    integer :: into
    call MPI_Op_create(subtract, .true., op)
    into = 100
    call MPI_Reduce_local(n, into, 1, MPI_INTEGER, op)
    if (into /= 100 - 2 * n) stop 2
    call MPI_Op_free(op)
    if (n > 0) call at_depth(n - 1)
  contains
    subroutine subtract(invec, inoutvec, len, datatype)
      type(C_PTR), value :: invec, inoutvec
      integer :: len
      type(MPI_Datatype) :: datatype
      integer, pointer :: a(:), b(:)
      if (datatype /= MPI_INTEGER) stop 1
      call c_f_pointer(invec, a, [len])
      call c_f_pointer(inoutvec, b, [len])
      b = b - a - n
    end subroutine
  end subroutine
end module

program callbacks_internal
  use deep
  use mpi_f08
  use, intrinsic :: iso_c_binding, only: C_PTR, c_f_pointer
  implicit none
  integer :: rank, size, n_errors, n_reduced, n_copied, n_deleted, n_queried, ierror

  n_errors = 0
  n_reduced = 0
  n_copied = 0
  n_deleted = 0
  n_queried = 0
  call MPI_Init()
  call MPI_Comm_rank(MPI_COMM_WORLD, rank)
  call MPI_Comm_size(MPI_COMM_WORLD, size)
  call errors()
  call reduction()
  call many_operations()
  call attributes()
  call generalized()
  call MPI_Finalize()
contains
  subroutine errors()
    type(MPI_Errhandler) :: handler
    integer :: x
    call MPI_Comm_create_errhandler(count_error, handler)
    call MPI_Comm_set_errhandler(MPI_COMM_WORLD, handler)
    call MPI_Send(x, 1, MPI_INTEGER, size, 0, MPI_COMM_WORLD, ierror)
    call MPI_Barrier(MPI_COMM_WORLD)
    call MPI_Comm_call_errhandler(MPI_COMM_WORLD, MPI_ERR_OTHER)
    call check(n_errors == 2, 'error handler')
    call MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL)
    call MPI_Errhandler_free(handler)
  end subroutine
  subroutine count_error(comm, error_code)
    type(MPI_Comm) :: comm
    integer :: error_code
    call check(comm == MPI_COMM_WORLD .and. error_code /= MPI_SUCCESS, 'arguments of the error handler')
    n_errors = n_errors + 1
  end subroutine

  subroutine reduction()
    type(MPI_Op) :: op
    integer :: all_of(2)
    call MPI_Op_create(add, .true., op)
    call MPI_Allreduce([rank, 1], all_of, 2, MPI_INTEGER, op, MPI_COMM_WORLD)
    call check(all(all_of == [size * (size - 1) / 2, size]), 'sums')
    call MPI_Allreduce(MPI_IN_PLACE, n_reduced, 1, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD)
    call check(n_reduced > 0 .or. size == 1, 'calls of the operation')
    call MPI_Op_free(op)
  end subroutine
  subroutine add(invec, inoutvec, len, datatype)
    type(C_PTR), value :: invec, inoutvec
    integer :: len
    type(MPI_Datatype) :: datatype
    integer, pointer :: a(:), b(:)
    call check(datatype == MPI_INTEGER, 'datatype of the operation')
    call c_f_pointer(invec, a, [len])
    call c_f_pointer(inoutvec, b, [len])
    b = a + b
    n_reduced = n_reduced + 1
  end subroutine

  ! The last rank starts the nonblocking call when the others have freed its operation and made many more.
  subroutine many_operations()
    type(MPI_Op) :: op
    type(MPI_Request) :: request
    integer, asynchronous :: mine, all_of
    mine = rank + 1
    if (rank == size - 1 .and. size > 1) call at_depth(100)
    call MPI_Op_create(add, .true., op)
    call MPI_Iallreduce(mine, all_of, 1, MPI_INTEGER, op, MPI_COMM_WORLD, request)
    call MPI_Op_free(op)
    if (rank < size - 1 .or. size == 1) call at_depth(100)
    call MPI_Wait(request, MPI_STATUS_IGNORE)
    call check(all_of == size * (size + 1) / 2, 'a freed operation in a nonblocking call')
  end subroutine
  subroutine attributes()
    integer :: keyval
    integer(MPI_ADDRESS_KIND) :: value
    logical :: flag
    type(MPI_Comm) :: comm
    call MPI_Comm_create_keyval(copy, delete, keyval, 7_MPI_ADDRESS_KIND)
    call MPI_Comm_set_attr(MPI_COMM_WORLD, keyval, 10_MPI_ADDRESS_KIND)
    call MPI_Comm_dup(MPI_COMM_WORLD, comm)
    call MPI_Comm_get_attr(comm, keyval, value, flag)
    call check(flag .and. value == 17 .and. n_copied == 1, 'copied attribute')
    call MPI_Comm_free(comm)
    call MPI_Comm_delete_attr(MPI_COMM_WORLD, keyval)
    call check(n_deleted == 27, 'deleted attributes')
    call MPI_Comm_free_keyval(keyval)
  end subroutine
  subroutine copy(oldcomm, comm_keyval, extra_state, attribute_val_in, attribute_val_out, flag, ierror)
    type(MPI_Comm) :: oldcomm
    integer :: comm_keyval, ierror
    integer(MPI_ADDRESS_KIND) :: extra_state, attribute_val_in, attribute_val_out
    logical :: flag
    call check(oldcomm == MPI_COMM_WORLD .and. comm_keyval /= MPI_KEYVAL_INVALID, 'arguments of the copy function')
    n_copied = n_copied + 1
    attribute_val_out = attribute_val_in + extra_state
    flag = .true.
    ierror = MPI_SUCCESS
  end subroutine
  subroutine delete(comm, comm_keyval, attribute_val, extra_state, ierror)
    type(MPI_Comm) :: comm
    integer :: comm_keyval, ierror
    integer(MPI_ADDRESS_KIND) :: attribute_val, extra_state
    call check(comm /= MPI_COMM_NULL .and. comm_keyval /= MPI_KEYVAL_INVALID, 'arguments of the delete function')
    call check(extra_state == 7, 'extra state')
    n_deleted = n_deleted + int(attribute_val)
    ierror = MPI_SUCCESS
  end subroutine

  subroutine generalized()
    type(MPI_Request) :: request
    type(MPI_Status) :: status
    integer :: n
    call MPI_Grequest_start(query, nothing, cancel, 5_MPI_ADDRESS_KIND, request)
    call MPI_Grequest_complete(request)
    call MPI_Wait(request, status)
    call MPI_Get_count(status, MPI_INTEGER, n)
    call check(n == 5 .and. n_queried == 2, 'generalized request')
  end subroutine
  subroutine query(extra_state, status, ierror)
    integer(MPI_ADDRESS_KIND) :: extra_state
    type(MPI_Status) :: status
    integer :: ierror
    call MPI_Status_set_elements(status, MPI_INTEGER, int(extra_state))
    call MPI_Status_set_cancelled(status, .false.)
    status%MPI_SOURCE = MPI_UNDEFINED
    status%MPI_TAG = MPI_UNDEFINED
    n_queried = n_queried + 1
    ierror = MPI_SUCCESS
  end subroutine
  subroutine nothing(extra_state, ierror)
    integer(MPI_ADDRESS_KIND) :: extra_state
    integer :: ierror
    if (extra_state == 5) n_queried = n_queried + 1
    ierror = MPI_SUCCESS
  end subroutine
  subroutine cancel(extra_state, complete, ierror)
    integer(MPI_ADDRESS_KIND) :: extra_state
    logical :: complete
    integer :: ierror
    ierror = MPI_SUCCESS
    if (.not. complete .and. extra_state == 5) n_queried = -1
  end subroutine

  subroutine check(is_right, what)
    logical, intent(in) :: is_right
    character(len=*), intent(in) :: what
    if (is_right) return
    print *, 'rank', rank, 'wrong: ', what
    call MPI_Abort(MPI_COMM_WORLD, 1)
  end subroutine
end program callbacks_internal

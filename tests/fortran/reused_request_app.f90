! SPDX-License-Identifier: BSD-3-Clause
!
! Waits for a receive into a section that needs a copy. The tool (reused_request_tool.c) starts another one before
! MPI_Wait returns, as another thread could: it has the same request, and is unchanged by the end of the first. A receive
! that fails to start leaves nothing behind, whatever its request variable has been before.
module sections
  use mpi_f08
  implicit none
  integer(8) :: first(8) = 0, second(8) = 0
  type(MPI_Request) :: first_request, second_request
contains
  subroutine start(into, tag, request)
    integer(8), intent(inout), asynchronous :: into(:)
    integer, intent(in) :: tag
    type(MPI_Request), intent(out) :: request

    call MPI_Irecv(into, 3, MPI_INTEGER4, 0, tag, MPI_COMM_SELF, request) ! an element and a half
  end subroutine start

  subroutine send(tag)
    integer, intent(in) :: tag
    integer(4) :: values(3)

    values = [10, 20, 30] + tag
    call MPI_Send(values, 3, MPI_INTEGER4, 0, tag, MPI_COMM_SELF)
  end subroutine send

  subroutine check(from, tag)
    integer(8), intent(in) :: from(8)
    integer, intent(in) :: tag
    integer(4) :: values(16)

    values = transfer(from, values)
    if (any(values([1, 2, 5]) /= [10, 20, 30] + tag)) then
      print *, 'receive', tag, 'has', values
      error stop 1
    end if
  end subroutine check
end module sections

subroutine start_second() bind(C)
  use sections

  call start(second(1:8:2), 2, second_request)
end subroutine start_second

program reused_request
  use sections
  type(MPI_Request) :: failed
  integer :: error

  call MPI_Init()
  call start(first(1:8:2), 1, first_request)
  call send(1)
  call MPI_Wait(first_request, MPI_STATUS_IGNORE)
  call check(first, 1)
  call send(2)
  call MPI_Wait(second_request, MPI_STATUS_IGNORE)
  call check(second, 2)

  call start(first(1:8:2), 3, first_request)
  failed = first_request
  call MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN)
  call MPI_Irecv(second(1:8:2), 3, MPI_INTEGER4, 99, 3, MPI_COMM_SELF, failed, error)
  if (error == MPI_SUCCESS) error stop 2
  second = 7
  call send(3)
  call MPI_Wait(first_request, MPI_STATUS_IGNORE)
  call check(first, 3)
  if (any(second /= 7)) error stop 3
  call MPI_Finalize()
end program reused_request

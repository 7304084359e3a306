! SPDX-License-Identifier: BSD-3-Clause
!
! Shows: module mpi_f08 spawns ranks with and without arguments and error codes, finds the parent, and connects groups of
! ranks by ports and published names.
program dynamic_f08
  use mpi_f08
  implicit none
  integer :: rank, size, n, code, error
  type(MPI_Comm) :: parent, inter
  character(len=200) :: program, argument
  character(len=10) :: args(3), many(2, 3)
  character(len=200) :: commands(2)
  integer :: codes(3), counts(2)
  type(MPI_Info) :: infos(2)

  call MPI_Init()
  call MPI_Comm_rank(MPI_COMM_WORLD, rank)
  call MPI_Comm_size(MPI_COMM_WORLD, size)
  call MPI_Comm_get_parent(parent)
  call get_command_argument(0, program)
  if (parent /= MPI_COMM_NULL) then
    call be_child()
  else
    args = [character(len=10) :: 'first', 'a b', '']
    codes = -1
    call MPI_Comm_spawn(program, args, 2, MPI_INFO_NULL, 0, MPI_COMM_WORLD, inter, codes)
    call check(all(codes == [MPI_SUCCESS, MPI_SUCCESS, -1]), 'error codes')
    call collect(2 * 2, 2)
    call MPI_Comm_spawn(program, MPI_ARGV_NULL, 1, MPI_INFO_NULL, size - 1, MPI_COMM_WORLD, inter, MPI_ERRCODES_IGNORE)
    call collect(0, 1)

    commands = program
    counts = [1, 2]
    infos = MPI_INFO_NULL
    many(1, :) = [character(len=10) :: 'one', '', '']
    many(2, :) = [character(len=10) :: 'one', 'two', '']
    call MPI_Comm_spawn_multiple(2, commands, many, counts, infos, 0, MPI_COMM_WORLD, inter, codes)
    call check(all(codes == MPI_SUCCESS), 'error codes of spawn_multiple')
    call collect(1 + 2 * 2, 3)
    call MPI_Comm_spawn_multiple(2, commands, MPI_ARGVS_NULL, counts, infos, 0, MPI_COMM_WORLD, inter, MPI_ERRCODES_IGNORE)
    call collect(0, 3)

    call MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN)
    call MPI_Comm_spawn('/no/such/program', MPI_ARGV_NULL, 2, MPI_INFO_NULL, 0, MPI_COMM_WORLD, inter, codes, error)
    call MPI_Error_class(error, code)
    call check(code == MPI_ERR_SPAWN .and. codes(2) == MPI_ERR_SPAWN, 'the error of an unknown program')
    if (size > 1 .and. rank < 2) call connect()
  end if
  call MPI_Finalize()

contains
  include 'checks.f90'

  ! Each child sends the number of its arguments.
  subroutine be_child()
    n = command_argument_count()
    if (n == 2) then
      call get_command_argument(2, argument)
      call check(argument == 'a b' .or. argument == 'two', 'the second argument')
    end if
    call MPI_Reduce(n, code, 1, MPI_INTEGER, MPI_SUM, 0, parent)
    call MPI_Comm_disconnect(parent)
  end subroutine be_child

  subroutine collect(n_arguments, n_children)
    integer, intent(in) :: n_arguments, n_children
    integer :: root
    call MPI_Comm_remote_size(inter, n)
    call check(n == n_children, 'the number of children')
    root = MPI_PROC_NULL
    if (rank == 0) root = MPI_ROOT
    n = -1
    call MPI_Reduce(0, n, 1, MPI_INTEGER, MPI_SUM, root, inter)
    call check(rank /= 0 .or. n == n_arguments, 'the number of arguments')
    call MPI_Comm_disconnect(inter)
  end subroutine collect

  subroutine connect()
    character(len=MPI_MAX_PORT_NAME) :: port, found
    if (rank == 0) then
      call MPI_Open_port(MPI_INFO_NULL, port)
      call MPI_Publish_name('fortran ', MPI_INFO_NULL, port)
      call MPI_Send(rank, 1, MPI_INTEGER, 1, 0, MPI_COMM_WORLD)
      call MPI_Comm_accept(port, MPI_INFO_NULL, 0, MPI_COMM_SELF, inter)
    else
      call MPI_Recv(n, 1, MPI_INTEGER, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE)
      call MPI_Lookup_name('fortran', MPI_INFO_NULL, found)
      call MPI_Comm_connect(found, MPI_INFO_NULL, 0, MPI_COMM_SELF, inter)
    end if
    call MPI_Sendrecv(rank, 1, MPI_INTEGER, 0, 1, n, 1, MPI_INTEGER, 0, 1, inter, MPI_STATUS_IGNORE)
    call check(n == 1 - rank, 'a message through the port')
    call MPI_Comm_disconnect(inter)
    call check(inter == MPI_COMM_NULL, 'the handle after MPI_Comm_disconnect')
    if (rank == 0) then
      call MPI_Unpublish_name('fortran', MPI_INFO_NULL, port)
      call MPI_Close_port(port)
    end if
    call MPI_Comm_join(-1, inter, error)
    call check(error /= MPI_SUCCESS, 'MPI_Comm_join of no socket')
  end subroutine connect
end program dynamic_f08

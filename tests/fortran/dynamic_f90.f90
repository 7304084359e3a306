! SPDX-License-Identifier: BSD-3-Clause
!
! Shows: module mpi spawns ranks, with MPI_ARGV_NULL, MPI_ARGVS_NULL and MPI_ERRCODES_IGNORE known by their addresses in
! each rank.
program dynamic_f90
  use mpi
  implicit none
  integer :: parent, inter, n, ierror, counts(2), infos(2), codes(2)
  character(len=200) :: program, commands(2)
  character(len=8) :: args(2)

  call MPI_Init(ierror)
  call MPI_Comm_get_parent(parent, ierror)
  call get_command_argument(0, program)
  if (parent /= MPI_COMM_NULL) then
    n = command_argument_count()
    call check(n == 0 .or. n == 1, 'arguments')
    call MPI_Comm_disconnect(parent, ierror)
  else
    args = [character(len=8) :: 'one', ' ']
    call MPI_Comm_spawn(program, args, 2, MPI_INFO_NULL, 0, MPI_COMM_WORLD, inter, codes, ierror)
    call check(all(codes == MPI_SUCCESS), 'error codes')
    call MPI_Comm_disconnect(inter, ierror)
    call MPI_Comm_spawn(program, MPI_ARGV_NULL, 1, MPI_INFO_NULL, 0, MPI_COMM_WORLD, inter, MPI_ERRCODES_IGNORE, ierror)
    call MPI_Comm_disconnect(inter, ierror)
    commands = program
    counts = 1
    infos = MPI_INFO_NULL
    call MPI_Comm_spawn_multiple(2, commands, MPI_ARGVS_NULL, counts, infos, 0, MPI_COMM_WORLD, inter, MPI_ERRCODES_IGNORE, &
                                 ierror)
    call MPI_Comm_remote_size(inter, n, ierror)
    call check(n == 2, 'the number of children')
    call MPI_Comm_disconnect(inter, ierror)
    call check(inter == MPI_COMM_NULL, 'the handle after MPI_Comm_disconnect')
  end if
  call MPI_Finalize(ierror)

contains
  include 'checks.f90'
end program dynamic_f90

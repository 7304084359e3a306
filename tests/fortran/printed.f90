! SPDX-License-Identifier: BSD-3-Clause
! What ranks have printed is there when the job ends before they do. The argument says how: stop, error, exit, abort, wrong or deadlock.
program printed
    use mpi
    implicit none
    character(10) :: how
    integer :: rank, value, ierror
    call get_command_argument(1, how)
    call MPI_Init(ierror)
    call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierror)
    print '(a,i0)', 'printed by rank ', rank
    call MPI_Barrier(MPI_COMM_WORLD, ierror)
    if (rank == 0) then
        if (how == 'stop') stop 3
        if (how == 'error') error stop 3
        if (how == 'exit') call exit(3)
        if (how == 'abort') call MPI_Abort(MPI_COMM_WORLD, 3, ierror)
        if (how == 'wrong') call MPI_Send(rank, 1, MPI_INTEGER, 1000, 0, MPI_COMM_WORLD, ierror)
    end if
    call MPI_Recv(value, 1, MPI_INTEGER, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE, ierror)
end program

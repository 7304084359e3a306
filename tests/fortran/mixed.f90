! SPDX-License-Identifier: BSD-3-Clause
! Fortran's MPI_STATUS_IGNORE and MPI_STATUSES_IGNORE are MPI_F_STATUS_IGNORE and MPI_F_STATUSES_IGNORE, and those of mpi_f08, in C code that it
! calls; other statuses are neither.
subroutine check(name, kind, expected)
    character(*), intent(in) :: name
    integer, intent(in) :: kind, expected
    if (kind /= expected) then
        print *, name, ' is of kind ', kind
        stop 1
    end if
end subroutine

subroutine check_f90()
    use mpi
    implicit none
    interface
        integer(c_int) function status_kind(status) bind(c)
            use iso_c_binding
            integer(c_int) :: status(*)
        end function
        integer(c_int) function is_valid(comm) bind(c)
            use iso_c_binding
            integer(c_int), value :: comm
        end function
    end interface
    integer :: status(MPI_STATUS_SIZE), statuses(MPI_STATUS_SIZE, 2), comm, ierror
    call check('MPI_STATUS_IGNORE', status_kind(MPI_STATUS_IGNORE), 1)
    call check('MPI_STATUSES_IGNORE', status_kind(MPI_STATUSES_IGNORE), 2)
    call check('a status', status_kind(status), 0)
    call check('statuses', status_kind(statuses), 0)
    call MPI_Comm_dup(MPI_COMM_WORLD, comm, ierror)
    call check('a communicator', is_valid(comm), 1)
    call MPI_Comm_free(comm, ierror)
end subroutine

subroutine check_f08()
    use mpi_f08
    implicit none
    interface
        integer(c_int) function status_kind_f08(status) bind(c)
            use iso_c_binding
            use mpi_f08
            type(MPI_Status) :: status
        end function
    end interface
    type(MPI_Status) :: status
    call check('MPI_STATUS_IGNORE of mpi_f08', status_kind_f08(MPI_STATUS_IGNORE), 1)
    call check('MPI_STATUSES_IGNORE of mpi_f08', status_kind_f08(MPI_STATUSES_IGNORE(1)), 2)
    call check('a status of mpi_f08', status_kind_f08(status), 0)
end subroutine

program mixed
    use mpi
    implicit none
    integer :: ierror, rank
    call MPI_Init(ierror)
    call check_f90()
    call MPI_Barrier(MPI_COMM_WORLD, ierror)
    call check_f08()
    call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierror)
    call MPI_Barrier(MPI_COMM_WORLD, ierror)
    if (rank == 0) print '(a)', 'ok'
    call MPI_Finalize(ierror)
end program

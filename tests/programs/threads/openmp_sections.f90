! SPDX-License-Identifier: BSD-3-Clause
! OpenMP threads of a Fortran program have nonblocking operations with array sections at the same time, each on a communicator of its own: those
! that are described by a datatype, and those that libheddle_mpifort copies, whose requests it keeps in a list. Prints "ok".
program openmp_sections
    use mpi_f08
    use omp_lib
    implicit none
    integer, parameter :: n_threads = 4, n_rounds = 100
    type(MPI_Comm) :: comms(0:n_threads - 1)
    integer :: rank, n_ranks, i, provided, n_wrong
    call MPI_Init_thread(MPI_THREAD_MULTIPLE, provided)
    call MPI_Comm_rank(MPI_COMM_WORLD, rank)
    call MPI_Comm_size(MPI_COMM_WORLD, n_ranks)
    do i = 0, n_threads - 1
        call MPI_Comm_dup(MPI_COMM_WORLD, comms(i))
    end do
    n_wrong = merge(0, 1, provided == MPI_THREAD_MULTIPLE)
    call omp_set_num_threads(n_threads)
    !$omp parallel reduction(+:n_wrong)
    if (omp_get_num_threads() /= n_threads) n_wrong = n_wrong + 1
    call exchange(comms(omp_get_thread_num()), n_wrong)
    !$omp end parallel
    call MPI_Allreduce(MPI_IN_PLACE, n_wrong, 1, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD)
    if (rank == 0 .and. n_wrong == 0) print '(a)', 'ok'
    if (rank == 0 .and. n_wrong /= 0) print '(i0, a)', n_wrong, ' wrong'
    call MPI_Finalize()
contains
    subroutine exchange(comm, n_wrong)
        type(MPI_Comm), intent(in) :: comm
        integer, intent(inout) :: n_wrong
        integer, asynchronous :: sent(6, 6), received(6, 6)
        type(MPI_Request) :: requests(3)
        type(MPI_Status) :: statuses(3)
        integer :: i, left, right
        logical :: is_complete
        left = modulo(rank - 1, n_ranks)
        right = modulo(rank + 1, n_ranks)
        do i = 1, n_rounds
            sent = rank*1000 + i
            received = -1
            call MPI_Irecv(received(2:6:2, 1:6:3), 6, MPI_INTEGER, left, 1, comm, requests(1))
            call MPI_Isend(sent(1:5:2, 2:6:3), 6, MPI_INTEGER, right, 1, comm, requests(2))
            call MPI_Iallreduce(sent(1:6:2, 1), received(1:5:2, 2), 3, MPI_INTEGER, MPI_SUM, comm, requests(3))
            call MPI_Test(requests(3), is_complete, MPI_STATUS_IGNORE)
            call MPI_Waitall(3, requests, statuses)
            if (any(received(2:6:2, 1:6:3) /= left*1000 + i)) n_wrong = n_wrong + 1
            if (any(received(1:5:2, 2) /= 1000*(n_ranks*(n_ranks - 1)/2) + n_ranks*i)) n_wrong = n_wrong + 1
            if (any(received(2:6:2, 2:3) /= -1)) n_wrong = n_wrong + 1
            if (statuses(1)%MPI_SOURCE /= left) n_wrong = n_wrong + 1
        end do
    end subroutine
end program

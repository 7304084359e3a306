! SPDX-License-Identifier: BSD-3-Clause
!
! Shows: module mpi converts LOGICAL, also in arrays: Cartesian grids, graphs, intercommunicators, splits.
program topo_f90
  use mpi
  implicit none
  integer :: rank, size, ierr, comm, row, dims(2), coords(2), n, source, dest, edges(2), index(1), type
  logical :: periods(2), flag
  integer :: starts(1), i
  integer, allocatable :: all_index(:), all_edges(:)

  call MPI_Init(ierr)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierr)
  call MPI_Comm_size(MPI_COMM_WORLD, size, ierr)
  dims = 0
  call MPI_Dims_create(size, 2, dims, ierr)
  call check(dims(1) * dims(2) == size, 'MPI_Dims_create')
  call MPI_Cart_create(MPI_COMM_WORLD, 2, dims, [.true., .false.], .false., comm, ierr)
  periods = [.false., .true.]
  coords = -1
  call MPI_Cart_get(comm, 2, dims, periods, coords, ierr)
  call check(periods(1) .and. .not. periods(2), 'LOGICAL results')
  call MPI_Cart_rank(comm, coords, n, ierr)
  call check(n == rank, 'MPI_Cart_rank')
  call MPI_Cart_shift(comm, 1, 1, source, dest, ierr)
  call check((dest == MPI_PROC_NULL) .eqv. (coords(2) == dims(2) - 1), 'MPI_Cart_shift')
  call MPI_Cart_sub(comm, [.false., .true.], row, ierr)
  call MPI_Comm_size(row, n, ierr)
  call check(n == dims(2), 'MPI_Cart_sub')
  call MPI_Topo_test(row, type, ierr)
  call check(type == MPI_CART, 'MPI_Topo_test')
  call MPI_Comm_test_inter(row, flag, ierr)
  call check(.not. flag, 'MPI_Comm_test_inter')
  call MPI_Comm_free(row, ierr)
  call MPI_Comm_free(comm, ierr)

  ! A ring: rank i has the neighbors i - 1 and i + 1.
  allocate (all_index(size), all_edges(2 * size))
  do i = 1, size
    all_index(i) = 2 * i
    all_edges(2 * i - 1) = mod(i + size - 2, size)
    all_edges(2 * i) = mod(i, size)
  end do
  call MPI_Graph_create(MPI_COMM_WORLD, size, all_index, all_edges, .false., comm, ierr)
  call MPI_Graph_neighbors_count(comm, rank, n, ierr)
  call MPI_Graph_neighbors(comm, rank, 2, edges, ierr)
  call check(n == 2 .and. edges(2) == mod(rank + 1, size), 'graph')
  call MPI_Graphdims_get(comm, n, i, ierr)
  call check(n == size .and. i == 2 * size, 'MPI_Graphdims_get')
  call MPI_Comm_free(comm, ierr)

  call MPI_Comm_split(MPI_COMM_WORLD, mod(rank, 2), -rank, comm, ierr)
  call MPI_Comm_compare(comm, MPI_COMM_WORLD, n, ierr)
  call check(n == MPI_UNEQUAL .or. size == 1, 'MPI_Comm_split')
  if (size > 1) then
    call MPI_Comm_rank(comm, n, ierr)
    call MPI_Intercomm_create(comm, 0, MPI_COMM_WORLD, size - 2 + mod(size + rank + 1, 2), 5, row, ierr)
    call MPI_Comm_test_inter(row, flag, ierr)
    call check(flag, 'MPI_Intercomm_create')
    call MPI_Comm_free(comm, ierr)
    call MPI_Intercomm_merge(row, mod(rank, 2) == 1, comm, ierr)
    call MPI_Comm_size(comm, n, ierr)
    call check(n == size, 'MPI_Intercomm_merge')
    call MPI_Comm_free(row, ierr)
  end if
  call MPI_Comm_free(comm, ierr)
  call MPI_Comm_split(MPI_COMM_WORLD, MPI_UNDEFINED, 0, comm, ierr)
  call check(comm == MPI_COMM_NULL, 'MPI_UNDEFINED')
  call MPI_Finalize(ierr)
contains
  include 'checks.f90'
end program

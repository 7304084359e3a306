! SPDX-License-Identifier: BSD-3-Clause
!
! Shows: module mpi_f08 knows MPI_BOTTOM, MPI_IN_PLACE, MPI_STATUS(ES)_IGNORE, MPI_UNWEIGHTED,
! MPI_WEIGHTS_EMPTY and MPI_BUFFER_AUTOMATIC by their addresses, in each rank.
program special_f08
  use, intrinsic :: iso_c_binding, only: C_PTR
  use mpi_f08
  implicit none
  integer :: rank, size, n, i
  type(MPI_Comm) :: comm
  type(MPI_Datatype) :: type, types(1)
  type(MPI_Request) :: requests(1)
  type(C_PTR) :: buffer
  integer(kind=MPI_ADDRESS_KIND) :: address(1), zero
  integer :: lengths(1), value, in(1), out(1), in_weights(1), out_weights(1)
  logical :: weighted, flag
  integer, allocatable :: all_ranks(:)

  call MPI_Init()
  call MPI_Comm_rank(MPI_COMM_WORLD, rank)
  call MPI_Comm_size(MPI_COMM_WORLD, size)

  value = rank + 5
  call MPI_Get_address(value, address(1))
  lengths = 1
  types = MPI_INTEGER
  call MPI_Type_create_struct(1, lengths, address, types, type)
  call MPI_Type_commit(type)
  call MPI_Bcast(MPI_BOTTOM, 1, type, 0, MPI_COMM_WORLD)
  call MPI_F_sync_reg(value)
  call check(value == 5, 'MPI_BOTTOM')
  call MPI_Type_free(type)
  call MPI_Get_address(MPI_BOTTOM, zero)
  call check(zero == 0, 'address of MPI_BOTTOM')
  call check(MPI_Aint_add(address(1), 8_MPI_ADDRESS_KIND) == address(1) + 8, 'MPI_Aint_add')
  call check(MPI_Aint_diff(address(1), address(1)) == 0, 'MPI_Aint_diff')

  allocate (all_ranks(size))
  all_ranks = -1
  all_ranks(rank + 1) = rank
  call MPI_Allgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, all_ranks, 1, MPI_INTEGER, MPI_COMM_WORLD)
  call check(all(all_ranks == [(i, i=0, size - 1)]), 'MPI_IN_PLACE')

  call MPI_Isend(rank, 1, MPI_INTEGER, mod(rank + 1, size), 1, MPI_COMM_WORLD, requests(1))
  call MPI_Recv(n, 1, MPI_INTEGER, MPI_ANY_SOURCE, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE)
  call MPI_Waitall(1, requests, MPI_STATUSES_IGNORE)
  call check(n == mod(rank + size - 1, size), 'MPI_STATUS_IGNORE')

  in = mod(rank + size - 1, size)
  out = mod(rank + 1, size)
  call MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 1, in, MPI_UNWEIGHTED, 1, out, MPI_UNWEIGHTED, &
                                      MPI_INFO_NULL, .false., comm)
  call MPI_Dist_graph_neighbors_count(comm, n, i, weighted)
  call check(n == 1 .and. i == 1 .and. .not. weighted, 'MPI_UNWEIGHTED')
  call MPI_Dist_graph_neighbors(comm, 1, in, MPI_UNWEIGHTED, 1, out, MPI_UNWEIGHTED)
  call check(in(1) == mod(rank + size - 1, size), 'neighbors')
  call MPI_Comm_free(comm)
  if (rank == 0) then
    in_weights = 3
    out_weights = 4
    call MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 1, [0], in_weights, 1, [0], out_weights, &
                                        MPI_INFO_NULL, .true., comm)
  else
    call MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 0, [0], MPI_WEIGHTS_EMPTY, 0, [0], MPI_WEIGHTS_EMPTY, &
                                        MPI_INFO_NULL, .true., comm)
  end if
  call MPI_Dist_graph_neighbors_count(comm, n, i, weighted)
  call check(weighted, 'MPI_WEIGHTS_EMPTY')
  call MPI_Comm_free(comm)

  call MPI_Buffer_attach(MPI_BUFFER_AUTOMATIC, 0)
  call MPI_Bsend(rank, 1, MPI_INTEGER, mod(rank + 1, size), 2, MPI_COMM_WORLD)
  call MPI_Recv(n, 1, MPI_INTEGER, MPI_ANY_SOURCE, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE)
  call MPI_Buffer_detach(buffer, i)
  call check(n == mod(rank + size - 1, size), 'MPI_BUFFER_AUTOMATIC')
  call MPI_Finalized(flag)
  call check(.not. flag, 'finalized')
  call MPI_Finalize()
contains
  include 'checks.f90'
end program

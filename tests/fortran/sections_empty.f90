! SPDX-License-Identifier: BSD-3-Clause
!
! Shows: module mpi_f08 takes array sections with gaps and without elements: calls with count 0 work (messages, partitions, collectives),
! arguments that are not significant may be empty, and partitions with elements return MPI_ERR_BUFFER.
program sections_empty
  use mpi_f08
  implicit none
  integer :: rank, size, right, left, none, i
  integer, asynchronous :: a(4, 5, 6), all_of(2, 16)
  type(MPI_Request) :: requests(2)

  call MPI_Init()
  call MPI_Comm_rank(MPI_COMM_WORLD, rank)
  call MPI_Comm_size(MPI_COMM_WORLD, size)
  right = mod(rank + 1, size)
  left = mod(rank + size - 1, size)
  none = 0
  a = 7

  call messages(a(1:4:2, 1:none, 1:6:2))
  call messages(a(1:4:2, 1:5:2, 1:none))
  call messages(a(1:4:2, 1:none, 1:none))
  call described_by_gfortran_11()
  call MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN)
  call refused(a(1:4:2, 1:none, 1:6:2))
  call refused(a(1:4:2, 1:5:2, 1:none))
  call refused(a(1:4:2, 1:none, 1:none))
  call check(all(a == 7), 'nothing is written')
  ! Only the root has a receive buffer.
  all_of = -1
  if (rank == 0) then
    call MPI_Gather(rank, 1, MPI_INTEGER, all_of(1, 1:size), 1, MPI_INTEGER, 0, MPI_COMM_WORLD)
    call check(all(all_of(1, 1:size) == [(i, i=0, size - 1)]) .and. all(all_of(2, :) == -1), 'gather')
  else
    call MPI_Gather(rank, 1, MPI_INTEGER, a(1:4:2, 1:none, 1:6:2), 1, MPI_INTEGER, 0, MPI_COMM_WORLD)
  end if
  call MPI_Finalize()
contains
  subroutine messages(x)
    integer, asynchronous :: x(:, :, :)
    call check(size_of(x) == 0, 'the section has no elements')
    call MPI_Sendrecv(x, 0, MPI_INTEGER, right, 1, x, 0, MPI_INTEGER, left, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE)
    call MPI_Bcast(x, 0, MPI_INTEGER, 0, MPI_COMM_WORLD)
    call MPI_Psend_init(x, 2, 0_MPI_COUNT_KIND, MPI_INTEGER, right, 2, MPI_COMM_WORLD, MPI_INFO_NULL, requests(1))
    call MPI_Precv_init(x, 3, 0_MPI_COUNT_KIND, MPI_INTEGER, left, 2, MPI_COMM_WORLD, MPI_INFO_NULL, requests(2))
    call MPI_Startall(2, requests)
    call MPI_Pready_range(0, 1, requests(1))
    call MPI_Waitall(2, requests, MPI_STATUSES_IGNORE)
    call MPI_Request_free(requests(1))
    call MPI_Request_free(requests(2))
  end subroutine
  ! gfortran 11 passes a(1:4:2, 1:5:2, 1:0) with the last extent -1, as if it were an assumed-size array.
  subroutine described_by_gfortran_11()
    use, intrinsic :: iso_c_binding, only: C_LOC, C_INT64_T
    interface
      subroutine bcast_by_descriptor(descriptor, count, datatype, root, comm, ierror) bind(C, name="mpi_bcast_f08ts_")
        import :: MPI_Datatype, MPI_Comm, C_INT64_T
        integer(C_INT64_T) :: descriptor(*)
        integer :: count
        type(MPI_Datatype) :: datatype
        integer :: root
        type(MPI_Comm) :: comm
        integer, intent(out) :: ierror
      end subroutine
    end interface
    integer(C_INT64_T) :: descriptor(12)
    integer, asynchronous, target, save :: x(4, 5, 6)
    integer :: error
    ! base_addr, elem_len, version and rank, then lower bound, extent and distance of each dimension
    descriptor = [transfer(C_LOC(x), 0_C_INT64_T), 4_C_INT64_T, ishft(3_C_INT64_T, 32) + 1, 0_C_INT64_T, 2_C_INT64_T, 8_C_INT64_T, &
                  0_C_INT64_T, 3_C_INT64_T, 32_C_INT64_T, 0_C_INT64_T, -1_C_INT64_T, 80_C_INT64_T]
    x = 7
    call bcast_by_descriptor(descriptor, 0, MPI_INTEGER, 0, MPI_COMM_WORLD, error)
    call check(error == MPI_SUCCESS .and. all(x == 7), 'a section without elements, described by gfortran 11')
  end subroutine
  integer function size_of(x)
    integer, asynchronous :: x(:, :, :)
    size_of = product(shape(x))
  end function
  subroutine refused(x)
    integer, asynchronous :: x(:, :, :)
    integer :: partitions, error, class
    do partitions = 1, 2
      call MPI_Psend_init(x, partitions, 1_MPI_COUNT_KIND, MPI_INTEGER, right, 3, MPI_COMM_WORLD, MPI_INFO_NULL, requests(1), error)
      call MPI_Error_class(error, class)
      call check(class == MPI_ERR_BUFFER .and. requests(1) == MPI_REQUEST_NULL, 'no partition to send')
      call MPI_Precv_init(x, partitions, 2_MPI_COUNT_KIND, MPI_INTEGER, left, 3, MPI_COMM_WORLD, MPI_INFO_NULL, requests(1), error)
      call MPI_Error_class(error, class)
      call check(class == MPI_ERR_BUFFER .and. requests(1) == MPI_REQUEST_NULL, 'no partition to receive')
    end do
  end subroutine
  include 'checks.f90'
end program

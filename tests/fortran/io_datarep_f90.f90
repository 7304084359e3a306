! SPDX-License-Identifier: BSD-3-Clause
!
! Shows: data representations written in Fortran for module mpi: their functions get arrays and the state, MPI_CONVERSION_FN_NULL
! leaves a direction as it is, an error of a function is MPI_ERR_CONVERSION, and names exist once.
module representation
  use mpi
  implicit none
  integer :: n_read = 0, n_written = 0
contains
  ! Integers have 8 bytes in the file: the number plus the state, then its negative.
  subroutine wide_extent(datatype, extent, extra_state, ierror)
    integer :: datatype, ierror
    integer(kind=MPI_ADDRESS_KIND) :: extent, extra_state
    extent = merge(8, 1, datatype == MPI_INTEGER)
    ierror = merge(MPI_SUCCESS, MPI_ERR_OTHER, extra_state == 17)
  end subroutine wide_extent
  subroutine wide_write(userbuf, datatype, count, filebuf, position, extra_state, ierror)
    integer :: datatype, count, ierror, i, userbuf(*), filebuf(*)
    integer(kind=MPI_OFFSET_KIND) :: position
    integer(kind=MPI_ADDRESS_KIND) :: extra_state
    n_written = n_written + 1
    do i = 1, count
       filebuf(2 * i - 1) = userbuf(position + i) + int(extra_state)
       filebuf(2 * i) = -filebuf(2 * i - 1)
    end do
    ierror = merge(MPI_SUCCESS, MPI_ERR_OTHER, datatype == MPI_INTEGER .and. userbuf(1) /= -1)
  end subroutine wide_write
  subroutine wide_read(userbuf, datatype, count, filebuf, position, extra_state, ierror)
    integer :: datatype, count, ierror, i, userbuf(*), filebuf(*)
    integer(kind=MPI_OFFSET_KIND) :: position
    integer(kind=MPI_ADDRESS_KIND) :: extra_state
    n_read = n_read + 1
    do i = 1, count
       userbuf(position + i) = filebuf(2 * i - 1) - int(extra_state)
    end do
    ierror = merge(MPI_SUCCESS, MPI_ERR_OTHER, datatype == MPI_INTEGER)
  end subroutine wide_read
end module representation

program io_datarep_f90
  use mpi
  use representation
  implicit none
  integer, parameter :: n = 20
  integer :: rank, file, i, c, ierror, request, status(MPI_STATUS_SIZE), numbers(n), got(2 * n)
  integer(kind=MPI_ADDRESS_KIND), parameter :: state = 17
  integer(kind=MPI_ADDRESS_KIND) :: extent
  integer(kind=MPI_OFFSET_KIND) :: disp, start
  character(len=60) :: name

  call MPI_Init(ierror)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierror)
  if (rank == 0) call system_clock(c)
  if (rank == 0) write (name, '(a, i0)') '/tmp/heddle_io_datarep_', c
  call MPI_Bcast(name, len(name), MPI_CHARACTER, 0, MPI_COMM_WORLD, ierror)
  call MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_CREATE + MPI_MODE_RDWR + MPI_MODE_DELETE_ON_CLOSE, MPI_INFO_NULL, file, ierror)
  call MPI_Register_datarep('wide', wide_read, wide_write, wide_extent, state, ierror)
  call check(ierror == MPI_SUCCESS, 'register')
  call MPI_Register_datarep('wide', wide_read, wide_write, wide_extent, state, ierror)
  call check(ierror == MPI_ERR_DUP_DATAREP, 'register again')
  call MPI_Register_datarep('reads', wide_read, MPI_CONVERSION_FN_NULL, wide_extent, state, ierror)
  call check(ierror == MPI_SUCCESS, 'register with MPI_CONVERSION_FN_NULL')

  numbers = [(1000 * rank + i, i = 1, n)]
  disp = 8 * n * rank
  start = 0
  call MPI_File_set_view(file, disp, MPI_INTEGER, MPI_INTEGER, 'wide', MPI_INFO_NULL, ierror)
  call check(ierror == MPI_SUCCESS, 'set_view')
  call MPI_File_get_type_extent(file, MPI_INTEGER, extent, ierror)
  call check(extent == 8, 'get_type_extent')
  call MPI_File_write_all(file, numbers, n, MPI_INTEGER, status, ierror)
  call check(ierror == MPI_SUCCESS .and. n_written > 0, 'write_all')
  got = -5
  call MPI_File_iread_at(file, start, got, n, MPI_INTEGER, request, ierror)
  call MPI_Wait(request, status, ierror)
  call MPI_Get_count(status, MPI_INTEGER, c, ierror)
  call check(c == n .and. all(got(:n) == numbers) .and. all(got(n + 1:) == -5) .and. n_read > 0, 'iread_at')
  got(1) = -1
  call MPI_File_write_at(file, start, got, 1, MPI_INTEGER, status, ierror)
  call check(ierror == MPI_ERR_CONVERSION, 'an error of the function')

  ! Unchanged bytes are written, and converted when they are read.
  call MPI_File_set_view(file, disp, MPI_INTEGER, MPI_INTEGER, 'reads', MPI_INFO_NULL, ierror)
  got = [([1000 * rank + i + 17, 0], i = 1, n)]
  n_written = 0
  call MPI_File_write_at_all(file, start, got, 2 * n, MPI_INTEGER, status, ierror)
  call check(ierror == MPI_SUCCESS .and. n_written == 0, 'write_at_all without conversion')
  got = -5
  call MPI_File_read_at_all(file, start, got, n, MPI_INTEGER, status, ierror)
  call check(all(got(:n) == numbers), 'read_at_all')
  call MPI_File_close(file, ierror)
  call MPI_Finalize(ierror)
contains
  include 'checks.f90'
end program io_datarep_f90

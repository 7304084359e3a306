! SPDX-License-Identifier: BSD-3-Clause
!
! Shows: files in module mpi_f08: views, statuses, array sections in memory, requests, split collectives, the shared pointer, error
! handlers and data representations written in Fortran, and in module mpi the same handles as integers.
module procedures
  use mpi_f08
  implicit none
  integer :: n_errors
  type(MPI_File) :: file
contains
  subroutine count_error(the_file, code)
    type(MPI_File) :: the_file
    integer :: code
    if (the_file == file .and. code == MPI_ERR_ARG) n_errors = n_errors + 1
  end subroutine count_error
  subroutine wide_extent(datatype, extent, extra_state, ierror)
    type(MPI_Datatype) :: datatype
    integer(kind=MPI_ADDRESS_KIND) :: extent, extra_state
    integer :: ierror
    extent = 8
    ierror = MPI_SUCCESS
    if (datatype /= MPI_INTEGER) extent = 1
    if (extra_state /= 17) ierror = MPI_ERR_OTHER
  end subroutine wide_extent
  subroutine wide_write(userbuf, datatype, count, filebuf, position, extra_state, ierror)
    use, intrinsic :: iso_c_binding, only : c_ptr, c_f_pointer
    type(c_ptr), value :: userbuf, filebuf
    type(MPI_Datatype) :: datatype
    integer :: count, ierror, i
    integer(kind=MPI_OFFSET_KIND) :: position
    integer(kind=MPI_ADDRESS_KIND) :: extra_state
    integer, pointer :: user(:)
    integer(kind=8), pointer :: file(:)
    call c_f_pointer(userbuf, user, [count + int(position)])
    call c_f_pointer(filebuf, file, [count])
    do i = 1, count
      file(i) = user(int(position) + i) + extra_state
    end do
    ierror = MPI_SUCCESS
    if (datatype /= MPI_INTEGER) ierror = MPI_ERR_TYPE
  end subroutine wide_write
  subroutine wide_read(userbuf, datatype, count, filebuf, position, extra_state, ierror)
    use, intrinsic :: iso_c_binding, only : c_ptr, c_f_pointer
    type(c_ptr), value :: userbuf, filebuf
    type(MPI_Datatype) :: datatype
    integer :: count, ierror, i
    integer(kind=MPI_OFFSET_KIND) :: position
    integer(kind=MPI_ADDRESS_KIND) :: extra_state
    integer, pointer :: user(:)
    integer(kind=8), pointer :: file(:)
    call c_f_pointer(userbuf, user, [count + int(position)])
    call c_f_pointer(filebuf, file, [count])
    do i = 1, count
      user(int(position) + i) = int(file(i) - extra_state)
    end do
    ierror = MPI_SUCCESS
    if (datatype /= MPI_INTEGER) ierror = MPI_ERR_TYPE
  end subroutine wide_read
end module procedures

program io_f08
  use mpi_f08
  use procedures
  implicit none
  integer :: rank, size, ierror
  character(len=60) :: name

  call MPI_Init()
  call MPI_Comm_rank(MPI_COMM_WORLD, rank)
  call MPI_Comm_size(MPI_COMM_WORLD, size)
  call make_name()
  call MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_CREATE + MPI_MODE_RDWR + MPI_MODE_DELETE_ON_CLOSE, MPI_INFO_NULL, file)
  call views()
  call sections()
  call pointers()
  call handlers()
  call representation()
  call old_module(file%MPI_VAL)
  call MPI_File_close(file)
  call check(file == MPI_FILE_NULL, 'the file is closed')
  call MPI_Finalize()
contains
  subroutine make_name()
    integer :: clock
    call system_clock(clock)
    write (name, '(a,i0,a)') '/tmp/heddle_io_f08_', clock, '_x'
    call MPI_Bcast(name, len(name), MPI_CHARACTER, 0, MPI_COMM_WORLD)
  end subroutine make_name

  subroutine views()
    type(MPI_Datatype) :: blocks, filetype, got_etype, got_filetype
    type(MPI_Status) :: status
    integer(kind=MPI_OFFSET_KIND) :: disp, at
    character(len=MPI_MAX_DATAREP_STRING) :: datarep
    integer :: numbers(10), got(10), i, n
    call MPI_Type_vector(1, 1, size, MPI_INTEGER, blocks)
    call MPI_Type_create_resized(blocks, 0_MPI_ADDRESS_KIND, int(4 * size, MPI_ADDRESS_KIND), filetype)
    call MPI_Type_commit(filetype)
    disp = 4 * rank
    call MPI_File_set_view(file, disp, MPI_INTEGER, filetype, 'native', MPI_INFO_NULL)
    numbers = [(100 * rank + i, i = 1, 10)]
    call MPI_File_write_all(file, numbers, 10, MPI_INTEGER, status)
    call MPI_Get_count(status, MPI_INTEGER, n)
    call check(n == 10, 'count of MPI_File_write_all')
    call MPI_File_get_position(file, at)
    call check(at == 10, 'MPI_File_get_position')
    got = 0
    call MPI_File_read_at(file, 2_MPI_OFFSET_KIND, got, 8, MPI_INTEGER, status)
    call check(all(got(1:8) == numbers(3:10)), 'MPI_File_read_at')
    call MPI_File_get_view(file, disp, got_etype, got_filetype, datarep)
    call check(disp == 4 * rank .and. got_etype == MPI_INTEGER .and. datarep == 'native', 'MPI_File_get_view')
    call MPI_Type_free(got_filetype)
    call MPI_Type_free(filetype)
    call MPI_Type_free(blocks)
  end subroutine views

  ! Every second element of an array, written and read by requests and by a split collective.
  subroutine sections()
    integer, asynchronous :: numbers(20), got(20)
    integer :: i
    type(MPI_Request) :: request
    type(MPI_Status) :: status
    integer(kind=MPI_OFFSET_KIND) :: at
    call MPI_File_set_view(file, 0_MPI_OFFSET_KIND, MPI_INTEGER, MPI_INTEGER, 'native', MPI_INFO_NULL)
    numbers = [(1000 * rank + i, i = 1, 20)]
    at = 10 * rank
    call MPI_File_iwrite_at(file, at, numbers(1::2), 10, MPI_INTEGER, request)
    call MPI_Wait(request, status)
    got = -1
    call MPI_File_iread_at(file, at, got(2::2), 10, MPI_INTEGER, request)
    call MPI_Wait(request, status)
    call check(all(got(2::2) == numbers(1::2)) .and. all(got(1::2) == -1), 'sections with requests')
    call MPI_File_write_at_all_begin(file, at, numbers(20:2:-2), 10, MPI_INTEGER)
    call MPI_File_write_at_all_end(file, numbers(20:2:-2), status)
    got = -1
    call MPI_File_read_at_all_begin(file, at, got(1:10), 10, MPI_INTEGER)
    call MPI_File_read_at_all_end(file, got(1:10), status)
    call check(all(got(1:10) == numbers(20:2:-2)), 'sections with split collectives')
  end subroutine sections

  subroutine pointers()
    integer :: value(1)
    integer(kind=MPI_OFFSET_KIND) :: at
    call MPI_File_set_view(file, 0_MPI_OFFSET_KIND, MPI_INTEGER, MPI_INTEGER, 'native', MPI_INFO_NULL)
    value = rank
    call MPI_File_write_ordered(file, value, 1, MPI_INTEGER, MPI_STATUS_IGNORE)
    call MPI_File_get_position_shared(file, at)
    call check(at == size, 'MPI_File_get_position_shared')
    call MPI_File_seek_shared(file, 0_MPI_OFFSET_KIND, MPI_SEEK_SET)
    value = -1
    call MPI_File_read_ordered(file, value, 1, MPI_INTEGER, MPI_STATUS_IGNORE)
    call check(value(1) == rank, 'MPI_File_read_ordered')
  end subroutine pointers

  subroutine handlers()
    type(MPI_Errhandler) :: handler
    n_errors = 0
    call MPI_File_create_errhandler(count_error, handler)
    call MPI_File_set_errhandler(file, handler)
    call MPI_File_seek(file, -1_MPI_OFFSET_KIND, MPI_SEEK_SET, ierror)
    call check(n_errors == 1 .and. ierror == MPI_ERR_ARG, 'the error handler of a file')
    call MPI_File_set_errhandler(file, MPI_ERRORS_RETURN)
    call MPI_Errhandler_free(handler)
  end subroutine handlers

  subroutine representation()
    integer(kind=MPI_ADDRESS_KIND) :: extent
    integer :: numbers(5), got(5)
    integer(kind=8) :: raw(5)
    integer(kind=MPI_OFFSET_KIND) :: at
    call MPI_Register_datarep('wide', wide_read, wide_write, wide_extent, 17_MPI_ADDRESS_KIND)
    call MPI_File_set_view(file, 0_MPI_OFFSET_KIND, MPI_INTEGER, MPI_INTEGER, 'wide', MPI_INFO_NULL)
    call MPI_File_get_type_extent(file, MPI_INTEGER, extent)
    call check(extent == 8, 'MPI_File_get_type_extent')
    numbers = [1, 2, 3, 4, 5] * (rank + 1)
    at = 5 * rank
    call MPI_File_write_at_all(file, at, numbers, 5, MPI_INTEGER, MPI_STATUS_IGNORE)
    call MPI_File_read_at_all(file, at, got, 5, MPI_INTEGER, MPI_STATUS_IGNORE)
    call check(all(got == numbers), 'a data representation in Fortran')
    call MPI_File_set_view(file, 0_MPI_OFFSET_KIND, MPI_BYTE, MPI_BYTE, 'native', MPI_INFO_NULL)
    call MPI_File_read_at(file, 8 * at, raw, 40, MPI_BYTE, MPI_STATUS_IGNORE)
    call check(all(raw == numbers + 17), 'what the representation has in the file')
  end subroutine representation

  subroutine old_module(handle)
    integer, intent(in) :: handle
    external :: by_mpi
    call by_mpi(handle, size)
  end subroutine old_module

  include 'checks.f90'
end program io_f08

subroutine by_mpi(handle, n_ranks)
  use mpi
  implicit none
  integer :: handle, n_ranks, amode, group, n, ierror, status(MPI_STATUS_SIZE), code
  integer(kind=MPI_OFFSET_KIND) :: n_bytes
  double precision :: numbers(4), got(4)
  call MPI_File_get_amode(handle, amode, ierror)
  if (ierror /= MPI_SUCCESS .or. iand(amode, MPI_MODE_RDWR) == 0) call MPI_Abort(MPI_COMM_WORLD, 2, code)
  call MPI_File_get_group(handle, group, ierror)
  call MPI_Group_size(group, n, ierror)
  if (n /= n_ranks) call MPI_Abort(MPI_COMM_WORLD, 3, code)
  call MPI_Group_free(group, ierror)
  numbers = 1.5d0
  n_bytes = 0
  call MPI_File_set_view(handle, n_bytes, MPI_DOUBLE_PRECISION, MPI_DOUBLE_PRECISION, 'external32', MPI_INFO_NULL, ierror)
  call MPI_File_write_at_all(handle, n_bytes, numbers, 4, MPI_DOUBLE_PRECISION, status, ierror)
  call MPI_File_read_at_all(handle, n_bytes, got, 4, MPI_DOUBLE_PRECISION, status, ierror)
  call MPI_Get_count(status, MPI_DOUBLE_PRECISION, n, ierror)
  if (n /= 4 .or. any(got /= numbers)) call MPI_Abort(MPI_COMM_WORLD, 4, code)
  call MPI_File_get_size(handle, n_bytes, ierror)
  if (n_bytes < 32) call MPI_Abort(MPI_COMM_WORLD, 5, code)
end subroutine by_mpi

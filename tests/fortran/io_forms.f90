! SPDX-License-Identifier: BSD-3-Clause
!
! The common text of io_forms_f90.f90 and io_forms_f08.f90, which declare the handles: each way to write to a file and to read from it
! moves the data and fills the status; size, preallocated space, atomicity, hints, byte offsets and error handlers of a file.
  call MPI_Init(ierror)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierror)
  call make_name()
  call MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_CREATE + MPI_MODE_RDWR + MPI_MODE_DELETE_ON_CLOSE, MPI_INFO_NULL, file, ierror)
  call properties()
  call ordered()
  call MPI_File_set_view(file, rank * (n + 7) * 4_MPI_OFFSET_KIND, MPI_INTEGER, MPI_INTEGER, 'native', MPI_INFO_NULL, ierror)
  call offsets()
  call MPI_File_close(file, ierror)
  write (name, '(a,a,i0)') trim(name), '_', rank
  call MPI_File_open(MPI_COMM_SELF, name, MPI_MODE_CREATE + MPI_MODE_RDWR + MPI_MODE_DELETE_ON_CLOSE, MPI_INFO_NULL, file, ierror)
  call pointers()
  call shared()
  call MPI_File_close(file, ierror)
  call MPI_Finalize(ierror)
contains
  subroutine make_name()
    integer :: clock
    call system_clock(clock)
    write (name, '(a,a,i0)') '/tmp/heddle_io_', interface_name, clock
    call MPI_Bcast(name, len(name), MPI_CHARACTER, 0, MPI_COMM_WORLD, ierror)
  end subroutine make_name

  include 'checks.f90'

  subroutine begin()
    integer :: i
    seed = seed + 1
    out = [(seed * 10000 + rank * 1000 + i, i = 1, n)]
    in = -1
    call back()
  end subroutine begin

  subroutine back()
    call MPI_File_sync(file, ierror)
    call MPI_File_seek(file, start, MPI_SEEK_SET, ierror)
    call MPI_File_seek_shared(file, start, MPI_SEEK_SET, ierror)
  end subroutine back

  subroutine wrote(what)
    character(len=*), intent(in) :: what
    integer :: count
    call MPI_Get_count(status, MPI_INTEGER, count, ierror)
    call check(count == n, what // ': count of the write')
    call back()
  end subroutine wrote

  subroutine done(what)
    character(len=*), intent(in) :: what
    integer :: count
    call MPI_Get_count(status, MPI_INTEGER, count, ierror)
    call check(count == n, what // ': count of the read')
    call check(all(in == out), what // ': data')
  end subroutine done

  subroutine properties()
    integer(kind=MPI_OFFSET_KIND) :: bytes, place
    logical :: is_atomic, is_set
    character(len=40) :: value
    call MPI_File_set_size(file, 1000_MPI_OFFSET_KIND, ierror)
    call MPI_File_get_size(file, bytes, ierror)
    call check(bytes == 1000, 'set_size')
    call MPI_File_preallocate(file, 5000_MPI_OFFSET_KIND, ierror)
    call MPI_File_get_size(file, bytes, ierror)
    call check(bytes == 5000, 'preallocate')
    call MPI_File_set_atomicity(file, .true., ierror)
    call MPI_File_get_atomicity(file, is_atomic, ierror)
    call check(is_atomic, 'atomicity on')
    call MPI_File_set_atomicity(file, .false., ierror)
    call MPI_File_get_atomicity(file, is_atomic, ierror)
    call check(.not. is_atomic, 'atomicity off')
    call MPI_File_get_byte_offset(file, 17_MPI_OFFSET_KIND, place, ierror)
    call check(place == 17, 'byte offset')
    call MPI_Info_create(info, ierror)
    call MPI_Info_set(info, 'cb_buffer_size', '65536', ierror)
    call MPI_File_set_info(file, info, ierror)
    call check(ierror == MPI_SUCCESS, 'set_info')
    call MPI_Info_free(info, ierror)
    call MPI_Info_create_env(info, ierror)
    call MPI_Info_get(info, 'thread_level', len(value), value, is_set, ierror)
    call check(is_set .and. value == 'MPI_THREAD_SINGLE', 'info of the environment')
    call MPI_Info_free(info, ierror)
    call MPI_File_set_errhandler(file, MPI_ERRORS_RETURN, ierror)
    call MPI_File_get_errhandler(file, handler, ierror)
    call check(handler == MPI_ERRORS_RETURN, 'error handler')
    call MPI_File_call_errhandler(file, MPI_ERR_ARG, ierror)
    call check(ierror == MPI_SUCCESS, 'call_errhandler')
  end subroutine properties

  subroutine ordered()
    call begin()
    call MPI_File_write_ordered(file, out, n, MPI_INTEGER, status, ierror)
    call wrote('ordered')
    call MPI_File_read_ordered(file, in, n, MPI_INTEGER, status, ierror)
    call done('ordered')
    call begin()
    call MPI_File_write_ordered_begin(file, out, n, MPI_INTEGER, ierror)
    call MPI_File_write_ordered_end(file, out, status, ierror)
    call wrote('ordered split')
    call MPI_File_read_ordered_begin(file, in, n, MPI_INTEGER, ierror)
    call MPI_File_read_ordered_end(file, in, status, ierror)
    call done('ordered split')
  end subroutine ordered

  subroutine offsets()
    call begin()
    call MPI_File_write_at(file, at, out, n, MPI_INTEGER, status, ierror)
    call wrote('at')
    call MPI_File_read_at(file, at, in, n, MPI_INTEGER, status, ierror)
    call done('at')
    call begin()
    call MPI_File_iwrite_at(file, at, out, n, MPI_INTEGER, request, ierror)
    call MPI_Wait(request, status, ierror)
    call wrote('iat')
    call MPI_File_iread_at(file, at, in, n, MPI_INTEGER, request, ierror)
    call MPI_Wait(request, status, ierror)
    call done('iat')
    call begin()
    call MPI_File_write_at_all(file, at, out, n, MPI_INTEGER, status, ierror)
    call wrote('at_all')
    call MPI_File_read_at_all(file, at, in, n, MPI_INTEGER, status, ierror)
    call done('at_all')
    call begin()
    call MPI_File_iwrite_at_all(file, at, out, n, MPI_INTEGER, request, ierror)
    call MPI_Wait(request, status, ierror)
    call wrote('iat_all')
    call MPI_File_iread_at_all(file, at, in, n, MPI_INTEGER, request, ierror)
    call MPI_Wait(request, status, ierror)
    call done('iat_all')
    call begin()
    call MPI_File_write_at_all_begin(file, at, out, n, MPI_INTEGER, ierror)
    call MPI_File_write_at_all_end(file, out, status, ierror)
    call wrote('at_all split')
    call MPI_File_read_at_all_begin(file, at, in, n, MPI_INTEGER, ierror)
    call MPI_File_read_at_all_end(file, in, status, ierror)
    call done('at_all split')
  end subroutine offsets

  subroutine pointers()
    call begin()
    call MPI_File_write(file, out, n, MPI_INTEGER, status, ierror)
    call wrote('write')
    call MPI_File_read(file, in, n, MPI_INTEGER, status, ierror)
    call done('read')
    call begin()
    call MPI_File_write_all(file, out, n, MPI_INTEGER, status, ierror)
    call wrote('all')
    call MPI_File_read_all(file, in, n, MPI_INTEGER, status, ierror)
    call done('all')
    call begin()
    call MPI_File_iwrite(file, out, n, MPI_INTEGER, request, ierror)
    call MPI_Wait(request, status, ierror)
    call wrote('iwrite')
    call MPI_File_iread(file, in, n, MPI_INTEGER, request, ierror)
    call MPI_Wait(request, status, ierror)
    call done('iread')
    call begin()
    call MPI_File_iwrite_all(file, out, n, MPI_INTEGER, request, ierror)
    call MPI_Wait(request, status, ierror)
    call wrote('iall')
    call MPI_File_iread_all(file, in, n, MPI_INTEGER, request, ierror)
    call MPI_Wait(request, status, ierror)
    call done('iall')
    call begin()
    call MPI_File_write_all_begin(file, out, n, MPI_INTEGER, ierror)
    call MPI_File_write_all_end(file, out, status, ierror)
    call wrote('all split')
    call MPI_File_read_all_begin(file, in, n, MPI_INTEGER, ierror)
    call MPI_File_read_all_end(file, in, status, ierror)
    call done('all split')
  end subroutine pointers

  subroutine shared()
    call begin()
    call MPI_File_write_shared(file, out, n, MPI_INTEGER, status, ierror)
    call wrote('shared')
    call MPI_File_read_shared(file, in, n, MPI_INTEGER, status, ierror)
    call done('shared')
    call begin()
    call MPI_File_iwrite_shared(file, out, n, MPI_INTEGER, request, ierror)
    call MPI_Wait(request, status, ierror)
    call wrote('ishared')
    call MPI_File_iread_shared(file, in, n, MPI_INTEGER, request, ierror)
    call MPI_Wait(request, status, ierror)
    call done('ishared')
  end subroutine shared

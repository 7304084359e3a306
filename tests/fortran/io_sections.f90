! SPDX-License-Identifier: BSD-3-Clause
!
! Shows: module mpi_f08 writes and reads array sections with gaps: together, nonblocking, split, ordered, with counts of
! MPI_COUNT_KIND, and as far as the file goes; what lies between their elements stays.
program io_sections
  use mpi_f08
  implicit none
  type(MPI_File) :: file
  type(MPI_Request) :: requests(2)
  type(MPI_Status) :: status
  integer :: rank, i, n
  integer, asynchronous :: a(5, 6), b(5, 6)
  integer(kind=MPI_OFFSET_KIND) :: nine, five
  integer(kind=MPI_COUNT_KIND) :: count = 5
  character(len=60) :: name

  call MPI_Init()
  call MPI_Comm_rank(MPI_COMM_WORLD, rank)
  call system_clock(i)
  write (name, '(a, i0)') '/tmp/heddle_io_sections_', i
  call MPI_Bcast(name, len(name), MPI_CHARACTER, 0, MPI_COMM_WORLD)
  call MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_RDWR + MPI_MODE_CREATE + MPI_MODE_DELETE_ON_CLOSE, MPI_INFO_NULL, file)
  call MPI_File_set_view(file, 0_MPI_OFFSET_KIND, MPI_INTEGER, MPI_INTEGER, 'native   ', MPI_INFO_NULL)
  a = reshape([(1000 * rank + i, i = 1, size(a))], shape(a))
  nine = 9 * rank
  five = 5 * rank

  call MPI_File_write_at_all(file, nine, a(1:5:2, 1:6:2), 9, MPI_INTEGER, status)
  call has_count(9, 'write_at_all')
  b = -1
  call MPI_File_read_at_all(file, nine, b(2:4, 6:2:-2), 9, MPI_INTEGER, status)
  call has_count(9, 'read_at_all')
  call check(all(b(2:4, 6:2:-2) == a(1:5:2, 1:6:2)), 'a section that turns back')
  call check(all(b(:, 1:5:2) == -1) .and. all(b(1:5:4, :) == -1), 'bytes outside of it')
  b = -1
  call MPI_File_iread_at_all(file, nine, b(1:5:2, 2:6:2), 9, MPI_INTEGER, requests(1))
  call MPI_File_iread_at(file, nine, b(2, 1:6), 6, MPI_INTEGER, requests(2))
  call MPI_Waitall(2, requests, MPI_STATUSES_IGNORE)
  call check(all(b(1:5:2, 2:6:2) == a(1:5:2, 1:6:2)), 'iread_at_all')
  call check(all(b(2, :) == [a(1:5:2, 1), a(1:5:2, 3)]), 'iread_at')
  b = -1
  call MPI_File_read_at_all_begin(file, nine, b(1:5:2, 2:6:2), 9, MPI_INTEGER)
  call MPI_File_read_at_all_end(file, b(1:5:2, 2:6:2), status)
  call check(all(b(1:5:2, 2:6:2) == a(1:5:2, 1:6:2)) .and. all(b(2:4:2, :) == -1), 'read_at_all, split')

  call MPI_File_write_ordered_begin(file, a(5:1:-1, 2), 5, MPI_INTEGER)
  call MPI_File_write_ordered_end(file, a(5:1:-1, 2), status)
  call has_count(5, 'write_ordered')
  call MPI_File_sync(file)
  call MPI_Barrier(MPI_COMM_WORLD)
  call MPI_File_seek(file, five, MPI_SEEK_SET)
  b = -1
  call MPI_File_iread(file, b(3, 1:5), count, MPI_INTEGER, requests(1))
  call MPI_Wait(requests(1), status)
  call has_count(5, 'iread')
  call check(all(b(3, 1:5) == a(5:1:-1, 2)) .and. all(b(1:2, :) == -1), 'ordered')

  call MPI_File_set_size(file, 12_MPI_OFFSET_KIND)
  b = -1
  call MPI_File_read_at_all(file, 0_MPI_OFFSET_KIND, b(1:5:2, 1:6:5), 6, MPI_INTEGER, status)
  call has_count(3, 'beyond the end')
  call check(all(b(1:5:2, 1) >= 0) .and. all(b(:, 6) == -1) .and. all(b(2:4:2, :) == -1), 'the end of the file')
  call MPI_File_close(file)
  call MPI_Finalize()
contains
  include 'checks.f90'

  subroutine has_count(expected, what)
    integer, intent(in) :: expected
    character(len=*), intent(in) :: what
    call MPI_Get_count(status, MPI_INTEGER, n)
    call check(n == expected, 'the count of ' // what)
  end subroutine has_count
end program io_sections

! SPDX-License-Identifier: BSD-3-Clause
!
! Shows: files with mpif.h: names with blanks at their end, offsets of 64 bits, statuses, hints, MPI_File_delete.
      program io_f77
      include 'mpif.h'
      integer rank, size, ierr, fh, info, i, n, code
      integer status(MPI_STATUS_SIZE), ix(10), iy(10)
      integer(kind=MPI_OFFSET_KIND) offset
      character*60 name
      character*20 value
      logical flag

      call mpi_init(ierr)
      call mpi_comm_rank(MPI_COMM_WORLD, rank, ierr)
      call mpi_comm_size(MPI_COMM_WORLD, size, ierr)
      call system_clock(n)
      write (name, '(a,i0)') '/tmp/heddle_io_f77_', n
      call mpi_bcast(name, 60, MPI_CHARACTER, 0, MPI_COMM_WORLD, ierr)
      call mpi_info_create(info, ierr)
      call mpi_info_set(info, 'romio_cb_write', 'disable', ierr)
      call mpi_file_open(MPI_COMM_WORLD, name,
     &                   MPI_MODE_CREATE + MPI_MODE_RDWR, info, fh,
     &                   ierr)
      call check(ierr .eq. MPI_SUCCESS, 'open')
      call mpi_info_free(info, ierr)
      call mpi_file_get_info(fh, info, ierr)
      call mpi_info_get(info, 'romio_cb_write', 20, value, flag, ierr)
      call check(flag .and. value .eq. 'disable', 'hint')
      call mpi_info_free(info, ierr)
      offset = 0
      call mpi_file_set_view(fh, offset, MPI_INTEGER, MPI_INTEGER,
     &                       'native', MPI_INFO_NULL, ierr)
      do i = 1, 10
        ix(i) = 10 * rank + i
      end do
      offset = 10 * rank
      call mpi_file_seek(fh, offset, MPI_SEEK_SET, ierr)
      call mpi_file_write(fh, ix, 10, MPI_INTEGER, status, ierr)
      call mpi_get_count(status, MPI_INTEGER, n, ierr)
      call check(n .eq. 10, 'count')
      call mpi_file_read_at(fh, offset, iy, 10, MPI_INTEGER, status,
     &                      ierr)
      do i = 1, 10
        call check(iy(i) .eq. ix(i), 'data')
      end do
      call mpi_barrier(MPI_COMM_WORLD, ierr)
      call mpi_file_get_size(fh, offset, ierr)
      call check(offset .eq. 40 * size, 'size')
      call mpi_file_close(fh, ierr)
      call check(fh .eq. MPI_FILE_NULL, 'null after close')
      if (rank .eq. 0) then
        call mpi_file_delete(name, MPI_INFO_NULL, ierr)
        call check(ierr .eq. MPI_SUCCESS, 'delete')
      end if
      call mpi_barrier(MPI_COMM_WORLD, ierr)
      call mpi_file_open(MPI_COMM_WORLD, name, MPI_MODE_RDONLY,
     &                   MPI_INFO_NULL, fh, ierr)
      call mpi_error_class(ierr, code, n)
      call check(code .eq. MPI_ERR_NO_SUCH_FILE, 'no such file')
      call mpi_finalize(ierr)
      end

      subroutine check(ok, text)
      include 'mpif.h'
      logical ok
      character*(*) text
      integer ierr
      if (.not. ok) then
        print *, 'FAILED: ', text
        call mpi_abort(MPI_COMM_WORLD, 1, ierr)
      end if
      end

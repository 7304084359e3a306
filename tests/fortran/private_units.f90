! SPDX-License-Identifier: BSD-3-Clause
!
! Shows: a unit is the rank's: unit 10 of two ranks is two files, units that open(newunit=) gives, internal files, inquire; the environment.
program private_units
  use mpi
  implicit none
  integer :: rank, size, ierr, unit, n, i, left, status(MPI_STATUS_SIZE)
  character(len=40) :: name, value
  logical :: is_open

  call MPI_Init(ierr)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierr)
  call MPI_Comm_size(MPI_COMM_WORLD, size, ierr)
  call check(.not. connected(10), 'unit 10 is not open at the start')
  call MPI_Barrier(MPI_COMM_WORLD, ierr)
  write (name, '(a,i0)') 'private_units.', rank
  open (unit=10, file=name, status='replace', action='readwrite')
  call MPI_Barrier(MPI_COMM_WORLD, ierr)
  do i = 1, 50
    write (10, *) rank * 1000 + i
    if (mod(i, 10) == 0) call MPI_Barrier(MPI_COMM_WORLD, ierr)
  end do
  rewind (10)
  do i = 1, 50
    read (10, *) n
    call check(n == rank * 1000 + i, 'a line of the rank''s file')
  end do
  inquire (unit=10, name=value)
  call check(index(value, trim(name)) > 0, 'name of the file')
  call MPI_Barrier(MPI_COMM_WORLD, ierr)
  if (mod(rank, 2) == 0) close (10, status='delete')
  call MPI_Barrier(MPI_COMM_WORLD, ierr)
  call check(connected(10) .eqv. mod(rank, 2) == 1, 'another rank''s close')
  if (mod(rank, 2) == 1) close (10, status='delete')
  open (newunit=unit, status='scratch', form='unformatted', access='stream')
  write (unit) rank
  left = mod(rank + size - 1, size)
  call MPI_Sendrecv(unit, 1, MPI_INTEGER, mod(rank + 1, size), 1, n, 1, MPI_INTEGER, left, 1, MPI_COMM_WORLD, status, ierr)
  call check(n == unit, 'newunit= counts in each rank')
  read (unit, pos=1) n
  call check(n == rank, 'scratch file')
  close (unit)

  call get_environment_variable('PATH', value, n)
  call check(n > 0, 'environment')
  call MPI_Finalize(ierr)
contains
  logical function connected(unit)
    integer, intent(in) :: unit
    inquire (unit=unit, opened=is_open)
    connected = is_open
  end function
  include 'checks.f90'
end program

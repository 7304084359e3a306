! SPDX-License-Identifier: BSD-3-Clause
!
! Heat in a square plate: each rank has a block of columns and sends its border columns, and its rows as array sections, to its
! neighbors on a Cartesian grid. Prints the heat in the plate, which only leaves it through the border.
!
! usage: heat [cells per side of a rank's block] [steps]
program heat
  use mpi_f08
  implicit none
  integer :: dims(2) = 0, coords(2), n = 32, steps = 100, step, ranks, west, east, south, north
  logical :: is_rank_0, periods(2)
  type(MPI_Comm) :: grid
  type(MPI_Request) :: requests(8)
  double precision, allocatable, asynchronous :: t(:, :), new(:, :)
  double precision :: total

  call MPI_Init()
  call MPI_Comm_size(MPI_COMM_WORLD, ranks)
  call read_arguments()
  call MPI_Dims_create(ranks, 2, dims)
  call MPI_Cart_create(MPI_COMM_WORLD, 2, dims, [.false., .false.], .false., grid)
  call MPI_Cart_get(grid, 2, dims, periods, coords)
  call MPI_Cart_shift(grid, 0, 1, west, east)
  call MPI_Cart_shift(grid, 1, 1, south, north)
  is_rank_0 = all(coords == 0)

  allocate (t(0:n + 1, 0:n + 1), source=0d0)
  t(1:n, 1:n) = 1
  new = t
  do step = 1, steps
    ! Columns of t are contiguous, rows are not: MPI gets the section as it is.
    call MPI_Irecv(t(1:n, 0), n, MPI_DOUBLE_PRECISION, south, 0, grid, requests(1))
    call MPI_Irecv(t(1:n, n + 1), n, MPI_DOUBLE_PRECISION, north, 0, grid, requests(2))
    call MPI_Irecv(t(0, 1:n), n, MPI_DOUBLE_PRECISION, west, 0, grid, requests(3))
    call MPI_Irecv(t(n + 1, 1:n), n, MPI_DOUBLE_PRECISION, east, 0, grid, requests(4))
    call MPI_Isend(t(1:n, 1), n, MPI_DOUBLE_PRECISION, south, 0, grid, requests(5))
    call MPI_Isend(t(1:n, n), n, MPI_DOUBLE_PRECISION, north, 0, grid, requests(6))
    call MPI_Isend(t(1, 1:n), n, MPI_DOUBLE_PRECISION, west, 0, grid, requests(7))
    call MPI_Isend(t(n, 1:n), n, MPI_DOUBLE_PRECISION, east, 0, grid, requests(8))
    call MPI_Waitall(8, requests, MPI_STATUSES_IGNORE)
    call MPI_F_sync_reg(t)
    new(1:n, 1:n) = 0.2d0 * (t(1:n, 1:n) + t(0:n - 1, 1:n) + t(2:n + 1, 1:n) + t(1:n, 0:n - 1) + t(1:n, 2:n + 1))
    t(1:n, 1:n) = new(1:n, 1:n)
  end do

  call MPI_Allreduce(sum(t(1:n, 1:n)), total, 1, MPI_DOUBLE_PRECISION, MPI_SUM, grid)
  total = total / (ranks * n * n)
  if (is_rank_0) print '(3(i0,a),f8.6)', dims(1), ' x ', dims(2), ' ranks, ', steps, ' steps: heat per cell ', total
  call MPI_Comm_free(grid)
  call MPI_Finalize()
contains
  subroutine read_arguments()
    character(len=12) :: text
    call get_command_argument(1, text)
    if (text /= '') read (text, *) n
    call get_command_argument(2, text)
    if (text /= '') read (text, *) steps
  end subroutine
end program

! SPDX-License-Identifier: BSD-3-Clause
!
! Shows: collective writes in the manner of NPB's BT-IO: on q x q ranks each has q cells of a cube, on a diagonal; a step writes
! the cells of a 5D array with ghost points by nested subarrays and structs; reading by cells and by blocks gives the values.
program io_btio
  use mpi
  implicit none
  integer, parameter :: STEPS = 3
  integer :: rank, size, q, n, c, step, ierror, fh, memory, filetype, element
  integer :: status(MPI_STATUS_SIZE)
  integer, allocatable :: low(:, :), extent(:, :)
  integer(kind=MPI_OFFSET_KIND) :: disp
  double precision, allocatable :: u(:, :, :, :, :), back(:, :, :, :, :), block(:, :)
  character(len=60) :: name

  call MPI_Init(ierror)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierror)
  call MPI_Comm_size(MPI_COMM_WORLD, size, ierror)
  q = int(sqrt(size + 0.5))
  if (q * q /= size) then
     call MPI_Finalize(ierror)
     stop 77
  end if
  n = 4 * q + 3
  if (rank == 0) call system_clock(c)
  if (rank == 0) write (name, '(a, i0)') '/tmp/heddle_btio_', c
  call MPI_Bcast(name, len(name), MPI_CHARACTER, 0, MPI_COMM_WORLD, ierror)

  call set_cells()
  allocate (u(5, -1:maxval(extent(1, :)) + 2, -1:maxval(extent(2, :)) + 2, -1:maxval(extent(3, :)) + 2, q))
  allocate (back, mold=u)
  allocate (block(5, n**3 / size))
  call MPI_Type_contiguous(5, MPI_DOUBLE_PRECISION, element, ierror)
  call MPI_Type_commit(element, ierror)
  memory = cells_type(.true.)
  filetype = cells_type(.false.)

  disp = 0
  call write_and_read('automatic')
  call write_and_read('enable')
  call MPI_Finalize(ierror)
contains
  subroutine write_and_read(hint)
    character(len=*), intent(in) :: hint
    integer :: info
    call MPI_Info_create(info, ierror)
    call MPI_Info_set(info, 'romio_cb_write', hint, ierror)
    call MPI_Info_set(info, 'romio_cb_read', hint, ierror)
    call MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_RDWR + MPI_MODE_CREATE + MPI_MODE_DELETE_ON_CLOSE, info, fh, ierror)
    call MPI_Info_free(info, ierror)
    call MPI_File_set_view(fh, disp, element, filetype, 'native', MPI_INFO_NULL, ierror)
    call check(ierror == MPI_SUCCESS, 'set_view')
    do step = 0, STEPS - 1
       call fill(step)
       call MPI_File_write_at_all(fh, offset_of(step), u, 1, memory, status, ierror)
       call check(ierror == MPI_SUCCESS, 'write_at_all')
       call MPI_Get_count(status, memory, c, ierror)
       call check(c == 1, 'the count of write_at_all')
    end do
    call MPI_File_sync(fh, ierror)
    call MPI_Barrier(MPI_COMM_WORLD, ierror)
    do step = 0, STEPS - 1
       call fill(step)
       back = -1
       call MPI_File_read_at_all(fh, offset_of(step), back, 1, memory, status, ierror)
       call check(ierror == MPI_SUCCESS .and. all(back == u), 'the cells')
    end do
    call check_blocks()
    call MPI_File_close(fh, ierror)
  end subroutine write_and_read

  include 'checks.f90'

  ! Cell c of a rank is in slab c of the third dimension; the other two turn with c. Sizes differ by one.
  subroutine set_cells()
    integer :: place(3), d
    allocate (low(3, q), extent(3, q))
    do c = 1, q
       place = [mod(rank, q) + c - 1, rank / q + c - 1, c - 1]
       place = mod(place, q)
       do d = 1, 3
          extent(d, c) = n / q + merge(1, 0, place(d) < mod(n, q))
          low(d, c) = place(d) * (n / q) + min(place(d), mod(n, q))
       end do
    end do
  end subroutine set_cells

  ! A struct of the cells' subarrays: in memory, or in the file.
  integer function cells_type(in_memory)
    logical, intent(in) :: in_memory
    integer :: types(q), lengths(q), i
    integer(kind=MPI_ADDRESS_KIND) :: places(q), address, first
    call MPI_Get_address(u, first, ierror)
    do i = 1, q
       if (in_memory) then
          call MPI_Type_create_subarray(4, shape(u(:, :, :, :, i)), [5, extent(:, i)], [0, 2, 2, 2], MPI_ORDER_FORTRAN, &
               MPI_DOUBLE_PRECISION, types(i), ierror)
          call MPI_Get_address(u(1, -1, -1, -1, i), address, ierror)
          places(i) = address - first
       else
          call MPI_Type_create_subarray(3, [n, n, n], extent(:, i), low(:, i), MPI_ORDER_FORTRAN, element, types(i), ierror)
          places(i) = 0
       end if
       lengths(i) = 1
    end do
    call MPI_Type_create_struct(q, lengths, places, types, cells_type, ierror)
    call MPI_Type_commit(cells_type, ierror)
    do i = 1, q
       call MPI_Type_free(types(i), ierror)
    end do
  end function cells_type

  ! The rank's cells have all etypes of its view that belong to a step.
  integer(kind=MPI_OFFSET_KIND) function offset_of(step)
    integer, intent(in) :: step
    offset_of = int(step, MPI_OFFSET_KIND) * sum(product(extent, dim=1))
  end function offset_of

  double precision function value_of(step, m, i)
    integer, intent(in) :: step, m, i(3)
    value_of = step * 1d6 + m + 5d0 * (i(1) + n * (i(2) + n * i(3)))
  end function value_of

  subroutine fill(step)
    integer, intent(in) :: step
    integer :: m, i, j, k
    u = -1
    do c = 1, q
       do k = 1, extent(3, c)
          do j = 1, extent(2, c)
             do i = 1, extent(1, c)
                u(:, i, j, k, c) = [(value_of(step, m, low(:, c) + [i, j, k] - 1), m=1, 5)]
             end do
          end do
       end do
    end do
  end subroutine fill

  ! Each rank reads consecutive elements.
  subroutine check_blocks()
    integer :: n_elements, first, e, m
    logical :: is_right
    n_elements = n**3 / size
    first = rank * n_elements
    call MPI_File_set_view(fh, disp, element, element, 'native', MPI_INFO_NULL, ierror)
    do step = 0, STEPS - 1
       call MPI_File_read_at_all(fh, int(step, MPI_OFFSET_KIND) * n**3 + first, block, n_elements, element, status, ierror)
       is_right = .true.
       do e = first, first + n_elements - 1
          do m = 1, 5
             is_right = is_right .and. &
                  block(m, e - first + 1) == value_of(step, m, [mod(e, n), mod(e / n, n), e / n**2])
          end do
       end do
       call check(is_right, 'a block')
    end do
  end subroutine check_blocks
end program io_btio

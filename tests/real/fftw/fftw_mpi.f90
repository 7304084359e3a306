! SPDX-License-Identifier: BSD-3-Clause
!
! Shows: FFTW's MPI interface for Fortran transforms distributed arrays: plane waves become one coefficient, and the way there and back
! multiplies by the number of points; in the world, in halves of it at the same time, transposed, and with real data. Prints sums of the
! coefficients with weights, which do not depend on the number of ranks, and "ok".
program fftw_mpi
  use, intrinsic :: iso_c_binding
  use mpi
  implicit none
  include 'fftw3-mpi.f03'
  integer(C_INTPTR_T), parameter :: l = 96, m = 80, nx = 24, ny = 20, nz = 18
  real(C_DOUBLE), parameter :: pi = acos(-1.0_C_DOUBLE)
  integer :: rank, half, wrong, all_wrong, ierror

  call MPI_Init(ierror)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierror)
  call fftw_mpi_init()
  wrong = 0
  call transform_wave(MPI_COMM_WORLD, 5_C_INTPTR_T, 7_C_INTPTR_T)
  call transform_sum(MPI_COMM_WORLD, 'world')
  call MPI_Comm_split(MPI_COMM_WORLD, mod(rank, 2), -rank, half, ierror)
  call transform_wave(half, 1_C_INTPTR_T + mod(rank, 2), 3_C_INTPTR_T)
  call transform_sum(half, 'half')
  call transform_real(MPI_COMM_WORLD)
  call share_wisdom()
  call MPI_Comm_free(half, ierror)
  call fftw_mpi_cleanup()
  call MPI_Allreduce(wrong, all_wrong, 1, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, ierror)
  if (rank == 0) then
    if (all_wrong == 0) then
      print '(a)', 'ok'
    else
      print '(a, i0)', 'wrong values: ', all_wrong
    end if
  end if
  call MPI_Finalize(ierror)

contains

  subroutine expect(is_right)
    logical, intent(in) :: is_right
    if (.not. is_right) wrong = wrong + 1
  end subroutine

  ! A plane wave of wave numbers p, q: the transform is l * m there and 0 elsewhere; the transform back gives l * m times the wave.
  subroutine transform_wave(comm, p, q)
    integer, intent(in) :: comm
    integer(C_INTPTR_T), intent(in) :: p, q
    type(C_PTR) :: forward, backward, memory
    complex(C_DOUBLE_COMPLEX), pointer :: array(:, :)
    complex(C_DOUBLE_COMPLEX) :: want
    integer(C_INTPTR_T) :: local_size, local_m, offset, i, j

    local_size = fftw_mpi_local_size_2d(m, l, comm, local_m, offset)
    memory = fftw_alloc_complex(local_size)
    call c_f_pointer(memory, array, [l, local_m])
    forward = fftw_mpi_plan_dft_2d(m, l, array, array, comm, FFTW_FORWARD, FFTW_MEASURE)
    backward = fftw_mpi_plan_dft_2d(m, l, array, array, comm, FFTW_BACKWARD, FFTW_ESTIMATE)
    do j = 1, local_m
      do i = 1, l
        array(i, j) = wave(p, q, i, j + offset)
      end do
    end do
    call fftw_mpi_execute_dft(forward, array, array)
    do j = 1, local_m
      do i = 1, l
        want = 0
        if (i == p + 1 .and. j + offset == q + 1) want = l * m
        call expect(abs(array(i, j) - want) < 1e-9_C_DOUBLE)
      end do
    end do
    call fftw_mpi_execute_dft(backward, array, array)
    do j = 1, local_m
      do i = 1, l
        call expect(abs(array(i, j) - l * m * wave(p, q, i, j + offset)) < 1e-8_C_DOUBLE)
      end do
    end do
    call fftw_destroy_plan(forward)
    call fftw_destroy_plan(backward)
    call fftw_free(memory)
  end subroutine

  complex(C_DOUBLE_COMPLEX) function wave(p, q, i, j)
    integer(C_INTPTR_T), intent(in) :: p, q, i, j
    wave = exp(cmplx(0, 2 * pi * (real(p * (i - 1), C_DOUBLE) / l + real(q * (j - 1), C_DOUBLE) / m), C_DOUBLE_COMPLEX))
  end function

  real(C_DOUBLE) function value_at(i, j, k)
    integer(C_INTPTR_T), intent(in) :: i, j, k
    value_at = mod(i * 37 + j * 61 + k * 17 + i * j, 101_C_INTPTR_T) - 50
  end function

  ! With the output left transposed, distributed over the other dimension.
  subroutine transform_sum(comm, label)
    integer, intent(in) :: comm
    character(*), intent(in) :: label
    type(C_PTR) :: plan, memory
    complex(C_DOUBLE_COMPLEX), pointer :: array(:, :), turned(:, :)
    complex(C_DOUBLE_COMPLEX) :: part, whole
    integer(C_INTPTR_T) :: local_size, local_m, offset, local_l, offset_l, i, j

    local_size = fftw_mpi_local_size_2d_transposed(m, l, comm, local_m, offset, local_l, offset_l)
    memory = fftw_alloc_complex(local_size)
    call c_f_pointer(memory, array, [l, local_m])
    call c_f_pointer(memory, turned, [m, local_l])
    plan = fftw_mpi_plan_dft_2d(m, l, array, array, comm, FFTW_FORWARD, ior(FFTW_MEASURE, FFTW_MPI_TRANSPOSED_OUT))
    do j = 1, local_m
      do i = 1, l
        array(i, j) = cmplx(value_at(i, j + offset, 1_C_INTPTR_T), value_at(i, j + offset, 2_C_INTPTR_T), C_DOUBLE_COMPLEX)
      end do
    end do
    call fftw_mpi_execute_dft(plan, array, array)
    part = 0
    do i = 1, local_l
      do j = 1, m
        part = part + turned(j, i) * mod(3 * (i + offset_l) + 5 * j, 11_C_INTPTR_T)
      end do
    end do
    call MPI_Allreduce(part, whole, 1, MPI_DOUBLE_COMPLEX, MPI_SUM, comm, ierror)
    if (rank == 0) print '(a, 2(1x, es23.15))', label, whole
    call fftw_destroy_plan(plan)
    call fftw_free(memory)
  end subroutine

  ! Real data in three dimensions, with the padding that the transform in place needs.
  subroutine transform_real(comm)
    integer, intent(in) :: comm
    type(C_PTR) :: forward, backward, memory
    real(C_DOUBLE), pointer :: array(:, :, :)
    complex(C_DOUBLE_COMPLEX), pointer :: coefficients(:, :, :)
    complex(C_DOUBLE_COMPLEX) :: part, whole
    integer(C_INTPTR_T) :: local_size, local_z, offset, i, j, k

    local_size = fftw_mpi_local_size_3d(nz, ny, nx / 2 + 1, comm, local_z, offset)
    memory = fftw_alloc_complex(local_size)
    call c_f_pointer(memory, array, [2 * (nx / 2 + 1), ny, local_z])
    call c_f_pointer(memory, coefficients, [nx / 2 + 1, ny, local_z])
    forward = fftw_mpi_plan_dft_r2c_3d(nz, ny, nx, array, coefficients, comm, FFTW_MEASURE)
    backward = fftw_mpi_plan_dft_c2r_3d(nz, ny, nx, coefficients, array, comm, FFTW_MEASURE)
    do k = 1, local_z
      do j = 1, ny
        do i = 1, nx
          array(i, j, k) = value_at(i, j, k + offset)
        end do
      end do
    end do
    call fftw_mpi_execute_dft_r2c(forward, array, coefficients)
    part = 0
    do k = 1, local_z
      do j = 1, ny
        do i = 1, nx / 2 + 1
          part = part + coefficients(i, j, k) * mod(i + 3 * j + 5 * (k + offset), 13_C_INTPTR_T)
        end do
      end do
    end do
    call MPI_Allreduce(part, whole, 1, MPI_DOUBLE_COMPLEX, MPI_SUM, comm, ierror)
    if (rank == 0) print '(a, 2(1x, es23.15))', 'real', whole
    call fftw_mpi_execute_dft_c2r(backward, coefficients, array)
    do k = 1, local_z
      do j = 1, ny
        do i = 1, nx
          call expect(abs(array(i, j, k) - nx * ny * nz * value_at(i, j, k + offset)) < 1e-7_C_DOUBLE)
        end do
      end do
    end do
    call fftw_destroy_plan(forward)
    call fftw_destroy_plan(backward)
    call fftw_free(memory)
  end subroutine

  ! Every rank's wisdom goes to rank 0, and from there to all: then no rank has to measure again.
  subroutine share_wisdom()
    type(C_PTR) :: plan, memory
    complex(C_DOUBLE_COMPLEX), pointer :: array(:, :)
    integer(C_INTPTR_T) :: local_size, local_m, offset

    call fftw_mpi_gather_wisdom(MPI_COMM_WORLD)
    call fftw_mpi_broadcast_wisdom(MPI_COMM_WORLD)
    local_size = fftw_mpi_local_size_2d(m, l, MPI_COMM_WORLD, local_m, offset)
    memory = fftw_alloc_complex(local_size)
    call c_f_pointer(memory, array, [l, local_m])
    plan = fftw_mpi_plan_dft_2d(m, l, array, array, MPI_COMM_WORLD, FFTW_FORWARD, ior(FFTW_MEASURE, FFTW_WISDOM_ONLY))
    call expect(c_associated(plan))
    call fftw_destroy_plan(plan)
    call fftw_free(memory)
  end subroutine
end program

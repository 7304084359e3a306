! SPDX-License-Identifier: BSD-3-Clause
!
! Shows: Fortran's datatypes: each predefined one has the size of its type, MPI_Sizeof, MPI_Type_create_f90_*, MPI_Type_match_size.
program types
  use mpi_f08
  implicit none
  integer :: n, size, p, r
  integer, parameter :: quick = selected_real_kind(6, 30), long = selected_int_kind(12)
  real(kind=quick) :: x(3)
  integer(kind=long) :: i
  complex(kind=kind(1d0)) :: z
  character(len=7) :: text
  logical :: flag
  type(MPI_Datatype) :: type, again

  call MPI_Init()
  call size_is(MPI_INTEGER, storage_size(1))
  call size_is(MPI_LOGICAL, storage_size(.true.))
  call size_is(MPI_REAL, storage_size(1.0))
  call size_is(MPI_DOUBLE_PRECISION, storage_size(1d0))
  call size_is(MPI_COMPLEX, storage_size((1.0, 1.0)))
  call size_is(MPI_DOUBLE_COMPLEX, storage_size((1d0, 1d0)))
  call size_is(MPI_CHARACTER, storage_size('a'))
  call size_is(MPI_INTEGER8, 64)
  call size_is(MPI_REAL8, 64)
  call size_is(MPI_2REAL, 64)
  call size_is(MPI_2DOUBLE_PRECISION, 128)
  call size_is(MPI_2INTEGER, 64)
  call size_is(MPI_AINT, storage_size(1_MPI_ADDRESS_KIND))
  call size_is(MPI_OFFSET, storage_size(1_MPI_OFFSET_KIND))
  call size_is(MPI_COUNT, storage_size(1_MPI_COUNT_KIND))

  call MPI_Sizeof(x, n)
  call check(n == 4, 'MPI_Sizeof of an array')
  call MPI_Sizeof(x(1:3:2), n)
  call check(n == 4, 'MPI_Sizeof of a section')
  call MPI_Sizeof(z, n)
  call check(n == 16, 'MPI_Sizeof of a complex number')
  call MPI_Sizeof(i, n)
  call check(n == 8, 'MPI_Sizeof of an integer')
  call MPI_Sizeof(text, n)
  call check(n == 7, 'MPI_Sizeof of text')
  call MPI_Sizeof(flag, n)
  call check(n == 4, 'MPI_Sizeof of a LOGICAL')

  call MPI_Type_create_f90_real(6, 30, type)
  call MPI_Type_size(type, size)
  call check(size == 4, 'MPI_Type_create_f90_real')
  call MPI_Type_create_f90_real(6, 30, again)
  call check(type == again, 'the same arguments give the same datatype')
  call MPI_Type_create_f90_complex(15, MPI_UNDEFINED, type)
  call MPI_Type_size(type, size)
  call check(size == 16, 'MPI_Type_create_f90_complex')
  call MPI_Type_create_f90_integer(12, type)
  call MPI_Type_size(type, size)
  call check(size == 8, 'MPI_Type_create_f90_integer')
  i = 5
  call MPI_Bcast(i, 1, type, 0, MPI_COMM_WORLD)
  call MPI_Type_match_size(MPI_TYPECLASS_REAL, 8, type)
  call MPI_Type_size(type, size)
  call check(size == 8, 'MPI_Type_match_size')
  p = 0
  r = 0
  call MPI_Finalize()
contains
  subroutine size_is(type, bits)
    type(MPI_Datatype), intent(in) :: type
    integer, intent(in) :: bits
    integer :: bytes
    call MPI_Type_size(type, bytes)
    call check(8 * bytes == bits, 'size of a datatype')
  end subroutine
  include 'checks.f90'
end program

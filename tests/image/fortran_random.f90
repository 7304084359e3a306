! SPDX-License-Identifier: BSD-3-Clause
!
! Shows: with more ranks than a process has pthread keys, each rank has a random generator of its own, which
! the draws of others leave alone.
program fortran_random
  use iso_c_binding, only: c_int
  implicit none
  interface
    function sched_yield() bind(c)
      import :: c_int
      integer(c_int) :: sched_yield
    end function
  end interface
  integer :: n, i, ignored
  integer, allocatable :: seed(:)
  real :: first(8), again(8)

  call random_seed(size=n)
  allocate (seed(n))
  seed = 42
  call random_seed(put=seed)
  do i = 1, 8
    call random_number(first(i))
    ignored = sched_yield()
  end do
  call random_seed(put=seed)
  do i = 1, 8
    call random_number(again(i))
  end do
  if (any(first /= again)) error stop "another rank has drawn from this generator"
  print '(a)', 'ok'
end program

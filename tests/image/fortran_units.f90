! SPDX-License-Identifier: BSD-3-Clause
!
! Shows: Fortran programs have their variables, and the units of their files, per rank.
program fortran_units
    implicit none
    integer :: number = 5
    integer :: read_back, ios
    interface
        integer(c_int) function sched_yield() bind(c)
            use iso_c_binding
        end function
    end interface
    integer, save :: rounds

    number = number + 1
    open (unit=10, status='scratch', form='formatted', action='readwrite')
    write (10, *) number * 7
    ios = sched_yield()
    ios = sched_yield()
    write (10, *) number * 8
    rewind (10)
    do rounds = 7, 8
        read (10, *) read_back
        ios = sched_yield()
        if (read_back /= 6 * rounds) error stop 'wrong number in the file'
    end do
    close (10)
    if (number /= 6) error stop 'shared variable'
    print '(a)', 'ok'
end program

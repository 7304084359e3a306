! SPDX-License-Identifier: BSD-3-Clause
!
! What all programs of this folder include behind "contains": check(ok, text) ends the job if ok is false.
  subroutine check(ok, text)
    logical, intent(in) :: ok
    character(len=*), intent(in) :: text
    integer :: code
    if (.not. ok) then
      print '(2a)', 'FAILED: ', text
      flush (6)
      call MPI_Abort(MPI_COMM_WORLD, 1, code)
    end if
  end subroutine check

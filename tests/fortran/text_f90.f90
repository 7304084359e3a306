! SPDX-License-Identifier: BSD-3-Clause
!
! Shows: module mpi cuts blanks from texts and pads results: names, info objects, error texts, commands to start.
program text_f90
  use mpi
  implicit none
  integer :: rank, ierr, n, info, comm, code, class, length, intercomm, codes(2)
  character(len=MPI_MAX_OBJECT_NAME) :: name
  character(len=MPI_MAX_PROCESSOR_NAME) :: host
  character(len=MPI_MAX_ERROR_STRING) :: text
  character(len=MPI_MAX_LIBRARY_VERSION_STRING) :: version
  character(len=5) :: short
  character(len=20) :: value, key, argv(3), argvs(2, 2)
  logical :: flag

  call MPI_Init(ierr)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierr)
  call MPI_Comm_dup(MPI_COMM_WORLD, comm, ierr)
  call MPI_Comm_set_name(comm, ' a name with blanks   ', ierr)
  name = repeat('x', len(name))
  call MPI_Comm_get_name(comm, name, n, ierr)
  call check(name == ' a name with blanks' .and. n == 19 .and. name(len(name):) == ' ', 'name')
  call MPI_Comm_get_name(comm, short, n, ierr)
  call check(short == ' a na', 'a short variable')
  call MPI_Get_processor_name(host, n, ierr)
  call check(n > 0 .and. len_trim(host) == n, 'processor')
  call MPI_Get_library_version(version, n, ierr)
  call check(n > 0 .and. len_trim(version) <= n, 'library')

  call MPI_Info_create(info, ierr)
  call MPI_Info_set(info, '  a key ', '  the value ', ierr)
  call MPI_Info_set(info, 'b', repeat('long', 100), ierr)
  call MPI_Info_get(info, 'a key   ', 20, value, flag, ierr)
  call check(flag .and. value == 'the value', 'MPI_Info_get')
  call MPI_Info_get(info, 'a key', 3, value, flag, ierr)
  call check(flag .and. value == 'the', 'a short MPI_Info_get')
  value = 'unchanged'
  call MPI_Info_get(info, 'none', 20, value, flag, ierr)
  call check(.not. flag .and. value == 'unchanged', 'a key that is not there')
  call MPI_Info_get_valuelen(info, 'b', length, flag, ierr)
  call check(flag .and. length == 400, 'MPI_Info_get_valuelen')
  length = 0
  call MPI_Info_get_string(info, 'a key', length, value, flag, ierr)
  call check(flag .and. length == 9, 'length of MPI_Info_get_string')
  length = len(value)
  call MPI_Info_get_string(info, 'a key', length, value, flag, ierr)
  call check(flag .and. length == 9 .and. value == 'the value', 'MPI_Info_get_string')
  call MPI_Info_get_nkeys(info, n, ierr)
  call MPI_Info_get_nthkey(info, 0, key, ierr)
  call check(n == 2 .and. key == 'a key', 'MPI_Info_get_nthkey')
  call MPI_Info_delete(info, ' b', ierr)
  call MPI_Info_get_nkeys(info, n, ierr)
  call check(n == 1, 'MPI_Info_delete')
  call MPI_Info_free(info, ierr)

  call MPI_Add_error_class(class, ierr)
  call MPI_Add_error_code(class, code, ierr)
  call MPI_Add_error_string(code, 'my own error', ierr)
  call MPI_Error_string(code, text, n, ierr)
  call check(text == 'my own error' .and. n == 12, 'MPI_Error_string')
  call MPI_Error_string(MPI_ERR_RANK, text, n, ierr)
  call check(n > 0 .and. len_trim(text) == n, 'text of MPI_ERR_RANK')

  call MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN, ierr)
  argv = ['one  ', 'two  ', '     ']
  call MPI_Comm_spawn('/no/such/program ', argv, 1, MPI_INFO_NULL, 0, comm, intercomm, codes, ierr)
  call check(ierr /= MPI_SUCCESS, 'MPI_Comm_spawn of a program that does not exist')
  call MPI_Comm_spawn('/no/such/program ', MPI_ARGV_NULL, 1, MPI_INFO_NULL, 0, comm, intercomm, MPI_ERRCODES_IGNORE, ierr)
  call check(ierr /= MPI_SUCCESS, 'MPI_ARGV_NULL')
  argvs = reshape(['one', 'uno', '   ', '   '], [2, 2])
  call MPI_Comm_spawn_multiple(2, ['/no/a', '/no/b'], argvs, [1, 1], [MPI_INFO_NULL, MPI_INFO_NULL], 0, comm, intercomm, &
                               codes, ierr)
  call check(ierr /= MPI_SUCCESS, 'MPI_Comm_spawn_multiple')
  call MPI_Comm_spawn_multiple(2, ['/no/a', '/no/b'], MPI_ARGVS_NULL, [1, 1], [MPI_INFO_NULL, MPI_INFO_NULL], 0, comm, intercomm, &
                               MPI_ERRCODES_IGNORE, ierr)
  call check(ierr /= MPI_SUCCESS, 'MPI_ARGVS_NULL')
  call MPI_Comm_free(comm, ierr)
  call MPI_Finalize(ierr)
contains
  include 'checks.f90'
end program

# SPDX-License-Identifier: BSD-3-Clause
#
# Run by CPack on the staged files, before they are packed: what Debian expects where everybody looks for it. Manual pages are
# compressed, because the alternatives' links in /usr/share/man are named so.
set(stage ${CPACK_TEMPORARY_DIRECTORY})
file(GLOB pages ${stage}/usr/lib/heddle/share/man/man1/*.1)
foreach(page ${pages})
  if(IS_SYMLINK ${page})
    file(READ_SYMLINK ${page} target)
    file(CREATE_LINK ${target}.gz ${page}.gz SYMBOLIC)
    file(REMOVE ${page})
  else()
    execute_process(COMMAND gzip -9n ${page} COMMAND_ERROR_IS_FATAL ANY)
  endif()
endforeach()
file(MAKE_DIRECTORY ${stage}/usr/share/doc/heddle)
file(RENAME ${stage}/usr/lib/heddle/share/doc/heddle/LICENSE ${stage}/usr/share/doc/heddle/copyright)

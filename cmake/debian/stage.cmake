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
string(TIMESTAMP date "%a, %d %b %Y %H:%M:%S +0000" UTC)
file(WRITE ${stage}/usr/share/doc/heddle/changelog
"heddle (${CPACK_PACKAGE_VERSION}) unstable; urgency=low

  * Built by cpack from the sources; their history is in git.

 -- ${CPACK_PACKAGE_CONTACT}  ${date}
")
execute_process(COMMAND gzip -9n ${stage}/usr/share/doc/heddle/changelog COMMAND_ERROR_IS_FATAL ANY)

# The libraries are packages, where the loader finds them: no search path of the machine that built this.
file(GLOB binaries ${stage}/usr/lib/heddle/lib/heddle/*.so ${stage}/usr/lib/heddle/libexec/heddle/*)
foreach(binary ${binaries})
  file(RPATH_REMOVE FILE ${binary})
endforeach()

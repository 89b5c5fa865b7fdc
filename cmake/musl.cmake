# Another C library, to see that the sources compile with it: Debian's musl-gcc. It must not see
# glibc's headers, so those of zlib and zstd are copied to a folder of their own. There is nothing
# to link with: `make portable` builds the objects only, and without optimisation, which takes a quarter of
# the time. Some intrinsics are macros then, whose masks change their sign.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR ${CMAKE_HOST_SYSTEM_PROCESSOR})
set(CMAKE_C_COMPILER musl-gcc)
set(musl_headers ${CMAKE_BINARY_DIR}/headers)
foreach(header IN ITEMS zlib.h zconf.h zstd.h zstd_errors.h)
  file(GLOB found /usr/include/${header} /usr/include/*-linux-gnu/${header})
  list(GET found 0 found)
  file(COPY ${found} DESTINATION ${musl_headers})
endforeach()
set(CMAKE_C_FLAGS_INIT "-isystem ${musl_headers}")

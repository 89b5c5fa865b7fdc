# Flags of everything that is compiled here, and the helpers for lists of sources.

# Nothing here leaves this folder: in another project Tessera changes neither flags nor messages.
if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE Release)
endif()
# Invariants stay on in release builds, so NDEBUG is not set.
set(CMAKE_C_FLAGS_RELEASE "-O2 -g")
set(CMAKE_CXX_FLAGS_RELEASE "-O2 -g")
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
if(PROJECT_IS_TOP_LEVEL)
  # The Makefile says what is being built; commands appear with V=1.
  set_property(GLOBAL PROPERTY TARGET_MESSAGES OFF)
  set_property(GLOBAL PROPERTY RULE_MESSAGES OFF)
endif()

add_library(tessera_warnings INTERFACE)
target_compile_options(tessera_warnings INTERFACE
  -Wall -Wextra -Wpedantic -Wconversion -Wshadow
  $<$<COMPILE_LANGUAGE:C>:-Wstrict-prototypes -Wmissing-prototypes>
  $<$<BOOL:${TESSERA_WERROR}>:-Werror>)

# No contraction, and nothing that could change a value: the same bits on every machine.
add_library(tessera_options INTERFACE)
target_link_libraries(tessera_options INTERFACE tessera_warnings)
# Empty, so that a file which defines it too says the same.
target_compile_definitions(tessera_options INTERFACE _GNU_SOURCE=)
target_compile_options(tessera_options INTERFACE -ffp-contract=off -fno-math-errno)
set(CMAKE_C_STANDARD 11)
set(CMAKE_C_EXTENSIONS OFF)
set(CMAKE_CXX_STANDARD 11)
set(CMAKE_CXX_EXTENSIONS OFF)

if(TESSERA_SANITIZE)
  add_compile_options(-fsanitize=${TESSERA_SANITIZE} -fno-sanitize-recover=all
    -fno-omit-frame-pointer)
  # gcc's own checks make it see reads that are none.
  add_compile_options($<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-maybe-uninitialized>)
  add_link_options(-fsanitize=${TESSERA_SANITIZE})
endif()
if(TESSERA_FUZZ)
  add_compile_options(-fsanitize=fuzzer-no-link)
endif()

# Sources by wildcard, from the top folder: adding a file needs no change here.
function(tessera_sources out)
  list(TRANSFORM ARGN PREPEND ${PROJECT_SOURCE_DIR}/ OUTPUT_VARIABLE patterns)
  file(GLOB_RECURSE found CONFIGURE_DEPENDS ${patterns})
  set(${out} ${found} PARENT_SCOPE)
endfunction()

# The instruction sets that kernels are compiled for, each with its flags.
set(TESSERA_ISAS baseline)
if(NOT TESSERA_BASELINE_ONLY AND CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64|amd64")
  list(APPEND TESSERA_ISAS avx2 avx512)
endif()
set(TESSERA_FLAGS_baseline "")
set(TESSERA_FLAGS_avx2 -mavx2 -mfma -mbmi -mbmi2 -mpopcnt -mlzcnt)
set(TESSERA_FLAGS_avx512 ${TESSERA_FLAGS_avx2}
  -mavx512f -mavx512dq -mavx512bw -mavx512vl -mavx512cd -mprefer-vector-width=512)

# Which of them this machine can run: the tests run under each.
set(TESSERA_ISAS_HERE baseline)
if("avx2" IN_LIST TESSERA_ISAS AND EXISTS /proc/cpuinfo)
  file(STRINGS /proc/cpuinfo cpu_flags REGEX "^flags" LIMIT_COUNT 1)
  if(cpu_flags MATCHES " avx2 " AND cpu_flags MATCHES " fma " AND cpu_flags MATCHES " bmi2 ")
    list(APPEND TESSERA_ISAS_HERE avx2)
    if(cpu_flags MATCHES " avx512f " AND cpu_flags MATCHES " avx512dq "
        AND cpu_flags MATCHES " avx512bw " AND cpu_flags MATCHES " avx512vl "
        AND cpu_flags MATCHES " avx512cd ")
      list(APPEND TESSERA_ISAS_HERE avx512)
    endif()
  endif()
endif()

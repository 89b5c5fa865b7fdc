# The library: every object is compiled once, position-independent, for both forms. Files of src/kernel
# named *_tile.c are compiled once for each instruction set, which they find in TSR__ISA.

tessera_sources(library_sources src/*.c)
set(tile_sources ${library_sources})
list(FILTER tile_sources INCLUDE REGEX "/src/kernel/.*_tile\\.c$")
if(tile_sources)
  list(REMOVE_ITEM library_sources ${tile_sources})
endif()

# Compressed files: zlib and zstd.
foreach(header IN ITEMS zlib.h zstd.h)
  string(MAKE_C_IDENTIFIER ${header} id)
  find_path(TESSERA_HAS_${id} ${header})
  if(NOT TESSERA_HAS_${id})
    message(FATAL_ERROR "${header} was not found; run scripts/setup build")
  endif()
endforeach()

set(packed_libraries z zstd)

function(tessera_objects name)
  add_library(${name} OBJECT ${ARGN})
  target_link_libraries(${name} PRIVATE tessera_options)
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/src)
  set_target_properties(${name} PROPERTIES POSITION_INDEPENDENT_CODE ON C_VISIBILITY_PRESET hidden)
endfunction()

# gcc would align every label that only jumps reach: 2 % of the code. Loops over rows in kernel/ are faster
# for it; no line of the bench shows it elsewhere.
set(small_jumps "")
if(CMAKE_C_COMPILER_ID STREQUAL GNU)
  set(small_jumps -falign-jumps=1)
  set(other_sources ${library_sources})
  list(FILTER other_sources EXCLUDE REGEX "/src/kernel/")
  set_source_files_properties(${other_sources} PROPERTIES COMPILE_OPTIONS ${small_jumps})
endif()

# No exception passes a function of kernel/ (the C++ face brings those of callbacks past C); debuggers have
# tables of their own (-g).
set(no_unwinding "")
if(NOT TESSERA_SANITIZE)
  set(no_unwinding -fno-asynchronous-unwind-tables -fno-unwind-tables)
endif()
set(kernel_sources ${library_sources})
list(FILTER kernel_sources INCLUDE REGEX "/src/kernel/")
set_source_files_properties(${kernel_sources} PROPERTIES COMPILE_OPTIONS "${no_unwinding}")
tessera_objects(tessera_objects ${library_sources})
if(TESSERA_BASELINE_ONLY)
  target_compile_definitions(tessera_objects PRIVATE TSR__BASELINE_ONLY=1)
endif()
# gcc would clear and copy structs of a few hundred bytes by `rep stos` and `rep movs`, which take as
# long to begin as forty stores do; small calls are made of such structs.
include(CheckCCompilerFlag)
set(small_blocks vector_loop:256:noalign,libcall:-1:noalign)
check_c_compiler_flag(-mmemset-strategy=${small_blocks} TESSERA_HAS_STRATEGIES)
if(TESSERA_HAS_STRATEGIES)
  target_compile_options(tessera_objects PRIVATE
    -mmemset-strategy=${small_blocks} -mmemcpy-strategy=${small_blocks})
endif()
set(library_objects $<TARGET_OBJECTS:tessera_objects>)
if(tile_sources)
  foreach(isa IN LISTS TESSERA_ISAS)
    tessera_objects(tessera_tile_${isa} ${tile_sources})
    target_compile_definitions(tessera_tile_${isa} PRIVATE TSR__ISA=${isa})
    target_compile_options(tessera_tile_${isa} PRIVATE ${no_unwinding} ${small_jumps})
    # Beside others the baseline is for old machines and for comparing bits: there size counts.
    set(level -O3)
    if(isa STREQUAL baseline AND CMAKE_C_COMPILER_ID STREQUAL GNU AND
       NOT TESSERA_ISAS STREQUAL baseline)
      set(level -O2 -fvect-cost-model=dynamic)
    endif()
    target_compile_options(tessera_tile_${isa} PRIVATE ${TESSERA_FLAGS_${isa}}
      "$<$<CONFIG:Release>:${level}>")
    list(APPEND library_objects $<TARGET_OBJECTS:tessera_tile_${isa}>)
    list(APPEND tile_objects tessera_tile_${isa})
  endforeach()
endif()

# Which functions a test runs, for `make coverage-map`.
if(TESSERA_COVERAGE)
  foreach(objects IN ITEMS tessera_objects ${tile_objects})
    target_compile_options(${objects} PRIVATE -fsanitize-coverage=func,trace-pc-guard,pc-table)
  endforeach()
  tessera_objects(coverage_hook ${PROJECT_SOURCE_DIR}/tests/coverage_hook.c)
  list(APPEND library_objects $<TARGET_OBJECTS:coverage_hook>)
endif()

add_library(tessera SHARED ${library_objects})
set_target_properties(tessera PROPERTIES VERSION ${PROJECT_VERSION} SOVERSION 0)
if(NOT TESSERA_SANITIZE AND NOT TESSERA_FUZZ)
  target_link_options(tessera PRIVATE -Wl,-z,defs)
endif()
# Tables of pointers are 75 kB of relocations, of which a loader that knows bitmaps needs 1.
include(CheckLinkerFlag)
check_linker_flag(C LINKER:-z,pack-relative-relocs TESSERA_PACKS_RELOCATIONS)
if(TESSERA_PACKS_RELOCATIONS)
  target_link_options(tessera PRIVATE LINKER:-z,pack-relative-relocs)
endif()
add_library(tessera_static STATIC ${library_objects})
set_target_properties(tessera_static PROPERTIES OUTPUT_NAME tessera EXPORT_NAME static)

foreach(form IN ITEMS tessera tessera_static)
  set_target_properties(${form} PROPERTIES LINKER_LANGUAGE C)
  target_link_libraries(${form} PRIVATE Threads::Threads m ${packed_libraries} ${CMAKE_DL_LIBS})
  target_include_directories(${form} INTERFACE
    $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>)
endforeach()
add_library(tessera::tessera ALIAS tessera)
add_library(tessera::static ALIAS tessera_static)

include(cmake/plugins.cmake)

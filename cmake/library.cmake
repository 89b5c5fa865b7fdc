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

# gzip is unpacked by ISA-L where it is there for this machine, else by zlib.
find_path(TESSERA_HAS_isal isa-l/igzip_lib.h)
find_library(TESSERA_LIB_isal isal)
set(packed_libraries z zstd)
if(TESSERA_HAS_isal AND TESSERA_LIB_isal AND NOT CMAKE_CROSSCOMPILING)
  set_source_files_properties(${PROJECT_SOURCE_DIR}/src/io/file/gunzip.c PROPERTIES
    COMPILE_DEFINITIONS TSR_ISAL)
  list(APPEND packed_libraries isal)
endif()

function(tessera_objects name)
  add_library(${name} OBJECT ${ARGN})
  target_link_libraries(${name} PRIVATE tessera_options)
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/src)
  set_target_properties(${name} PROPERTIES POSITION_INDEPENDENT_CODE ON C_VISIBILITY_PRESET hidden)
endfunction()

tessera_objects(tessera_objects ${library_sources})
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
    # Beside others the baseline is for old machines and for comparing bits: there size counts.
    set(level -O3)
    if(isa STREQUAL baseline AND CMAKE_C_COMPILER_ID STREQUAL GNU AND
       NOT TESSERA_ISAS STREQUAL baseline)
      set(level -O2 -fvect-cost-model=dynamic)
    endif()
    target_compile_options(tessera_tile_${isa} PRIVATE ${TESSERA_FLAGS_${isa}}
      "$<$<CONFIG:Release>:${level}>")
    list(APPEND library_objects $<TARGET_OBJECTS:tessera_tile_${isa}>)
  endforeach()
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

# Engines between hosts: shared objects that are loaded when they are needed, each where what it
# stands on is installed. Without them processes of one host still work.
find_path(TESSERA_HAS_ucx ucp/api/ucp.h)
find_library(TESSERA_LIB_ucp ucp)
find_library(TESSERA_LIB_ucs ucs)
if(TESSERA_HAS_ucx AND TESSERA_LIB_ucp AND TESSERA_LIB_ucs)
  add_library(tessera_ucx MODULE engines/ucx.c)
  set_target_properties(tessera_ucx PROPERTIES PREFIX "" C_VISIBILITY_PRESET hidden)
  target_include_directories(tessera_ucx PRIVATE ${PROJECT_SOURCE_DIR}/src)
  target_include_directories(tessera_ucx SYSTEM PRIVATE ${TESSERA_HAS_ucx})
  target_link_libraries(tessera_ucx PRIVATE tessera_options ${TESSERA_LIB_ucp} ${TESSERA_LIB_ucs})
  add_dependencies(tessera tessera_ucx)
  add_dependencies(tessera_static tessera_ucx)
endif()

# MPIs have no binary interface in common: one object for each that is installed, by what its own
# compiler says. Debian has both beside each other.
function(tessera_mpi name wrapper ask)
  find_program(TESSERA_MPICC_${name} NAMES ${wrapper})
  if(NOT TESSERA_MPICC_${name} OR CMAKE_CROSSCOMPILING OR CMAKE_TOOLCHAIN_FILE)
    return()
  endif()
  execute_process(COMMAND ${TESSERA_MPICC_${name}} ${ask} OUTPUT_VARIABLE said
    OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE failed)
  separate_arguments(words UNIX_COMMAND "${said}")
  set(folders ${words})
  list(FILTER folders INCLUDE REGEX "^-I")
  list(TRANSFORM folders REPLACE "^-I" "")
  set(libraries ${words})
  list(FILTER libraries INCLUDE REGEX "^-[Ll]")
  if(failed OR NOT libraries)
    return()
  endif()
  add_library(tessera_mpi_${name} MODULE engines/mpi.c)
  set_target_properties(tessera_mpi_${name} PROPERTIES PREFIX "" C_VISIBILITY_PRESET hidden)
  target_include_directories(tessera_mpi_${name} PRIVATE ${PROJECT_SOURCE_DIR}/src)
  target_include_directories(tessera_mpi_${name} SYSTEM PRIVATE ${folders})
  target_link_libraries(tessera_mpi_${name} PRIVATE tessera_options ${libraries})
  set(TESSERA_MPI_${name}_FOLDERS ${folders} PARENT_SCOPE)
  set(TESSERA_MPI_${name}_LIBRARIES ${libraries} PARENT_SCOPE)
  add_dependencies(tessera tessera_mpi_${name})
  add_dependencies(tessera_static tessera_mpi_${name})
endfunction()
tessera_mpi(openmpi mpicc.openmpi --showme)
tessera_mpi(mpich mpicc.mpich -show)

# What reads images: likewise.
find_path(TESSERA_HAS_jpeg jpeglib.h)
find_path(TESSERA_HAS_spng spng.h)
find_library(TESSERA_LIB_jpeg jpeg)
find_library(TESSERA_LIB_spng spng)
if(TESSERA_HAS_jpeg AND TESSERA_HAS_spng AND TESSERA_LIB_jpeg AND TESSERA_LIB_spng)
  add_library(tessera_images MODULE engines/images.c)
  set_target_properties(tessera_images PROPERTIES PREFIX "" C_VISIBILITY_PRESET hidden)
  target_include_directories(tessera_images PRIVATE ${PROJECT_SOURCE_DIR}/src)
  target_include_directories(tessera_images SYSTEM PRIVATE ${TESSERA_HAS_jpeg} ${TESSERA_HAS_spng})
  target_link_libraries(tessera_images PRIVATE tessera_options ${TESSERA_LIB_jpeg}
    ${TESSERA_LIB_spng})
  add_dependencies(tessera tessera_images)
  add_dependencies(tessera_static tessera_images)
endif()

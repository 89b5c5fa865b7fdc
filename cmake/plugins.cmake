# Plugins: shared objects that are loaded when they are needed, each built where the packages that it needs
# are installed. The name, use and packages of a plugin stand in its call below alone: src/base/plugin.c has them
# from there, and install.cmake installs TESSERA_PLUGINS. The next build notices a package that is installed or
# removed later: configuring depends on the folders in which headers, libraries and compilers are looked for.

set(TESSERA_PLUGINS "") # the names of all, "images"
set(TESSERA_PLUGIN_ROWS "") # for src/base/plugin.c, such as { "images", "decoding ..", "libspng-dev" },
set(TESSERA_PLUGINS_MISSING "") # such as "images (libjpeg62-turbo-dev, libspng-dev)"

function(tessera_watch_folders)
  set(ends include include/${CMAKE_LIBRARY_ARCHITECTURE} lib lib/${CMAKE_LIBRARY_ARCHITECTURE} bin)
  foreach(root IN LISTS CMAKE_FIND_ROOT_PATH ITEMS "")
    foreach(prefix IN LISTS CMAKE_PREFIX_PATH CMAKE_SYSTEM_PREFIX_PATH)
      foreach(end IN LISTS ends)
        set(folder ${root}${prefix}/${end})
        string(REGEX REPLACE "//+" "/" folder ${folder})
        if(IS_DIRECTORY ${folder} AND NOT folder MATCHES "^${PROJECT_SOURCE_DIR}")
          file(REAL_PATH ${folder} folder)
          list(APPEND folders ${folder})
        endif()
      endforeach()
    endforeach()
  endforeach()
  list(REMOVE_DUPLICATES folders)
  set_property(DIRECTORY ${PROJECT_SOURCE_DIR} APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${folders})
endfunction()
tessera_watch_folders()

# Looks for a file and puts its path, of a header the folder, into the cache as NAME. A file that was found
# once and is gone is looked for again.
function(tessera_find kind name file)
  set(found "$CACHE{${name}}")
  if("${kind}" STREQUAL "header")
    string(APPEND found /${file})
  endif()
  if(NOT EXISTS "${found}")
    unset(${name} CACHE)
  endif()
  if("${kind}" STREQUAL "header")
    find_path(${name} ${file})
  elseif("${kind}" STREQUAL "library")
    find_library(${name} ${file})
  else()
    find_program(${name} NAMES ${file})
  endif()
endfunction()

# Also of one that is not built, as that is told.
macro(tessera_plugin_known name use)
  list(APPEND TESSERA_PLUGINS ${name})
  string(REPLACE ";" " and " packages "${ARGN}")
  string(APPEND TESSERA_PLUGIN_ROWS "{ \"${name}\", \"${use}\", \"${packages}\" },\n")
endmacro()

function(tessera_plugin_missing name)
  list(JOIN ARGN ", " packages)
  list(APPEND TESSERA_PLUGINS_MISSING "${name} (${packages})")
  set(TESSERA_PLUGINS_MISSING "${TESSERA_PLUGINS_MISSING}" PARENT_SCOPE)
endfunction()

function(tessera_plugin_target name source folders libraries)
  add_library(tessera_${name} MODULE ${source})
  set_target_properties(tessera_${name} PROPERTIES PREFIX "" C_VISIBILITY_PRESET hidden)
  target_include_directories(tessera_${name} PRIVATE ${PROJECT_SOURCE_DIR}/src)
  target_include_directories(tessera_${name} SYSTEM PRIVATE ${folders})
  target_link_libraries(tessera_${name} PRIVATE tessera_options ${libraries})
  add_dependencies(tessera tessera_${name})
  add_dependencies(tessera_static tessera_${name})
endfunction()

# tessera_plugin(NAME SOURCE USE text PACKAGES ... HEADERS ... LIBRARIES ...)
macro(tessera_plugin name source)
  cmake_parse_arguments(plugin "NATIVE" USE "PACKAGES;HEADERS;LIBRARIES" ${ARGN})
  tessera_plugin_known(${name} "${plugin_USE}" ${plugin_PACKAGES})
  set(plugin_folders "")
  set(plugin_libraries "")
  set(plugin_whole TRUE)
  foreach(header IN LISTS plugin_HEADERS)
    string(MAKE_C_IDENTIFIER TESSERA_HEADER_${header} id)
    tessera_find(header ${id} ${header})
    list(APPEND plugin_folders ${${id}})
    if(NOT ${id})
      set(plugin_whole FALSE)
    endif()
  endforeach()
  foreach(library IN LISTS plugin_LIBRARIES)
    tessera_find(library TESSERA_LIB_${library} ${library})
    list(APPEND plugin_libraries ${TESSERA_LIB_${library}})
    if(NOT TESSERA_LIB_${library})
      set(plugin_whole FALSE)
    endif()
  endforeach()
  if(plugin_NATIVE AND CMAKE_CROSSCOMPILING)
    # What was found is another architecture's.
  elseif(plugin_whole)
    tessera_plugin_target(${name} ${source} "${plugin_folders}" "${plugin_libraries}")
  else()
    tessera_plugin_missing(${name} ${plugin_PACKAGES})
  endif()
endmacro()

# Between hosts: without these, processes of one host still work.
tessera_plugin(ucx engines/ucx.c USE "processes of several hosts, by UCX" PACKAGES libucx-dev
  HEADERS ucp/api/ucp.h LIBRARIES ucp ucs)

# MPIs have no binary interface in common: one object for each that is installed, by what its own
# compiler says. Debian has both beside each other.
function(tessera_mpi name package wrapper ask)
  tessera_find(program TESSERA_MPICC_${name} ${wrapper})
  set(libraries "")
  if(TESSERA_MPICC_${name} AND NOT CMAKE_CROSSCOMPILING AND NOT CMAKE_TOOLCHAIN_FILE)
    execute_process(COMMAND ${TESSERA_MPICC_${name}} ${ask} OUTPUT_VARIABLE said
      OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
    separate_arguments(words UNIX_COMMAND "${said}")
    set(folders ${words})
    list(FILTER folders INCLUDE REGEX "^-I")
    list(TRANSFORM folders REPLACE "^-I" "")
    set(libraries ${words})
    list(FILTER libraries INCLUDE REGEX "^-[Ll]")
  endif()
  if(libraries)
    tessera_plugin_target(mpi_${name} engines/mpi.c "${folders}" "${libraries}")
    set(TESSERA_MPI_${name}_FOLDERS ${folders} PARENT_SCOPE)
    set(TESSERA_MPI_${name}_LIBRARIES ${libraries} PARENT_SCOPE)
  else()
    tessera_plugin_missing(mpi_${name} ${package})
    set(TESSERA_PLUGINS_MISSING "${TESSERA_PLUGINS_MISSING}" PARENT_SCOPE)
  endif()
endfunction()
tessera_plugin_known(mpi_openmpi "processes of several hosts, by Open MPI" libopenmpi-dev)
tessera_mpi(openmpi libopenmpi-dev mpicc.openmpi --showme)
tessera_plugin_known(mpi_mpich "processes of several hosts, by MPICH" libmpich-dev)
tessera_mpi(mpich libmpich-dev mpicc.mpich -show)

tessera_plugin(images engines/images.c USE "decoding JPEG and PNG images"
  PACKAGES libjpeg62-turbo-dev libspng-dev HEADERS jpeglib.h spng.h LIBRARIES jpeg spng)

# gzip is unpacked by ISA-L in a third of the time that zlib takes. Its package has no other architecture's
# library beside this one's.
tessera_plugin(isal engines/isal.c NATIVE USE "unpacking gzip three times as fast as zlib"
  PACKAGES libisal-dev HEADERS isa-l/igzip_lib.h LIBRARIES isal)

file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/generated/plugins.inc CONTENT "${TESSERA_PLUGIN_ROWS}" @ONLY)
set_source_files_properties(${PROJECT_SOURCE_DIR}/src/base/plugin.c PROPERTIES
  INCLUDE_DIRECTORIES ${PROJECT_BINARY_DIR}/generated)

if(TESSERA_PLUGINS_MISSING AND PROJECT_IS_TOP_LEVEL AND NOT CMAKE_TOOLCHAIN_FILE)
  list(JOIN TESSERA_PLUGINS_MISSING "; " missing)
  message(NOTICE "Plugins that are not built, since their Debian packages are not installed: ${missing}")
endif()

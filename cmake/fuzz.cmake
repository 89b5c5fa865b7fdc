# Fuzz targets: every tests/fuzz/*.c defines LLVMFuzzerTestOneInput and reaches internal
# functions through the static library.
tessera_sources(fuzz_sources tests/fuzz/*.c)
foreach(source IN LISTS fuzz_sources)
  get_filename_component(name ${source} NAME_WE)
  add_executable(${name} ${source})
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/fuzz)
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR}/src)
  target_link_libraries(${name} PRIVATE tessera_static tessera_options m)
  target_link_options(${name} PRIVATE -fsanitize=fuzzer)
endforeach()

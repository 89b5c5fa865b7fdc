#!/bin/sh
# Adds the sources to another project, which must find its own settings as it left them and no rule to
# install, build or test anything but itself; then builds and runs a program that uses both libraries.
#   tests/subproject_test.sh CMAKE SOURCE_FOLDER C_COMPILER
set -eu
cmake=$1 source=$2 cc=$3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

cat >"$work/main.c" <<'END'
#include <tessera.h>

int main(void)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:2");
  int bad = tsr_runtime_status(rt) != TSR_OK || tsr_device_count(rt) != 2;
  tsr_runtime_close(rt);
  return bad;
}
END
cat >"$work/CMakeLists.txt" <<'END'
cmake_minimum_required(VERSION 3.25)
project(parent VERSION 7.8.9 LANGUAGES C)
set(CMAKE_C_STANDARD 99)
set(CMAKE_C_FLAGS "-DPARENT=1")

# Writes what this project is set to, one line each.
function(take_down file)
  get_cmake_property(names VARIABLES)
  list(FILTER names EXCLUDE REGEX "^(ARG|names|name|text|file$|CMAKE_CURRENT_FUNCTION|CMAKE_MATCH_)")
  # What the cache remembers of looking for headers and threads, and Tessera's own options.
  list(FILTER names EXCLUDE REGEX "^(TESSERA_|tessera_|FIND_PACKAGE_MESSAGE_|CMAKE_HAVE_LIBC_)")
  set(text "")
  foreach(name IN LISTS names)
    string(APPEND text "${name}=${${name}}\n")
  endforeach()
  foreach(name IN ITEMS TARGET_MESSAGES RULE_MESSAGES ENABLED_LANGUAGES ALLOW_DUPLICATE_CUSTOM_TARGETS)
    get_property(value GLOBAL PROPERTY ${name})
    string(APPEND text "global ${name}=${value}\n")
  endforeach()
  foreach(name IN ITEMS COMPILE_OPTIONS COMPILE_DEFINITIONS LINK_OPTIONS INCLUDE_DIRECTORIES TESTS)
    get_directory_property(value ${name})
    string(APPEND text "directory ${name}=${value}\n")
  endforeach()
  file(WRITE ${CMAKE_BINARY_DIR}/${file} "${text}")
endfunction()

take_down(before.txt)
add_subdirectory(${TESSERA_SOURCE} tessera)
take_down(after.txt)

add_executable(by_shared main.c)
target_link_libraries(by_shared PRIVATE tessera::tessera)
add_executable(by_static main.c)
target_link_libraries(by_static PRIVATE tessera::static)
install(TARGETS by_static)
END

echo "# settings"
"$cmake" -S "$work" -B "$work/build" -DTESSERA_SOURCE="$source" -DCMAKE_C_COMPILER="$cc" \
  -DCMAKE_BUILD_TYPE=Debug -DCMAKE_C_FLAGS_DEBUG= -DTESSERA_BASELINE_ONLY=ON >/dev/null # the quickest build
diff "$work/build/before.txt" "$work/build/after.txt"

echo "# programs"
"$cmake" --build "$work/build" -j "$(nproc)" >/dev/null
"$work/build/by_shared"
"$work/build/by_static"

echo "# nothing else"
"$cmake" --install "$work/build" --prefix "$work/prefix" >/dev/null
[ "$(cd "$work/prefix" && find . -type f)" = ./bin/by_static ]
for extra in bench tests bin; do
  [ ! -e "$work/build/tessera/$extra" ] || { echo "$extra was built" >&2; exit 1; }
done

#!/bin/sh
# Holds CONTRIBUTING's "Names of calls" over what is exported.
#   tests/names_test.sh LIST INCLUDE_DIR
set -eu
export LC_ALL=C
list=$1 include=$2
bad=0

say()
{
  echo "$1"
  bad=1
}

# Declarations, one a line: "NAME(arguments)".
declared=$(cat "$include"/tessera/*.h | tr '\n' ' ' | tr ';' '\n' |
  sed -n 's/.*TSR_API[^(]*[ *]\(tsr_[a-z0-9_]*\)(\(.*\)).*/\1(\2)/p')

while read -r name; do
  line=$(printf '%s\n' "$declared" | grep "^$name(" || true)
  [ -n "$line" ] || say "$name is exported and in no header"
  case $line in
  *"const char *site)"*)
    case $name in
    *_at | *_with) ;;
    *) say "$name takes a site: name it ${name}_at, with a macro $name" ;;
    esac ;;
  *)
    case $name in
    *_at) say "$name takes no site and ends in _at" ;;
    esac ;;
  esac
  case $name in
  tsr_scope_nest_at) ;; # tsr_scope_open of a scope
  tsr_mesh_make_with) ;; # the text form is tsr_mesh_make, a function
  tsr_frame_text_with) ;; # so is tsr_frame_text
  tsr_binary_at | tsr_fma_of_at | tsr_divmod_of_at) ;; # the macros of calls whose left operand may be a number
  *_at | *_with)
    plain=${name%_at}
    plain=${plain%_with}
    grep -q "^#define $plain(" "$include"/tessera/*.h || say "$name has no macro $plain" ;;
  esac
  case $name in
  *_rows | *_columns | *_nodes | *_axes)
    say "$name: numbers of things end in _count" ;;
  tsr_frame_load_* | tsr_frame_save_*) say "$name: frames are read and written" ;;
  tsr_read_at | tsr_read_scalar_at | tsr_read_i64_at | tsr_read_process_at | tsr_read_root_at) ;; # to the caller's memory
  tsr_read_* | tsr_write_*) say "$name: files of arrays are loaded and saved" ;;
  esac
done <"$list"
exit $bad

# Writes seeds for arrays: one of each element type, one of each version of the format, and a few invalid ones.
# Usage: bash npy_seeds.sh FOLDER
set -euo pipefail
n=0
# write VERSION HEADER BYTES: a file of this header and as many bytes of data.
write() {
  local length
  length=$(printf '\\x%02x\\x%02x' $((${#2} & 255)) $((${#2} >> 8)))
  (($1 == 1)) || length+='\x00\x00'
  {
    printf "\\x93NUMPY\\x0$1\\x00$length%s" "$2"
    head -c "$3" /dev/zero
  } >"$folder/$((n += 1))"
}
folder=$1
write 1 "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }" 24
write 1 "{'descr': '<f8', 'fortran_order': False, 'shape': (), }" 8
write 1 "{'descr': '<f2', 'fortran_order': False, 'shape': (3,), }" 6
write 2 "{'descr': '<V2', 'fortran_order': False, 'shape': (1,), }" 2
write 3 "{'descr': '<i8', 'fortran_order': False, 'shape': (0, 5), }" 0
write 1 "{'descr': '<i4', 'fortran_order': False, 'shape': (1, 1, 1)}" 4
write 1 "{'descr': '|u1', 'fortran_order': False, 'shape': (4L,), }" 4
write 1 "{'descr': '|b1', 'fortran_order': False, 'shape': (5,), }" 5
write 1 "{'shape': (2,), \"descr\": \"<f4\", 'fortran_order': True}" 8
write 1 "{'descr': '<f4', 'descr': '<f8', 'fortran_order': False, 'shape': (1,), }" 4
write 1 "{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,), }" 4

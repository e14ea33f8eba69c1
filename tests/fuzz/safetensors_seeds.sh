# Writes seeds for weights files: a few small ones, valid and invalid.
# Usage: bash safetensors_seeds.sh FOLDER
set -euo pipefail
n=0
# write HEADER BYTES: a file of this header and as many bytes of data.
write() {
  {
    printf "\\x$(printf %02x ${#1})\\0\\0\\0\\0\\0\\0\\0%s" "$1"
    head -c "$2" /dev/zero
  } >"$folder/$((n += 1))"
}
folder=$1
write '{}' 0
write '{"a":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]}}' 24
write '{"__metadata__":{"k":"v"},"a":{"dtype":"BOOL","shape":[3],"data_offsets":[1,4]}}' 4
write '{"a":{"dtype":"I64","shape":[],"data_offsets":[0,8]},"b":{"dtype":"F64","shape":[0],"data_offsets":[8,8]}}' 8
write '{"a":{"dtype":"F8_E4M3","shape":[9223372036854775807,2],"data_offsets":[0,2]}}' 2
write '{"a":{"dtype":"U8","shape":[-1],"data_offsets":[4,0]}}' 4

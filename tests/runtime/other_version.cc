// A library with the right symbol and another version.
#include "runtime/cuda_interface.h"

extern "C" __attribute__((visibility("default"))) const IsthmusCudaInterface *
isthmus_cuda_interface(void) {
  static const IsthmusCudaInterface interface = {1000000, "of another version"};
  return &interface;
}

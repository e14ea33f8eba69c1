// libstdc++'s random_device, which nothing of ours uses, asks for a function of glibc 2.36. With
// this one in its place the libraries run where glibc is 2.35.

#include <cstdint>
#include <sys/random.h>

extern "C" __attribute__((visibility("hidden"))) uint32_t arc4random() {
  uint32_t number = 0;
  while (getrandom(&number, sizeof number, 0) != sizeof number) {
  }
  return number;
}

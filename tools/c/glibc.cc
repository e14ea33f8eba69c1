// libstdc++'s random_device, which our code does not use, needs a function of glibc 2.36. With this
// replacement the libraries run on glibc 2.35.

#include <cstdint>
#include <sys/random.h>

extern "C" __attribute__((visibility("hidden"))) uint32_t arc4random() {
  uint32_t number = 0;
  while (getrandom(&number, sizeof number, 0) != sizeof number) {
  }
  return number;
}

// Replacements for functions of newer versions of glibc, for the parts of GCC's libraries that are
// linked statically. With them the libraries and the command run on glibc 2.34, which RHEL 9, Amazon
// Linux 2023 and Ubuntu 22.04 have.

#include <cstdint>
#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <sys/random.h>

// Of glibc 2.36, for libstdc++'s random_device, which our code does not use.

extern "C" __attribute__((visibility("hidden"))) uint32_t arc4random() {
  uint32_t number = 0;
  while (getrandom(&number, sizeof number, 0) != sizeof number) {
  }
  return number;
}

namespace {

// The object that holds an address.
struct Found {
  ElfW(Addr) address;
  dl_find_object *result;
};

int holds(dl_phdr_info *info, size_t, void *user) {
  const Found &found = *static_cast<Found *>(user);
  ElfW(Addr) begin = ~ElfW(Addr)(0), end = 0;
  void *frames = nullptr;
  bool isHere = false;
  for (const ElfW(Phdr) *p = info->dlpi_phdr; p != info->dlpi_phdr + info->dlpi_phnum; ++p) {
    const ElfW(Addr) from = info->dlpi_addr + p->p_vaddr, to = from + p->p_memsz;
    if (p->p_type == PT_GNU_EH_FRAME)
      frames = reinterpret_cast<void *>(from);
    if (p->p_type != PT_LOAD)
      continue;
    begin = from < begin ? from : begin;
    end = to > end ? to : end;
    isHere |= from <= found.address && found.address < to;
  }
  if (!isHere || !frames)
    return 0;
  found.result->dlfo_map_start = reinterpret_cast<void *>(begin);
  found.result->dlfo_map_end = reinterpret_cast<void *>(end);
  found.result->dlfo_eh_frame = frames;
  return 1;
}

} // namespace

// Of glibc 2.35, for libgcc's unwinder, which reads only where the unwinding table of an object
// lies and where the object begins and ends. Declared as in <dlfcn.h>.
extern "C" __attribute__((visibility("hidden"))) int _dl_find_object(void *address,
                                                                     dl_find_object *result) {
  *result = dl_find_object();
  Found found = {reinterpret_cast<ElfW(Addr)>(address), result};
  return dl_iterate_phdr(holds, &found) ? 0 : -1;
}

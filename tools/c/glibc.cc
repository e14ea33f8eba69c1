// Replacements for functions of newer versions of glibc, for our own code and for the parts of
// LLVM's and GCC's libraries that are linked statically. With them the wheel runs on glibc 2.28,
// which RHEL 8, Debian 10 and Ubuntu 20.04 have. Functions that only got a new version since then
// are not here: tools/wheel asks for the version of before.

#include <cstdint>
#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <malloc.h>
#include <sys/random.h>
#include <sys/single_threaded.h>
#include <sys/stat.h>

#define HIDDEN __attribute__((visibility("hidden")))

// Of glibc 2.33. Before it, headers turned these into calls of others, which glibc still has. The
// first argument says which struct stat is meant: 1 is Linux's on x86-64.

extern "C" {
int __xstat(int, const char *, struct stat *);
int __fxstat(int, int, struct stat *);
int __lxstat(int, const char *, struct stat *);
int __fxstat64(int, int, struct stat64 *);

HIDDEN int stat(const char *path, struct stat *to) noexcept { return __xstat(1, path, to); }
HIDDEN int fstat(int file, struct stat *to) noexcept { return __fxstat(1, file, to); }
HIDDEN int lstat(const char *path, struct stat *to) noexcept { return __lxstat(1, path, to); }
HIDDEN int fstat64(int file, struct stat64 *to) noexcept { return __fxstat64(1, file, to); }
}

// Of glibc 2.33, for statistics of LLVM that nobody asks for.

extern "C" HIDDEN struct mallinfo2 mallinfo2() noexcept { return {}; }

// Of glibc 2.32: whether counts of references may be changed without atomics. They may not.

extern "C" {
extern HIDDEN char __libc_single_threaded;
char __libc_single_threaded = 0;
}

// Of glibc 2.36, for libstdc++'s random_device, which our code does not use.

extern "C" HIDDEN uint32_t arc4random() {
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
extern "C" HIDDEN int _dl_find_object(void *address, dl_find_object *result) {
  *result = dl_find_object();
  Found found = {reinterpret_cast<ElfW(Addr)>(address), result};
  return dl_iterate_phdr(holds, &found) ? 0 : -1;
}

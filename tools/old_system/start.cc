// Runs the constructors of the command where glibc is older than 2.34. There a program brings the
// function that runs them, which programs that were linked since then lack (`init` below is null).
// glibc runs the constructors of libraries by itself.

extern "C" {
using Main = int(int, char **, char **);
using Function = void();
using Constructor = void(int, char **, char **);

extern Constructor *__preinit_array_start[], *__preinit_array_end[];
extern Constructor *__init_array_start[], *__init_array_end[];
void _init();

// The linker's --wrap=__libc_start_main leads the first call of a program here.
int __real___libc_start_main(Main *, int, char **, Constructor *, Function *, Function *, void *);
int __wrap___libc_start_main(Main *main, int argc, char **argv, Constructor *, Function *fini,
                             Function *loadersFini, void *stackEnd);
}

static void construct(int argc, char **argv, char **environment) {
  for (Constructor **c = __preinit_array_start; c != __preinit_array_end; ++c)
    (*c)(argc, argv, environment);
  _init();
  for (Constructor **c = __init_array_start; c != __init_array_end; ++c)
    (*c)(argc, argv, environment);
}

int __wrap___libc_start_main(Main *main, int argc, char **argv, Constructor *, Function *fini,
                             Function *loadersFini, void *stackEnd) {
  return __real___libc_start_main(main, argc, argv, construct, fini, loadersFini, stackEnd);
}

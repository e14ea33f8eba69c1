// What the oneDNN of the wheel needs of newer systems' libstdc++ and glibc, for systems that have
// glibc 2.28 and the libstdc++ of GCC 8. It lies beside oneDNN, which names it in place of OpenCL's
// library (tools/old_system/elf.py).

#include <exception>
#include <new>
#include <sstream>

// Of GCC 9.

template std::basic_stringstream<char>::basic_stringstream();
template std::basic_ostringstream<char>::basic_ostringstream();

// Of GCC 11. In older libraries the copy of an exception_ptr counts one more, and its end one less.

extern "C" {
void constructAsCopy(void *, const void *) asm("_ZNSt15__exception_ptr13exception_ptrC1ERKS0_");
void destruct(void *) asm("_ZNSt15__exception_ptr13exception_ptrD1Ev");
}

void std::__exception_ptr::exception_ptr::_M_addref() noexcept {
  alignas(exception_ptr) char copy[sizeof(exception_ptr)]; // which is never destructed
  constructAsCopy(copy, this);
}

void std::__exception_ptr::exception_ptr::_M_release() noexcept {
  destruct(this);
  _M_exception_object = nullptr;
}

void std::__throw_bad_array_new_length() { throw std::bad_array_new_length(); }

// Of glibc 2.32: whether counts of references may be changed without atomics. They may not.

extern "C" {
extern char __libc_single_threaded;
char __libc_single_threaded = 0;
}

// Stands in for OpenMP where fuzzers are built: clang comes without it, and one thread is what is
// wanted.
#pragma once
inline int omp_get_max_threads() { return 1; }
inline void omp_set_num_threads(int) {}
inline int omp_get_thread_num() { return 0; }

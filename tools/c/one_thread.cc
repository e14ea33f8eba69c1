// The plain kernels, which compute constants while a model is read, ask OpenMP for threads. These
// stubs give one thread: a host may have an OpenMP of its own, and constants are small.

extern "C" {
void GOMP_parallel(void (*body)(void *), void *data, unsigned, unsigned) { body(data); }
int omp_get_num_threads() { return 1; }
int omp_get_max_threads() { return 1; }
int omp_get_thread_num() { return 0; }
void omp_set_num_threads(int) {}
}

// Marks code that is shared by all devices: nvcc compiles a marked function for the host and the
// GPU; for other compilers the mark is empty.
#pragma once

#ifdef __CUDACC__
#define ISTHMUS_DEVICE __host__ __device__
#else
#define ISTHMUS_DEVICE
#endif

// One source for every device: under nvcc a function marked so is compiled for the host and the
// GPU, elsewhere the mark is nothing.
#pragma once

#ifdef __CUDACC__
#define ISTHMUS_DEVICE __host__ __device__
#else
#define ISTHMUS_DEVICE
#endif

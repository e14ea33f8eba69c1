// NVIDIA's libraries, as a device's kernels share them.
#pragma once

#include "kernels/cuda/queue.h"
#include <string>

namespace isthmus::cuda {

// Makes the handles, on the queue's stream. Null, or what went wrong.
const char *openLibraries(Queue &queue, std::string &versions);
void closeLibraries(Queue &queue);

} // namespace isthmus::cuda

// Bytes and seconds as people read them.
#pragma once

#include <cstdint>
#include <string>

namespace isthmus {

std::string bytesText(int64_t bytes);     // "512.0 MiB", "1.5 GiB", "640 B"
std::string secondsText(double seconds); // "12.3 ms", "4.56 s"

} // namespace isthmus

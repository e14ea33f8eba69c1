// The version of the program, the library and their packages.
#pragma once

namespace isthmus {
constexpr const char *kVersion = "0.1.0";
}

// Transfers, for tools with a single memory: a copy is the same value, and completes at once.

#include "ir/onnx/export/body.h"

namespace isthmus::onnx_export {
namespace {

using Names = std::vector<Name>;

// ONNX has no type without bytes, so a token is a bool, true.
Names copy(const RowWriter &w) {
  return {w.b.emit("Identity", {w.x(0)}), w.b.number(DType::Bool, 1)};
}
Names wait(const RowWriter &w) { return {w.b.emit("Identity", {w.x(0)})}; }

constexpr ExportRow kRows[] = {
    {"copy_to_host", copy},
    {"copy_to_device", copy},
    {"wait", wait, /*mayIgnore=*/true}, // the token and the operands held
};

} // namespace

ExportRows transferRows() { return kRows; }

} // namespace isthmus::onnx_export

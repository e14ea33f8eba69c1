#include "ir/onnx/window_attrs.h"

#include "llvm/ADT/STLExtras.h"

namespace isthmus::onnx_import {
namespace {

// Sums and products of a few of these stay far below 2^63.
constexpr int64_t kMost = int64_t(1) << 30;

Ints list(NodeContext &n, llvm::StringRef name, size_t length, int64_t byDefault, int64_t least) {
  Ints given = n.intsAttr(name).value_or(Ints());
  if (given.empty())
    return Ints(length, byDefault);
  if (given.size() != length)
    n.fail("expects {0} numbers in attribute '{1}', got {2}", length, name, given.size());
  for (int64_t v : given)
    if (v < least || v > kMost)
      n.fail("expects numbers in [{0}, 2^30] in attribute '{1}', got {2}", least, name,
             attrText(given));
  return n.failed() ? Ints(length, byDefault) : given;
}

} // namespace

WindowAttrs windowAttrs(NodeContext &n, llvm::ArrayRef<int64_t> kernel) {
  WindowAttrs w;
  size_t rank = kernel.size();
  w.strides = list(n, "strides", rank, 1, 1);
  w.dilations = list(n, "dilations", rank, 1, 1);
  w.pads = list(n, "pads", 2 * rank, 0, 0);
  w.autoPad = n.stringAttr("auto_pad", "NOTSET");
  if (w.autoPad != "NOTSET" && w.autoPad != "VALID" && !w.same())
    n.fail("expects NOTSET, VALID, SAME_UPPER or SAME_LOWER as attribute 'auto_pad', got '{0}'",
           w.autoPad);
  if (w.autoPad != "NOTSET" && llvm::any_of(w.pads, [](int64_t p) { return p != 0; }))
    n.fail("expects no 'pads' beside 'auto_pad' of '{0}'", w.autoPad);
  for (int64_t k : kernel)
    if (k < 1 || k > kMost)
      n.fail("expects a window of sizes in [1, 2^30], got {0}", k);
  return w;
}

void splitPad(WindowAttrs &w, size_t axis, int64_t total, bool oddAtEnd) {
  int64_t less = total / 2, more = total - less;
  size_t rank = w.strides.size();
  w.pads[axis] = oddAtEnd ? less : more;
  w.pads[rank + axis] = oddAtEnd ? more : less;
}

void padSame(WindowAttrs &w, llvm::ArrayRef<int64_t> kernel, llvm::ArrayRef<int64_t> sizes) {
  if (!w.same())
    return;
  for (size_t i = 0; i < kernel.size(); ++i) {
    if (sizes[i] < 1)
      continue; // the row reports the error
    int64_t places = (sizes[i] - 1) / w.strides[i] + 1;
    int64_t total = (places - 1) * w.strides[i] + (kernel[i] - 1) * w.dilations[i] + 1 - sizes[i];
    splitPad(w, i, std::max<int64_t>(total, 0), w.autoPad == "SAME_UPPER");
  }
}

} // namespace isthmus::onnx_import

#include "ir/ops/window.h"

namespace isthmus {
namespace {

// With this limit, products of two sizes and sums of a few products stay far below 2^63.
constexpr int64_t kMaxWindow = int64_t(1) << 30;

int64_t at(const Attrs &attrs, llvm::StringRef name, size_t i, int64_t byDefault) {
  const Attr *a = attrs.find(name);
  if (!a)
    return byDefault;
  const Ints &list = std::get<Ints>(*a);
  return list.empty() ? byDefault : list[i];
}

llvm::Error checkList(const InferContext &c, llvm::StringRef name, size_t length, int64_t least) {
  const Attr *a = c.attrs.find(name);
  if (!a)
    return llvm::Error::success();
  const Ints &list = std::get<Ints>(*a);
  if (!list.empty() && list.size() != length)
    return c.error("expects {0} numbers in '{1}', got {2}", length, name, attrText(*a));
  for (int64_t v : list)
    if (v < least || v > kMaxWindow)
      return c.error("expects numbers in [{0}, 2^30] in '{1}', got {2}", least, name, attrText(*a));
  return llvm::Error::success();
}

} // namespace

int64_t WindowAxis::places(int64_t size, bool ceil) const {
  int64_t room = size + padLow + padHigh - extent();
  if (room < 0)
    return 0;
  int64_t n = (room + (ceil ? stride - 1 : 0)) / stride + 1;
  if (ceil && (n - 1) * stride >= size + padLow)
    --n;
  return n;
}

Window windowOf(const Attrs &attrs, llvm::ArrayRef<int64_t> kernel) {
  Window w(kernel.size());
  for (size_t i = 0; i < w.size(); ++i)
    w[i] = {kernel[i], at(attrs, "strides", i, 1), at(attrs, "dilations", i, 1),
            at(attrs, "pads", i, 0), at(attrs, "pads", i + w.size(), 0)};
  return w;
}

llvm::Expected<Window> checkedWindow(const InferContext &c, llvm::ArrayRef<int64_t> kernel) {
  for (int64_t k : kernel)
    if (k < 1 || k > kMaxWindow)
      return c.error("expects kernel sizes in [1, 2^30], got {0}",
                     attrText(Ints(kernel.begin(), kernel.end())));
  if (llvm::Error e = checkList(c, "strides", kernel.size(), 1))
    return e;
  if (llvm::Error e = checkList(c, "dilations", kernel.size(), 1))
    return e;
  if (llvm::Error e = checkList(c, "pads", 2 * kernel.size(), 0))
    return e;
  return windowOf(c.attrs, kernel);
}

llvm::Expected<Dims> windowPlaces(const InferContext &c, const Window &w,
                                  llvm::ArrayRef<int64_t> sizes, bool ceil) {
  Dims out;
  for (size_t i = 0; i < w.size(); ++i) {
    out.push_back(w[i].places(sizes[i], ceil));
    if (out.back() < 1)
      return c.error("expects a window that fits: along spatial axis {0} it spans {1}, but {2} "
                     "elements and padding "
                     "of {3} and {4} give only {5}",
                     i, w[i].extent(), sizes[i], w[i].padLow, w[i].padHigh,
                     sizes[i] + w[i].padLow + w[i].padHigh);
  }
  return out;
}

} // namespace isthmus

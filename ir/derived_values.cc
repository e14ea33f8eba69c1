#include "ir/derived_values.h"

namespace isthmus {

std::string DerivedValues::key(const Node &n, llvm::ArrayRef<uint32_t> operands) {
  std::string text = n.op->name + "(";
  for (uint32_t v : operands)
    text += std::to_string(v) + ",";
  for (const auto &[name, value] : n.attrs)
    text += " " + name + "=" + attrText(value);
  return text;
}

uint32_t DerivedValues::of(const Node &n, llvm::ArrayRef<uint32_t> operands) {
  auto [it, isNew] = known_.try_emplace(key(n, operands), next_);
  if (isNew)
    next_ += n.numResults;
  return it->second;
}

void DerivedValues::alias(const Node &n, llvm::ArrayRef<uint32_t> operands, uint32_t number) {
  known_[key(n, operands)] = number;
}

} // namespace isthmus

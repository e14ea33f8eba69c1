#include "runtime/kernel.h"

namespace isthmus {

std::string callKey(const OpCall &call) {
  std::string key = call.op->name;
  for (const auto &[name, value] : *call.attrs)
    key += ";" + name + "=" + attrText(value);
  for (const Type &t : call.operands)
    key += "," + t.str();
  key += ">";
  for (const Type &t : call.results)
    key += "," + t.str();
  return key;
}

llvm::Expected<std::unique_ptr<PreparedKernel>>
KernelTable::prepare(const OpCall &call, const KernelOptions &options) const {
  for (const Kernel &k : of(call.op->name))
    if (auto prepared = k.prepare(call, options))
      return prepared;
  std::string types;
  for (const Type &t : call.operands)
    types += (types.empty() ? "" : ", ") + t.str();
  return makeError("no kernel for '{0}' on ({1})", call.op->name, types);
}

namespace {
class PlainKernel : public PreparedKernel {
public:
  PlainKernel(const OpCall &call, PlainFunction run) : attrs_(*call.attrs), call_(call), run_(run) {
    call_.attrs = &attrs_; // a copy: the kernel may outlive the graph
  }
  void run(const KernelArgs &args) override { run_(call_, args); }

private:
  Attrs attrs_;
  OpCall call_;
  PlainFunction run_;
};
} // namespace

std::unique_ptr<PreparedKernel> preparePlain(const OpCall &call, PlainFunction run) {
  return std::make_unique<PlainKernel>(call, run);
}

} // namespace isthmus

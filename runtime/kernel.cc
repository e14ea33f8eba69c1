#include "runtime/kernel.h"

namespace isthmus {

namespace {

std::string operandTypes(const OpCall &call) {
  std::string types;
  for (const Type &t : call.operands)
    types += (types.empty() ? "" : ", ") + t.str();
  return "(" + types + ")";
}

llvm::Error noKernel(const OpCall &call) {
  return makeError("no kernel for '{0}' on {1}", call.op->name, operandTypes(call));
}

std::unique_ptr<PreparedKernel> prepareOne(const Kernel &k, const OpCall &call,
                                           const KernelOptions &options) {
  auto prepared = k.prepare(call, options);
  if (prepared) {
    prepared->library = k.library;
    prepared->threads = options.threads;
  }
  return prepared;
}

} // namespace

std::string callTitle(const OpCall &call) { return call.op->name + operandTypes(call); }

llvm::Expected<std::unique_ptr<PreparedKernel>>
KernelTable::prepare(const OpCall &call, const KernelOptions &options) const {
  for (const Kernel &k : of(call.op->name))
    if (auto prepared = prepareOne(k, call, options))
      return prepared;
  return noKernel(call);
}

llvm::Expected<std::vector<std::unique_ptr<PreparedKernel>>>
KernelTable::prepareAll(const OpCall &call, const KernelOptions &options) const {
  std::vector<std::unique_ptr<PreparedKernel>> all;
  for (const Kernel &k : of(call.op->name))
    if (auto prepared = prepareOne(k, call, options))
      all.push_back(std::move(prepared));
  if (all.empty())
    return noKernel(call);
  return all;
}

namespace {
class PlainKernel : public PreparedKernel {
public:
  PlainKernel(const OpCall &call, PlainFunction run) : attrs_(*call.attrs), call_(call), run_(run) {
    call_.attrs = &attrs_; // a copy, because the kernel may outlive the graph
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

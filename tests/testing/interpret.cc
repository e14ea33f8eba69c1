#include "tests/testing/interpret.h"

#include "ir/check.h"
#include "ir/view.h"

namespace isthmus {

llvm::Expected<std::vector<Tensor>> interpretCall(const KernelTable &kernels, const OpCall &call,
                                                  llvm::ArrayRef<Tensor> operands,
                                                  const InterpretOptions &options) {
  if (call.op->is(kView))
    return std::vector<Tensor>{viewOf(call, operands[0])};
  auto kernel = kernels.prepare(call, KernelOptions{options.threads});
  if (!kernel)
    return kernel.takeError();
  // All results start with the bytes of NaN, so that elements which a kernel does not write are not
  // read as zeros.
  auto scribbled = [](const Type &t) {
    return Tensor::make(t, [&](char *p) { __builtin_memset(p, 0xff, t.bytes()); });
  };
  std::vector<Tensor> results;
  llvm::SmallVector<const void *, 4> in;
  llvm::SmallVector<void *, 4> out;
  for (const Tensor &t : operands)
    in.push_back(t.data);
  for (const Type &t : call.results) {
    results.push_back(scribbled(t));
    out.push_back(const_cast<char *>(results.back().data));
  }
  Tensor workspace = scribbled(Type(DType::U8, {(*kernel)->workspaceBytes()}));
  KernelArgs args;
  args.operands = in;
  args.results = out;
  args.workspace = const_cast<char *>(workspace.data);
  args.random = &options.random;
  (*kernel)->run(args);
  return results;
}

llvm::Expected<std::vector<Tensor>> interpret(const KernelTable &kernels, const Graph &g,
                                              const llvm::DenseMap<ValueId, Tensor> &inputs,
                                              const InterpretOptions &options) {
  std::vector<Tensor> values(g.numValues());
  for (const Input &in : g.inputs()) {
    auto it = inputs.find(in.value);
    ISTHMUS_CHECK(it != inputs.end() && it->second.type == g.type(in.value),
                  "input '%" + g.valueName(in.value).str() + "' was not given, or of another type");
    values[in.value.index] = it->second;
  }
  std::vector<uint32_t> readers(g.numValues());
  for (uint32_t i = 0; i < g.numNodes(); ++i)
    for (ValueId v : g.node(NodeId(i)).operands)
      ++readers[v.index];
  for (ValueId v : g.outputs())
    ++readers[v.index];

  for (uint32_t i = 0; i < g.numNodes(); ++i) {
    const Node &n = g.node(NodeId(i));
    std::vector<Tensor> operands;
    for (ValueId v : n.operands)
      operands.push_back(values[v.index]);
    auto results = interpretCall(kernels, g.call(NodeId(i)), operands, options);
    if (!results)
      return locate(results.takeError(), g.whereIs(NodeId(i)));
    for (uint32_t r = 0; r < n.numResults; ++r)
      if (readers[n.result(r).index] > 0)
        values[n.result(r).index] = (*results)[r];
    for (ValueId v : n.operands)
      if (--readers[v.index] == 0)
        values[v.index] = Tensor();
  }
  std::vector<Tensor> outputs;
  for (ValueId v : g.outputs())
    outputs.push_back(values[v.index]);
  return outputs;
}

} // namespace isthmus

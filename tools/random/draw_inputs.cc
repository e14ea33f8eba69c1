#include "tools/random/draw_inputs.h"

namespace isthmus {

NamedTensors drawInputs(const Graph &g, uint64_t seed) {
  NamedTensors out;
  for (const Input &i : g.inputs()) {
    const Type &t = g.type(i.value);
    const std::string name = g.valueName(i.value).str();
    uint64_t own = 0xcbf29ce484222325 ^ seed; // FNV-1a of the name
    for (char c : name)
      own = (own ^ uint8_t(c)) * 0x100000001b3;
    switch (i.init.kind) {
    case Initializer::Kind::Data:
      out[name] = i.init.data;
      break;
    case Initializer::Kind::Fill:
      out[name] =
          fromDoubles(t, std::vector<double>(size_t(t.elements()), i.init.args.getFloat("value")));
      break;
    case Initializer::Kind::Uniform:
      out[name] = draw(t, own, {i.init.args.getFloat("low"), i.init.args.getFloat("high")});
      break;
    default:
      out[name] = draw(t, own);
    }
  }
  return out;
}

llvm::DenseMap<ValueId, Tensor> byValue(const Graph &g, const NamedTensors &inputs) {
  llvm::DenseMap<ValueId, Tensor> out;
  for (const Input &i : g.inputs())
    out[i.value] = inputs.at(g.valueName(i.value).str());
  return out;
}

} // namespace isthmus

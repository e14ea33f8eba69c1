#include "ir/default_input.h"

#include "ir/diagnostics.h"
#include "ir/element.h"
#include "ir/float_range.h"
#include "ir/splitmix64.h"
#include <cmath>

namespace isthmus {
namespace {

// Random numbers. Draw i of a stream is a hash of the stream and i, so draws need no state.
struct Draws {
  uint64_t stream;
  Draws(uint64_t seed, llvm::StringRef name) : stream(splitMix64(seed)) {
    for (char c : name)
      stream = splitMix64(stream ^ static_cast<unsigned char>(c));
  }
  uint64_t bits(uint64_t i) const { return splitMix64(stream + i); }
  double uniform(uint64_t i) const { return (double(bits(i) >> 11) + 0.5) * 0x1p-53; } // in (0, 1)
  double normal(uint64_t i) const { // Box and Muller 1958
    return std::sqrt(-2 * std::log(uniform(2 * i))) * std::cos(2 * M_PI * uniform(2 * i + 1));
  }
};

// Drawn numbers are rounded to f32, as in a file of f32, so that they are the same in every
// precision.
double drawn(double value) { return static_cast<float>(value); }

// A call that reads an operand as an index.
struct IndexReader {
  OpCall call;
  size_t operand;
  int64_t bound;

  bool takes(int64_t index) const {
    if (call.op->is(kIndexTuples)) // numbers for some axes may be larger than for others
      return true;
    if (call.op->takesIndex)
      return call.op->takesIndex(call, operand, index);
    return index < bound && index >= -bound;
  }
};

// Fills element i with `value(i)`.
template <typename Value> Tensor filled(const Type &type, Value value) {
  return Tensor::make(type, [&](char *to) {
    for (int64_t i = 0, n = type.elements(); i < n; ++i)
      setElement(type.dtype, to, i, value(i));
  });
}

// Finds the calls that read `v`, which is the input or a part of it. Reshaped labels are bounded by
// the readers of the reshape, and labels in chunks by those of the chunks.
void findIndexReaders(const Graph &g, ValueId input, ValueId v, std::vector<IndexReader> &out) {
  for (uint32_t i = 0; i < g.numNodes(); ++i) {
    const Node &n = g.node(NodeId(i));
    for (size_t o = 0; o < n.operands.size(); ++o) {
      if (n.operands[o] != v)
        continue;
      if (n.op->is(kView) || (n.is(StandIn::Chunk) && n.from.restores == input))
        findIndexReaders(g, input, n.firstResult, out);
      else if (n.op->indexBound)
        if (auto bound = n.op->indexBound(g.call(NodeId(i)), o))
          out.push_back({g.call(NodeId(i)), o, *bound});
    }
  }
}

std::vector<IndexReader> indexReaders(const Graph &g, ValueId v) {
  std::vector<IndexReader> out;
  findIndexReaders(g, v, v, out);
  return out;
}

// Converts f32 to the precision of the graph: files hold f32, and NumPy has no bf16.
Tensor inPrecision(Tensor t, DType to) {
  return t.type.dtype == DType::F32 && isFloat(to) ? roundedTo(t, to) : t;
}

} // namespace

llvm::Expected<Tensor> defaultInput(const Graph &g, const Input &input, uint64_t seed) {
  const Type &type = g.type(input.value);
  const Initializer &init = input.init;
  llvm::StringRef name = g.valueName(input.value);
  switch (init.kind) {
  case Initializer::Kind::Data:
    if (!init.data)
      return makeError("the data of '%{0}' was not loaded; its weights file is missing", name);
    return init.data;
  case Initializer::Kind::Fill: {
    double value = init.args.getFloat("value");
    return filled(type, [&](int64_t) { return value; });
  }
  case Initializer::Kind::Normal: {
    Draws draws(static_cast<uint64_t>(init.args.getInt("seed")), name);
    double mean = init.args.getFloat("mean"), std = init.args.getFloat("std");
    return filled(type, [&](int64_t i) { return drawn(mean + std * draws.normal(i)); });
  }
  case Initializer::Kind::Uniform: {
    Draws draws(static_cast<uint64_t>(init.args.getInt("seed")), name);
    double low = init.args.getFloat("low"), high = init.args.getFloat("high");
    return filled(type, [&](int64_t i) { return drawn(low + (high - low) * draws.uniform(i)); });
  }
  case Initializer::Kind::None:
    break;
  }
  Draws draws(seed, name);
  if (isFloat(type.dtype))
    return filled(type, [&](int64_t i) { return drawn(draws.normal(i)); });
  int64_t bound = INT64_MAX; // the lowest bound of all readers
  for (const IndexReader &reader : indexReaders(g, input.value))
    bound = std::min(bound, reader.bound);
  int64_t limit = type.dtype == DType::Bool ? 2
                  : bound == INT64_MAX      ? 256
                                            : std::max<int64_t>(bound, 1);
  return filled(type, [&](int64_t i) { return double(draws.bits(i) % uint64_t(limit)); });
}

llvm::Error checkIndices(const Graph &g, const Input &input, const Tensor &t) {
  if (isFloat(t.type.dtype))
    return llvm::Error::success();
  for (const IndexReader &reader : indexReaders(g, input.value))
    for (int64_t i = 0, n = t.type.elements(); i < n; ++i)
      if (int64_t index = elementAsInt(t, i); !reader.takes(index))
        return makeError(
            "input '%{0}' is read by '{1}' as {2} below {3}, and its element {4} is {5}",
            g.valueName(input.value), reader.call.op->name,
            reader.call.op->takesIndex ? "a label from 0 on and" : "an index", reader.bound, i,
            index);
  return llvm::Error::success();
}

llvm::Expected<Tensor> givenInput(const Graph &g, const Input &input, Tensor given) {
  const Type &type = g.type(input.value);
  Tensor t = inPrecision(std::move(given), type.dtype);
  if (t.type != type)
    return makeError(
        "input '%{0}' is of type {1}, and what is given is of type {2}{3}",
        g.valueName(input.value), type.str(), t.type.str(),
        t.type.dims == type.dims ? "; convert its elements to " + dtypeName(type.dtype).str() : "");
  if (llvm::Error e = checkIndices(g, input, t))
    return e;
  return t;
}

} // namespace isthmus

#include "ir/ops/elementwise_rows.h"

namespace isthmus {

// --- Shape rules

llvm::Expected<TypeList> inferUnary(const InferContext &c) {
  if (llvm::Error e = c.expectFloat(0))
    return e;
  return TypeList{c.operand(0)};
}

llvm::Expected<Dims> broadcastDims(const InferContext &c) {
  Dims dims;
  for (const Type &t : c.operands) {
    if (t.dims.size() > dims.size())
      dims.insert(dims.begin(), t.dims.size() - dims.size(), 1);
    size_t lead = dims.size() - t.dims.size();
    for (size_t i = 0; i < t.dims.size(); ++i) {
      int64_t &d = dims[lead + i];
      if (d == 1)
        d = t.dims[i];
      else if (t.dims[i] != 1 && t.dims[i] != d) {
        std::string got;
        for (const Type &each : c.operands)
          got += (got.empty() ? "'" : " and '") + each.str() + "'";
        return c.error("expects shapes that broadcast to one, got {0}", got);
      }
    }
  }
  return dims;
}

llvm::Error expectOneDType(const InferContext &c, size_t from) {
  for (size_t i = from + 1; i < c.operands.size(); ++i)
    if (c.operand(i).dtype != c.operand(from).dtype)
      return c.error("expects operands of one element type, got '{0}' and '{1}'",
                     c.operand(from).str(), c.operand(i).str());
  return llvm::Error::success();
}

llvm::Expected<TypeList> inferBinary(const InferContext &c) {
  if (llvm::Error e = expectOneDType(c, 0))
    return e;
  if (c.operand(0).dtype == DType::Bool)
    return c.error("expects numbers, got '{0}'", c.operand(0).str());
  auto dims = broadcastDims(c);
  if (!dims)
    return dims.takeError();
  return TypeList{c.operand(0).with(*dims)};
}

llvm::Expected<TypeList> inferCompare(const InferContext &c) {
  if (llvm::Error e = expectOneDType(c, 0))
    return e;
  auto dims = broadcastDims(c);
  if (!dims)
    return dims.takeError();
  return TypeList{Type(DType::Bool, *dims)};
}

// Rows `f_grad(g, v)`: both operands have one type.
llvm::Expected<TypeList> inferGradPair(const InferContext &c) {
  if (llvm::Error e = c.expectFloat(0))
    return e;
  if (llvm::Error e = c.expectSame(0, 1))
    return e;
  return TypeList{c.operand(0)};
}

llvm::Expected<TypeList> inferNumber(const InferContext &c) {
  if (c.operand(0).dtype == DType::Bool)
    return c.error("expects numbers, got '{0}'", c.operand(0).str());
  return TypeList{c.operand(0)};
}

// --- Gradients and costs

ValueId reduced(VjpContext &c, size_t i, ValueId g) {
  return c.b.sumTo(g, c.type(c.operand(i)).dims);
}

// Transcendental functions count as several flops per element.
Cost costTranscendental(const OpCall &c) {
  Cost cost;
  for (const Type &t : c.operands)
    cost.bytes += double(t.bytes());
  cost.bytes += double(c.results[0].bytes());
  cost.flops = 8.0 * double(c.results[0].elements());
  return cost;
}

// --- Rows

std::vector<InPlace> overFirst() { return {{0, 0}}; }
std::vector<InPlace> overEither() { return {{0, 0}, {0, 1}}; }

namespace {
OpDef elementwise(const char *name, const char *doc, const char *operands, const char *results,
                  llvm::Expected<TypeList> (*infer)(const InferContext &)) {
  OpDef row;
  row.name = name;
  row.doc = doc;
  row.operands = operands;
  row.results = results;
  row.traits = kElementwise;
  row.infer = infer;
  return row;
}
} // namespace

OpDef unary(const char *name, const char *doc, ValueList (*vjp)(VjpContext &), double low,
            double high, Cost (*cost)(const OpCall &)) {
  OpDef row = elementwise(name, doc, "x", "y", inferUnary);
  row.vjp = vjp;
  row.cost = cost;
  row.inPlace = overFirst();
  row.examples = {row.name + "(f64[2, 3])"};
  row.low = low;
  row.high = high;
  return row;
}

OpDef binary(const char *name, const char *doc, ValueList (*vjp)(VjpContext &), double low,
             double high) {
  OpDef row = elementwise(name, doc, "a b", "y", inferBinary);
  row.vjp = vjp;
  row.inPlace = overEither();
  row.examples = {row.name + "(f64[2, 3], f64[2, 3])", row.name + "(f64[2, 3], f64[3])",
                  row.name + "(f64[], f64[2, 3])", row.name + "(f64[2, 1, 3], f64[4, 1])"};
  row.low = low;
  row.high = high;
  return row;
}

OpDef compare(const char *name, const char *doc) {
  OpDef row = elementwise(name, doc, "a b", "y", inferCompare);
  row.differentiable = Differentiable::ZeroGradient;
  row.examples = {row.name + "(f64[2, 3], f64[3])"};
  return row;
}

// f_grad(g, v): the gradient of an activation, from the gradient of its result and its operand or
// result.
OpDef gradRow(const char *name, const char *doc, ValueList (*vjp)(VjpContext &),
              ValueList (*expand)(ExpandContext &), std::vector<AttrDef> attrs) {
  OpDef row = elementwise(name, doc, "g v", "dx", inferGradPair);
  row.attrs = std::move(attrs);
  row.vjp = vjp;
  row.expand = expand;
  row.inPlace = overEither();
  row.examples = {row.name + "(f64[2, 3], f64[2, 3])"};
  return row;
}

OpDef withInverse(OpDef row, ValueId (*inverse)(InverseContext &, size_t)) {
  row.inverse = inverse;
  return row;
}

OpDef withSign(OpDef row, Sign (*sign)(const Attrs &, llvm::ArrayRef<Sign>)) {
  row.sign = sign;
  return row;
}

OpDef with(OpDef row, std::vector<AttrDef> attrs, std::vector<std::string> examples) {
  row.attrs = std::move(attrs);
  if (!examples.empty())
    row.examples = std::move(examples);
  return row;
}

} // namespace isthmus

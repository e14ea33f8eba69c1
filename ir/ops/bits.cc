// Logic on bools and on the bits of integers; shifts; bitcasts.

#include "ir/factors.h"
#include "ir/ops/elementwise_rows.h"

namespace isthmus {
namespace {

llvm::Expected<TypeList> inferBits(const InferContext &c) {
  if (llvm::Error e = expectOneDType(c, 0))
    return e;
  if (isFloat(c.operand(0).dtype))
    return c.error("expects bool or integers, got '{0}'", c.operand(0).str());
  auto dims = broadcastDims(c);
  if (!dims)
    return dims.takeError();
  return TypeList{c.operand(0).with(*dims)};
}

llvm::Expected<TypeList> inferShift(const InferContext &c) {
  if (c.operand(0).dtype == DType::Bool)
    return c.error("expects integers, got '{0}'", c.operand(0).str());
  return inferBits(c);
}

llvm::Expected<TypeList> inferBitcast(const InferContext &c) {
  const Type &x = c.operand(0);
  auto to = parseDType(c.attrs.getString("type"));
  if (!to || *to == DType::Bool || dtypeBytes(*to) != dtypeBytes(x.dtype))
    return c.error("expects a type of numbers of {0} bytes, as '{1}' has, got '{2}'",
                   dtypeBytes(x.dtype), x.str(), c.attrs.getString("type"));
  return TypeList{x.with(*to)};
}

OpDef bits(const char *name, const char *doc, const char *first) {
  OpDef row = compare(name, doc);
  row.infer = inferBits;
  row.examples = {row.name + "(" + first + "[2, 3], " + first + "[3])",
                  row.name + "(i64[2, 1], i64[3])"};
  row.inPlace = overEither();
  return row;
}

} // namespace

void registerBitOps(OpRegistry &r) {
  r.add(bits("and", "Logical and; bitwise for integers.", "bool"));
  r.add(bits("or", "Logical or; bitwise for integers.", "bool"));
  r.add(bits("xor", "Logical exclusive or; bitwise for integers.", "bool"));
  OpDef negation = compare("not", "Logical not; bitwise for integers.");
  negation.operands = std::string("a");
  negation.infer = inferBits;
  negation.inPlace = overFirst();
  negation.examples = {"not(bool[2, 3])", "not(u8[2, 3])"};
  r.add(std::move(negation));
  for (auto [name, doc] :
       {std::pair("shift_left",
                  "a with its bits shifted up by b places; zeros fill the low end. A negative b, "
                  "or one of at least the number of bits, shifts all bits out."),
        std::pair("shift_right",
                  "a with its bits shifted down by b places; copies of the sign fill the high end. "
                  "A negative b, or one of at least the number of bits, shifts all bits out.")}) {
    OpDef row = bits(name, doc, "u8");
    row.infer = inferShift;
    r.add(std::move(row));
  }
  r.add({{.name = "bitcast",
          .doc = "The bits read as another element type of the same size.",
          .operands = "x",
          .results = "y",
          .attrs = {{"type", AttrKind::String, {}, "the element type to read"}},
          .traits = kView,
          .infer = inferBitcast,
          .differentiable = Differentiable::ZeroGradient,
          .factors = [](const OpCall &c) { return allButFactors(c, {}); },
          .examples = {"bitcast(i64[2, 3]) {type = f64}", "bitcast(f32[2]) {type = i32}"}}});
}

} // namespace isthmus

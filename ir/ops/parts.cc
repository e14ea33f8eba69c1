// Parts of a tensor along one axis: a part where it lies, and a part written into its place. Both
// are for chunks (passes/chunk): a part of an outermost axis takes no bytes of its own, and a whole
// is put together in place. And a sum in f32 that becomes one of 16 bits where it lies.

#include "ir/factors.h"
#include "ir/ops/indexing.h"
#include "ir/ops/signs.h"
#include "ir/rank.h"
#include "llvm/ADT/STLExtras.h"

namespace isthmus {
namespace {

// --- part

// Kernels take operands that are aligned as storages are (target.h).
constexpr int64_t kAlignment = 64;

llvm::Expected<TypeList> inferPart(const InferContext &c) {
  const Type &x = c.operand(0);
  auto axis = c.axis(c.attrs.getInt("axis"), x.rank());
  if (!axis)
    return axis.takeError();
  for (int64_t i = 0; i < *axis; ++i)
    if (x.dims[i] != 1)
      return c.error("expects sizes of 1 before axis {0}, so that the part lies in one piece, got "
                     "'{1}'",
                     *axis, x.str());
  const int64_t start = c.attrs.getInt("start"), size = c.attrs.getInt("size");
  if (start < 0 || size < 0 || start > x.dims[*axis] || size > x.dims[*axis] - start)
    return c.error("expects a part of the {0} elements of axis {1} of '{2}', got {3} from {4} on",
                   x.dims[*axis], *axis, x.str(), size, start);
  if (x.dims[*axis] > 0 && x.bytes() / x.dims[*axis] * start % kAlignment != 0)
    return c.error("expects a part that begins at a multiple of {0} bytes of '{1}', got index {2} "
                   "of axis {3}",
                   kAlignment, x.str(), start, *axis);
  Type to = x;
  to.dims[*axis] = size;
  return TypeList{to};
}

int64_t axisOf(const OpCall &c) {
  return axisFromFront(c.attrs->getInt("axis"), c.results[0].rank());
}

int64_t offsetOfPart(const OpCall &c) {
  const Type &x = c.operands[0];
  const int64_t whole = x.dims[axisOf(c)];
  return whole == 0 ? 0 : x.bytes() / whole * c.attrs->getInt("start");
}

ValueList expandPart(ExpandContext &c) {
  const ValueId x = c.operands[0];
  const int64_t start = c.attrs.getInt("start");
  return {sliceAxis(c.b, x, axisFromFront(c.attrs.getInt("axis"), c.b.type(x).rank()), start,
                    start + c.attrs.getInt("size"))};
}

// --- write_part

llvm::Expected<TypeList> inferWritePart(const InferContext &c) {
  const Type &part = c.operand(0);
  auto axis = c.axis(c.attrs.getInt("axis"), part.rank());
  if (!axis)
    return axis.takeError();
  const int64_t start = c.attrs.getInt("start"), size = c.attrs.getInt("size");
  if (start < 0 || size < 0 || start > size || part.dims[*axis] > size - start)
    return c.error("expects a part that fits into {0} elements of axis {1} from {2} on, got '{3}'",
                   size, *axis, start, part.str());
  Type to = part;
  to.dims[*axis] = size;
  if (c.has(1) && c.operand(1) != to)
    return c.error("expects a whole of type '{0}', got '{1}'", to.str(), c.operand(1).str());
  return TypeList{to};
}

ValueList expandWritePart(ExpandContext &c) {
  const ValueId part = c.operands[0];
  const Type type = c.b.type(part);
  const int64_t axis = axisFromFront(c.attrs.getInt("axis"), type.rank()),
                start = c.attrs.getInt("start"), end = start + type.dims[axis],
                size = c.attrs.getInt("size");
  if (c.operands.size() == 1) {
    Ints low(type.dims.size(), 0), high = low;
    low[axis] = start;
    high[axis] = size - end;
    return {c.b.create("pad", {part}, {{"low", low}, {"high", high}})};
  }
  ValueList all;
  if (start > 0)
    all.push_back(sliceAxis(c.b, c.operands[1], axis, 0, start));
  all.push_back(part);
  if (end < size)
    all.push_back(sliceAxis(c.b, c.operands[1], axis, end, size));
  return {all.size() == 1 ? part : c.b.create("concat", all, {{"axis", axis}})};
}

// Reads and writes the part. A whole that is not written over is copied, but plans avoid that.
Cost costWritePart(const OpCall &c) {
  return {0, 2 * double(c.operands.size() > 1 ? c.operands[0].bytes() : c.results[0].bytes())};
}

// --- shorten

llvm::Expected<TypeList> inferShorten(const InferContext &c) {
  const Type &x = c.operand(0);
  const auto type = parseDType(c.attrs.getString("type"));
  if (x.dtype != DType::F32 || !type || !isFloat(*type) || dtypeBytes(*type) != 2)
    return c.error("expects f32, and the type bf16 or f16, got '{0}' and '{1}'", x.str(),
                   c.attrs.getString("type"));
  Type to(*type, x.dims);
  to.dims.insert(to.dims.begin(), 2);
  return TypeList{to};
}

ValueList expandShorten(ExpandContext &c) {
  Builder &b = c.b;
  Dims dims = b.type(c.operands[0]).dims;
  dims.insert(dims.begin(), 1);
  const ValueId y = b.cast(c.operands[0], *parseDType(c.attrs.getString("type")));
  return {
      b.create("write_part", {b.reshape(y, dims)}, {{"start", int64_t(0)}, {"size", int64_t(2)}})};
}

const AttrDef kAxis = {"axis", AttrKind::Int, int64_t(0),
                       "the axis; negative ones count from the end", AxisRole::Axis};

} // namespace

void registerPartOps(OpRegistry &r) {
  r.add(
      {{.name = "part",
        .doc =
            "The elements from `start` on along an axis, where they lie: the axes before it have "
            "size one, and the part begins at a multiple of 64 bytes.",
        .operands = "x",
        .results = "y",
        .attrs = {kAxis,
                  {"start", AttrKind::Int, {}, "the first index"},
                  {"size", AttrKind::Int, {}, "the number of indices"}},
        .traits = kView,
        .infer = inferPart,
        .expand = expandPart,
        .sign = signOfOperands,
        .viewOffset = offsetOfPart,
        .examples = {"part(f64[5, 32]) {start = 1, size = 3}", "part(f64[7]) {start = 0, size = 2}",
                     "part(f64[1, 4, 32]) {axis = 1, start = 3, size = 1}",
                     "part(f64[6, 32]) {axis = -2, start = 2, size = 0}"}},
       {.name = "write_part",
        .doc = "The whole with the part in place of its elements from `start` on along an axis. "
               "Without a whole, all other elements are zero.",
        .operands = "part whole?",
        .results = "y",
        .attrs = {kAxis,
                  {"start", AttrKind::Int, {}, "the first index"},
                  {"size", AttrKind::Int, {}, "the size of that axis of the whole"}},
        .infer = inferWritePart,
        .expand = expandWritePart,
        .cost = costWritePart,
        .inPlace = {{0, 1}},
        .factors = offAxisFactors,
        .examples = {"write_part(f64[2, 3]) {start = 1, size = 4}",
                     "write_part(f64[2, 3], f64[5, 3]) {start = 3, size = 5}",
                     "write_part(f64[3, 2, 2], f64[3, 4, 2]) {axis = 1, start = 0, size = 4}",
                     "write_part(f64[4, 1], f64[4, 6]) {axis = -1, start = 5, size = 6}",
                     "write_part(f64[0, 2], f64[2, 2]) {start = 1, size = 2}",
                     "write_part(f64[3]) {start = 0, size = 3}"}},
       {.name = "shorten",
        .doc =
            "x rounded to a 16-bit type, which may lie in the first half of x: the result has as "
            "many bytes. Its first part along axis 0 is x, its second part is zero.",
        .operands = "x",
        .results = "y",
        .attrs = {{"type", AttrKind::String, {}, "bf16 or f16"}},
        .infer = inferShorten,
        .expand = expandShorten,
        .inPlace = {{0, 0}},
        .examples = {"shorten(f32[2, 3]) {type = bf16}", "shorten(f32[]) {type = f16}",
                     "shorten(f32[0, 2]) {type = f16}", "shorten(f32[37, 1113]) {type = bf16}"}}});
}

} // namespace isthmus

// Gathers, scatters and orderings, as standard operators.

#include "ir/onnx/export/body.h"
#include "ir/rank.h"

namespace isthmus::onnx_export {
namespace {

using Names = std::vector<Name>;

int64_t axisOf(const RowWriter &w, const Type &x) {
  return axisFromFront(w.attrs.getInt("axis"), x.rank());
}

Name filled(const RowWriter &w, DType type, llvm::ArrayRef<int64_t> dims) {
  return w.b.emit("Expand", {w.b.number(type, 0), w.b.ints(dims)});
}

// 0, 1, 2, ... along one axis, of i64.
Name counting(const RowWriter &w, size_t rank, size_t axis, int64_t size) {
  Dims along(rank, 1);
  along[axis] = size;
  Name all = w.b.emit("Range", {w.b.integer(0), w.b.integer(size), w.b.integer(1)});
  return w.reshape(all, along);
}

// --- Whole slices along an axis

Names gather(const RowWriter &w) {
  return {w.b.emit("Gather", {w.x(0), w.x(1)}, {{"axis", w.attrs.getInt("axis")}})};
}

// Adds rows [before, indices, after] at their indices to zeros, or to the base operand, [size,
// before, after].
Names scatterRows(const RowWriter &w) {
  const Type &indices = w.type(0), &rows = w.type(1), &y = w.results[0];
  int64_t axis = axisOf(w, y), k = indices.rank();
  Ints perm = sequence(axis, axis + k), first{axis}, back;
  for (int64_t i = 0; i < rows.rank(); ++i)
    if (i < axis || i >= axis + k)
      perm.push_back(i);
  for (int64_t i = 0; i < y.rank(); ++i) {
    if (i != axis)
      first.push_back(i);
    back.push_back(i == axis ? 0 : i < axis ? i + 1 : i);
  }
  Dims zeros, one = indices.dims;
  for (int64_t i : first)
    zeros.push_back(y.dims[size_t(i)]);
  one.push_back(1);
  Name start = w.has(2) ? w.transpose(w.x(2), first) : filled(w, y.dtype, zeros);
  Name at = w.reshape(w.cast(w.x(0), indices.dtype, DType::I64), one);
  Name sum = w.b.emit("ScatterND", {start, at, w.transpose(w.x(1), perm)},
                      {{"reduction", std::string("add")}});
  return {w.transpose(sum, back)};
}

// --- Element by element

// `y` for the last element taken from each source, else zero. `number` is an element's position
// among those taken; `last` is the number of the last one from the same source.
Name whereLast(const RowWriter &w, const Name &last, const Name &number, const Name &y,
               llvm::ArrayRef<int64_t> dims) {
  return w.b.emit("Where", {w.reshape(w.b.emit("Equal", {last, number}), dims), y, w.number(0)});
}

Names gatherElements(const RowWriter &w) {
  const Dims &places = w.type(1).dims;
  int64_t axis = axisOf(w, w.type(0));
  Ints ends(places.begin(), places.end());
  ends[size_t(axis)] = w.type(0).dims[size_t(axis)];
  Name x = w.x(0);
  if (llvm::makeArrayRef(ends) != llvm::makeArrayRef(w.type(0).dims)) // evaluators need equal sizes
    x = w.slice(x, Ints(ends.size(), 0), ends, sequence(0, int64_t(ends.size())));
  auto taken = [&](const Name &from) {
    return w.b.emit("GatherElements", {from, w.x(1)}, {{"axis", axis}});
  };
  Name y = taken(x);
  if (!w.attrs.getBool("last_only"))
    return {y};
  Name number = w.b.emit(
      "Expand", {counting(w, places.size(), size_t(axis), places[size_t(axis)]), w.b.ints(places)});
  Name last = w.b.emit("ScatterElements", {filled(w, DType::I64, ends), w.x(1), number},
                       {{"axis", axis}, {"reduction", std::string("max")}});
  return {whereLast(w, taken(last), number, y, places)};
}

Names scatterElements(const RowWriter &w) {
  return {
      w.b.emit("ScatterElements", {w.x(0), w.x(1), w.x(2)},
               {{"axis", w.attrs.getInt("axis")}, {"reduction", w.attrs.getString("reduction")}})};
}

// --- Slices at tuples of indices

// Operand 1 in i64, with an index for each batch axis in front of its tuples.
Name wholeTuples(const RowWriter &w) {
  const Dims &dims = w.type(1).dims;
  Dims places = dims;
  places.back() = 1;
  Names parts;
  for (size_t i = 0; i < size_t(w.attrs.getInt("batch_dims")); ++i)
    parts.push_back(w.b.emit("Expand", {counting(w, dims.size(), i, dims[i]), w.b.ints(places)}));
  Name at = w.cast(w.x(1), w.dtype(1), DType::I64);
  if (parts.empty())
    return at;
  parts.push_back(at);
  return w.b.emit("Concat", parts, {{"axis", int64_t(-1)}});
}

Names gatherNd(const RowWriter &w) {
  Name at = w.cast(w.x(1), w.dtype(1), DType::I64);
  int64_t batch = w.attrs.getInt("batch_dims");
  Name y = w.b.emit("GatherND", {w.x(0), at}, {{"batch_dims", batch}});
  if (!w.attrs.getBool("last_only"))
    return {y};
  Dims places = w.type(1).dims;
  int64_t tuple = places.pop_back_val(), count = Type(DType::I64, places).elements(), slots = 1;
  Ints sizes(w.type(0).dims.begin(), w.type(0).dims.begin() + batch + tuple), steps(sizes.size());
  for (size_t i = sizes.size(); i-- > 0; slots *= sizes[i])
    steps[i] = slots;
  // Each tuple becomes one flat index. The remainder resolves negative indices.
  Name whole = w.b.emit("Mod", {wholeTuples(w), w.b.ints(sizes)});
  Name source = w.b.emit("ReduceSum", {w.b.emit("Mul", {whole, w.b.ints(steps)}), w.b.ints({-1})});
  source = w.reshape(source, {count});
  Name number = counting(w, 1, 0, count);
  Name last = w.b.emit("ScatterElements", {filled(w, DType::I64, {slots}), source, number},
                       {{"reduction", std::string("max")}});
  Dims dims = places; // broadcast over the slices
  dims.resize(size_t(w.results[0].rank()), 1);
  return {whereLast(w, w.b.emit("Gather", {last, source}), number, y, dims)};
}

Names scatterNd(const RowWriter &w) {
  return {w.b.emit("ScatterND", {w.x(0), wholeTuples(w), w.x(2)},
                   {{"reduction", w.attrs.getString("reduction")}})};
}

// --- By order

Names topK(const RowWriter &w) {
  DType in = w.dtype() == DType::BF16 ? DType::F32 : w.dtype(); // ONNX does not order bf16
  Names both = w.b.emitAll(
      "TopK", {w.cast(w.x(0), w.dtype(), in), w.b.ints({w.attrs.getInt("k")})}, 2,
      {{"axis", w.attrs.getInt("axis")}, {"largest", int64_t(w.attrs.getBool("largest"))}});
  return {w.cast(both[0], in, w.dtype()), both[1]};
}

constexpr ExportRow kRows[] = {
    {"gather", gather},
    {"scatter_rows", scatterRows},
    {"gather_elements", gatherElements},
    {"scatter_elements", scatterElements},
    {"gather_nd", gatherNd},
    {"scatter_nd", scatterNd},
    {"top_k", topK},
};

} // namespace

ExportRows indexingRows() { return kRows; }

} // namespace isthmus::onnx_export

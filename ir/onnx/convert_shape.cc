// Operators that reshape, reorder or repeat a tensor.

#include "ir/onnx/op_table.h"
#include "llvm/ADT/STLExtras.h"

namespace isthmus::onnx_import {
namespace {

// --- Reshape: 0 copies the operand's size (unless allowzero), one -1 takes the remaining elements

void reshape(NodeContext &n, Ints dims) {
  const Type &x = n.in(0).type;
  bool copyZeros = n.intAttr("allowzero", 0) == 0;
  if (n.failed())
    return;
  int64_t rest = -1;
  for (size_t i = 0; i < dims.size(); ++i) {
    if (dims[i] == 0 && copyZeros) {
      if (i >= x.dims.size())
        return n.fail("copies size {0} of '{1}', which has none", i, x.str());
      dims[i] = x.dims[i];
    } else if (dims[i] == -1) {
      if (rest >= 0)
        return n.fail("expects one -1 in the shape, got several");
      rest = int64_t(i);
    } else if (dims[i] < 0) {
      return n.fail("expects sizes of 0 or more, or -1, got {0}", dims[i]);
    }
  }
  if (rest >= 0) {
    Ints others = dims;
    others[size_t(rest)] = 1;
    Type left(x.dtype, others);
    if (!left.isValid() || left.elements() == 0 || x.elements() % left.elements() != 0)
      return n.fail("cannot reshape '{0}' to [{1}]", x.str(), attrText(dims));
    dims[size_t(rest)] = x.elements() / left.elements();
  }
  n.result(0, n.reshape(n.in(0), dims));
}

void convertReshape1(NodeContext &n) {
  n.ignoreAttrs({"consumed_inputs"});
  auto dims = n.intsAttr("shape");
  if (!dims)
    return n.fail("expects an attribute 'shape'");
  reshape(n, *dims);
}
void convertReshape(NodeContext &n) { reshape(n, n.ints(1)); }

// The operand as a matrix: the axes before `axis` are its rows, the others its columns.
void convertFlatten(NodeContext &n) {
  const Type &x = n.in(0).type;
  int64_t axis = n.intAttr("axis", 1);
  if (axis != x.rank())
    axis = n.axis(axis, x.rank());
  if (n.failed())
    return;
  int64_t rows = 1, columns = 1;
  for (int64_t i = 0; i < x.rank(); ++i)
    (i < axis ? rows : columns) *= x.dims[size_t(i)];
  n.result(0, n.reshape(n.in(0), {rows, columns}));
}

void convertSqueeze(NodeContext &n) {
  const Type &x = n.in(0).type;
  auto axes = n.axes(1, 13);
  llvm::SmallVector<bool, 8> drop(size_t(x.rank()), false);
  if (axes) {
    for (int64_t a : n.axesFromFront(*axes, x.rank())) {
      if (x.dims[size_t(a)] != 1)
        return n.fail("expects size 1 at axis {0} of '{1}'", a, x.str());
      drop[size_t(a)] = true;
    }
  } else {
    for (size_t i = 0; i < drop.size(); ++i)
      drop[i] = x.dims[i] == 1;
  }
  Ints dims;
  for (size_t i = 0; i < drop.size(); ++i)
    if (!drop[i])
      dims.push_back(x.dims[i]);
  n.result(0, n.reshape(n.in(0), dims));
}

void convertUnsqueeze(NodeContext &n) {
  auto axes = n.axes(1, 13);
  if (!axes)
    return n.fail("expects axes");
  Dims x = n.in(0).type.dims;
  int64_t rank = int64_t(x.size() + axes->size());
  // The axes only fit a vector: PyTorch treats a scalar as a vector here.
  if (x.empty() && llvm::any_of(*axes, [&](int64_t a) { return a == rank || a == -rank - 1; })) {
    x.push_back(1);
    ++rank;
  }
  if (rank > kMaxRank)
    return n.fail("would give a result of {0} dimensions; at most {1} are supported", rank,
                  kMaxRank);
  llvm::SmallVector<bool, 8> isNew(size_t(rank), false);
  for (int64_t a : n.axesFromFront(*axes, rank))
    isNew[size_t(a)] = true;
  if (n.failed())
    return;
  Ints dims;
  size_t from = 0;
  for (bool one : isNew)
    dims.push_back(one ? 1 : x[from++]);
  n.result(0, n.reshape(n.in(0), dims));
}

void convertTranspose(NodeContext &n) {
  auto perm = n.intsAttr("perm");
  int64_t rank = n.in(0).type.rank();
  if (!perm) { // reversed
    perm.emplace();
    for (int64_t i = rank - 1; i >= 0; --i)
      perm->push_back(i);
  }
  for (int64_t &axis : *perm) // exporters also count from the end
    axis += axis < 0 ? rank : 0;
  n.result(0, n.transpose(n.in(0), *perm));
}

// --- Repeating

// Sizes of 1 broadcast on either side, as in numpy: the requested shape may be the smaller one.
void convertExpand(NodeContext &n) {
  const Dims &x = n.in(0).type.dims;
  Ints dims = n.ints(1);
  if (n.failed())
    return;
  if (dims.size() < x.size())
    dims.insert(dims.begin(), x.size() - dims.size(), 1);
  size_t lead = dims.size() - x.size();
  for (size_t i = 0; i < x.size(); ++i)
    if (dims[lead + i] == 1)
      dims[lead + i] = x[i];
  n.result(0, n.broadcast(n.in(0), dims));
}

// Each axis becomes a pair: the repeats, and the repeated elements.
void convertTile(NodeContext &n) {
  const Type &x = n.in(0).type;
  Ints repeats = n.ints(1);
  if (n.failed())
    return;
  if (int64_t(repeats.size()) != x.rank())
    return n.fail("expects one repeat for each axis of '{0}', got {1}", x.str(), repeats.size());
  Ints pairs, repeated, dims;
  for (size_t i = 0; i < repeats.size(); ++i) {
    if (repeats[i] < 0)
      return n.fail("expects repeats of 0 or more, got {0}", repeats[i]);
    if (repeats[i] != 1) {
      pairs.push_back(1);
      repeated.push_back(repeats[i]);
    }
    pairs.push_back(x.dims[i]);
    repeated.push_back(x.dims[i]);
  }
  if (!Type(x.dtype, repeated).isValid())
    return n.fail("would give a result of over 2^60 bytes");
  for (size_t i = 0; i < repeats.size(); ++i)
    dims.push_back(repeats[i] * x.dims[i]);
  n.result(0, n.reshape(n.broadcast(n.reshape(n.in(0), pairs), repeated), dims));
}

// --- Between channels and space

void convertDepthToSpace(NodeContext &n) {
  const Type &x = n.in(0).type;
  int64_t b = n.intAttr("blocksize", 0);
  std::string mode = n.stringAttr("mode", "DCR");
  if (x.rank() != 4)
    return n.fail("expects an operand of rank 4, got '{0}'", x.str());
  int64_t batch = x.dims[0], c = x.dims[1], h = x.dims[2], w = x.dims[3];
  if (b < 1 || b > 65536 || c % (b * b) != 0)
    return n.fail("expects a block size whose square divides the {0} channels, got {1}", c, b);
  if (!Type(x.dtype, {batch, c, h, b, w, b}).isValid()) // only possible for an empty operand
    return n.fail("would give sizes over 2^60");
  bool blocksFirst = mode == "DCR";
  if (!blocksFirst && mode != "CRD")
    return n.fail("expects DCR or CRD as attribute 'mode', got '{0}'", mode);
  Ints split =
      blocksFirst ? Ints{batch, b, b, c / (b * b), h, w} : Ints{batch, c / (b * b), b, b, h, w};
  Ints perm = blocksFirst ? Ints{0, 3, 4, 1, 5, 2} : Ints{0, 1, 4, 2, 5, 3};
  n.result(0, n.reshape(n.transpose(n.reshape(n.in(0), split), perm),
                        {batch, c / (b * b), h * b, w * b}));
}

void convertSpaceToDepth(NodeContext &n) {
  const Type &x = n.in(0).type;
  int64_t b = n.intAttr("blocksize", 0);
  if (x.rank() != 4)
    return n.fail("expects an operand of rank 4, got '{0}'", x.str());
  int64_t batch = x.dims[0], c = x.dims[1], h = x.dims[2], w = x.dims[3];
  if (b < 1 || b > 65536 || h % b != 0 || w % b != 0)
    return n.fail("expects a block size that divides {0} x {1}, got {2}", h, w, b);
  if (!Type(x.dtype, {batch, c, b, b}).isValid())
    return n.fail("would give sizes over 2^60");
  Operand parts =
      n.transpose(n.reshape(n.in(0), {batch, c, h / b, b, w / b, b}), {0, 3, 5, 1, 2, 4});
  n.result(0, n.reshape(parts, {batch, c * b * b, h / b, w / b}));
}

constexpr OnnxOp kOps[] = {
    {"Reshape", 1, 1, 1, 1, convertReshape1},
    {"Reshape", 5, 2, 2, 1, convertReshape, kAllButFirst},
    {"Flatten", 1, 1, 1, 1, convertFlatten},
    alsoOnScalars({"Squeeze", 1, 1, 2, 1, convertSqueeze, kAllButFirst}),
    {"Unsqueeze", 1, 1, 2, 1, convertUnsqueeze, kAllButFirst},
    {"Transpose", 1, 1, 1, 1, convertTranspose},
    {"Expand", 8, 2, 2, 1, convertExpand, kAllButFirst},
    {"Tile", 6, 2, 2, 1, convertTile, kAllButFirst},
    {"DepthToSpace", 1, 1, 1, 1, convertDepthToSpace},
    {"SpaceToDepth", 1, 1, 1, 1, convertSpaceToDepth},
};

} // namespace

OpRows shapeOps() { return kOps; }

} // namespace isthmus::onnx_import

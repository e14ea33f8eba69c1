// Sequences and optional values: lists of operands, whose lengths are known at import.

#include "ir/onnx/op_table.h"

namespace isthmus::onnx_import {
namespace {

Operand listOf(std::vector<Operand> items, bool isOptional = false) {
  Operand o;
  o.list = std::make_shared<const List>(List{isOptional, std::move(items)});
  return o;
}

// Operand i as a sequence. Copies of sequences have a limit for the whole import, because a loop
// can make one in each iteration.
const std::vector<Operand> *sequence(NodeContext &n, size_t i) {
  const Operand &o = n.in(i);
  if (n.failed())
    return nullptr;
  if (!o.isList() || o.list->isOptional) {
    n.fail("expects a sequence in '{0}', got {1}", n.proto.input(int(i)),
           o.isList() ? "an optional value" : "a tensor");
    return nullptr;
  }
  if (!n.state.folding.look(64 * int64_t(o.list->items.size() + 1))) {
    n.fail("sequences are copied more often than a model of {0} bytes can be allowed",
           n.state.model.fileBytes);
    return nullptr;
  }
  return &o.list->items;
}

// Operand i, a tensor.
const Operand &tensor(NodeContext &n, size_t i) {
  const Operand &o = n.in(i);
  if (o.isList())
    n.fail("expects a tensor in '{0}', got a list", n.proto.input(int(i)));
  return o;
}

// Operand i, a position in a list of `size`: counted from the front, below `end`.
size_t place(NodeContext &n, size_t i, size_t size, size_t end) {
  Ints at = n.ints(i);
  if (!n.failed() && at.size() != 1)
    n.fail("expects one position, got {0}", at.size());
  if (n.failed())
    return 0;
  int64_t limit = int64_t(size), p = at[0] < 0 ? at[0] + limit : at[0];
  if (at[0] < -limit || p >= int64_t(end)) {
    n.fail("expects a position in [{0}, {1}) of a sequence of {2}, got {3}", -limit, end, size,
           at[0]);
    return 0;
  }
  return size_t(p);
}

// --- Construction and access

void convertConstruct(NodeContext &n) {
  std::vector<Operand> items;
  for (size_t i = 0; i < n.numInputs(); ++i)
    items.push_back(n.in(i));
  n.result(0, listOf(std::move(items)));
}

void convertEmpty(NodeContext &n) {
  n.ignoreAttrs({"dtype"});
  n.result(0, listOf({}));
}

void convertInsert(NodeContext &n) {
  auto *items = sequence(n, 0);
  tensor(n, 1);
  if (n.failed())
    return;
  size_t at = n.has(2) ? place(n, 2, items->size(), items->size() + 1) : items->size();
  if (n.failed())
    return;
  std::vector<Operand> more = *items;
  more.insert(more.begin() + at, n.in(1));
  n.result(0, listOf(std::move(more)));
}

void convertErase(NodeContext &n) {
  auto *items = sequence(n, 0);
  if (n.failed())
    return;
  if (items->empty())
    return n.fail("expects a sequence that is not empty");
  size_t at = n.has(1) ? place(n, 1, items->size(), items->size()) : items->size() - 1;
  if (n.failed())
    return;
  std::vector<Operand> less = *items;
  less.erase(less.begin() + at);
  n.result(0, listOf(std::move(less)));
}

void convertAt(NodeContext &n) {
  auto *items = sequence(n, 0);
  if (n.failed())
    return;
  size_t at = place(n, 1, items->size(), items->size());
  if (!n.failed())
    n.result(0, (*items)[at]);
}

void convertLength(NodeContext &n) {
  auto *items = sequence(n, 0);
  if (!n.failed())
    n.result(0, n.scalarConstant(DType::I64, double(items->size())));
}

// --- Between tensors and sequences

// Part sizes are a list, or one size for all parts (the last may be smaller). Without them the
// parts have size one, and may drop their axis.
void convertSplitToSequence(NodeContext &n) {
  const Type &x = tensor(n, 0).type;
  int64_t axis = n.axis(n.intAttr("axis", 0), x.rank());
  bool keepDims = n.intAttr("keepdims", 1) != 0 || n.has(1);
  if (n.failed())
    return;
  int64_t size = x.dims[size_t(axis)];
  Ints sizes;
  if (n.has(1) && n.in(1).type.rank() > 0) {
    sizes = n.ints(1);
  } else {
    int64_t each = n.has(1) ? n.integer(1) : 1;
    if (n.failed())
      return;
    if (each < 1 || size / each > 4096)
      return n.fail("expects parts of 1 or more, and at most 4096 of them, got {0} of {1}", each,
                    size);
    for (int64_t left = size; left > 0; left -= each)
      sizes.push_back(std::min(left, each));
  }
  if (n.failed())
    return;
  if (sizes.empty())
    return n.result(0, listOf({}));
  auto parts = n.emitAll("split", {n.in(0)}, {{"axis", axis}, {"sizes", sizes}});
  if (n.failed())
    return;
  std::vector<Operand> items;
  Ints dims(x.dims.begin(), x.dims.end());
  dims.erase(dims.begin() + axis);
  for (Operand &part : parts)
    items.push_back(keepDims ? part : n.reshape(part, dims));
  n.result(0, listOf(std::move(items)));
}

void convertConcatFromSequence(NodeContext &n) {
  auto *items = sequence(n, 0);
  bool newAxis = n.intAttr("new_axis", 0) != 0;
  if (!n.hasAttr("axis"))
    n.fail("expects an attribute 'axis'");
  if (!n.failed() && items->empty())
    n.fail("expects a sequence that is not empty");
  if (n.failed())
    return;
  int64_t axis = n.axis(n.intAttr("axis", 0), (*items)[0].type.rank() + newAxis);
  OperandList parts;
  for (const Operand &o : *items) {
    if (o.isList())
      return n.fail("expects a sequence of tensors");
    Ints dims(o.type.dims.begin(), o.type.dims.end());
    if (n.failed() || axis > int64_t(dims.size()))
      return n.fail("expects tensors of one rank, got '{0}' and '{1}'", (*items)[0].type.str(),
                    o.type.str());
    if (newAxis)
      dims.insert(dims.begin() + axis, 1);
    parts.push_back(n.reshape(o, dims));
  }
  n.result(0, parts.size() == 1 ? parts[0] : n.emit("concat", parts, {{"axis", axis}}));
}

// Applies the body to the elements of each sequence. Tensor operands are passed to every call.
void convertMap(NodeContext &n) {
  const onnx::GraphProto *body = n.graphAttr("body");
  auto *first = sequence(n, 0);
  if (n.failed())
    return;
  std::vector<std::vector<Operand>> out(size_t(body->output_size()));
  for (size_t at = 0; at < first->size(); ++at) {
    OperandList in;
    for (size_t i = 0; i < n.numInputs(); ++i) {
      const Operand &o = n.in(i);
      if (o.isList() && o.list->items.size() != first->size())
        n.fail("expects sequences of one length, got {0} and {1}", first->size(),
               o.list->items.size());
      if (n.failed())
        return;
      in.push_back(o.isList() ? o.list->items[at] : o);
    }
    std::string number = std::to_string(at);
    auto results = n.translate(*body, in, "turn " + number, number + ".");
    if (!results)
      return;
    for (size_t i = 0; i < out.size(); ++i)
      out[i].push_back((*results)[i]);
  }
  if (out.size() < n.numOutputs())
    return n.fail("expects at most {0} results, got {1}", out.size(), n.numOutputs());
  for (size_t i = 0; i < n.numOutputs(); ++i)
    n.result(i, listOf(std::move(out[i])));
}

// --- Optional values

void convertOptional(NodeContext &n) {
  n.ignoreAttrs({"type"});
  std::vector<Operand> items;
  if (n.has(0))
    items.push_back(n.in(0));
  n.result(0, listOf(std::move(items), /*isOptional=*/true));
}

bool isOptional(const Operand &o) { return o.isList() && o.list->isOptional; }

void convertGetElement(NodeContext &n) {
  const Operand &o = n.in(0);
  if (!isOptional(o))
    return n.result(0, o);
  if (o.list->items.empty())
    return n.fail("expects an optional value that is present");
  n.result(0, o.list->items[0]);
}

void convertHasElement(NodeContext &n) {
  bool has = n.has(0) && !(isOptional(n.in(0)) && n.in(0).list->items.empty());
  n.result(0, n.scalarConstant(DType::Bool, has));
}

constexpr OnnxOp row(llvm::StringRef name, int64_t since, size_t minInputs, size_t maxInputs,
                     void (*convert)(NodeContext &), uint32_t notLearned = kAllButFirst,
                     size_t maxOutputs = 1) {
  return {name,    since,      minInputs, maxInputs,          maxOutputs,
          convert, notLearned, {},        /*takesLists=*/true};
}

constexpr OnnxOp kOps[] = {
    row("SequenceConstruct", 11, 1, kAnyNumber, convertConstruct, 0),
    row("SequenceEmpty", 11, 0, 0, convertEmpty),
    row("SequenceInsert", 11, 2, 3, convertInsert, ~3u),
    row("SequenceErase", 11, 1, 2, convertErase),
    row("SequenceAt", 11, 2, 2, convertAt),
    row("SequenceLength", 11, 1, 1, convertLength, kAllOperands),
    row("SplitToSequence", 11, 1, 2, convertSplitToSequence),
    row("ConcatFromSequence", 11, 1, 1, convertConcatFromSequence),
    row("SequenceMap", 17, 1, kAnyNumber, convertMap, 0, kAnyNumber),
    row("Optional", 15, 0, 1, convertOptional, 0),
    row("OptionalGetElement", 15, 1, 1, convertGetElement, 0),
    row("OptionalHasElement", 15, 0, 1, convertHasElement, kAllOperands),
};

} // namespace

OpRows sequenceOps() { return kOps; }

} // namespace isthmus::onnx_import

// Branches and loops. Conditions and numbers of iterations must be known at import: the branch
// taken, and each iteration of a loop, are translated in place.

#include "ir/onnx/op_table.h"

namespace isthmus::onnx_import {
namespace {

// A single bool, known at import.
std::optional<bool> condition(NodeContext &n, const Operand &o, llvm::StringRef name) {
  const Tensor *t = n.known(o, name);
  if (!t || n.failed())
    return std::nullopt;
  if (t->type.dtype != DType::Bool || t->type.elements() != 1) {
    n.fail("expects one bool in '{0}', got '{1}'", name, t->type.str());
    return std::nullopt;
  }
  return elementAsInt(*t, 0) != 0;
}

void results(NodeContext &n, llvm::ArrayRef<Operand> all) {
  if (!n.failed() && all.size() < n.numOutputs())
    return n.fail("expects at most {0} results, got {1}", all.size(), n.numOutputs());
  for (size_t i = 0; i < n.numOutputs() && !n.failed(); ++i)
    n.result(i, all[i]);
}

void convertIf(NodeContext &n) {
  auto taken = condition(n, n.in(0), n.proto.input(0));
  const onnx::GraphProto *yes = n.graphAttr("then_branch"), *no = n.graphAttr("else_branch");
  if (n.failed())
    return;
  auto all = n.translate(*taken ? *yes : *no, {}, *taken ? "then_branch" : "else_branch");
  if (all)
    results(n, *all);
}

// --- Loops: the results of the iterations are concatenated along an axis

// The result of one iteration, with a new axis of size 1.
Operand withAxis(NodeContext &n, const Operand &o, int64_t axis) {
  Ints dims(o.type.dims.begin(), o.type.dims.end());
  axis = n.axis(axis, int64_t(dims.size()) + 1);
  if (n.failed())
    return {};
  dims.insert(dims.begin() + axis, 1);
  return n.reshape(o, dims);
}

// An empty tensor, of the type that the graph declares for the result, for a loop without
// iterations.
Operand noTurns(NodeContext &n, const onnx::ValueInfoProto &declared, int64_t axis) {
  const onnx::TypeProto::Tensor &t = declared.type().tensor_type();
  auto dtype = elementType(t.elem_type());
  Ints dims;
  bool isKnown = bool(dtype) && t.has_shape();
  for (const auto &d : t.shape().dim()) {
    isKnown &= d.has_dim_value() && d.dim_value() >= 0;
    dims.push_back(d.dim_value());
  }
  if (!isKnown) {
    if (!dtype)
      llvm::consumeError(dtype.takeError());
    n.fail("runs no iteration, and the type of '{0}' in its graph is open", declared.name());
    return {};
  }
  axis = n.axis(axis, int64_t(dims.size()) + 1);
  if (n.failed())
    return {};
  dims.insert(dims.begin() + axis, 0);
  return n.full(Type(*dtype, dims), 0);
}

Operand joined(NodeContext &n, llvm::ArrayRef<Operand> turns, int64_t axis,
               const onnx::ValueInfoProto &declared) {
  if (turns.empty())
    return noTurns(n, declared, axis);
  OperandList parts;
  for (const Operand &o : turns) {
    if (o.isList())
      n.fail("expects tensors from each iteration, got a list in '{0}'", declared.name());
    if (n.failed())
      return {};
    parts.push_back(withAxis(n, o, axis));
  }
  if (n.failed() || parts.size() == 1)
    return parts[0];
  axis = n.axis(axis, turns[0].type.rank() + 1);
  return n.emit("concat", parts, {{"axis", axis}});
}

// Operands: the number of iterations, the first condition, and the values carried from iteration to
// iteration. The first two may be left out.
void convertLoop(NodeContext &n) {
  const onnx::GraphProto *body = n.graphAttr("body");
  int64_t most = INT64_MAX;
  bool go = true;
  if (n.has(0)) {
    Ints turns = n.ints(0);
    if (!n.failed() && turns.size() != 1)
      n.fail("expects one number of iterations, got {0}", turns.size());
    if (!n.failed())
      most = turns[0];
  }
  if (n.has(1))
    go = condition(n, n.in(1), n.proto.input(1)).value_or(false);
  if (n.failed())
    return;
  OperandList carried;
  for (size_t i = 2; i < n.numInputs(); ++i)
    carried.push_back(n.any(i));
  const size_t states = carried.size(), kept = 1 + states;
  const size_t given = size_t(body->output_size());
  if (given < kept)
    return n.fail("expects {0} results of its body, got {1}", kept, given);
  std::vector<OperandList> scanned(given - kept);
  for (int64_t turn = 0; turn < most && go; ++turn) {
    OperandList in{n.scalarConstant(DType::I64, double(turn)), n.scalarConstant(DType::Bool, 1)};
    in.append(carried.begin(), carried.end());
    std::string number = std::to_string(turn);
    auto out = n.translate(*body, in, "turn " + number, number + ".");
    if (!out)
      return;
    // The condition after the last of a known number of iterations does not matter.
    if (turn + 1 < most)
      go = condition(n, (*out)[0], body->output(0).name()).value_or(false);
    if (n.failed())
      return;
    for (size_t i = 0; i < carried.size(); ++i)
      carried[i] = (*out)[1 + i];
    for (size_t i = 0; i < scanned.size(); ++i)
      scanned[i].push_back((*out)[kept + i]);
  }
  for (size_t i = 0; i < scanned.size() && !n.failed(); ++i)
    if (n.wants(states + i))
      carried.push_back(joined(n, scanned[i], 0, body->output(int(kept + i))));
    else
      carried.push_back({});
  results(n, carried);
}

// Scan: a loop over slices of its operands.
struct Scan {
  const onnx::GraphProto *body;
  size_t states, inputs;
  Ints axes, directions, outAxes, outDirections; // of inputs; of results after the states

  // A list that is left out has zeros.
  Scan(NodeContext &n, size_t operands, bool hasAxes) : body(n.graphAttr("body")) {
    int64_t count = n.intAttr("num_scan_inputs", 0);
    if (!n.failed() && (count < 1 || count > int64_t(operands)))
      n.fail("expects 'num_scan_inputs' in [1, {0}], got {1}", operands, count);
    if (n.failed())
      return;
    inputs = size_t(count);
    states = operands - inputs;
    if (size_t(body->output_size()) < states) {
      n.fail("expects {0} or more results of its body, got {1}", states, body->output_size());
      return;
    }
    size_t results = size_t(body->output_size()) - states;
    auto list = [&](const char *name, size_t size) {
      Ints v = n.intsAttr(name).value_or(Ints(size, 0));
      if (v.size() != size)
        n.fail("expects {0} entries in attribute '{1}', got {2}", size, name, v.size());
      v.resize(size);
      return v;
    };
    axes = hasAxes ? list("scan_input_axes", inputs) : Ints(inputs, 0);
    directions = list(hasAxes ? "scan_input_directions" : "directions", inputs);
    outAxes = hasAxes ? list("scan_output_axes", results) : Ints(results, 0);
    outDirections = hasAxes ? list("scan_output_directions", results) : Ints(results, 0);
  }
};

// Element `at` of `x` along an axis, without that axis.
Operand elementOf(NodeContext &n, const Operand &x, int64_t axis, int64_t at) {
  size_t rank = size_t(x.type.rank());
  Ints from(rank, 0), to(x.type.dims.begin(), x.type.dims.end());
  from[size_t(axis)] = at;
  to[size_t(axis)] = at + 1;
  Ints dims(x.type.dims.begin(), x.type.dims.end());
  dims.erase(dims.begin() + axis);
  Operand part = n.emit("slice", {x}, {{"starts", from}, {"limits", to}, {"steps", Ints(rank, 1)}});
  return n.reshape(part, dims);
}

// The final states and the concatenated results of one sequence.
std::optional<OperandList> scan(NodeContext &n, const Scan &s, llvm::ArrayRef<Operand> operands,
                                const std::string &prefix) {
  OperandList states(operands.begin(), operands.begin() + s.states);
  llvm::ArrayRef<Operand> xs = operands.drop_front(s.states);
  Ints axes = s.axes;
  int64_t length = -1;
  for (size_t i = 0; i < xs.size(); ++i) {
    axes[i] = n.axis(axes[i], xs[i].type.rank());
    if (n.failed())
      return std::nullopt;
    int64_t size = xs[i].type.dims[size_t(axes[i])];
    if (length >= 0 && size != length)
      n.fail("expects operands of one length, got {0} and {1}", length, size);
    length = size;
  }
  std::vector<OperandList> joinedLater(s.outAxes.size());
  for (int64_t turn = 0; turn < length && !n.failed(); ++turn) {
    OperandList in = states;
    for (size_t i = 0; i < xs.size(); ++i)
      in.push_back(elementOf(n, xs[i], axes[i], s.directions[i] ? length - 1 - turn : turn));
    std::string number = prefix + std::to_string(turn);
    auto out = n.translate(*s.body, in, "turn " + number, number + ".");
    if (!out)
      return std::nullopt;
    std::copy_n(out->begin(), s.states, states.begin());
    for (size_t i = 0; i < joinedLater.size(); ++i)
      joinedLater[i].push_back((*out)[s.states + i]);
  }
  for (size_t i = 0; i < joinedLater.size() && !n.failed(); ++i) {
    OperandList &turns = joinedLater[i];
    if (s.outDirections[i])
      std::reverse(turns.begin(), turns.end());
    states.push_back(joined(n, turns, s.outAxes[i], s.body->output(int(s.states + i))));
  }
  if (n.failed())
    return std::nullopt;
  return states;
}

void convertScan(NodeContext &n) {
  Scan s(n, n.numInputs(), /*hasAxes=*/true);
  OperandList operands;
  for (size_t i = 0; i < n.numInputs(); ++i)
    operands.push_back(n.in(i));
  if (n.failed())
    return;
  if (auto all = scan(n, s, operands, ""))
    results(n, *all);
}

// In opset 8 all operands have a leading batch axis, and each batch element is scanned separately.
// The first operand, lengths, may be left out.
void convertScan8(NodeContext &n) {
  if (n.has(0))
    return n.fail("lengths of sequences (operand 0) are not supported");
  size_t count = n.numInputs() - 1;
  Scan s(n, count, /*hasAxes=*/false);
  int64_t batch = -1;
  for (size_t i = 1; i <= count && !n.failed(); ++i) {
    const Type &t = n.in(i).type;
    if (n.failed())
      return;
    if (t.rank() < 1 || (batch >= 0 && t.dims[0] != batch))
      return n.fail("expects operands that begin with one batch, got '{0}'", t.str());
    batch = t.dims[0];
  }
  if (!n.failed() && batch < 1)
    return n.fail("expects a batch of 1 or more");
  std::vector<OperandList> parts;
  for (int64_t b = 0; b < batch && !n.failed(); ++b) {
    OperandList operands;
    for (size_t i = 1; i <= count; ++i)
      operands.push_back(elementOf(n, n.in(i), 0, b));
    if (n.failed())
      return;
    auto all = scan(n, s, operands, std::to_string(b) + ".");
    if (!all)
      return;
    parts.resize(all->size());
    for (size_t i = 0; i < all->size(); ++i)
      parts[i].push_back((*all)[i]);
  }
  OperandList all;
  for (size_t i = 0; i < parts.size() && !n.failed(); ++i)
    all.push_back(joined(n, parts[i], 0, s.body->output(int(i))));
  results(n, all);
}

constexpr OnnxOp control(llvm::StringRef name, int64_t since, size_t minInputs, size_t maxInputs,
                         void (*convert)(NodeContext &), uint32_t notLearned) {
  return {name,    since,      minInputs, maxInputs,           kAnyNumber,
          convert, notLearned, {},        /*takesLists=*/true, /*mayLeaveOut=*/true};
}

constexpr OnnxOp kOps[] = {
    control("If", 1, 1, 1, convertIf, kAllOperands),
    control("Loop", 1, 0, kAnyNumber, convertLoop, 3),
    {"Scan", 8, 0, kAnyNumber, kAnyNumber, convertScan8, 1, {}, false, /*mayLeaveOut=*/true},
    {"Scan", 9, 1, kAnyNumber, kAnyNumber, convertScan},
};

} // namespace

OpRows controlOps() { return kOps; }

} // namespace isthmus::onnx_import

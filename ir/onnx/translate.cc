#include "ir/onnx/translate.h"

#include "ir/onnx/rows.h"

namespace isthmus::onnx_import {
namespace {

constexpr int kDeepest = 100; // nesting of functions, branches and loops

// The translation of a node: by a row of the table, or by a function of the model. A known operator
// takes precedence over a function of that name.
struct Meaning {
  const OnnxOp *op = nullptr;
  const OpDef *row = nullptr;
  const onnx::FunctionProto *function = nullptr;
  explicit operator bool() const { return op || row || function; }
};

Meaning meaningOf(const onnx::NodeProto &n, const Scope &scope) {
  if (const OnnxOp *op = findOp(opName(n), scope.opset))
    return {op, nullptr, nullptr};
  if (n.domain() == onnx_rows::kDomain)
    if (const OpDef *row = onnx_rows::rowOf(n.op_type()))
      return {nullptr, row, nullptr};
  return {nullptr, nullptr, scope.model.functionOf(n)};
}

std::vector<llvm::StringRef> outputNames(const onnx::FunctionProto &f) {
  return {f.output().begin(), f.output().end()};
}
std::vector<llvm::StringRef> outputNames(const onnx::GraphProto &g) {
  std::vector<llvm::StringRef> names;
  for (const onnx::ValueInfoProto &v : g.output())
    names.push_back(v.name());
  return names;
}

} // namespace

std::vector<bool> liveNodes(const Model &m, const NodeList &nodes,
                            llvm::ArrayRef<llvm::StringRef> wanted, llvm::StringSet<> &read) {
  read.insert(wanted.begin(), wanted.end());
  std::vector<bool> live(size_t(nodes.size()), false);
  for (int i = nodes.size() - 1; i >= 0; --i) {
    const onnx::NodeProto &n = nodes[i];
    for (const std::string &out : n.output())
      if (!out.empty() && read.count(out))
        live[size_t(i)] = true;
    if (!live[size_t(i)])
      continue;
    for (const std::string &in : n.input())
      read.insert(in);
    for (llvm::StringRef name : m.readsOutside(n))
      read.insert(name);
  }
  return live;
}

// --- Operators that are not supported

void OperatorCheck::look(Scope &scope, const NodeList &nodes, const std::vector<bool> &live) {
  if (looked_.insert(&nodes).second)
    lookInto(scope, nodes, live);
}

// Advice for an operator that this program does in another way.
const char *insteadOf(const onnx::NodeProto &n) {
  const bool isGradient = n.op_type() == "Gradient" && n.domain() == "ai.onnx.preview.training";
  return isGradient ? "; leave it out of the model, and `isthmus grad MODEL --ys=... --xs=...` adds "
                      "the gradients"
                    : "";
}

// Reports all unsupported operators before the first node is translated, including those in bodies,
// which might not be entered after an error. Branches may not be taken, so they are checked when
// they are.
void OperatorCheck::lookInto(Scope &scope, const NodeList &nodes, const std::vector<bool> &live) {
  auto enter = [&](Scope inner, const auto &body) {
    llvm::StringSet<> read;
    lookInto(inner, body.node(), liveNodes(model_, body.node(), outputNames(body), read));
  };
  auto isNew = [&](const auto &body) {
    return scope.depth < kDeepest && looked_.insert(&body.node()).second;
  };
  for (int i = 0; i < nodes.size(); ++i) {
    const onnx::NodeProto &n = nodes[i];
    if (!live[size_t(i)])
      continue;
    Meaning meaning = meaningOf(n, scope);
    if (const onnx::FunctionProto *f = meaning.function; f && isNew(*f))
      enter(Scope(scope, n, i, *f), *f);
    if (meaning.op && n.op_type() != "If")
      for (const onnx::GraphProto *body : graphsIn(n))
        if (isNew(*body))
          enter(Scope(scope, n, i, "the body", ""), *body);
    if (meaning)
      continue;
    if (isDefaultDomain(n.domain()))
      problems_.add(scope.where(n, i), n.op_type(),
                    "operator '" + n.op_type() + "' of opset " + std::to_string(scope.opset) +
                        " is not supported" + (problems_.full() ? "" : nearOps(n.op_type())));
    else
      problems_.add(scope.where(n, i), n.op_type(),
                    "operator '" + n.op_type() + "' of domain '" + n.domain() +
                        "' is not supported, and the model has no function of that name" +
                        insteadOf(n));
  }
}

llvm::Error unsupportedOperators(const Model &m) {
  Graph g; // for the scope's names only
  ValueTable values(g);
  Scope scope(m, values);
  Problems problems;
  llvm::StringSet<> read;
  const NodeList &nodes = m.graph().node();
  OperatorCheck(m, problems).look(scope, nodes, liveNodes(m, nodes, outputNames(m.graph()), read));
  return problems.take();
}

// --- Lists of nodes

void Translator::translate(Scope &scope, const NodeList &nodes,
                           llvm::ArrayRef<llvm::StringRef> wanted) {
  llvm::StringSet<> read;
  std::vector<bool> live = liveNodes(s_.model, nodes, wanted, read);
  operators_.look(scope, nodes, live);
  for (int i = 0; i < nodes.size(); ++i) {
    // A separated copy of an initializer, which an Identity gives, is already defined.
    bool done = nodes[i].output_size() == 1 && scope.depth == 0 && scope.find(nodes[i].output(0));
    if (live[size_t(i)] && !done)
      convertNode(scope, nodes[i], i);
  }
}

// --- One node

void Translator::convertNode(Scope &scope, const onnx::NodeProto &proto, int index) {
  auto forget = [&](const std::string &why) {
    for (const std::string &out : proto.output())
      if (!out.empty())
        scope.defineMissing(out, why);
  };
  // The consequences of an earlier error are not reported.
  for (const std::string &in : proto.input())
    if (!in.empty() && !scope.find(in)) {
      if (!scope.whyMissing(in).empty())
        s_.problems.add(scope.where(proto, index), proto.op_type(), scope.whyMissing(in).str());
      return forget("");
    }
  Meaning meaning = meaningOf(proto, scope);
  if (!meaning)
    return forget("");

  NodeContext n(s_, scope, proto, index);
  if (meaning.op)
    convert(n, *meaning.op);
  else if (meaning.row)
    convertRow(n, *meaning.row);
  else
    call(n, *meaning.function);
  if (!n.failed() && meaning.op)
    n.checkAllRead();
  if (n.failed()) {
    if (!n.error().empty())
      s_.problems.add(scope.where(proto, index), proto.op_type(), n.error());
    return forget("");
  }
  for (size_t i = 0; i < n.numOutputs(); ++i) {
    const std::string &out = proto.output(int(i));
    if (n.wants(i) && !scope.find(out))
      scope.defineMissing(out, "reads '" + out + "', result " + std::to_string(i) +
                                   " of an operator '" + proto.op_type() +
                                   "', which is not supported");
    else if (n.wants(i) && s_.checkDeclared && scope.depth == 0)
      s_.checkDeclared(out, *scope.find(out), index);
  }
}

void Translator::convert(NodeContext &n, const OnnxOp &op) {
  size_t given = n.numInputs();
  if (given > op.maxInputs)
    n.fail("expects at most {0} operands, got {1}", op.maxInputs, given);
  if (n.numOutputs() > op.maxOutputs)
    n.fail("expects at most {0} results, got {1}", op.maxOutputs, n.numOutputs());
  if (!op.takesLists)
    n.expectTensors();
  // With any number of operands, none may be left out unless the row allows it.
  for (size_t i = 0;
       i < std::max(op.minInputs, op.maxInputs == kAnyNumber && !op.mayLeaveOut ? given : 0); ++i)
    n.in(i);
  if (n.failed())
    return;
  if (op.scalarsAsVectors)
    n.takeScalarsAsVectors(op.scalarsAsVectors, op.resultsLike);
  if (op.convert)
    return op.convert(n);
  llvm::SmallVector<Operand, 2> all;
  for (size_t i = 0; i < given; ++i)
    all.push_back(n.in(i));
  n.result(0, n.emit(op.row, all));
}

// The row's operands may be followed by nodes that it must run after.
void Translator::convertRow(NodeContext &n, const OpDef &row) {
  using namespace onnx_rows;
  n.expectTensors();
  unsigned after = 0;
  getMeta(n.proto.metadata_props(), kAfter).getAsInteger(10, after);
  if (after > n.numInputs())
    n.fail("expects {0} nodes to run after, and has {1} operands", after, n.numInputs());
  auto attrs = readAttrs(row, n.proto);
  if (!attrs)
    return llvm::handleAllErrors(
        attrs.takeError(), [&](const DiagError &e) { n.fail("{0}", e.diags.front().message); });
  OperandList operands;
  for (size_t i = 0; i + after < n.numInputs(); ++i)
    operands.push_back(n.in(i));
  Phase phase = Phase::Forward;
  for (Phase p : {Phase::Backward, Phase::Update})
    if (phaseName(p) == getMeta(n.proto.metadata_props(), kPhase))
      phase = p;
  auto results = n.emitAll(row.name, operands, std::move(*attrs), phase);
  for (size_t i = 0; i < n.numOutputs() && !n.failed(); ++i) {
    if (i >= results.size())
      return n.fail("expects at most {0} results, got {1}", results.size(), n.numOutputs());
    n.result(i, results[i]);
  }
}

// --- Bodies

void Translator::enter(NodeContext &n, const NodeList &nodes) {
  if (n.failed())
    return;
  if (n.scope.depth >= kDeepest)
    return n.fail(
        "functions, branches and loops within each other more than {0} deep are not supported",
        kDeepest);
  if (nodesLeft_ < 0)
    return n.failQuietly(); // reported once; every later body would fail too
  nodesLeft_ -= 1 + nodes.size();
  for (const onnx::NodeProto &node : nodes)
    nodesLeft_ -= int64_t(s_.model.readsOutside(node).size());
  if (nodesLeft_ < 0)
    n.fail("functions and loops expand to more nodes than a file of {0} bytes is allowed",
           s_.model.fileBytes);
}

void Translator::call(NodeContext &n, const onnx::FunctionProto &f) {
  if (n.numInputs() > size_t(f.input_size()))
    n.fail("expects at most {0} operands, got {1}", f.input_size(), n.numInputs());
  if (n.numOutputs() > size_t(f.output_size()))
    n.fail("expects at most {0} results, got {1}", f.output_size(), n.numOutputs());
  if (n.scope.isInside(f))
    n.fail("function '{0}' calls itself, directly or through others", f.name());
  enter(n, f.node());
  if (n.failed())
    return;
  Scope inner(n.scope, n.proto, n.index, f);
  for (int i = 0; i < f.input_size(); ++i)
    inner.define(f.input(i), n.any(size_t(i)));
  std::vector<llvm::StringRef> wanted;
  for (size_t i = 0; i < n.numOutputs(); ++i)
    if (n.wants(i))
      wanted.push_back(f.output(int(i)));
  translate(inner, f.node(), wanted);
  for (size_t i = 0; i < n.numOutputs(); ++i) {
    if (!n.wants(i))
      continue;
    const Operand *o = inner.find(f.output(int(i)));
    if (!o)
      n.failQuietly(inner.whyMissing(f.output(int(i))));
    else if (!o->isValid())
      n.fail("function '{0}' gives its input '{1}' back, which the call leaves out", f.name(),
             f.output(int(i)));
    else
      n.result(i, *o);
  }
}

const Operand &Translator::initializerOf(const onnx::GraphProto &body, const onnx::TensorProto &t) {
  auto [it, isNew] = initializers_.try_emplace(&t);
  if (!isNew)
    return it->second;
  onnx::TensorProto copy = t;
  auto data = decodeTensor(copy, s_.files);
  if (data && s_.isLearned(&t))
    it->second = s_.learnedTensor(&t, s_.values.freshName(t.name()), *data);
  else if (data)
    it->second = s_.values.constant(std::move(*data), s_.values.freshName(t.name()));
  else
    s_.problems.add(locate(data.takeError(), s_.model.file + ": initializer \"" + t.name() +
                                                 "\" of graph \"" + body.name() + "\""),
                    s_.model.file);
  return it->second;
}

std::optional<OperandList> Translator::translateGraph(NodeContext &n, const onnx::GraphProto &body,
                                                      llvm::ArrayRef<Operand> inputs,
                                                      std::string what, const std::string &suffix) {
  if (!n.failed() && size_t(body.input_size()) != inputs.size())
    n.fail("expects {0} inputs of its graph '{1}', got {2}", inputs.size(), body.name(),
           body.input_size());
  if (!n.failed() && body.sparse_initializer_size())
    n.fail("sparse initializers are not supported; store them dense");
  enter(n, body.node());
  if (n.failed())
    return std::nullopt;
  Scope inner(n.scope, n.proto, n.index, std::move(what), suffix);
  for (const onnx::TensorProto &t : body.initializer()) {
    const Operand &o = initializerOf(body, t);
    if (o.isValid())
      inner.define(t.name(), o);
    else
      inner.defineMissing(t.name(), "");
  }
  for (int i = 0; i < body.input_size(); ++i)
    inner.define(body.input(i).name(), inputs[size_t(i)]);
  translate(inner, body.node(), outputNames(body));
  OperandList results;
  for (const onnx::ValueInfoProto &v : body.output()) {
    const Operand *o = inner.find(v.name());
    if (!o) {
      n.failQuietly(inner.whyMissing(v.name()));
      return std::nullopt;
    }
    if (!o->isValid())
      n.fail("its graph '{0}' gives '{1}', which the call of the function leaves out", body.name(),
             v.name());
    results.push_back(*o);
  }
  if (n.failed())
    return std::nullopt;
  return results;
}

} // namespace isthmus::onnx_import

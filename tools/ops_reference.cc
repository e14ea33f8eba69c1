#include "tools/ops_reference.h"

#include "ir/check.h"
#include "ir/factors.h"
#include "ir/ops/families.h"
#include "ir/text/parser.h"
#include "kernels/cpu.h"
#include "passes/differentiate/differentiate.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/StringExtras.h"
#include <map>

namespace isthmus {
namespace {

struct Family {
  const char *title;
  void (*addRows)(OpRegistry &);
};

constexpr Family kFamilies[] = {
    {"Elementwise", registerElementwiseOps},
    {"Shape", registerShapeOps},
    {"Parts", registerPartOps},
    {"Reduction", registerReduceOps},
    {"Matrix product", registerMatmulOps},
    {"Convolution", registerConvOps},
    {"Pooling", registerPoolOps},
    {"Interpolation", registerInterpolateOps},
    {"Normalization", registerNormOps},
    {"Softmax", registerSoftmaxOps},
    {"Attention", registerAttentionOps},
    {"Loss", registerLossOps},
    {"Random", registerRandomOps},
    {"Optimizers", registerOptimizerOps},
    {"Control", registerControlOps},
    {"Transfers", registerTransferOps},
    {"Messages", registerMessageOps},
};

struct TraitText {
  Trait trait;
  const char *text;
};

constexpr TraitText kTraits[] = {
    {kElementwise, "elementwise"},
    {kView, "a view: the result has the operand's bytes, and nothing is computed"},
    {kContraction, "a contraction: the policy `speed` keeps its results"},
    {kNotACheckpoint, "never a checkpoint of the policy `memory`"},
    {kStopsGradient, "gradients of every order end here"},
    {kIndexTuples, "reads tuples of indices"},
    {kTellsResultBits, "its gradient depends on the result's bits: no inverse rebuilds it"},
    {kDependsOnMode, "differs between training and inference"},
};

std::string code(llvm::StringRef text) { return ("`" + text + "`").str(); }

// "`a`, `b`"; "none" for an empty list.
template <typename List> std::string codes(const List &names) {
  std::string out;
  for (llvm::StringRef n : names)
    out += (out.empty() ? "" : ", ") + code(n);
  return out.empty() ? "none" : out;
}

// One of a row's examples as a graph whose inputs are the operands.
struct ExampleGraph {
  Graph g;
  NodeId node;
  ValueList floatOperands;

  explicit ExampleGraph(const CallText &call) {
    ValueList operands;
    for (const Type &t : call.operands) {
      operands.push_back(llvm::cantFail(g.addInput(InputKind::Input, "x", t)));
      if (isFloat(t.dtype))
        floatOperands.push_back(operands.back());
    }
    node = llvm::cantFail(g.addNode(*call.op, operands, call.attrs));
  }
};

using OpNames = llvm::SmallSetVector<llvm::StringRef, 8>;

void collectOps(const Graph &g, size_t from, OpNames &to) {
  for (size_t i = from; i < g.numNodes(); ++i)
    to.insert(g.node(NodeId(static_cast<uint32_t>(i))).op->name);
}

struct Gradients {
  bool any = false; // the first derivative is not zero everywhere
  OpNames first;    // ops of the first derivative
  bool secondExists = true;
};

// The gradients of the first result, by every float operand, over all examples.
Gradients gradientsOf(const OpDef &op) {
  Gradients out;
  for (const std::string &text : op.examples) {
    ExampleGraph e(llvm::cantFail(parseCall(text)));
    ValueId y = e.g.node(e.node).firstResult;
    if (e.floatOperands.empty() || !isFloat(e.g.type(y).dtype))
      continue;
    // The seed is an input, so that its op is not listed.
    ValueId seed = llvm::cantFail(e.g.addInput(InputKind::Input, "seed", e.g.type(y)));
    size_t before = e.g.numNodes();
    auto first = gradients(e.g, {y}, e.floatOperands, {seed});
    if (!first) {
      llvm::consumeError(first.takeError());
      continue;
    }
    collectOps(e.g, before, out.first);
    ValueList grads;
    for (ValueId v : *first)
      if (v)
        grads.push_back(v);
    out.any |= !grads.empty();
    if (grads.empty())
      continue;
    auto second = gradients(e.g, grads, e.floatOperands);
    if (!second) {
      llvm::consumeError(second.takeError());
      out.secondExists = false;
    }
  }
  return out;
}

std::string gradientText(const OpDef &op) {
  if (op.differentiable == Differentiable::ZeroGradient)
    return op.is(kStopsGradient) ? "none flows."
                                 : "zero: the results are integers or piecewise constant.";
  if (op.differentiable == Differentiable::Missing)
    return "missing: to ask for it is an error.";
  Gradients g = gradientsOf(op);
  if (!g.any)
    return "zero.";
  std::string out = g.first.empty()
                        ? "the flowing gradient itself"
                        : (op.vjp ? "by " : "through its expansion, by ") + codes(g.first);
  return out + (g.secondExists ? "; differentiable again." : "; not differentiable again.");
}

// The operands that can be rebuilt, the ops that rebuild them, and the accuracy.
std::string inverseText(const OpDef &op) {
  std::vector<std::string> found;
  OpNames ops;
  for (const std::string &text : op.examples) {
    CallText call = llvm::cantFail(parseCall(text));
    for (size_t i = 0; i < call.operands.size(); ++i) {
      ExampleGraph e(call);
      const Node &n = e.g.node(e.node);
      Builder b(e.g);
      InverseContext c{b, n.attrs, {}, {}, e.g.type(n.operands[i])};
      c.operands.assign(n.operands.begin(), n.operands.end());
      c.operands[i] = ValueId();
      for (uint32_t r = 0; r < n.numResults; ++r)
        c.results.push_back(n.result(r));
      size_t before = e.g.numNodes();
      if (!op.inverse(c, i))
        continue;
      collectOps(e.g, before, ops);
      std::string name = op.operandNames[std::min(i, op.operandNames.size() - 1)];
      if (!llvm::is_contained(found, name))
        found.push_back(name);
    }
  }
  std::string out = codes(found) + (ops.empty() ? "" : ", by " + codes(ops));
  if (op.inverseKeepsBits)
    out += "; bit for bit";
  else
    out += llvm::formatv("; rounded, f32 to {0} of 1 + |x| for operands in [{1}, {2}]",
                         floatText(op.inverseError), floatText(op.low), floatText(op.high))
               .str();
  return out + (op.inverseHolds ? "; only where the graph promises that it exists" : "");
}

// Whether a call is valid, and a plain kernel computes it. Other kernels are not asked, since they
// depend on the machine.
bool isComputed(const CallText &call) {
  auto results = inferTypes(*call.op, call.attrs, call.operands);
  if (!results) {
    llvm::consumeError(results.takeError());
    return false;
  }
  OpCall asked{call.op, &call.attrs, {}, {}};
  asked.operands.assign(call.operands.begin(), call.operands.end());
  asked.results.assign(results->begin(), results->end());
  return call.op->is(kView) || llvm::any_of(cpuKernels().of(call.op->name), [&](const Kernel &k) {
           return k.library == "plain" && k.prepare(asked, {});
         });
}

// Whether the example is valid with `to` in place of its main element type: that of its floats or
// else of its first operand, and of its attribute. Some of the operands may stay wider: statistics
// of 16-bit floats are f32.
bool takesIn(CallText call, DType to) {
  if (call.op->attr("type"))
    call.attrs.set("type", dtypeName(to).str());
  if (call.operands.empty())
    return isComputed(call);
  auto first = llvm::find_if(call.operands, [](const Type &t) { return isFloat(t.dtype); });
  DType from = first == call.operands.end() ? call.operands[0].dtype : first->dtype;
  std::vector<Type *> about;
  for (Type &t : call.operands)
    if (t.dtype == from)
      about.push_back(&t);
  // Not all operands may be wider, unless an attribute names the type.
  uint32_t end = (1u << about.size()) - (call.op->attr("type") ? 0 : 1);
  for (uint32_t wider = 0; wider < end; ++wider)
    for (DType wide : {DType::F32, DType::F64}) {
      for (size_t i = 0; i < about.size(); ++i)
        about[i]->dtype = wider >> i & 1 ? wide : to;
      if (isComputed(call))
        return true;
    }
  return false;
}

bool takes(const OpDef &op, DType type) {
  return llvm::any_of(op.examples, [&](const std::string &text) {
    return takesIn(llvm::cantFail(parseCall(text)), type);
  });
}

// "f32, f64; not i32".
std::string typesText(const OpDef &op) {
  std::string yes, no;
  for (DType t : {DType::F32, DType::F64, DType::BF16, DType::F16, DType::I32, DType::I64,
                  DType::U8, DType::Bool}) {
    std::string &list = takes(op, t) ? yes : no;
    list += (list.empty() ? "" : ", ") + dtypeName(t).str();
  }
  return yes + (no.empty() ? "" : "; not " + no);
}

std::string kernelsText(const OpDef &op) {
  if (op.is(kView))
    return "none: nothing is computed";
  std::vector<llvm::StringRef> libraries;
  for (const Kernel &k : cpuKernels().of(op.name))
    libraries.push_back(k.library);
  return codes(libraries);
}

std::string signature(const OpDef &op) {
  std::string out = op.name + "(" + llvm::join(llvm::split(op.operands, ' '), ", ") + ")";
  std::string attrs;
  for (const AttrDef &a : op.attrs)
    attrs +=
        (attrs.empty() ? "" : ", ") + a.name + (a.byDefault ? " = " + attrText(*a.byDefault) : "");
  if (!attrs.empty())
    out += " {" + attrs + "}";
  return out + " -> " + llvm::join(llvm::split(op.results, ' '), ", ");
}

std::string inPlaceText(const OpDef &op) {
  std::string out;
  for (InPlace p : op.inPlace)
    out += (out.empty() ? "" : ", ") + code(op.resultName(p.result)) + " over " +
           code(op.operandNames[p.operand]);
  return out;
}

std::string exampleText(const std::string &text) {
  CallText call = llvm::cantFail(parseCall(text));
  auto types = llvm::cantFail(inferTypes(*call.op, call.attrs, call.operands));
  std::string results;
  for (const Type &t : types)
    results += (results.empty() ? "" : ", ") + t.str();
  return text + " : " + results + "\n";
}

// How calls of a row may be cut into chunks: by the example that has the most factors.
struct FactorsText {
  std::string factors, rounding; // "" if there are none
  std::string example;
};

FactorsText factorsText(const OpDef &op) {
  FactorsText most;
  uint32_t number = 0;
  for (const std::string &text : op.examples) {
    CallText parsed = llvm::cantFail(parseCall(text));
    OpCall call;
    call.op = parsed.op;
    call.attrs = &parsed.attrs;
    call.operands.assign(parsed.operands.begin(), parsed.operands.end());
    const auto results = llvm::cantFail(inferTypes(*parsed.op, parsed.attrs, parsed.operands));
    call.results.assign(results.begin(), results.end());
    const Factors f = factorsOf(call);
    if (f.numFactors() <= number)
      continue;
    number = f.numFactors();
    most = {code(f.str()), "", code(text)};
    for (uint32_t factor : f.rounding)
      most.rounding += (most.rounding.empty() ? "" : ", ") + code(Factors::name(factor));
  }
  if (most.factors.empty() && op.cuts)
    most.factors = "those of each axis and of each part of a merged one, as far as the elements "
                   "lie in one order";
  return most;
}

// The rows by what may be cut of their calls: the whole table at a glance.
void writeFactors(llvm::raw_ostream &os) {
  std::map<std::pair<std::string, std::string>, std::string> rows;
  for (const OpDef *op : OpRegistry::get().rows()) {
    const FactorsText f = factorsText(*op);
    std::string &names =
        rows[{f.factors.empty() ? "none: the call is whole" : f.factors, f.rounding}];
    names += (names.empty() ? "[" : ", [") + op->name + "](#" + op->name + ")";
  }
  os << "## Which axes can be cut\n\n| factors | rounds along | rows |\n| --- | --- | --- |\n";
  for (const auto &[key, names] : rows)
    os << "| " << key.first << " | " << (key.second.empty() ? "none" : key.second) << " | " << names
       << " |\n";
  os << "\n";
}

// Escapes text for a table's cell.
std::string cell(llvm::StringRef text) { return llvm::join(llvm::split(text, '|'), "\\|"); }

void writeComputed(const OpDef &op, llvm::raw_ostream &os) {
  os << "- Types: " << typesText(op) << ".\n";
  os << "- Kernels on the CPU: " << kernelsText(op) << ".\n";
  os << "- Gradient: " << gradientText(op) << "\n";
}

void writeRow(const OpDef &op, llvm::raw_ostream &os) {
  os << "### " << op.name << "\n\n" << code(signature(op)) << "\n\n" << op.doc << "\n\n";
  if (!op.attrs.empty()) {
    os << "| attribute | kind | default | meaning |\n| --- | --- | --- | --- |\n";
    for (const AttrDef &a : op.attrs)
      os << "| " << code(a.name) << " | " << attrKindName(a.kind) << " | "
         << (a.byDefault ? code(attrText(*a.byDefault)) : "must be given") << " | " << cell(a.doc)
         << " |\n";
    os << "\n";
  }
  std::vector<std::string> traits;
  for (const TraitText &t : kTraits)
    if (op.is(t.trait))
      traits.push_back(t.text);
  if (!traits.empty())
    os << "- Traits: " << llvm::join(traits, "; ") << ".\n";
  if (op.effect == Effect::Draws)
    os << "- Effect: draws random numbers by its `stream`.\n";
  if (op.effect == Effect::Ordered)
    os << "- Effect: runs while later nodes run, until a wait for its token; the device does it "
          "without a kernel, for tensors of any type.\n";
  else
    writeComputed(op, os);
  if (!op.comparedOperands.empty()) {
    std::vector<std::string> names;
    for (uint32_t k : op.comparedOperands)
      names.push_back(op.operandNames[k]);
    os << "- Compares the bits of " << codes(names) << ": no inverse helps to rebuild them.\n";
  }
  if (op.inverse)
    os << "- Inverse: " << inverseText(op) << ".\n";
  if (!op.inPlace.empty())
    os << "- In place: " << inPlaceText(op) << ".\n";
  for (const Encoding &e : op.encodings)
    os << "- Encoding: " << code(op.operandNames[e.operand]) << " may be replaced by the result of "
       << code(e.op) << " on it; the op's results keep their bits.\n";
  if (const FactorsText f = factorsText(op); !f.factors.empty())
    os << "- Factors: " << f.factors << (f.example.empty() ? "" : " in " + f.example)
       << (f.rounding.empty() ? "" : "; rounds along " + f.rounding) << ".\n";
  if (!op.accumulation.op.empty())
    os << "- Sums in parts: " << code(op.accumulation.op) << " goes on from the part before.\n";
  if (!op.examples.empty()) {
    os << "\n```\n";
    for (const std::string &text : op.examples)
      os << exampleText(text);
    os << "```\n";
  }
  os << "\n";
}

} // namespace

std::string opsReference() {
  std::string text;
  llvm::raw_string_ostream os(text);
  size_t rows = 0;
  std::vector<std::unique_ptr<OpRegistry>> families;
  for (const Family &f : kFamilies) {
    families.push_back(std::make_unique<OpRegistry>());
    f.addRows(*families.back());
    rows += families.back()->rows().size();
  }
  ISTHMUS_CHECK(rows == OpRegistry::get().rows().size(),
                "a family of ops/all.cc is missing from the reference");

  os << "# The op table\n\n"
     << "Written from the table by `bazel run //tools:gen_ops_doc`; edit the rows in `ir/ops`, not "
        "this page.\n\n"
     << "In a signature `x?` may be left out and `xs...` is any number of values; an attribute "
        "without a value must be\n"
     << "given. Broadcasting is numpy's. Examples are calls on operand types, with the types of "
        "the results; the tests\n"
     << "run each of them. \"Factors\" names the axes along which a call may be cut into chunks: "
        "`[a, c] [c, b] -> [a, b]`.\n"
     << "A factor that no result has is summed; a dot is an axis that stays whole; `a*6` has six "
        "elements for each of `a`.\n"
     << "A chunk may also be cut from an inner part of an axis, as where [T, B] was merged to [T * "
        "B]; "
        "a sum over\n"
     << "such a part, or along a factor that \"rounds\", is in another order than that of the "
        "whole.\n"
     << "\"Inverse\" names the operands that can be rebuilt from the result, and "
        "how well; some are asked for\n"
     << "only where the graph promises what they need: a factor that is never zero (an "
        "exponential, a weight), a matrix that\n"
     << "is a weight. \"In place\" names the results that a kernel may write over an operand.\n\n";
  for (size_t i = 0; i < families.size(); ++i) {
    os << "- **" << kFamilies[i].title << "**:";
    const char *separator = " ";
    for (const OpDef *op : families[i]->rows()) {
      os << separator << "[" << op->name << "](#" << op->name << ")";
      separator = ", ";
    }
    os << "\n";
  }
  os << "\n";
  writeFactors(os);
  for (size_t i = 0; i < families.size(); ++i) {
    os << "## " << kFamilies[i].title << "\n\n";
    // Uses the table's own rows, because parsed calls refer to these.
    for (const OpDef *op : families[i]->rows())
      writeRow(OpRegistry::get().at(op->name), os);
  }
  while (llvm::StringRef(os.str()).endswith("\n\n"))
    text.pop_back();
  return text;
}

} // namespace isthmus

#include "ir/text/printer.h"

#include "ir/spelling.h"

namespace isthmus {
namespace {

class Printer {
public:
  Printer(const Graph &g, llvm::raw_ostream &os) : g_(g), os_(os) {}

  void printWhole(const WeightPlaces *places);
  void printNode(NodeId id);

private:
  void printInput(const Input &input, const std::string &key);
  void printElements(const Tensor &data);
  void printRole(const OutputRole &role);
  void printProvenance(const Provenance &from);
  void printAttrs(const Attrs &attrs, llvm::ArrayRef<AttrDef> defs);
  void printName(llvm::StringRef name) {
    if (isBareName(name))
      os_ << name;
    else
      os_ << quoted(name);
  }
  void printValue(ValueId v) {
    os_ << '%';
    printName(g_.valueName(v));
  }
  void printType(const Type &t) {
    os_ << (t.memory == Memory::Host ? "host " : "") << dtypeName(t.dtype) << '[';
    for (size_t i = 0; i < t.dims.size(); ++i)
      os_ << (i ? ", " : "") << t.dims[i];
    os_ << ']';
  }

  const Graph &g_;
  llvm::raw_ostream &os_;
};

void Printer::printWhole(const WeightPlaces *places) {
  const std::string &weights = places ? places->file : g_.weightsFile;
  const std::string &digest = places ? places->digest : g_.weightsDigest;
  os_ << "isthmus " << kTextVersion << '\n';
  if (!weights.empty())
    os_ << "weights " << quoted(weights) << (digest.empty() ? "" : " digest " + quoted(digest))
        << '\n';
  if (Attrs record = recordAttrs(g_.record); !record.empty()) {
    os_ << "record";
    printAttrs(record, recordDefs());
    os_ << '\n';
  }
  for (const auto &[key, value] : g_.meta)
    os_ << "meta " << (isWord(key) ? key : quoted(key)) << " = " << quoted(value) << '\n';
  os_ << "graph @";
  printName(g_.name);
  os_ << " {\n";
  for (size_t i = 0; i < g_.inputs().size(); ++i)
    printInput(g_.inputs()[i], places ? places->keys[i] : g_.inputs()[i].init.key);
  for (uint32_t i = 0; i < g_.numNodes(); ++i) {
    os_ << "  ";
    printNode(NodeId(i));
    os_ << '\n';
  }
  for (size_t i = 0; i < g_.numReplaced(); ++i) {
    os_ << "  replaced ";
    printNode(g_.replaced(i));
    os_ << '\n';
  }
  if (g_.loss) {
    os_ << "  loss ";
    printValue(g_.loss);
    os_ << '\n';
  }
  for (size_t i = 0; i < g_.outputs().size(); ++i) {
    os_ << "  output ";
    printValue(g_.outputs()[i]);
    printRole(g_.role(i));
    os_ << '\n';
  }
  os_ << "}\n";
}

void Printer::printInput(const Input &input, const std::string &key) {
  os_ << "  " << inputKindName(input.kind) << ' ';
  printValue(input.value);
  os_ << " : ";
  printType(g_.type(input.value));
  const Initializer &init = input.init;
  if (init.kind == Initializer::Kind::Data) {
    os_ << " = ";
    if (key.empty())
      printElements(init.data);
    else
      os_ << "file " << quoted(key);
  } else if (init.kind != Initializer::Kind::None) {
    os_ << " = " << initializerName(init.kind);
    printAttrs(init.args, initializerArgs(init.kind));
  }
  os_ << '\n';
}

void Printer::printElements(const Tensor &data) {
  std::string element;
  os_ << '[';
  for (int64_t i = 0, n = data ? data.type.elements() : 0; i < n; ++i) {
    element = i ? ", " : "";
    appendElement(data.type.dtype, data.data + i * dtypeBytes(data.type.dtype), element);
    os_ << element;
  }
  os_ << ']';
}

// Prints the attributes that differ from their defaults. A linear search is enough, because `defs`
// is short.
void Printer::printAttrs(const Attrs &attrs, llvm::ArrayRef<AttrDef> defs) {
  bool first = true;
  for (const auto &[name, value] : attrs) {
    const AttrDef *def = llvm::find_if(
        defs, [&, n = llvm::StringRef(name)](const AttrDef &d) { return d.name == n; });
    if (def != defs.end() && def->byDefault && identical(*def->byDefault, value))
      continue;
    os_ << (first ? " {" : ", ") << name << " = " << attrText(value);
    first = false;
  }
  if (!first)
    os_ << '}';
}

void Printer::printRole(const OutputRole &role) {
  if (role.kind != OutputKind::Result) {
    os_ << (role.kind == OutputKind::Gradient ? " gradient(" : " next(");
    printValue(role.of);
    if (role.order != 1)
      os_ << ", " << role.order;
    os_ << ')';
  }
  if (role.isRounded)
    os_ << " rounded";
}

void Printer::printProvenance(const Provenance &from) {
  const char *before = " from(";
  auto begin = [&](const char *what) {
    os_ << before << what << '(';
    before = ", ";
  };
  if (from.kind != StandIn::None) {
    begin(standInName(from.kind).data());
    printValue(from.kind == StandIn::Clone ? g_.node(from.origin).firstResult : from.restores);
    if (from.kind == StandIn::Chunk)
      os_ << ", " << from.chunk;
    os_ << ')';
  }
  for (size_t i = 0; i < from.after.size(); ++i) {
    if (i == 0)
      begin("after");
    else
      os_ << ", ";
    printValue(g_.node(from.after[i]).firstResult);
  }
  if (!from.after.empty())
    os_ << ')';
  if (from.sourceIndex) {
    begin("at");
    os_ << *from.sourceIndex << ')';
  }
  if (*before == ',')
    os_ << ')';
}

void Printer::printNode(NodeId id) {
  const Node &n = g_.node(id);
  for (uint32_t i = 0; i < n.numResults; ++i) {
    os_ << (i ? ", " : "");
    printValue(n.result(i));
  }
  os_ << " = " << n.op->name << '(';
  for (size_t i = 0; i < n.operands.size(); ++i) {
    os_ << (i ? ", " : "");
    printValue(n.operands[i]);
  }
  os_ << ')';
  printAttrs(n.attrs, n.op->attrs);
  for (uint32_t i = 0; i < n.numResults; ++i) {
    os_ << (i ? ", " : " : ");
    printType(g_.type(n.result(i)));
  }
  if (n.phase != Phase::Forward)
    os_ << ' ' << phaseName(n.phase);
  if (n.from.gradientOf) {
    os_ << '(';
    printValue(g_.node(n.from.gradientOf).firstResult);
    os_ << ')';
  }
  printProvenance(n.from);
  if (!n.device.empty())
    os_ << " @" << n.device;
  for (const std::string &m : n.marks)
    os_ << " #" << m;
}

} // namespace

void printGraph(const Graph &g, llvm::raw_ostream &os, const WeightPlaces *places) {
  Printer(g, os).printWhole(places);
}

std::string graphText(const Graph &g) {
  std::string text;
  llvm::raw_string_ostream os(text);
  printGraph(g, os);
  return os.str();
}

std::string nodeText(const Graph &g, NodeId n) {
  std::string text;
  llvm::raw_string_ostream os(text);
  Printer(g, os).printNode(n);
  return os.str();
}

} // namespace isthmus

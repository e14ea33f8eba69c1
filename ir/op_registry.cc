#include "ir/op_registry.h"

#include "ir/check.h"
#include "llvm/ADT/SmallVector.h"

namespace isthmus {
namespace {

std::vector<std::string> words(llvm::StringRef text) {
  llvm::SmallVector<llvm::StringRef, 8> parts;
  text.split(parts, ' ', /*MaxSplit=*/-1, /*KeepEmpty=*/false);
  return std::vector<std::string>(parts.begin(), parts.end());
}

void deriveOperands(OpDef &row) {
  row.operandNames = words(row.operands);
  row.resultNames = words(row.results);
  row.minOperands = 0;
  for (std::string &name : row.operandNames) {
    llvm::StringRef n = name;
    if (n.consume_back("..."))
      row.variadic = true;
    else if (!n.consume_back("?"))
      ++row.minOperands;
    name = n.str();
  }
  if (llvm::StringRef last = row.resultNames.back(); last.consume_back("...")) {
    row.variadicResults = true;
    row.resultNames.back() = last.str();
  }
}

void checkRow(const OpDef &row) {
  std::string where = "row '" + row.name + "'";
  ISTHMUS_CHECK(!row.name.empty() && !row.doc.empty() && row.infer, where + " lacks a cell");
  ISTHMUS_CHECK(!row.resultNames.empty(), where + " has no result");
  ISTHMUS_CHECK((row.effect == Effect::Draws) == (row.attr("stream") != nullptr),
                where + " draws without a stream, or has one and does not draw");
  ISTHMUS_CHECK(!row.runsOnce || row.effect == Effect::Ordered,
                where + " runs once, and nothing says in which order");
  ISTHMUS_CHECK(!row.is(kDependsOnMode) || row.attr("training"), where + " has no mode");
}

} // namespace

const OpRegistry &OpRegistry::get() {
  static const OpRegistry *registry = [] {
    auto *r = new OpRegistry;
    registerAllOps(*r);
    return r;
  }();
  return *registry;
}

const OpDef *OpRegistry::find(llvm::StringRef name) const {
  auto it = byName_.find(name);
  return it == byName_.end() ? nullptr : it->second.get();
}

const OpDef &OpRegistry::at(llvm::StringRef name) const {
  const OpDef *op = find(name);
  ISTHMUS_CHECK(op, "no row '" + name.str() + "' in the op table");
  return *op;
}

std::string OpRegistry::nearNames(llvm::StringRef name) const {
  std::vector<llvm::StringRef> names;
  for (const OpDef *op : rows_)
    names.push_back(op->name);
  return didYouMean(name, names);
}

void OpRegistry::add(OpDef row) {
  deriveOperands(row);
  checkRow(row);
  if (row.vjp || row.expand)
    row.differentiable = Differentiable::Yes;
  auto owned = std::make_unique<OpDef>(std::move(row));
  const OpDef *p = owned.get();
  bool isNew = byName_.try_emplace(p->name, std::move(owned)).second;
  ISTHMUS_CHECK(isNew, "two rows '" + p->name + "'");
  rows_.push_back(p);
  if (p->effect != Effect::Ordered)
    computed_.push_back(p);
}

void OpRegistry::add(std::vector<OpDef> rows) {
  for (OpDef &row : rows)
    add(std::move(row));
}

} // namespace isthmus

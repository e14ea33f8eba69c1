#include "ir/onnx/parameters/rules.h"

#include "ir/element.h"
#include "ir/onnx/parameters/tables.h"
#include "ir/onnx/parameters/tensor_names.h"
#include "ir/onnx/tensor_data.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include <map>

namespace isthmus::onnx_import {
namespace {

// Whether all rows of the tensor are equal.
bool rowsAreEqual(const Tensor &t) {
  return t.type.rank() > 0 && t.type.dims[0] >= 2 && repeatsEvery(t, t.bytes() / t.type.dims[0]);
}

class Rules {
public:
  explicit Rules(Candidates &candidates)
      : candidates_(candidates), records_(candidates.records()), readers_(candidates.readers()) {
    if (!records_.hasSignature())
      findSineAndCosine();
  }

  void decide(Candidate &c);
  llvm::StringSet<> takeInPlace() { return std::move(inPlace_); }

private:
  void findSineAndCosine();
  Role byRules(Candidate &c);
  Role bySignature(Candidate &c, llvm::StringRef kind);
  Role ofUnnamed(Candidate &c);
  Role byName(Candidate &c);
  Role constant(Decision why, Candidate &c) {
    c.decisions.add(why, c.role.name);
    return Role::Constant;
  }

  Candidates &candidates_;
  const ExporterRecords &records_;
  const Readers &readers_;
  llvm::StringSet<> positions_; // tables of sines and cosines, recognized by their contents
  llvm::StringSet<> inPlace_;   // parameters learned through a tensor computed from them
};

// Tables of sines and tables of cosines come in pairs.
void Rules::findSineAndCosine() {
  std::map<std::string, std::vector<const Candidate *>> byType;
  for (const Candidate &c : candidates_.all()) {
    if (!c.isFloating() || c.data->type.rank() < 2 || c.data->type.elements() == 0)
      continue;
    double first = elementAsDouble(*c.data, 0); // a sine or cosine of zero
    if (first != 0 && first != 1)
      continue;
    std::vector<const Candidate *> &alike = byType[c.data->type.str()];
    for (const Candidate *other : alike)
      if (looksLikeSineAndCosine(*c.data, *other->data)) {
        positions_.insert(c.role.name);
        positions_.insert(other->role.name);
      }
    if (alike.size() < kMostAlike)
      alike.push_back(&c);
  }
}

void Rules::decide(Candidate &c) {
  bool isAverage = c.isFloating() && readers_.averaged.count(c.role.name);
  if (!c.ours.empty()) {
    c.role.role = c.ours == inputKindName(InputKind::Param)   ? Role::Parameter
                  : c.ours == inputKindName(InputKind::State) ? Role::State
                                                              : Role::Constant;
    return;
  }
  if (c.isFloating() && matchesAny(candidates_.options().learn, c.role.name))
    c.role.role = Role::Parameter;
  else if (!c.isFloating() || !readers_.isUsed(c.role.name))
    c.role.role = isAverage ? Role::State : Role::Constant;
  else
    c.role.role = byRules(c);
  if (const Readers::Stop *stop = readers_.stopOf(c.role.name)) {
    if (c.role.role == Role::Parameter)
      c.decisions.add(Decision::NoGradient, c.role.name, ": " + stop->why);
    else
      c.decisions = {}; // nothing is lost if it is a constant
  }
  if (c.role.role == Role::Constant && isAverage)
    c.role.role = Role::State;
  c.role.alsoState = isAverage && c.role.role == Role::Parameter;
}

// For a float tensor that the outputs depend on.
Role Rules::byRules(Candidate &c) {
  if (c.followsOrigin)
    return candidates_.find(c.role.of)->role.role;
  if (!records_.hasSignature())
    return byName(c);
  bool isCopy = c.role.name != c.role.of;
  llvm::StringRef kind = records_.kindOf(c.role.name);
  if (isCopy && kind.empty())
    kind = records_.kindOf(c.parameter);
  if (!kind.empty())
    return bySignature(c, kind);
  return ofUnnamed(c);
}

Role Rules::bySignature(Candidate &c, llvm::StringRef kind) {
  if (kind == "PARAMETER")
    return Role::Parameter;
  c.decisions.add(Decision::NotBySignature, c.role.name, " (" + kind.str() + ")");
  return Role::Constant;
}

// For a tensor that the signature does not name: the exporter's optimizer made it.
Role Rules::ofUnnamed(Candidate &c) {
  const ExporterRecords::Folded *f = records_.foldedFrom(c.role.name);
  bool isWeight = readers_.weights.count(c.role.name) != 0;
  if (!f) {
    bool mayBeLearned =
        records_.isOfFusedNode(c.role.name) || (!records_.tellsFolding() && isMadeUp(c.role.name));
    if (isWeight && c.data->type.rank() > 0 && mayBeLearned) {
      c.decisions.add(Decision::LearnedInPlace, c.role.name);
      return Role::Parameter;
    }
    // The program has too many single numbers to report them.
    return c.data->type.elements() == 1 ? Role::Constant : constant(Decision::NotComputed, c);
  }
  bool fromParameters = !f->from.empty() && llvm::all_of(f->from, [&](const std::string &source) {
    return records_.isParameter(source);
  });
  if (!fromParameters)
    return constant(Decision::NotComputed, c);
  bool isRearranged =
      f->from.size() == 1 && isRearranging(c.role.name) &&
      llvm::all_of(f->between, [](const std::string &s) { return isRearranging(s); });
  inPlace_.insert(f->from.begin(), f->from.end());
  std::string sources = " of '" + llvm::join(f->from, "', '") + "'";
  if (isRearranged || isWeight) {
    // For instance a class token that the exporter expanded over the batch.
    c.role.isRepeated = isRearranged && isExpanding(c.role.name) && rowsAreEqual(*c.data) &&
                        !matchesAny(candidates_.options().untie, c.role.name);
    c.decisions.add(c.role.isRepeated ? Decision::LearnedRow : Decision::LearnedInPlace,
                    c.role.name, sources);
    return Role::Parameter;
  }
  bool isRead = llvm::any_of(
      f->from, [&](const std::string &source) { return candidates_.find(source) != nullptr; });
  c.decisions.add(isRead ? Decision::NotComputedFromRead : Decision::NotComputedFromParameters,
                  c.role.name, sources);
  return Role::Constant;
}

// Without a signature, names, readers and contents decide.
Role Rules::byName(Candidate &c) {
  const std::string &name = c.role.name;
  bool isWeight = readers_.weights.count(name) != 0;
  if (isNamedAverage(name))
    return constant(Decision::NotAverage, c);
  if (readers_.frequencies.count(name) || positions_.count(name) || looksLikePositions(*c.data))
    return constant(Decision::NotTable, c);
  if (!isWeight && looksLikeMask(*c.data))
    return constant(Decision::NotMask, c);
  if (c.data->type.elements() == 1 && !isIdentifier(name) && !(isWeight && c.data->type.rank()))
    return constant(Decision::NotNumber, c);
  if (isMadeUp(name) && !isWeight)
    return constant(Decision::NotNamed, c);
  if (c.data->type.rank() == 0)
    c.decisions.add(Decision::LearnedNumber, name);
  auto stem = llvm::StringRef(name).rsplit('.').first;
  if (const Candidate *variance = candidates_.find((stem + kVarianceSuffix).str());
      variance && !readers_.averaged.count(variance->role.name))
    c.decisions.add(Decision::FrozenNormScale, name);
  return Role::Parameter;
}

} // namespace

llvm::StringSet<> decideRoles(Candidates &candidates) {
  Rules rules(candidates);
  for (Candidate &c : candidates.all())
    rules.decide(c);
  return rules.takeInPlace();
}

} // namespace isthmus::onnx_import
